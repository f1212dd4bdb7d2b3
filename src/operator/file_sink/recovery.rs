//! Taking over, at a restore, what a subtask of the checkpoint had committed but perhaps not published.
//!
//! The lines of a transaction lie, in order, in parts that were published after the checkpoint's barrier (ids above
//! [`Transaction::published`], up to the restored one), then in pending files, or, where newer output is discarded,
//! at the beginning of that output. All that is not public yet is published under the restored id at once.

use std::collections::BTreeMap;

use super::content::Content;
use super::error::FileSinkError;
use super::name::FileName;
use super::outputs::{Shared, io_error};
use super::publication::{Extract, Publication, read_range};
use super::transaction::{CommittedPiece, Transaction};

/// The files of the folder, as the restore finds them.
pub(super) struct Recovery<'a> {
    shared: &'a Shared,
    checkpoint: u64,
    files: BTreeMap<FileName, u64>,
}

impl<'a> Recovery<'a> {
    pub fn new(shared: &'a Shared, checkpoint: u64) -> Result<Self, FileSinkError> {
        Ok(Self { shared, checkpoint, files: shared.list()?.into_iter().collect() })
    }

    /// Makes every line of `transaction` public. Repeatable.
    pub fn publish(&self, transaction: &Transaction) -> Result<(), FileSinkError> {
        let (public, onto) = self.already_public(transaction)?;
        let mut extracts = Vec::new();
        let mut newer = self.discarded(transaction.subtask);
        for piece in &transaction.pieces[public..] {
            extracts.push(self.find(transaction.subtask, piece, &mut newer)?);
        }
        let mut publication = Publication::new(transaction.subtask, self.checkpoint, extracts, onto);
        let part = FileName::Part { subtask: transaction.subtask, checkpoint: self.checkpoint };
        let done = publication.run(&*self.shared.folder, &self.shared.sequences);
        done.map_err(|source| io_error("publish", &self.path(part), source))
    }

    /// How many of the pieces, from the first on, are public; and whether the restored id has a part already.
    fn already_public(&self, transaction: &Transaction) -> Result<(usize, bool), FileSinkError> {
        let subtask = transaction.subtask;
        let part = |checkpoint| FileName::Part { subtask, checkpoint };
        if transaction.published >= self.checkpoint {
            let reason = "it was published after the checkpoint";
            return Err(FileSinkError::State { checkpoint: self.checkpoint, reason });
        }
        let candidates = self.files.range(part(transaction.published + 1)..=part(self.checkpoint));
        let (mut public, mut last) = (0, None);
        for (&name, &bytes) in candidates {
            let mut content = Content::default();
            while content.bytes < bytes
                && let Some(piece) = transaction.pieces.get(public)
            {
                content = content.then(piece.content);
                public += 1;
            }
            if content.bytes != bytes || self.content(name, 0, bytes)? != content {
                return Err(FileSinkError::Differs { path: self.path(name), checkpoint: self.checkpoint });
            }
            last = Some(name);
        }
        Ok((public, last == Some(part(self.checkpoint))))
    }

    /// The discarded parts of a subtask that hold lines behind the restored checkpoint's parts, in order.
    fn discarded(&self, subtask: u32) -> Discarded {
        let name = |checkpoint| FileName::Discarded { subtask, checkpoint };
        let range = self.files.range(name(self.checkpoint.saturating_add(1))..=name(u64::MAX));
        Discarded { files: range.map(|(&name, &bytes)| (name, bytes)).collect(), index: 0, offset: 0 }
    }

    fn find(&self, subtask: u32, piece: &CommittedPiece, newer: &mut Discarded) -> Result<Extract, FileSinkError> {
        let CommittedPiece { sequence, content } = *piece;
        let pending = FileName::Pending { subtask, sequence };
        let (file, offset, available) = match self.files.get(&pending) {
            Some(&bytes) => (pending, 0, bytes),
            None => newer.take(content.bytes).ok_or_else(|| FileSinkError::Missing {
                path: self.path(pending),
                committed: content.bytes,
                checkpoint: self.checkpoint,
            })?,
        };
        if available < content.bytes {
            return Err(FileSinkError::Short {
                path: self.path(file),
                bytes: available,
                committed: content.bytes,
                checkpoint: self.checkpoint,
            });
        }
        if self.content(file, offset, content.bytes)? != content {
            return Err(FileSinkError::Differs { path: self.path(file), checkpoint: self.checkpoint });
        }
        Ok(Extract { file, offset, content, cut: available > content.bytes })
    }

    fn content(&self, name: FileName, offset: u64, bytes: u64) -> Result<Content, FileSinkError> {
        let mut content = Content::default();
        let read = read_range(&*self.shared.folder, &name.to_string(), offset, bytes, &mut |data| {
            content = content.with(data);
        });
        read.map_err(|source| io_error("read", &self.path(name), source)).map(|()| content)
    }

    fn path(&self, name: FileName) -> std::path::PathBuf {
        self.shared.folder.path().join(name.to_string())
    }
}

/// A walk through discarded parts, from the oldest line on.
struct Discarded {
    files: Vec<(FileName, u64)>,
    index: usize,
    offset: u64,
}

impl Discarded {
    /// Where the next `bytes` lie: file, offset, and how many bytes there are from the offset on. A piece never spans
    /// two parts.
    fn take(&mut self, bytes: u64) -> Option<(FileName, u64, u64)> {
        let &(mut file) = self.files.get(self.index)?;
        if self.offset == file.1 {
            self.index += 1;
            self.offset = 0;
            file = *self.files.get(self.index)?;
        }
        let found = (file.0, self.offset, file.1 - self.offset);
        self.offset = file.1.min(self.offset + bytes);
        Some(found)
    }
}
