//! Transactional part files: every committed line is public exactly once, across crashes, restores and rescales.
//!
//! Each subtask appends its lines to a hidden *pending* file. At barrier n it notes in the checkpoint how long that
//! file is and makes it durable ([`Sink::pre_commit`](crate::operator::Sink::pre_commit)); once checkpoint n is
//! complete and the file is older than [`FileSinkOptions::roll`], the file gets its public name with the id n.
//!
//! ```text
//!   lines ─▶ buffer ─▶ writing thread ─▶ .part-0-7.pending ──fsync──▶ pre_committed(n)
//!                                                 │ publishing thread, after commit(n): rename, fsync of the folder
//!                                                 ▼
//!                                           part-0-<n>.csv
//! ```
//!
//! What holds:
//! - A part with id n holds lines from before barrier n alone, and of each subtask's lines the parts in order of
//!   their ids are a gapless prefix. A part without lines is not written.
//! - A checkpoint that fails leaves its lines pending; the next complete one publishes them under its own id.
//! - A restore cuts each pending file to its committed length and publishes it under the restored id, whichever
//!   subtask wrote it. A file that is shorter than committed, or differs from what was committed (CRC32C), is an
//!   error, never silently accepted.
//! - Output newer than the restored checkpoint is refused, unless [`NewerOutput::Discard`] is asked for.
//! - A failed write or fsync fails the checkpoints that need it and nothing else: the lines are kept in memory and
//!   written again to a new pending file at the next barrier. A file whose fsync failed is never trusted again.
//! - A part that cannot get its name fails checkpoints until it can, so that it does not go unnoticed; its lines stay
//!   in the transaction until the name is durable.
//! - Lines in memory are bounded by [`FileSinkOptions::memory_bytes_max`]. At the bound the sink takes no more records
//!   ([`Sink::has_room`](crate::operator::Sink::has_room)) while the disk is merely slow, and ends the job with an
//!   error when the disk has failed.
//! - Hidden files of uncommitted transactions are swept at the first commit after a start, when nothing can need them
//!   any more. Files whose names are not exactly this module's are never touched.
//!
//! All file work happens on two threads per subtask; the record path hands over full buffers and allocates nothing
//! once warm. One thread writes lines and makes them durable, which checkpoints wait for. The other does what has to
//! touch the file system's journal, which no checkpoint waits for: it publishes, sweeps, and makes pending files
//! beforehand, filled with zeros as far as the one before it went and a little further. Lines overwrite the zeros, so
//! that their fsync finds the file's length and blocks in place and leaves the journal alone; the zeros behind the last
//! line are cut off when the part is published. What has no prepared file, or outgrows it, is appended as usual.

mod content;
mod error;
mod folder;
mod ledger;
mod name;
mod outputs;
mod publication;
mod publisher;
mod recovery;
mod sink;
mod spares;
mod transaction;
mod worker;

#[cfg(test)]
mod tests;

use std::time::Duration;

pub use error::FileSinkError;
pub use outputs::{Holdings, Outputs};
pub use sink::FileSink;

/// What to do at a restore when the folder holds public output newer than the restored checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NewerOutput {
    /// Refuse to start.
    #[default]
    Refuse,
    /// Take the newer output back. Lines in it that the restored checkpoint had committed are kept.
    Discard,
}

/// Settings of the sinks that write to one folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSinkOptions {
    /// Age, counted from its first line, at which a pending file is published by the next complete checkpoint.
    /// Default 1 s; zero publishes at every checkpoint.
    pub roll: Duration,
    /// Bound on the lines that one subtask holds in memory until they are durable, in bytes. Default 64 MiB, at
    /// least 1 MiB.
    pub memory_bytes_max: usize,
    /// Default: refuse.
    pub newer_output: NewerOutput,
}

impl Default for FileSinkOptions {
    fn default() -> Self {
        Self { roll: Duration::from_secs(1), memory_bytes_max: 64 << 20, newer_output: NewerOutput::Refuse }
    }
}
