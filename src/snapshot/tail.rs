//! The growing end of the log: places buffers in segments, makes them durable, and starts again elsewhere when a
//! write fails.
//!
//! A buffer goes `ready` -> in flight -> `written` -> `covered` by a sync -> free. Whatever is not yet free when
//! something fails is given a place in the next segment. Nothing here blocks, except that creating a segment does.

use std::collections::VecDeque;

use super::blocks::Blocks;
use super::buffer::{Buffer, Placement};
use super::command::WriterConfig;
use super::commit::{Cut, StartRecord};
use super::error::{FailReason, advice};
use super::identity::StoreId;
use super::record::Kind;
use super::store::{Completion, SegmentIo, WriterInfo};
use crate::failpoint::{self, Failpoint};

/// Free buffers that are kept; an outage may have taken many more. A buffer that is mapped anew costs more time in page
/// faults than packing takes: with 8 kept, packing 64 MiB checkpoints ran at 1.3 GB/s, with 64 at 3.4. Checkpoints of up to
/// this many buffers never fault (see tests/snapshot_bandwidth.rs).
const KEPT_BUFFERS: usize = 16;

/// Where an attempt continues the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub store: StoreId,
    pub attempt: u64,
    /// The checkpoint that the attempt starts from, 0 if none.
    pub parent: u64,
    pub highest: u64,
    pub previous: Option<Cut>,
    pub next_segment: u32,
}

/// The segment that is written to.
#[derive(Debug)]
struct Segment {
    number: u32,
    /// Where the next write goes.
    next: u64,
    /// What lies below is durable.
    durable: u64,
    /// Where data begins, behind the start record.
    first: u64,
}

/// A sync in flight and what it makes durable.
#[derive(Debug)]
struct Syncing {
    end: u64,
    covered: Vec<Buffer>,
}

/// Something could not be written; the segment has been abandoned.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub reason: FailReason,
    /// The newest checkpoint whose lines have to be written again.
    pub newest: Option<u64>,
}

pub(super) struct Tail {
    io: Box<dyn SegmentIo>,
    places: Box<dyn Fn(u32) -> String>,
    config: WriterConfig,
    origin: Origin,
    segment: Option<Segment>,
    next_segment: u32,
    previous: Option<Cut>,
    sequence: u64,
    durable_checkpoint: u64,
    ready: VecDeque<Buffer>,
    written: Vec<Buffer>,
    syncing: Option<Syncing>,
    free: Vec<Buffer>,
    in_flight: usize,
    /// Bytes of the buffers that are not free, the caller's open one included.
    held: usize,
    next_serial: u64,
    rolling: bool,
    /// Syncs asked for, submitted, and done, as a count of requests.
    requested: u64,
    submitted: u64,
    synced: u64,
    broken: Option<FailReason>,
    failure: Option<Failure>,
    appended: u64,
    pub blocks: Blocks,
}

impl Tail {
    /// A tail without a segment; `places` names segments in messages.
    pub fn new(
        io: Box<dyn SegmentIo>,
        places: Box<dyn Fn(u32) -> String>,
        config: WriterConfig,
        origin: Origin,
    ) -> Self {
        Self {
            io,
            places,
            config,
            origin,
            segment: None,
            next_segment: origin.next_segment,
            previous: origin.previous,
            sequence: 0,
            durable_checkpoint: origin.parent,
            ready: VecDeque::new(),
            written: Vec::new(),
            syncing: None,
            free: Vec::new(),
            in_flight: 0,
            held: 0,
            next_serial: 1,
            rolling: false,
            requested: 0,
            submitted: 0,
            synced: 0,
            broken: None,
            failure: None,
            appended: 0,
            blocks: Blocks::default(),
        }
    }

