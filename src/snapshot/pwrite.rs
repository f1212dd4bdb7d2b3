//! Writing segments with `pwrite` and `fdatasync`, where io_uring is refused.

use std::collections::VecDeque;
use std::io;
use std::os::unix::fs::FileExt;

use super::buffer::Buffer;
use super::segment::{SegmentFile, Segments};
use super::store::{Completion, SegmentIo, WriterInfo};

/// Carries each order out at once, and reports it at the next poll.
#[derive(Debug)]
pub(super) struct PwriteIo {
    segments: Segments,
    current: Option<SegmentFile>,
    completions: VecDeque<Completion>,
    reason: Option<String>,
    info: WriterInfo,
}

impl PwriteIo {
    /// `reason`: why nothing better is used.
    pub fn new(segments: Segments, reason: Option<String>) -> Self {
        let info = WriterInfo { backend: "pwrite", direct: false, alignment: 64, reason: reason.clone() };
        Self { segments, current: None, completions: VecDeque::new(), reason, info }
    }
}

fn no_segment() -> io::Error {
    io::Error::other("no segment is open")
}

impl SegmentIo for PwriteIo {
    fn info(&self) -> &WriterInfo {
        &self.info
    }

    fn alignment(&self) -> usize {
        self.info.alignment
    }

    fn create(&mut self, segment: u32, bytes: u64) -> io::Result<()> {
        self.current = None;
        let file = self.segments.create(segment, bytes, false)?;
        self.info = file.info("pwrite", self.reason.as_ref());
        self.current = Some(file);
        Ok(())
    }

    fn abandon(&mut self, keep: u64) {
        if let Some(current) = self.current.take() {
            // Space that is not given back now stays zeros behind the end.
            let _ = current.file.set_len(keep);
        }
    }

    fn write(&mut self, offset: u64, buffer: Buffer) {
        let result = match &self.current {
            Some(current) => current.file.write_all_at(buffer.filled(), offset),
            None => Err(no_segment()),
        };
        self.completions.push_back(Completion::Write { buffer, result });
    }

    fn sync(&mut self) {
        let result = self.current.as_ref().map_or_else(|| Err(no_segment()), |current| current.file.sync_data());
        self.completions.push_back(Completion::Sync(result));
    }

    fn poll(&mut self, _wait: bool) -> Option<Completion> {
        self.completions.pop_front()
    }
}
