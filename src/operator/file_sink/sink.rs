//! The sink itself: formats lines, hands buffers over, and follows the checkpoints.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::content::Content;
use super::error::FileSinkError;
use super::ledger::{Ledger, Repair};
use super::outputs::{Shared, io_error};
use super::publisher::{News, Publisher, Task};
use super::recovery::Recovery;
use super::spares::{Spares, prepared_bytes};
use super::transaction::Transaction;
use super::worker::{Command, Event, Links, Worker};
use crate::channel::Record;
use crate::operator::{OperatorError, Sink, SinkState};
use crate::sync::{AtomicU64, Ordering};

/// A buffer is handed over when it holds this much: little enough that the checksum of a full one (about 1 us) fits
/// into a checkpoint's synchronous phase.
const BUFFER_BYTES: usize = 16 << 10;
/// Room for a last line behind that, so that a buffer does not grow.
const LINE_BYTES: usize = 4 << 10;
/// Commands and empty buffers on their way; more would mean that the disk stands still.
const CHANNEL_SLOTS: usize = 8192;
/// Tasks on their way: a few for each piece of the transaction, so never as many.
const TASK_SLOTS: usize = 64;
/// Between attempts to write a broken file's lines again, where no barrier comes earlier.
const RETRY: Duration = Duration::from_millis(100);

/// A sink that writes one line per record to transactional part files. Made by
/// [`Outputs::sink`](super::Outputs::sink); the module says what it guarantees.
pub struct FileSink<T, F> {
    shared: Arc<Shared>,
    format: F,
    buffer: Vec<u8>,
    work: Option<Work>,
    input: std::marker::PhantomData<fn(T)>,
}

/// What exists between open and close.
struct Work {
    shared: Arc<Shared>,
    ledger: Ledger,
    commands: Option<SyncSender<Command>>,
    events: Receiver<Event>,
    recycled: Receiver<Vec<u8>>,
    waiting_bytes: Arc<AtomicU64>,
    tasks: Option<SyncSender<Task>>,
    news: Receiver<News>,
    spares: Arc<Spares>,
    spare_asked: bool,
    threads: Vec<JoinHandle<()>>,
    /// Answers that nobody has asked for yet.
    synced: Vec<(u64, Result<(), String>)>,
    broken: Vec<(u64, Content)>,
    last_failure: Option<String>,
    /// Why the next part is not public yet, where that is a failure.
    unpublished: Option<String>,
    last_repair: Instant,
}

impl<T, F: FnMut(&Record<T>, &mut Vec<u8>)> FileSink<T, F> {
    pub(super) fn new(shared: Arc<Shared>, format: F) -> Self {
        Self { shared, format, buffer: Vec::new(), work: None, input: std::marker::PhantomData }
    }

    fn hand_over(&mut self) -> Result<(), FileSinkError> {
        let Some(work) = &mut self.work else { return Ok(()) };
        if !self.buffer.is_empty() {
            let empty = work.empty_buffer();
            work.write(std::mem::replace(&mut self.buffer, empty))?;
        }
        Ok(())
    }
}

impl<T, F> FileSink<T, F> {
    fn work(&mut self) -> Result<&mut Work, FileSinkError> {
        let gone = || FileSinkError::WorkerGone { folder: self.shared.folder.path().to_path_buf() };
        self.work.as_mut().ok_or_else(gone)
    }
}