    /// Creates the first segment and waits until its start, the attempt record, is durable.
    ///
    /// # Errors
    /// Why that failed.
    pub fn start(&mut self) -> Result<(), FailReason> {
        self.open_segment()?;
        let ticket = self.request_sync();
        self.submit();
        while self.synced < ticket {
            if let Some(failure) = self.failure.take() {
                return Err(failure.reason);
            }
            self.advance(true);
        }
        Ok(())
    }

    pub fn info(&self) -> &WriterInfo {
        self.io.info()
    }

    pub fn alignment(&self) -> usize {
        self.io.alignment()
    }

    /// Bytes written to the log so far, padding included.
    pub fn appended(&self) -> u64 {
        self.appended
    }

    pub fn durable_checkpoint(&self) -> u64 {
        self.durable_checkpoint
    }

    pub fn has_segment(&self) -> bool {
        self.segment.is_some()
    }

    /// Whether something is in flight.
    pub fn is_busy(&self) -> bool {
        self.in_flight > 0 || self.syncing.is_some()
    }

    /// Segment and offset that the next buffer will get, and the room behind: known when nothing is waiting.
    pub fn position(&self) -> Option<(u32, u32, u64)> {
        let settled = self.ready.is_empty() && !self.rolling && self.broken.is_none();
        let segment = self.segment.as_ref().filter(|_| settled)?;
        Some((segment.number, segment.next as u32, self.config.segment_bytes - segment.next))
    }

    /// Whether the current segment holds nothing but its start.
    pub fn is_fresh(&self) -> bool {
        self.segment.as_ref().is_some_and(|segment| segment.next == segment.first)
    }

    /// A buffer to fill, or `None` while more than the configured bytes are held. A sync is then on its way, if there
    /// is anything that it could free.
    pub fn acquire(&mut self) -> Option<Buffer> {
        if self.held + self.config.buffer_bytes > self.config.held_bytes {
            let nothing_under_way = self.syncing.is_none() && self.requested == self.submitted;
            if nothing_under_way && (self.in_flight > 0 || !self.written.is_empty()) {
                self.request_sync();
            }
            return None;
        }
        self.acquire_over_limit(self.config.buffer_bytes)
    }

    /// A buffer whatever is held: for what frees memory once it is written. `None` if there is no memory at all.
    pub fn acquire_over_limit(&mut self, bytes: usize) -> Option<Buffer> {
        let serial = self.next_serial;
        let buffer = match self.free.pop().filter(|_| bytes <= self.config.buffer_bytes) {
            Some(mut buffer) => {
                buffer.recycle(serial);
                buffer
            }
            None => Buffer::new(bytes.max(self.config.buffer_bytes).next_multiple_of(4096), serial).ok()?,
        };
        self.next_serial += 1;
        self.held += buffer.capacity();
        Some(buffer)
    }

    /// Gives a buffer back.
    pub fn release(&mut self, buffer: Buffer) {
        self.held -= buffer.capacity();
        if self.free.len() < KEPT_BUFFERS && buffer.capacity() == self.config.buffer_bytes {
            self.free.push(buffer);
        }
    }

    /// Queues a full buffer. Records in it are whole, their places are given when it is written.
    pub fn push(&mut self, mut buffer: Buffer) {
        if buffer.len() == 0 {
            return self.release(buffer);
        }
        if self.segment.is_some() {
            buffer.pad(self.alignment());
        }
        self.ready.push_back(buffer);
        self.submit();
    }

    /// Writes `buffer` at [`position`](Self::position) and asks for a sync: a commit. Returns the ticket for
    /// [`synced`](Self::synced).
    pub fn push_and_sync(&mut self, buffer: Buffer) -> u64 {
        self.write(buffer);
        let ticket = self.request_sync();
        self.submit();
        ticket
    }

    fn request_sync(&mut self) -> u64 {
        self.requested += 1;
        self.requested
    }

    /// All syncs up to this ticket have succeeded.
    pub fn synced(&self) -> u64 {
        self.synced
    }

