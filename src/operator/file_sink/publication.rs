//! Giving pending lines their public name.

use std::io;

use super::content::Content;
use super::folder::Folder;
use super::name::FileName;
use super::outputs::Sequences;
use crate::failpoint::{self, Failpoint};

/// A range of a file that a part is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extract {
    pub file: FileName,
    pub offset: u64,
    pub content: Content,
    /// Whether the file may be longer than the range.
    pub cut: bool,
}

/// A part to be published: the extracts in order. Repeating it after any failure or crash is safe.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Publication {
    pub subtask: u32,
    pub checkpoint: u64,
    pub extracts: Vec<Extract>,
    /// Whether the part exists already and the extracts belong behind what it holds.
    pub onto: bool,
    renamed: bool,
}

impl Publication {
    pub fn new(subtask: u32, checkpoint: u64, extracts: Vec<Extract>, onto: bool) -> Self {
        Self { subtask, checkpoint, extracts, onto, renamed: false }
    }

    /// Publishes. One whole pending file is renamed; anything else is gathered into a new pending file first, so that
    /// the part appears (or grows) in one step.
    pub fn run(&mut self, folder: &dyn Folder, sequences: &Sequences) -> io::Result<()> {
        let part = FileName::Part { subtask: self.subtask, checkpoint: self.checkpoint }.to_string();
        if !self.renamed {
            match self.extracts.as_slice() {
                [] => return Ok(()),
                [only @ Extract { file: FileName::Pending { .. }, offset: 0, .. }] if !self.onto => {
                    let name = only.file.to_string();
                    if only.cut {
                        folder.cut(&name, only.content.bytes)?;
                    }
                    rename(folder, &name, &part, false)?;
                }
                _ => {
                    let gathered = FileName::Pending { subtask: self.subtask, sequence: sequences.next() }.to_string();
                    let done = self.gather(folder, &gathered, &part);
                    if let Err(error) = done.and_then(|()| rename(folder, &gathered, &part, self.onto)) {
                        // Best effort: what stays behind is swept after the next start.
                        let _ = folder.remove(&gathered);
                        return Err(error);
                    }
                }
            }
            self.renamed = true;
            failpoint::hit(Failpoint::SinkAfterRename)?;
        }
        folder.sync()?;
        self.remove_gathered(folder);
        Ok(())
    }

    /// Removes pending files whose lines were copied into the part (a renamed one is gone already). Best effort: what
    /// stays behind is swept after the next start.
    fn remove_gathered(&self, folder: &dyn Folder) {
        for extract in &self.extracts {
            if matches!(extract.file, FileName::Pending { .. }) {
                let _ = folder.remove(&extract.file.to_string());
            }
        }
    }

    fn gather(&self, folder: &dyn Folder, gathered: &str, part: &str) -> io::Result<()> {
        let mut file = folder.create(gathered, 0)?;
        let mut result = Ok(());
        if self.onto {
            folder.read(part, &mut |bytes| append(&mut result, &mut *file, bytes))?;
        }
        for extract in &self.extracts {
            let mut content = Content::default();
            read_range(folder, &extract.file.to_string(), extract.offset, extract.content.bytes, &mut |bytes| {
                content = content.with(bytes);
                append(&mut result, &mut *file, bytes);
            })?;
            if content != extract.content {
                let what = format!("{} does not hold the {} bytes written to it", extract.file, extract.content.bytes);
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
        }
        result?;
        file.sync()
    }
}

fn append(result: &mut io::Result<()>, file: &mut dyn super::folder::AppendFile, bytes: &[u8]) {
    if result.is_ok() {
        *result = file.append(bytes);
    }
}

fn rename(folder: &dyn Folder, from: &str, to: &str, replace: bool) -> io::Result<()> {
    failpoint::hit(Failpoint::SinkBeforeRename)?;
    if replace { folder.replace(from, to) } else { folder.rename_new(from, to) }
}

/// Feeds the `bytes` bytes at `offset`, or as many of them as there are, to `take`.
pub(super) fn read_range(
    folder: &dyn Folder,
    name: &str,
    offset: u64,
    bytes: u64,
    take: &mut dyn FnMut(&[u8]),
) -> io::Result<()> {
    let (mut skip, mut left) = (offset, bytes);
    folder.read(name, &mut |chunk| {
        let skipped = skip.min(chunk.len() as u64);
        skip -= skipped;
        let rest = &chunk[skipped as usize..];
        let taken = left.min(rest.len() as u64);
        left -= taken;
        if taken > 0 {
            take(&rest[..taken as usize]);
        }
    })
}
