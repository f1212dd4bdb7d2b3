//! The writing side with io_uring.
//!
//! The ring belongs to the thread that creates it. A buffer that is being written lies in the ring's own table until
//! its completion has been seen, so the kernel never reads from memory that somebody else could touch.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;

use io_uring::squeue::Entry;
use io_uring::{IoUring, opcode, types};

use super::buffer::Buffer;
use super::segment_file::{SegmentFile, SegmentFolder};
use super::store::{Completion, SegmentIo, WriterInfo};

/// Entries of the submission queue: more than the writer ever has in flight.
const ENTRIES: u32 = 128;
/// `user_data` of a sync; writes carry their slot's number.
const SYNC: u64 = u64::MAX;

pub(super) struct UringIo {
    ring: IoUring,
    folder: SegmentFolder,
    current: Option<SegmentFile>,
    /// Buffers in the kernel's hands.
    slots: Vec<Option<Buffer>>,
    in_flight: usize,
    /// What never reached the kernel.
    refused: VecDeque<Completion>,
    info: WriterInfo,
    ladder: Option<String>,
}

impl UringIo {
    /// Sets a ring up on the calling thread: with deferred task work if the kernel can (6.1), so that completions
    /// are handled when this thread asks for them and interrupt nobody; else as plainly as needed.
    pub fn new(folder: SegmentFolder) -> io::Result<Self> {
        let (ring, ladder) =
            match IoUring::builder().setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().build(ENTRIES) {
                Ok(ring) => (ring, None),
                Err(first) => (IoUring::new(ENTRIES)?, Some(format!("no deferred task work: {first}"))),
            };
        let info = WriterInfo { backend: "io_uring", direct: false, alignment: 512, reason: ladder.clone() };
        Ok(Self {
            ring,
            folder,
            current: None,
            slots: Vec::new(),
            in_flight: 0,
            refused: VecDeque::new(),
            info,
            ladder,
        })
    }

    fn fd(&self) -> io::Result<types::Fd> {
        let segment = self.current.as_ref().ok_or_else(|| io::Error::other("no segment is open"))?;
        Ok(types::Fd(segment.file.as_raw_fd()))
    }

    /// Hands an entry to the kernel.
    fn push(&mut self, entry: &Entry) -> io::Result<()> {
        // SAFETY: the entry's file is `self.current`, which is replaced only when nothing is in flight, and its
        // memory, if it has any, is a mapping owned by `self.slots`, where it stays until the entry's completion has
        // been reaped. `drop` waits for that before either goes.
        unsafe { self.ring.submission().push(entry) }.map_err(io::Error::other)?;
        self.in_flight += 1;
        // An entry that could not be submitted now stays queued, and every poll submits again.
        let _ = self.ring.submit();
        Ok(())
    }

    fn reap(&mut self) -> Option<Completion> {
        let entry = self.ring.completion().next()?;
        self.in_flight -= 1;
        let written = match entry.result() {
            result if result < 0 => Err(io::Error::from_raw_os_error(-result)),
            result => Ok(result as usize),
        };
        if entry.user_data() == SYNC {
            return Some(Completion::Sync(written.map(drop)));
        }
        let buffer = self.slots.get_mut(entry.user_data() as usize).and_then(Option::take)?;
        let result = written.and_then(|written| match written == buffer.filled().len() {
            true => Ok(()),
            false => Err(io::Error::new(
                io::ErrorKind::WriteZero,
                format!("only {written} of {} bytes were written", buffer.filled().len()),
            )),
        });
        Some(Completion::Write { buffer, result })
    }

    /// Runs deferred completions, if there are any, without waiting.
    fn nudge(&mut self) {
        let queue = self.ring.submission();
        let wanted = queue.taskrun() || !queue.is_empty();
        drop(queue);
        if wanted {
            let _ = self.ring.submit();
        }
    }

    /// Sleeps until there is a completion. An error here (interrupted, kernel short of memory) is passing, and the
    /// buffers cannot be let go before their completions come, so it is tried again.
    fn sleep(&mut self) {
        if let Err(error) = self.ring.submit_and_wait(1)
            && error.kind() != io::ErrorKind::Interrupted
        {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

impl SegmentIo for UringIo {
    fn info(&self) -> &WriterInfo {
        &self.info
    }

    fn alignment(&self) -> usize {
        self.info.alignment
    }

    fn create(&mut self, segment: u32, bytes: u64) -> io::Result<()> {
        if self.in_flight > 0 {
            return Err(io::Error::other("writes to the segment before are in flight"));
        }
        self.current = None;
        let file = self.folder.create(segment, bytes)?;
        let reasons: Vec<String> = self.ladder.iter().chain(&file.reason).cloned().collect();
        self.info.reason = (!reasons.is_empty()).then(|| reasons.join("; "));
        (self.info.direct, self.info.alignment) = (file.direct, file.alignment);
        self.current = Some(file);
        Ok(())
    }

    fn abandon(&mut self, keep: u64) {
        if self.in_flight == 0
            && let Some(segment) = self.current.take()
        {
            self.folder.abandon(&segment, keep);
        }
    }

    fn write(&mut self, offset: u64, buffer: Buffer) {
        let slot = self.slots.iter().position(Option::is_none).unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let bytes = buffer.filled();
        let (pointer, len) = (bytes.as_ptr(), bytes.len() as u32);
        self.slots[slot] = Some(buffer);
        let pushed = self.fd().and_then(|fd| {
            self.push(&opcode::Write::new(fd, pointer, len).offset(offset).build().user_data(slot as u64))
        });
        if let Err(error) = pushed
            && let Some(buffer) = self.slots[slot].take()
        {
            self.refused.push_back(Completion::Write { buffer, result: Err(error) });
        }
    }

    fn sync(&mut self) {
        let pushed = self.fd().and_then(|fd| {
            self.push(&opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build().user_data(SYNC))
        });
        if let Err(error) = pushed {
            self.refused.push_back(Completion::Sync(Err(error)));
        }
    }

    fn poll(&mut self, wait: bool) -> Option<Completion> {
        if let Some(refused) = self.refused.pop_front() {
            return Some(refused);
        }
        if self.in_flight == 0 {
            return None;
        }
        if let Some(completion) = self.reap() {
            return Some(completion);
        }
        self.nudge();
        loop {
            match self.reap() {
                None if wait && self.in_flight > 0 => self.sleep(),
                found => return found,
            }
        }
    }
}

impl Drop for UringIo {
    fn drop(&mut self) {
        while self.in_flight > 0 {
            if self.reap().is_none() {
                self.sleep();
            }
        }
    }
}