    /// Checkpoint `checkpoint` is durable; headers say so from now on.
    pub fn completed(&mut self, checkpoint: u64) {
        self.durable_checkpoint = checkpoint;
        self.blocks.committed(checkpoint);
    }

    /// Go on in a new segment, once what is in this one is durable.
    pub fn roll(&mut self) {
        self.rolling = true;
        self.submit();
    }

    /// Takes completions in and submits what can be. With `wait`, sleeps until something completes.
    pub fn advance(&mut self, wait: bool) {
        let mut wait = wait && self.is_busy();
        while let Some(completion) = self.io.poll(wait) {
            wait = false;
            self.complete(completion);
        }
        self.submit();
    }

    /// What has failed since the last call. The segment is given up, and everything not durable is queued again.
    pub fn take_failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }

    /// Tries a new segment after a failure.
    pub fn recover(&mut self) -> Result<(), FailReason> {
        self.open_segment()?;
        self.submit();
        Ok(())
    }

    /// The last queued buffer, to be filled further: after a failure, so that an outage does not leave a buffer for
    /// every attempt.
    pub fn reopen(&mut self) -> Option<Buffer> {
        let (capacity, no_segment) = (self.config.buffer_bytes, self.segment.is_none());
        self.ready.pop_back_if(|last| no_segment && last.capacity() == capacity && last.len() <= capacity / 2)
    }

    /// Forgets what is queued: nobody will name it any more.
    pub fn discard_ready(&mut self) {
        while let Some(buffer) = self.ready.pop_front() {
            self.release(buffer);
        }
    }

    fn submit(&mut self) {
        loop {
            if self.broken.is_some() {
                if !self.is_busy() {
                    self.abandon();
                }
                return;
            }
            let Some(segment) = &self.segment else { return };
            let idle = self.in_flight == 0 && self.syncing.is_none();
            if self.requested > self.submitted {
                // What was queued behind the request waits, so that the sync is not put off for ever.
                if idle {
                    self.sync();
                }
                return;
            }
            if self.rolling {
                match (idle, segment.durable < segment.next) {
                    (false, _) => return,
                    (true, true) => return self.sync(),
                    (true, false) => {
                        if let Err(reason) = self.open_segment() {
                            self.broken.get_or_insert(reason);
                        }
                    }
                }
                continue;
            }
            if self.in_flight >= self.config.max_in_flight {
                return;
            }
            let Some(front) = self.ready.front() else { return };
            let end = segment.next + front.len().next_multiple_of(self.io.alignment()) as u64;
            if end > self.config.segment_bytes {
                self.rolling = true;
            } else if let Some(buffer) = self.ready.pop_front() {
                self.write(buffer);
            }
        }
    }

    fn write(&mut self, mut buffer: Buffer) {
        let Some(segment) = &mut self.segment else { return self.ready.push_front(buffer) };
        buffer.pad(self.io.alignment());
        let placement = Placement {
            segment: segment.number,
            offset: segment.next as u32,
            attempt: self.origin.attempt,
            sequence: self.sequence,
            durable: self.durable_checkpoint,
        };
        self.sequence += buffer.place(&placement);
        self.blocks.place(buffer.serial(), placement.segment, placement.offset);
        let offset = segment.next;
        segment.next += buffer.len() as u64;
        self.appended += buffer.len() as u64;
        match failpoint::hit(Failpoint::BeforeAppend) {
            Ok(()) => {
                self.in_flight += 1;
                self.io.write(offset, buffer);
            }
            Err(error) => {
                self.written.push(buffer);
                self.fail("append to", &error);
            }
        }
    }

    fn sync(&mut self) {
        let Some(segment) = &self.segment else { return };
        self.submitted = self.requested;
        self.syncing = Some(Syncing { end: segment.next, covered: std::mem::take(&mut self.written) });
        match failpoint::hit(Failpoint::BeforeFdatasync) {
            Ok(()) => self.io.sync(),
            Err(error) => self.complete(Completion::Sync(Err(error))),
        }
    }

    fn complete(&mut self, completion: Completion) {
        match completion {
            Completion::Write { buffer, result } => {
                self.in_flight -= 1;
                self.written.push(buffer);
                if let Err(error) = result.and_then(|()| failpoint::hit(Failpoint::AfterAppend)) {
                    self.fail("append to", &error);
                }
            }
            Completion::Sync(result) => {
                let Some(syncing) = self.syncing.take() else { return };
                match result.and_then(|()| failpoint::hit(Failpoint::AfterFdatasync)) {
                    Ok(()) => {
                        if let Some(segment) = &mut self.segment {
                            segment.durable = syncing.end;
                        }
                        self.synced = self.submitted;
                        syncing.covered.into_iter().for_each(|buffer| self.release(buffer));
                    }
                    Err(error) => {
                        self.written.extend(syncing.covered);
                        self.fail("make durable", &error);
                    }
                }
            }
        }
    }

    fn fail(&mut self, action: &'static str, error: &std::io::Error) {
        let number = self.segment.as_ref().map_or(self.next_segment, |segment| segment.number);
        self.broken.get_or_insert_with(|| FailReason::Write {
            action,
            place: (self.places)(number),
            error: error.to_string(),
            advice: advice(error),
        });
    }

    /// Leaves the segment for good: what a failed sync left of it cannot be known. Nothing is in flight.
    fn abandon(&mut self) {
        let Some(reason) = self.broken.take() else { return };
        if let Some(segment) = self.segment.take() {
            self.io.abandon(segment.durable);
            self.remember(&segment);
        }
        let mut homeless = std::mem::take(&mut self.written);
        homeless.sort_by_key(Buffer::serial);
        homeless.extend(std::mem::take(&mut self.ready));
        for mut buffer in homeless {
            buffer.keep_deltas();
            match buffer.has_deltas() {
                true => self.ready.push_back(buffer),
                false => self.release(buffer),
            }
        }
        let first = self.ready.front().map_or(self.next_serial, Buffer::serial);
        self.blocks.displace(first);
        self.rolling = false;
        self.submitted = self.requested;
        self.failure = Some(Failure { reason, newest: self.blocks.newest_from(first) });
    }

    /// The history goes through the durable part of `segment`, if it has one.
    fn remember(&mut self, segment: &Segment) {
        if segment.durable > 0 {
            self.previous = Some(Cut { segment: segment.number, offset: segment.durable });
        }
    }

    /// Creates the next segment and writes its start record, which is durable with the first sync.
    fn open_segment(&mut self) -> Result<(), FailReason> {
        self.rolling = false;
        if let Some(segment) = self.segment.take() {
            self.remember(&segment);
        }
        let number = self.next_segment;
        self.next_segment = number.saturating_add(1);
        let place = (self.places)(number);
        let failed = |error: &std::io::Error| FailReason::Write {
            action: "create",
            place: place.clone(),
            error: error.to_string(),
            advice: advice(error),
        };
        self.io.create(number, self.config.segment_bytes).map_err(|error| failed(&error))?;
        let start = StartRecord {
            store: self.origin.store,
            segment: number,
            attempt: self.origin.attempt,
            parent: self.durable_checkpoint,
            highest: self.origin.highest.max(self.durable_checkpoint),
            previous: self.previous,
        };
        let body = start.encode().map_err(|error| failed(&std::io::Error::other(error)))?;
        let mut buffer = self
            .acquire_over_limit(self.config.buffer_bytes)
            .ok_or_else(|| failed(&std::io::ErrorKind::OutOfMemory.into()))?;
        buffer.put_twins(Kind::Start, &body, self.io.alignment());
        self.segment = Some(Segment { number, next: 0, durable: 0, first: buffer.len() as u64 });
        self.write(buffer);
        Ok(())
    }
}
