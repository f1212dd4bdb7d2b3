//! The writer: takes the subtasks' frozen pages and the coordinator's commits, and makes checkpoints durable.
//!
//! It is a state machine that is turned, by a thread of its own ([`WriterThread`](super::WriterThread)) or in bounded
//! slices on a core's idle turns. **No line is ever lost to a failed checkpoint**: what was packed for a checkpoint
//! that then fails or is aborted stays pending, and the next commit record names it too. When the disk fails, the
//! checkpoint at hand fails, the segment is given up, and what was not durable is written again elsewhere before the
//! next one can complete.

use std::collections::VecDeque;

use super::buffer::Buffer;
use super::command::{Command, Event, Progress, WriterConfig};
use super::commit::{CommitParts, CommitRecord, Completed};
use super::error::FailReason;
use super::packing::{PackStats, Packed, Packing};
use super::record::Kind;
use super::store::WriterInfo;
use super::tail::{Failure, Tail};

/// Makes checkpoints durable. See the module's documentation; made by
/// [`CheckpointLog::writer`](super::CheckpointLog::writer).
///
/// Between turns it holds memory only: dropping it without [`Command::Close`] is what a crash looks like.
pub struct Writer {
    tail: Tail,
    config: WriterConfig,
    attempt: u64,
    commands: VecDeque<(u64, Command)>,
    events: VecDeque<Event>,
    open: Option<Buffer>,
    packing: Option<Packing>,
    commit: Option<Committing>,
    closing: Closing,
    stats: Vec<PackStats>,
    /// A write has failed while no commit was under way: checkpoints up to this one fail for that reason.
    failed_through: Option<(u64, FailReason)>,
    /// The waiting commit for whose sake the disk is being tried again.
    retrying_for: Option<u64>,
    last: Option<Completed>,
    /// Bytes in the log when the last checkpoint became durable.
    appended: u64,
    write_failures: u64,
}

/// A commit under way.
struct Committing {
    parts: CommitParts,
    arrived_ns: u64,
    /// Ticket and time of the sync that will make it durable, once its record has been written.
    written: Option<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    No,
    /// Close has come: the seal is to be written.
    Asked,
    /// The seal is durable when this ticket is.
    Sealing(u64),
    Done,
}

impl Writer {
    pub(super) fn new(tail: Tail, config: WriterConfig, attempt: u64) -> Self {
        Self {
            appended: tail.appended(),
            tail,
            config,
            attempt,
            commands: VecDeque::new(),
            events: VecDeque::new(),
            open: None,
            packing: None,
            commit: None,
            closing: Closing::No,
            stats: Vec::new(),
            failed_through: None,
            retrying_for: None,
            last: None,
            write_failures: 0,
        }
    }

    /// How the disk is reached.
    pub fn info(&self) -> &WriterInfo {
        self.tail.info()
    }

    /// How often writing has failed and was begun again in a new segment.
    pub fn write_failures(&self) -> u64 {
        self.write_failures
    }

    /// Gives an order. It is carried out by later turns.
    pub fn command(&mut self, command: Command) {
        if self.closing == Closing::Done {
            return self.refuse(command);
        }
        if let Command::Abort { checkpoint } = command {
            let waiting = self
                .commands
                .iter()
                .position(|(_, queued)| matches!(queued, Command::Commit(parts) if parts.checkpoint == checkpoint));
            if let Some(at) = waiting {
                self.commands.remove(at);
                self.failed(checkpoint, FailReason::Aborted);
            }
            return;
        }
        self.commands.push_back(((self.config.clock)(), command));
    }

