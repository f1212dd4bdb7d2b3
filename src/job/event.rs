//! What happens to a job while it runs, for those who watch.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::snapshot::PhaseTimes;

/// Something that happened to the job. Given in order; see [`JobHandle::next_event`](crate::job::JobHandle::next_event).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A checkpoint has begun.
    Triggered {
        /// Its id.
        checkpoint: u64,
    },
    /// A checkpoint is durable.
    Completed(CheckpointStats),
    /// A subtask declined a checkpoint, which then fails; the stream went on.
    Declined {
        /// Its id.
        checkpoint: u64,
        /// The operator and subtask.
        subtask: String,
        /// Why.
        reason: String,
    },
    /// A checkpoint failed; what it would have saved goes into the next.
    Failed {
        /// Its id.
        checkpoint: u64,
        /// Why.
        reason: String,
    },
    /// The attempt began from this checkpoint.
    Restored {
        /// Its id.
        checkpoint: u64,
        /// Reading and applying it took this long, ns.
        restore_ns: u64,
    },
    /// Something that a person should know, in one line; for example that io_uring is refused and what is used
    /// instead.
    Notice(String),
}

/// A complete checkpoint in numbers. Per-subtask quantities are the largest over the subtasks, sizes are sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointStats {
    /// The checkpoint's id.
    pub checkpoint: u64,
    /// From the trigger to the first barrier at a subtask, ns.
    pub start_delay_ns: u64,
    /// From the first barrier to the last at a subtask, ns.
    pub t_align_ns: u64,
    /// The synchronous phase, ns.
    pub sync_ns: u64,
    /// From the last acknowledgement to durable, ns.
    pub async_ns: u64,
    /// From the trigger to durable, ns.
    pub end_to_end_ns: u64,
    /// Bytes written to the log.
    pub bytes: u64,
    /// Pages with changes.
    pub dirty_pages: u64,
    /// Pages copied on a first write since the last checkpoint.
    pub copied_pages: u64,
}

impl CheckpointStats {
    /// Takes one subtask's phases in: the longest time, the sum of the pages.
    pub(crate) fn add(&mut self, times: &PhaseTimes) {
        self.start_delay_ns = self.start_delay_ns.max(times.start_delay_ns);
        self.t_align_ns = self.t_align_ns.max(times.t_align_ns);
        self.sync_ns = self.sync_ns.max(times.sync_ns);
        self.dirty_pages += times.dirty_pages;
        self.copied_pages += times.copied_pages;
    }
}

/// Events kept for a reader that is slow; older ones are dropped and counted.
const KEPT: usize = 4096;

/// The events that nobody has taken yet.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    events: Mutex<(VecDeque<Event>, u64)>,
    news: Condvar,
}

impl EventQueue {
    pub(crate) fn push(&self, event: Event) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        if events.0.len() == KEPT {
            events.0.pop_front();
            events.1 += 1;
        }
        events.0.push_back(event);
        self.news.notify_one();
    }

    pub(crate) fn next(&self, timeout: Duration) -> Option<Event> {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.news.wait_timeout_while(events, timeout, |events| events.0.is_empty());
        waited.unwrap_or_else(PoisonError::into_inner).0.0.pop_front()
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).1
    }
}
