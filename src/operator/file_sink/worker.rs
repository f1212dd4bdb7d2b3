//! The thread that writes a sink's lines and makes them durable.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use super::content::Content;
use super::folder::AppendFile;
use super::name::FileName;
use super::outputs::Shared;
use super::spares::Spares;
use crate::failpoint::{self, Failpoint};
use crate::sync::{AtomicU64, Ordering};

/// Between two looks for commands; tests are in a hurry.
const LOOK: Duration = Duration::from_micros(if cfg!(test) { 20 } else { 1_000 });
/// The same when none has come for [`QUIET`].
const LOOK_QUIET: Duration = Duration::from_millis(10);
const QUIET: Duration = Duration::from_secs(1);

/// What the sink asks for. Commands are carried out in order.
#[derive(Debug)]
pub(super) enum Command {
    /// Append lines to a pending file, made at its first lines.
    Write { sequence: u64, data: Vec<u8> },
    /// Make everything written durable.
    Sync { checkpoint: u64 },
    /// Write what was not durable in one file to another.
    Rewrite { from: u64, to: u64 },
}

/// What the worker reports.
#[derive(Debug)]
pub(super) enum Event {
    /// The answer to [`Command::Sync`].
    Synced { checkpoint: u64, result: Result<(), String> },
    /// A file is not to be trusted behind `durable`: its lines wait in memory for [`Command::Rewrite`].
    Broken { sequence: u64, durable: Content, reason: String },
}

/// The other ends of the sink's channels.
pub(super) struct Links {
    pub commands: Receiver<Command>,
    pub events: Sender<Event>,
    /// Empty buffers on their way back.
    pub recycled: SyncSender<Vec<u8>>,
    /// Bytes handed over that are not durable yet.
    pub waiting_bytes: Arc<AtomicU64>,
    pub spares: Arc<Spares>,
}

pub(super) struct Worker {
    shared: Arc<Shared>,
    subtask: u32,
    links: Links,
    /// Files with lines that are not durable, and the one that is being written, in order of their lines.
    files: VecDeque<PendingFile>,
    unsynced_bytes: u64,
}

struct PendingFile {
    sequence: u64,
    file: Option<Box<dyn AppendFile>>,
    written: Content,
    durable: Content,
    /// The folder's entry is durable.
    entered: bool,
    /// The lines behind `durable`.
    retained: VecDeque<Vec<u8>>,
    broken: Option<String>,
}

impl PendingFile {
    /// With a `file` that was made beforehand, durably; otherwise it is made at its first lines.
    fn new(sequence: u64, file: Option<Box<dyn AppendFile>>) -> Self {
        Self {
            sequence,
            written: Content::default(),
            durable: Content::default(),
            entered: file.is_some(),
            file,
            retained: VecDeque::new(),
            broken: None,
        }
    }

    fn is_durable(&self) -> bool {
        self.entered && self.durable == self.written && self.broken.is_none()
    }

    fn name(&self, subtask: u32) -> String {
        FileName::Pending { subtask, sequence: self.sequence }.to_string()
    }
}

impl Worker {
    pub fn new(shared: Arc<Shared>, subtask: u32, links: Links) -> Self {
        Self { shared, subtask, links, files: VecDeque::new(), unsynced_bytes: 0 }
    }

