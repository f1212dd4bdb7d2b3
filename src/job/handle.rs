//! Running a job, and the hold that an embedding program has on it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use crate::job::builder::Job;
use crate::job::driver::{self, Control};
use crate::job::error::JobError;
use crate::job::event::{Event, EventQueue};
use crate::measure::{Histogram, Percentiles};
use crate::runtime::SubtaskReading;
use crate::runtime::metrics::SubtaskMetrics;

/// What an embedding program asks of a running job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Trigger,
    Stop,
    Cancel,
    Restore(u64),
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All input was handled.
    EndOfData,
    /// [`JobHandle::stop`]: with a last checkpoint where checkpointing is on.
    Stopped,
}

/// A finished job in numbers.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Why it ended.
    pub ended: Ended,
    /// Records that the sources gave in this run.
    pub records: u64,
    /// From the first turn to the end, in seconds.
    pub seconds: f64,
    /// From due to handled, ns, of every record that reached a sink's operator; empty unless
    /// [`JobBuilder::measure_latency`](crate::job::JobBuilder::measure_latency) is on.
    pub latency: Histogram,
    /// The checkpoint that the run began from.
    pub restored: Option<u64>,
    /// Reading and applying it, ns.
    pub restore_ns: Option<u64>,
    /// The newest complete checkpoint.
    pub last_checkpoint: Option<u64>,
    /// All checkpoints of the run.
    pub checkpoints: CheckpointTotals,
    /// Bytes of state memory at the end, all subtasks together.
    pub state_bytes: u64,
}

/// The checkpoints of a run, counted and measured. Each completed checkpoint is one value of each distribution; `None`
/// where there was none.
#[derive(Clone, Debug, Default)]
pub struct CheckpointTotals {
    /// Begun.
    pub triggered: u64,
    /// Made durable.
    pub completed: u64,
    /// Begun but not made durable, for whatever reason.
    pub failed: u64,
    /// Of the failed: declined by a subtask.
    pub declined: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Pages with changes.
    pub dirty_pages: u64,
    /// Pages copied on a first write.
    pub copied_pages: u64,
    /// From the trigger to the first barrier at a subtask (the largest over the subtasks), ns.
    pub start_delay_ns: Option<Percentiles>,
    /// From the first barrier to the last at a subtask (the largest over the subtasks), ns.
    pub t_align_ns: Option<Percentiles>,
    /// The synchronous phase, ns: each subtask's is one value.
    pub sync_ns: Option<Percentiles>,
    /// From the last acknowledgement to durable, ns.
    pub async_ns: Option<Percentiles>,
    /// From the trigger to durable, ns.
    pub end_to_end_ns: Option<Percentiles>,
    /// Bytes of one checkpoint.
    pub bytes_each: Option<Percentiles>,
}

/// What the handle and the coordinator's thread share.
#[derive(Debug, Default)]
pub(crate) struct Link {
    pub requests: Mutex<VecDeque<Request>>,
    pub events: EventQueue,
    pub metrics: Mutex<Vec<(String, usize, Arc<SubtaskMetrics>)>>,
}

/// A reading of one subtask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubtaskReport {
    /// The operator's name.
    pub operator: String,
    /// The subtask.
    pub subtask: usize,
    /// Its counters.
    pub reading: SubtaskReading,
}

/// A running job. Dropping the handle cancels the job and waits for its threads.
#[derive(Debug)]
pub struct JobHandle {
    link: Arc<Link>,
    coordinator: Thread,
    thread: Option<JoinHandle<Result<Outcome, JobError>>>,
}

impl Job {
    /// Runs the job on threads of its own until it ends.
    ///
    /// # Errors
    /// [`JobError`]: what made it fail.
    pub fn run(self) -> Result<Outcome, JobError> {
        self.start()?.join()
    }

    /// Starts the job on threads of its own. When this returns, every operator is open and, where a checkpoint was to
    /// be restored, it is.
    ///
    /// # Errors
    /// [`JobError`]: a store that is refused, a checkpoint that cannot be restored, an operator that fails to open.
    pub fn start(self) -> Result<JobHandle, JobError> {
        let link = Arc::new(Link::default());
        let control = Control::new(self, Arc::clone(&link));
        let (ready, started) = std::sync::mpsc::channel();
        let thread = thread::Builder::new()
            .name("isobar-coordinator".to_string())
            .spawn(move || driver::run(control, &ready))
            .map_err(JobError::Spawn)?;
        let coordinator = thread.thread().clone();
        let mut handle = JobHandle { link, coordinator, thread: Some(thread) };
        match started.recv() {
            Ok(()) => Ok(handle),
            // The thread ended before it was ready: its result says why.
            Err(_) => match handle.wait() {
                Err(error) => Err(error),
                Ok(_) => Err(JobError::Cancelled),
            },
        }
    }
}

impl JobHandle {
    fn request(&self, request: Request) {
        self.link.requests.lock().unwrap_or_else(PoisonError::into_inner).push_back(request);
        self.coordinator.unpark();
    }

    /// Asks for a checkpoint now. What becomes of it shows in the events; with checkpointing off nothing happens.
    pub fn trigger_checkpoint(&self) {
        self.request(Request::Trigger);
    }

    /// Ends the job in an orderly way: sources take no more input, a last checkpoint is made where checkpointing is
    /// on, and the job can be resumed from it. Returns at once; [`join`](Self::join) waits.
    pub fn stop(&self) {
        self.request(Request::Stop);
    }

    /// Ends the job at once, as a crash would, but with its threads joined. [`join`](Self::join) then gives
    /// [`JobError::Cancelled`].
    pub fn cancel(&self) {
        self.request(Request::Cancel);
    }

    /// Drops what runs and begins a new execution attempt from a retained checkpoint. Shows as [`Event::Restored`];
    /// where it cannot be restored the job fails.
    pub fn restore(&self, checkpoint: u64) {
        self.request(Request::Restore(checkpoint));
    }

    /// The next event, waited for up to `timeout`. The last 4,096 are kept for a reader that is slow.
    pub fn next_event(&self, timeout: Duration) -> Option<Event> {
        self.link.events.next(timeout)
    }

    /// How many events were dropped because nobody took them.
    pub fn dropped_events(&self) -> u64 {
        self.link.events.dropped()
    }

    /// The counters of every subtask, a turn old at most. Off the record path.
    pub fn metrics(&self) -> Vec<SubtaskReport> {
        let metrics = self.link.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        let read = |(operator, subtask, metrics): &(String, usize, Arc<SubtaskMetrics>)| SubtaskReport {
            operator: operator.clone(),
            subtask: *subtask,
            reading: metrics.read(),
        };
        metrics.iter().map(read).collect()
    }

    /// Whether the job has ended; [`join`](Self::join) then does not wait.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the end of the job.
    ///
    /// # Errors
    /// [`JobError`]: what made it fail.
    pub fn join(mut self) -> Result<Outcome, JobError> {
        self.wait()
    }

    fn wait(&mut self) -> Result<Outcome, JobError> {
        let Some(thread) = self.thread.take() else { return Err(JobError::Cancelled) };
        thread.join().unwrap_or_else(|_| Err(JobError::Thread { name: "isobar-coordinator".to_string() }))
    }
}

impl Drop for JobHandle {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.cancel();
            let _ = self.wait();
        }
    }
}