    /// The next event, if there is one.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Does what can be done without waiting, packing at most `budget` pages. Two things do take longer: every
    /// [`segment_bytes`](WriterConfig::segment_bytes) of log a file is created, and where io_uring is refused every write
    /// and sync is waited for.
    pub fn turn(&mut self, budget: usize) -> Progress {
        if self.closing == Closing::Done {
            return Progress::Closed;
        }
        self.tail.advance(false);
        // In this order: a commit whose sync has succeeded is complete, whatever failed behind it.
        let mut worked = self.step_synced();
        worked |= self.step_failure();
        worked |= self.step_commit();
        worked |= self.step_command(budget);
        worked |= self.step_close();
        match (self.closing, worked) {
            (Closing::Done, _) => Progress::Closed,
            (_, true) => Progress::Busy,
            (_, false) if self.tail.is_busy() => Progress::Waiting,
            (_, false) => Progress::Idle,
        }
    }

    /// Sleeps until something that is in flight completes. Returns at once if nothing is.
    pub fn wait(&mut self) {
        self.tail.advance(true);
    }

    fn failed(&mut self, checkpoint: u64, reason: FailReason) {
        self.events.push_back(Event::Failed { checkpoint, reason });
    }

    fn refuse(&mut self, command: Command) {
        if let Command::Commit(parts) = command {
            self.failed(parts.checkpoint, FailReason::Closed);
        }
    }

    /// Blames a failed write on the commit under way, or on those to come.
    fn step_failure(&mut self) -> bool {
        let Some(Failure { reason, newest }) = self.tail.take_failure() else { return false };
        self.write_failures += 1;
        let packing = self.packing.as_ref().map(Packing::checkpoint);
        let newest = newest.into_iter().chain(packing).chain(self.retrying_for.take()).max();
        if self.closing != Closing::No {
            self.close(Some(reason.to_string()));
        } else if let Some(commit) = self.commit.take() {
            self.failed(commit.parts.checkpoint, reason);
        } else if let Some(newest) = newest {
            self.failed_through = Some((newest, reason));
        }
        if self.open.as_ref().is_none_or(|open| open.len() == 0)
            && let Some(last) = self.tail.reopen()
            && let Some(empty) = self.open.replace(last)
        {
            self.tail.release(empty);
        }
        true
    }

    fn step_synced(&mut self) -> bool {
        match self.commit.as_ref().and_then(|commit| commit.written) {
            Some((ticket, at_ns)) if self.tail.synced() >= ticket => self.complete(at_ns),
            _ => false,
        }
    }

    fn step_commit(&mut self) -> bool {
        let Some(commit) = &self.commit else { return false };
        match commit.written {
            Some(_) => false,
            None if !self.tail.has_segment() => self.recover_for_commit(),
            None => self.write_commit(),
        }
    }

    fn recover_for_commit(&mut self) -> bool {
        if let Err(reason) = self.tail.recover()
            && let Some(commit) = self.commit.take()
        {
            self.failed(commit.parts.checkpoint, reason);
        }
        true
    }

    /// Writes the commit record behind the last of its blocks, in the same write if it fits.
    fn write_commit(&mut self) -> bool {
        let Some((segment, offset, room)) = self.tail.position() else { return false };
        let Some(commit) = &self.commit else { return false };
        let body = match self.record(&commit.parts, segment, offset).encode() {
            Ok(body) => body,
            Err(error) => return self.fail_commit(FailReason::Encode { error: error.to_string() }),
        };
        let needed = Buffer::twins_len(body.len(), self.tail.alignment());
        let open = self.open.as_ref().map_or(0, Buffer::len);
        if (open + needed) as u64 > room {
            if !self.tail.is_fresh() {
                self.tail.roll();
                return true;
            }
            if open == 0 {
                return self.fail_commit(FailReason::TooLarge { bytes: needed });
            }
        }
        let fits = self.open.as_ref().is_some_and(|open| open.room() >= needed);
        if !fits && let Some(open) = self.open.take() {
            self.tail.push(open);
            return true;
        }
        let Some(mut buffer) = self.open.take().or_else(|| self.tail.acquire_over_limit(needed)) else {
            return self.fail_commit(FailReason::TooLarge { bytes: needed });
        };
        buffer.put_twins(Kind::Commit, &body, self.tail.alignment());
        let at_ns = (self.config.clock)();
        let ticket = self.tail.push_and_sync(buffer);
        if let Some(commit) = &mut self.commit {
            commit.written = Some((ticket, at_ns));
        }
        true
    }

