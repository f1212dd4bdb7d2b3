//! Writing segments with io_uring and O_DIRECT.
//!
//! The ring belongs to the thread that makes it, and a submission of a large write costs that thread 15 to 130 us: it is
//! the writer's, not the record path's.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, opcode, types};

use super::buffer::Buffer;
use super::segment::{SegmentFile, Segments};
use super::store::{Completion, SegmentIo, WriterInfo};

const ENTRIES: u32 = 64;
/// The user data of a sync; writes have the index of their place.
const SYNC: u64 = u64::MAX;

/// A ring, the segment that it writes to, and the buffers that the kernel is reading from.
pub(super) struct UringIo {
    ring: IoUring,
    segments: Segments,
    current: Option<SegmentFile>,
    in_flight: Vec<Option<Buffer>>,
    syncing: bool,
    /// What could not even be submitted.
    refused: VecDeque<Completion>,
    info: WriterInfo,
}

impl UringIo {
    /// A ring of this thread, with the flags that the kernel knows; the segments come back where it has none to give.
    pub fn new(segments: Segments) -> Result<Self, (Segments, io::Error)> {
        match ring() {
            Ok(ring) => {
                let info = WriterInfo { backend: "io_uring", direct: true, alignment: 512, reason: None };
                let in_flight = (0..ENTRIES as usize).map(|_| None).collect();
                let refused = VecDeque::new();
                Ok(Self { ring, segments, current: None, in_flight, syncing: false, refused, info })
            }
            Err(error) => Err((segments, error)),
        }
    }

    fn submit(&mut self, entry: io_uring::squeue::Entry) -> io::Result<()> {
        // SAFETY: the file stays open while anything is in flight (`create` and `abandon` are called with nothing in
        // flight, and `drop` waits), and the memory that a write reads from is owned by `in_flight` until its
        // completion has been seen.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        loop {
            match self.ring.submit() {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The entry stays in the queue and goes with the next call.
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn busy(&self) -> bool {
        self.syncing || self.in_flight.iter().any(Option::is_some)
    }

    fn completed(&mut self) -> Option<Completion> {
        let entry = self.ring.completion().next()?;
        let result = entry.result();
        if entry.user_data() == SYNC {
            self.syncing = false;
            return Some(Completion::Sync(outcome(result).map(|_| ())));
        }
        let buffer = self.in_flight.get_mut(entry.user_data() as usize)?.take()?;
        let result = outcome(result).and_then(|written| {
            if written == buffer.filled().len() {
                return Ok(());
            }
            let what = format!("only {written} of {} bytes were written", buffer.filled().len());
            Err(io::Error::new(io::ErrorKind::WriteZero, what))
        });
        Some(Completion::Write { buffer, result })
    }
}

/// The newest kind of ring that the kernel gives.
fn ring() -> io::Result<IoUring> {
    let mut newest = IoUring::builder();
    newest.setup_single_issuer().setup_defer_taskrun();
    let mut newer = IoUring::builder();
    newer.setup_coop_taskrun();
    newest.build(ENTRIES).or_else(|_| newer.build(ENTRIES)).or_else(|_| IoUring::new(ENTRIES))
}

fn outcome(result: i32) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}

fn no_segment() -> io::Error {
    io::Error::other("no segment is open")
}

impl SegmentIo for UringIo {
    fn info(&self) -> &WriterInfo {
        &self.info
    }

    fn alignment(&self) -> usize {
        self.info.alignment
    }

    fn create(&mut self, segment: u32, bytes: u64) -> io::Result<()> {
        debug_assert!(!self.busy());
        self.current = None;
        let file = self.segments.create(segment, bytes, true)?;
        self.info = file.info("io_uring", None);
        self.current = Some(file);
        Ok(())
    }

    fn abandon(&mut self, keep: u64) {
        debug_assert!(!self.busy());
        if let Some(current) = self.current.take() {
            // Space that is not given back now stays zeros behind the end.
            let _ = current.file.set_len(keep);
        }
    }

    fn write(&mut self, offset: u64, buffer: Buffer) {
        let place = self.in_flight.iter().position(Option::is_none);
        let (Some(current), Some(place)) = (&self.current, place) else {
            let result = Err(if self.current.is_none() { no_segment() } else { io::ErrorKind::ResourceBusy.into() });
            self.refused.push_back(Completion::Write { buffer, result });
            return;
        };
        let bytes = buffer.filled();
        let entry = opcode::Write::new(types::Fd(current.file.as_raw_fd()), bytes.as_ptr(), bytes.len() as u32)
            .offset(offset)
            .build()
            .user_data(place as u64);
        // The buffer's memory does not move with the buffer: it is a mapping of its own.
        self.in_flight[place] = Some(buffer);
        if let Err(error) = self.submit(entry)
            && let Some(buffer) = self.in_flight[place].take()
        {
            self.refused.push_back(Completion::Write { buffer, result: Err(error) });
        }
    }

    fn sync(&mut self) {
        let Some(current) = &self.current else {
            self.refused.push_back(Completion::Sync(Err(no_segment())));
            return;
        };
        let entry = opcode::Fsync::new(types::Fd(current.file.as_raw_fd()))
            .flags(types::FsyncFlags::DATASYNC)
            .build()
            .user_data(SYNC);
        self.syncing = true;
        if let Err(error) = self.submit(entry) {
            self.syncing = false;
            self.refused.push_back(Completion::Sync(Err(error)));
        }
    }

    fn poll(&mut self, wait: bool) -> Option<Completion> {
        if let Some(refused) = self.refused.pop_front() {
            return Some(refused);
        }
        if let Some(completion) = self.completed() {
            return Some(completion);
        }
        // With DEFER_TASKRUN completions are posted when the thread enters the kernel for them.
        let want = usize::from(wait && self.busy());
        while self.busy() {
            match self.ring.submit_and_wait(want) {
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.completed()
    }
}

impl Drop for UringIo {
    /// Waits for what is in flight: the kernel reads from the buffers until then.
    fn drop(&mut self) {
        while self.busy() {
            if self.poll(true).is_none() {
                // The ring gives no more answers: better to leak the buffers than to free what the kernel may read.
                self.in_flight.drain(..).for_each(std::mem::forget);
                return;
            }
        }
    }
}