impl<T: 'static, F> Sink for FileSink<T, F>
where
    F: FnMut(&Record<T>, &mut Vec<u8>) + Send + 'static,
{
    type In = T;

    fn open(&mut self, subtask: usize, restored: &[SinkState], checkpoint: u64) -> Result<(), OperatorError> {
        let decode = |state: &SinkState| Transaction::decode(state, checkpoint);
        let transactions = restored.iter().map(decode).collect::<Result<Vec<_>, _>>()?;
        let fresh = checkpoint == 0 && restored.is_empty();
        let restored = (!fresh).then_some(checkpoint);
        self.shared.enter(restored)?;
        let opened = open_work(&self.shared, subtask as u32, &transactions, restored);
        if opened.is_err() {
            self.shared.leave();
        }
        self.work = Some(opened?);
        self.buffer = Vec::with_capacity(BUFFER_BYTES + LINE_BYTES);
        Ok(())
    }

    #[inline]
    fn write(&mut self, record: Record<T>) -> Result<(), OperatorError> {
        (self.format)(&record, &mut self.buffer);
        if self.buffer.len() >= BUFFER_BYTES {
            self.hand_over()?;
        }
        Ok(())
    }

    fn has_room(&self) -> bool {
        self.work.as_ref().is_none_or(Work::has_room)
    }

    fn pre_commit(&mut self, checkpoint: u64) -> Result<SinkState, OperatorError> {
        self.hand_over()?;
        let roll = self.shared.options.roll;
        let work = self.work()?;
        work.poll()?;
        work.repair()?;
        let now = Instant::now();
        work.ask_for_spare(now, roll)?;
        let transaction = work.ledger.pre_commit(checkpoint, now, roll);
        work.send(Command::Sync { checkpoint })?;
        Ok(transaction.encode())
    }

    fn pre_committed(&mut self, checkpoint: u64) -> Result<bool, OperatorError> {
        let folder = self.shared.folder.path().to_path_buf();
        let work = self.work()?;
        work.poll()?;
        let Some(index) = work.synced.iter().position(|&(synced, _)| synced == checkpoint) else { return Ok(false) };
        let (_, result) = work.synced.swap_remove(index);
        let result = result.and_then(|()| work.unpublished.clone().map_or(Ok(()), Err));
        Ok(result.map(|()| true).map_err(|reason| FileSinkError::NotDurable { folder, reason })?)
    }

    fn commit(&mut self, checkpoint: u64) -> Result<(), OperatorError> {
        let work = self.work()?;
        work.sweep()?;
        match work.ledger.commit(checkpoint) {
            Some(publication) => Ok(work.order(Task::Publish(publication))?),
            None => Ok(()),
        }
    }

    fn close(&mut self) -> Result<(), OperatorError> {
        self.hand_over()?;
        let Some(mut work) = self.work.take() else { return Ok(()) };
        work.sweep()?;
        if let Some(publication) = work.ledger.close() {
            work.order(Task::Publish(publication))?;
        }
        work.order(Task::Close)?;
        work.wake();
        let closed = work.closed()?;
        let folder = self.shared.folder.path().to_path_buf();
        Ok(closed.map_err(|reason| FileSinkError::NotDurable { folder, reason })?)
    }
}

/// Takes over what is restored and starts the worker.
fn open_work(
    shared: &Arc<Shared>,
    subtask: u32,
    transactions: &[Transaction],
    restored: Option<u64>,
) -> Result<Work, FileSinkError> {
    if let Some(checkpoint) = restored {
        let recovery = Recovery::new(shared, checkpoint)?;
        transactions.iter().try_for_each(|transaction| recovery.publish(transaction))?;
    }
    let (commands, command_receiver) = mpsc::sync_channel(CHANNEL_SLOTS);
    let (event_sender, events) = mpsc::channel();
    let (recycled_sender, recycled) = mpsc::sync_channel(CHANNEL_SLOTS);
    let (tasks, task_receiver) = mpsc::sync_channel(TASK_SLOTS);
    let (news_sender, news) = mpsc::channel();
    let waiting_bytes = Arc::new(AtomicU64::new(0));
    let spares = Arc::new(Spares::default());
    // A failure costs speed alone: the file is made when its first lines come.
    let _ = spares.make(&*shared.folder, subtask, shared.sequences.next(), prepared_bytes(None));
    let links = Links {
        commands: command_receiver,
        events: event_sender,
        recycled: recycled_sender,
        waiting_bytes: Arc::clone(&waiting_bytes),
        spares: Arc::clone(&spares),
    };
    let worker = Worker::new(Arc::clone(shared), subtask, links);
    let publisher = Publisher {
        shared: Arc::clone(shared),
        subtask,
        tasks: task_receiver,
        news: news_sender,
        spares: Arc::clone(&spares),
        backlog: VecDeque::new(),
    };
    let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
        let spawned = thread::Builder::new().name(format!("isobar-{name}-{subtask}")).spawn(run);
        spawned.map_err(|source| io_error("start a thread for", shared.folder.path(), source))
    };
    let threads =
        vec![spawn("output", Box::new(move || worker.run()))?, spawn("publish", Box::new(move || publisher.run()))?];
    Ok(Work {
        shared: Arc::clone(shared),
        ledger: Ledger::new(subtask, restored),
        commands: Some(commands),
        events,
        recycled,
        waiting_bytes,
        tasks: Some(tasks),
        news,
        spares,
        spare_asked: false,
        threads,
        synced: Vec::with_capacity(16),
        broken: Vec::new(),
        last_failure: None,
        unpublished: None,
        last_repair: Instant::now(),
    })
}

impl Work {
    fn gone(&self) -> FileSinkError {
        FileSinkError::WorkerGone { folder: self.shared.folder.path().to_path_buf() }
    }

    fn send(&self, command: Command) -> Result<(), FileSinkError> {
        let sent = self.commands.as_ref().is_some_and(|commands| commands.send(command).is_ok());
        if sent { Ok(()) } else { Err(self.gone()) }
    }

    fn order(&self, task: Task) -> Result<(), FileSinkError> {
        let sent = self.tasks.as_ref().is_some_and(|tasks| tasks.send(task).is_ok());
        if sent { Ok(()) } else { Err(self.gone()) }
    }

    /// Has the threads look for commands at once.
    fn wake(&self) {
        self.threads.iter().for_each(|thread| thread.thread().unpark());
    }

    /// Has leftovers of earlier attempts removed, once in an attempt.
    fn sweep(&self) -> Result<(), FileSinkError> {
        match self.shared.claim_sweep() {
            Some(below) => self.order(Task::Sweep { below }),
            None => Ok(()),
        }
    }

