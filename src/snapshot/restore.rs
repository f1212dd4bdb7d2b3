//! Coming back to a checkpoint: its history's delta blocks, in order, one at a time.

use super::block;
use super::commit::{BlockRef, CommitRecord};
use super::error::LogError;
use super::frozen::PageId;
use super::history::read_commit;
use super::identity::OperatorId;
use super::log::CheckpointLog;
use super::record::Kind;
use super::scan;
use crate::failpoint::{self, Failpoint};

/// Changed lines of one page, as a restore hands them out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoredPage<'a> {
    /// The operator whose state it is.
    pub operator: OperatorId,
    /// The subtask that wrote it. After a change of parallelism the key group decides who owns it now.
    pub subtask: u32,
    /// Which page.
    pub id: PageId,
    /// Bit i is set if line i is among `lines`.
    pub mask: u64,
    /// The lines whose bits are set, 64 bytes each, lowest first. They override earlier ones.
    pub lines: &'a [u8],
}

impl CheckpointLog {
    /// Hands every line of the history up to `checkpoint` to `apply`, oldest first, and returns the commit record.
    /// Lines that were never written are zeros. Holds one block (at most 1 MiB) in memory at a time; every block is
    /// checked before any of its lines is handed out.
    ///
    /// On an error what was applied so far is worthless: the caller drops it.
    ///
    /// # Errors
    /// [`LogError::UnknownCheckpoint`]; [`LogError::Damaged`] with the place; [`LogError::Store`]; and
    /// [`LogError::Apply`] with the first error of `apply`.
    pub fn restore<E>(
        &self,
        checkpoint: u64,
        mut apply: impl FnMut(RestoredPage<'_>) -> Result<(), E>,
    ) -> Result<CommitRecord, LogError>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let wrap = |source| LogError::Apply { checkpoint, place: self.store.place(), source };
        let last = self.index_of(checkpoint)?;
        let mut body = Vec::new();
        let mut at = 0;
        loop {
            let commit = read_commit(&*self.store, &self.commits[at])?;
            for block in &commit.blocks {
                failpoint::hit(Failpoint::DuringRestore).map_err(|error| wrap(error.into()))?;
                self.read_block(block, &mut body)?;
                let malformed = || self.malformed(block);
                let (head, pages) = block::parse(&body).ok_or_else(malformed)?;
                for page in pages {
                    let page = page.map_err(|_| malformed())?;
                    apply(RestoredPage {
                        operator: head.operator,
                        subtask: head.subtask,
                        id: page.id,
                        mask: page.mask,
                        lines: page.lines,
                    })
                    .map_err(|error| wrap(error.into()))?;
                }
            }
            if at == last {
                return Ok(commit);
            }
            at += 1;
        }
    }

    /// Reads everything that `checkpoint` needs and checks it.
    ///
    /// # Errors
    /// As [`restore`](Self::restore).
    pub fn verify(&self, checkpoint: u64) -> Result<CommitRecord, LogError> {
        self.restore(checkpoint, |_| Ok::<(), std::convert::Infallible>(()))
    }

    fn read_block(&self, block: &BlockRef, body: &mut Vec<u8>) -> Result<(), LogError> {
        if block.body_len > block::MAX_BLOCK_BYTES {
            return Err(self.malformed(block));
        }
        let expected = Some((block.body_len, block.body_crc));
        scan::read_record(&*self.store, block.segment, block.offset.into(), expected, Kind::Delta, body)
    }

    fn malformed(&self, block: &BlockRef) -> LogError {
        LogError::Damaged {
            place: self.store.segment_place(block.segment),
            offset: block.offset.into(),
            what: "a delta block's pages do not add up".into(),
            advice: "choose an earlier checkpoint, or restore the file from a backup",
        }
    }
}