    fn record(&self, parts: &CommitParts, segment: u32, offset: u32) -> CommitRecord {
        let mut subtasks = parts.subtasks.clone();
        for subtask in &mut subtasks {
            let mut own = self.stats.iter().filter(|stats| stats.checkpoint == parts.checkpoint);
            if let Some(stats) = own.find(|s| s.operator == subtask.operator && s.subtask == subtask.subtask) {
                subtask.times.pack_ns = stats.pack_ns;
                subtask.times.async_ns = stats.async_ns;
                subtask.times.bytes = stats.bytes;
                subtask.times.dirty_pages = stats.dirty_pages;
            }
        }
        CommitRecord {
            checkpoint: parts.checkpoint,
            attempt: self.attempt,
            parent: self.tail.durable_checkpoint(),
            wall_clock_ns: parts.wall_clock_ns,
            subtasks,
            previous: self.last,
            blocks: self.tail.blocks.refs(parts.checkpoint, segment, offset),
        }
    }

    fn fail_commit(&mut self, reason: FailReason) -> bool {
        if let Some(commit) = self.commit.take() {
            self.failed(commit.parts.checkpoint, reason);
        }
        true
    }

    fn complete(&mut self, written_ns: u64) -> bool {
        let Some(commit) = self.commit.take() else { return false };
        self.retrying_for = None;
        let (now_ns, checkpoint) = ((self.config.clock)(), commit.parts.checkpoint);
        let arrivals = self.stats.iter().filter(|stats| stats.checkpoint == checkpoint).map(|stats| stats.arrived_ns);
        let began_ns = arrivals.chain([commit.arrived_ns]).min().unwrap_or(now_ns);
        let completed = Completed {
            checkpoint,
            async_ns: now_ns.saturating_sub(began_ns),
            durable_ns: now_ns.saturating_sub(written_ns),
            bytes: self.tail.appended() - self.appended,
        };
        self.appended = self.tail.appended();
        self.tail.completed(checkpoint);
        self.stats.retain(|stats| stats.checkpoint > checkpoint);
        self.last = Some(completed);
        self.events.push_back(Event::Durable(completed));
        true
    }

    /// Goes on packing, or takes the next command.
    fn step_command(&mut self, budget: usize) -> bool {
        let commit_unwritten = self.commit.as_ref().is_some_and(|commit| commit.written.is_none());
        if commit_unwritten || self.closing != Closing::No {
            return false;
        }
        if self.packing.is_some() {
            return self.pack(budget);
        }
        match self.commands.front() {
            None => return false,
            // One commit record at a time: whether it is durable decides what the next one refers to.
            Some((_, Command::Commit(_) | Command::Close)) if self.commit.is_some() => return false,
            Some(_) => {}
        }
        match self.commands.pop_front() {
            Some((at_ns, Command::Delta { checkpoint, operator, subtask, pages })) => {
                self.packing = Some(Packing::new(checkpoint, operator, subtask, pages, at_ns));
            }
            Some((at_ns, Command::Commit(parts))) => self.begin_commit(parts, at_ns),
            Some((_, Command::Close)) => self.closing = Closing::Asked,
            Some((_, Command::Abort { .. })) | None => {}
        }
        true
    }

    fn begin_commit(&mut self, parts: CommitParts, arrived_ns: u64) {
        let last = self.tail.durable_checkpoint();
        if parts.checkpoint <= last {
            return self.failed(parts.checkpoint, FailReason::OutOfOrder { last });
        }
        match &self.failed_through {
            Some((through, reason)) if parts.checkpoint <= *through => {
                let reason = reason.clone();
                self.failed(parts.checkpoint, reason);
            }
            _ => self.commit = Some(Committing { parts, arrived_ns, written: None }),
        }
    }

