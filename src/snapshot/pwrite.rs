//! The writing side where io_uring is refused: `pwrite` and `fdatasync`, carried out when they are asked for.

use std::collections::VecDeque;
use std::io;
use std::os::unix::fs::FileExt;

use super::buffer::Buffer;
use super::segment_file::{SegmentFile, SegmentFolder};
use super::store::{Completion, SegmentIo, WriterInfo};

pub(super) struct PwriteIo {
    folder: SegmentFolder,
    current: Option<SegmentFile>,
    completions: VecDeque<Completion>,
    info: WriterInfo,
    /// Why io_uring is not used.
    no_ring: String,
}

impl PwriteIo {
    pub fn new(folder: SegmentFolder, no_ring: String) -> Self {
        let info = WriterInfo { backend: "pwrite", direct: false, alignment: 512, reason: Some(no_ring.clone()) };
        Self { folder, current: None, completions: VecDeque::new(), info, no_ring }
    }

    fn current(&self) -> io::Result<&SegmentFile> {
        self.current.as_ref().ok_or_else(|| io::Error::other("no segment is open"))
    }
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
        let file = self.folder.create(segment, bytes)?;
        let reasons = [Some(self.no_ring.clone()), file.reason.clone()];
        self.info.reason = Some(reasons.into_iter().flatten().collect::<Vec<_>>().join("; "));
        (self.info.direct, self.info.alignment) = (file.direct, file.alignment);
        self.current = Some(file);
        Ok(())
    }

    fn abandon(&mut self, keep: u64) {
        if let Some(segment) = self.current.take() {
            self.folder.abandon(&segment, keep);
        }
    }

    fn write(&mut self, offset: u64, buffer: Buffer) {
        let result = self.current().and_then(|segment| segment.file.write_all_at(buffer.filled(), offset));
        self.completions.push_back(Completion::Write { buffer, result });
    }

    fn sync(&mut self) {
        let result = self.current().and_then(|segment| segment.file.sync_data());
        self.completions.push_back(Completion::Sync(result));
    }

    fn poll(&mut self, _wait: bool) -> Option<Completion> {
        self.completions.pop_front()
    }
}