    /// Works until the sink is dropped.
    ///
    /// It looks for commands by itself: to wake a thread costs the waker 5 to 50 us, which the synchronous phase of a
    /// checkpoint has not got.
    pub fn run(mut self) {
        let mut last_command = Instant::now();
        loop {
            match self.links.commands.try_recv() {
                Ok(command) => {
                    self.carry_out(command);
                    last_command = Instant::now();
                }
                Err(TryRecvError::Empty) => {
                    let busy = last_command.elapsed() < QUIET;
                    thread::park_timeout(if busy { LOOK } else { LOOK_QUIET });
                }
                Err(TryRecvError::Disconnected) => return,
            }
        }
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Write { sequence, data } => self.write(sequence, data),
            Command::Sync { checkpoint } => {
                let result = self.make_durable();
                self.report(Event::Synced { checkpoint, result });
            }
            Command::Rewrite { from, to } => self.rewrite(from, to),
        }
    }

    fn report(&self, event: Event) {
        // A sink that has gone wants no reports.
        let _ = self.links.events.send(event);
    }

    fn write(&mut self, sequence: u64, data: Vec<u8>) {
        if self.files.back().is_none_or(|file| file.sequence != sequence) {
            self.files.push_back(PendingFile::new(sequence, self.links.spares.take(sequence)));
        }
        self.unsynced_bytes += data.len() as u64;
        self.append(self.files.len() - 1, data);
        // Long before memory runs out, and often enough that the last sync of a checkpoint is short.
        if self.unsynced_bytes >= (self.shared.options.memory_bytes_max as u64 / 4).min(8 << 20) {
            // A failure is reported as a broken file.
            let _ = self.make_durable();
        }
    }

    fn append(&mut self, index: usize, data: Vec<u8>) {
        let pending = &mut self.files[index];
        let result = match &mut pending.file {
            _ if pending.broken.is_some() => Ok(()),
            Some(file) => file.append(&data),
            None => {
                let created = self.shared.folder.create(&pending.name(self.subtask), 0);
                created.and_then(|file| pending.file.insert(file).append(&data))
            }
        };
        pending.written = pending.written.with(&data);
        pending.retained.push_back(data);
        if let Err(error) = result {
            self.mark_broken(index, format!("writing failed: {error}"));
        }
    }

    fn mark_broken(&mut self, index: usize, reason: String) {
        let pending = &mut self.files[index];
        if pending.broken.is_none() {
            pending.broken = Some(reason.clone());
            pending.file = None;
            let (sequence, durable) = (pending.sequence, pending.durable);
            self.report(Event::Broken { sequence, durable, reason });
        }
    }

    /// Makes all lines durable.
    fn make_durable(&mut self) -> Result<(), String> {
        for index in 0..self.files.len() {
            self.sync_file(index)?;
        }
        if self.files.iter().any(|file| !file.entered)
            && let Err(error) = self.shared.folder.sync()
        {
            // The entries are as doubtful as a file's bytes after a failed fsync: make new ones.
            let reason = format!("syncing the folder failed: {error}");
            for index in 0..self.files.len() {
                if !self.files[index].entered {
                    self.mark_broken(index, reason.clone());
                }
            }
            return Err(reason);
        }
        failpoint::hit(Failpoint::SinkAfterSync).map_err(|error| error.to_string())?;
        self.release();
        Ok(())
    }

    fn sync_file(&mut self, index: usize) -> Result<(), String> {
        let pending = &mut self.files[index];
        if let Some(reason) = &pending.broken {
            return Err(reason.clone());
        }
        if let Some(file) = &mut pending.file
            && pending.durable != pending.written
            && let Err(error) = failpoint::hit(Failpoint::SinkBeforeSync).and_then(|()| file.sync())
        {
            let reason = format!("fsync failed: {error}");
            self.mark_broken(index, reason.clone());
            return Err(reason);
        }
        Ok(())
    }

    /// Everything is durable: buffers go back, and only the last file may still grow.
    fn release(&mut self) {
        for pending in &mut self.files {
            pending.durable = pending.written;
            pending.entered = true;
            for mut data in pending.retained.drain(..) {
                self.links.waiting_bytes.fetch_sub(data.len() as u64, Ordering::Relaxed);
                data.clear();
                // A full channel means that there are buffers enough.
                let _ = self.links.recycled.try_send(data);
            }
        }
        self.unsynced_bytes = 0;
        debug_assert!(self.files.iter().all(PendingFile::is_durable));
        while self.files.len() > 1 {
            self.files.pop_front();
        }
    }

    fn rewrite(&mut self, from: u64, to: u64) {
        let Some(index) = self.files.iter().position(|file| file.sequence == from) else { return };
        let old = std::mem::replace(&mut self.files[index], PendingFile::new(to, None));
        if old.durable.bytes == 0 {
            // Best effort: what stays is swept after the next start.
            let _ = self.shared.folder.remove(&old.name(self.subtask));
        }
        for data in old.retained {
            self.append(index, data);
        }
    }
}