    fn pack(&mut self, mut budget: usize) -> bool {
        let started_ns = (self.config.clock)();
        loop {
            if self.open.is_none() {
                self.open = self.tail.acquire();
            }
            let (Some(open), Some(packing)) = (&mut self.open, &mut self.packing) else { return self.stalled() };
            let (packed, finished) = packing.fill(open, &mut budget);
            if let Some((at, body)) = finished {
                self.tail.blocks.push(packing.checkpoint(), open.serial(), at, body);
            }
            match packed {
                Packed::Full => {
                    if let Some(full) = self.open.take() {
                        self.tail.push(full);
                    }
                }
                Packed::Budget | Packed::All => break self.packed(packed, started_ns),
            }
        }
    }

    fn packed(&mut self, packed: Packed, started_ns: u64) -> bool {
        let now_ns = (self.config.clock)();
        if let Some(packing) = &mut self.packing {
            packing.stats.pack_ns += now_ns.saturating_sub(started_ns);
        }
        if packed == Packed::All
            && let Some(Packing { mut stats, .. }) = self.packing.take()
        {
            stats.async_ns = now_ns.saturating_sub(stats.arrived_ns);
            self.stats.push(stats);
        }
        true
    }

    /// All memory is held by what is not durable. While the disk works, its sync will free some; while it does not,
    /// every waiting commit is a reason to try it again, and fails if that does not help.
    fn stalled(&mut self) -> bool {
        if self.tail.has_segment() || self.tail.is_busy() {
            return false;
        }
        let decides = |(_, queued): &(u64, Command)| matches!(queued, Command::Commit(_) | Command::Close);
        let Some(at) = self.commands.iter().position(decides) else { return false };
        let failed = match &self.commands[at].1 {
            Command::Commit(parts) => match &self.failed_through {
                Some((through, reason)) if parts.checkpoint <= *through => Some(reason.clone()),
                _ => {
                    self.retrying_for = Some(parts.checkpoint);
                    self.tail.recover().err()
                }
            },
            _ => {
                // Closing: what is not in a complete checkpoint by now never will be.
                self.packing = None;
                self.commands.drain(..at);
                return true;
            }
        };
        if let Some(reason) = failed
            && let Some((_, Command::Commit(parts))) = self.commands.remove(at)
        {
            self.failed(parts.checkpoint, reason);
        }
        true
    }

    /// Writes the seal: with it, an open knows that nothing is missing at the log's end.
    fn step_close(&mut self) -> bool {
        match self.closing {
            Closing::No | Closing::Done => return false,
            Closing::Sealing(ticket) if self.tail.synced() >= ticket => self.close(None),
            Closing::Sealing(_) => return false,
            Closing::Asked if !self.tail.has_segment() => {
                self.tail.discard_ready();
                if let Err(reason) = self.tail.recover() {
                    self.close(Some(reason.to_string()));
                }
            }
            Closing::Asked => {
                self.open.take().into_iter().for_each(|open| self.tail.release(open));
                let Some((_, _, room)) = self.tail.position() else { return false };
                let needed = Buffer::twins_len(0, self.tail.alignment());
                if needed as u64 > room {
                    self.tail.roll();
                    return true;
                }
                match self.tail.acquire_over_limit(needed) {
                    Some(mut buffer) => {
                        buffer.put_twins(Kind::Seal, &[], self.tail.alignment());
                        self.closing = Closing::Sealing(self.tail.push_and_sync(buffer));
                    }
                    None => self.close(Some("out of memory".into())),
                }
            }
        }
        true
    }

    fn close(&mut self, why: Option<String>) {
        self.closing = Closing::Done;
        self.packing = None;
        while let Some((_, command)) = self.commands.pop_front() {
            self.refuse(command);
        }
        self.events.push_back(Event::Closed(why));
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("attempt", &self.attempt)
            .field("durable", &self.tail.durable_checkpoint())
            .field("queued", &self.commands.len())
            .field("write_failures", &self.write_failures)
            .finish_non_exhaustive()
    }
}