    /// Has the next pending file made in time: when the open one has half of its life behind it.
    fn ask_for_spare(&mut self, now: Instant, roll: Duration) -> Result<(), FileSinkError> {
        if !self.spare_asked && self.ledger.age(now).is_some_and(|age| age >= roll / 2) {
            self.spare_asked = true;
            self.order(Task::Spare { bytes: prepared_bytes(self.ledger.last_closed_bytes()) })?;
        }
        Ok(())
    }

    /// Takes in what the threads have reported.
    fn poll(&mut self) -> Result<(), FileSinkError> {
        while let Ok(news) = self.news.try_recv() {
            self.take_note(news);
        }
        loop {
            match self.events.try_recv() {
                Ok(event) => self.take_in(event),
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => return Err(self.gone()),
            }
        }
    }

    /// Takes in one report of the publisher; gives the answer to [`Task::Close`], if it is that.
    fn take_note(&mut self, news: News) -> Option<Result<(), String>> {
        match news {
            News::Published { checkpoint } => {
                self.ledger.confirm(checkpoint);
                self.unpublished = None;
            }
            News::Unpublished { reason } => self.unpublished = Some(reason),
            News::Closed(result) => return Some(result),
        }
        None
    }

    fn take_in(&mut self, event: Event) {
        match event {
            Event::Synced { checkpoint, result } => {
                if result.is_ok() {
                    self.last_failure = None;
                }
                self.synced.push((checkpoint, result));
            }
            Event::Broken { sequence, durable, reason } => {
                self.last_failure = Some(reason);
                self.broken.push((sequence, durable));
            }
        }
    }

    /// Has the lines of broken files written again, to new files.
    fn repair(&mut self) -> Result<(), FileSinkError> {
        while let Some((sequence, durable)) = self.broken.pop() {
            let sequences = &self.shared.sequences;
            match self.ledger.repair(sequence, durable, || sequences.next()) {
                Some(Repair::Rewrite { from, to }) => self.send(Command::Rewrite { from, to })?,
                Some(Repair::Later) => {
                    self.broken.push((sequence, durable));
                    return Ok(());
                }
                Some(Repair::Exhausted) => return Err(self.stuck()),
                None => {}
            }
            self.last_repair = Instant::now();
        }
        Ok(())
    }

    fn stuck(&self) -> FileSinkError {
        FileSinkError::Stuck {
            folder: self.shared.folder.path().to_path_buf(),
            reason: self.last_failure.clone().unwrap_or_else(|| "files keep failing".to_string()),
            bytes: self.waiting_bytes.load(Ordering::Relaxed),
        }
    }

    fn memory_is_full(&self) -> bool {
        let max = self.shared.options.memory_bytes_max.max(1 << 20) as u64;
        self.waiting_bytes.load(Ordering::Relaxed) >= max
    }

    /// False asks the runtime to wait. After a failure there is no use in waiting: the next write tells.
    fn has_room(&self) -> bool {
        self.last_failure.is_some() || !self.memory_is_full()
    }

    fn write(&mut self, data: Vec<u8>) -> Result<(), FileSinkError> {
        self.poll()?;
        if self.last_repair.elapsed() >= RETRY {
            self.repair()?;
        }
        // Only a record with very many lines, or a caller that does not ask `has_room`, ever waits here.
        while self.memory_is_full() {
            if self.last_failure.is_some() {
                return Err(self.stuck());
            }
            thread::sleep(Duration::from_micros(100));
            self.poll()?;
        }
        let (sequences, spares, asked) = (&self.shared.sequences, &self.spares, &mut self.spare_asked);
        let sequence = self.ledger.append(&data, Instant::now(), || {
            *asked = false;
            spares.reserve().unwrap_or_else(|| sequences.next())
        });
        self.waiting_bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        self.send(Command::Write { sequence, data })
    }

    fn empty_buffer(&self) -> Vec<u8> {
        self.recycled.try_recv().unwrap_or_else(|_| Vec::with_capacity(BUFFER_BYTES + LINE_BYTES))
    }

    /// Waits for the answer to [`Task::Close`].
    fn closed(&mut self) -> Result<Result<(), String>, FileSinkError> {
        loop {
            match self.news.recv() {
                Ok(news) => {
                    if let Some(closed) = self.take_note(news) {
                        return Ok(closed);
                    }
                }
                Err(_) => return Err(self.gone()),
            }
        }
    }
}

impl Drop for Work {
    /// Waits for the threads, so that nothing touches the files when the next attempt looks at them.
    fn drop(&mut self) {
        (self.commands, self.tasks) = (None, None);
        self.wake();
        for thread in self.threads.drain(..) {
            // A panic there has shown as `WorkerGone` already.
            let _ = thread.join();
        }
        self.spares.discard(&*self.shared.folder, self.ledger.subtask());
        self.shared.leave();
    }
}
