//! What can be wrong with an input as a whole. Single messages are faults, not errors.

use crate::market::generator::GeneratorError;
use std::{io, path::PathBuf};
use thiserror::Error;

/// Why an input cannot be read, or not to its end.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InputError {
    /// The file cannot be opened.
    #[error("cannot open input {}: {source}; check the path and its permissions", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A folder, a pipe or a device: nothing that can be read again from a position.
    #[error("input {} is not a regular file; a run must be able to read it again from any position", path.display())]
    NotAFile {
        /// What was given.
        path: PathBuf,
    },
    /// The system failed to read the file.
    #[error("cannot read input {} behind byte {offset}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Uncompressed bytes that were read before.
        offset: u64,
        /// The system's answer.
        source: io::Error,
    },
    /// The compressed stream is cut off, damaged, or followed by other bytes.
    #[error(
        "input {} is cut or corrupt: its {codec} stream breaks behind {offset} uncompressed bytes ({source}); \
         fetch the file again",
        path.display()
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// `gzip` or `zstd`.
        codec: &'static str,
        /// Uncompressed bytes that were decoded before.
        offset: u64,
        /// The decoder's answer.
        source: io::Error,
    },
    /// A compressed stream holds another one.
    #[error("input {} is compressed twice; decompress it once", path.display())]
    CompressedTwice {
        /// The file.
        path: PathBuf,
    },
    /// The beginning of a DBN file cannot be understood.
    #[error("input {} has unreadable DBN metadata: {reason}; versions 1 to 3 can be read", path.display())]
    Metadata {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// DBN of another schema than market-by-order.
    #[error("input {} holds DBN schema {schema}; only mbo can be read", path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// Its schema.
        schema: String,
    },
    /// A DBN record whose length cannot be right, so that nothing behind it can be found.
    #[error("input {} has a DBN record without a usable length at byte {offset}: {reason}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// Where the record begins in the uncompressed input, in bytes.
        offset: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The input ends before the position that reading is to go on from.
    #[error(
        "input {name} ends before byte {position}, where reading is to go on; it is not the input of the checkpoint"
    )]
    Beyond {
        /// The file, or `generated`.
        name: String,
        /// The position in uncompressed bytes.
        position: u64,
    },
    /// The thread that reads the file cannot be started, or ended without a word.
    #[error("the thread that reads input {} is gone: {reason}", path.display())]
    Thread {
        /// The file.
        path: PathBuf,
        /// What happened.
        reason: String,
    },
    /// The generator's options are impossible.
    #[error(transparent)]
    Generator(#[from] GeneratorError),
}

impl InputError {
    /// Whether the fault lies in the bytes themselves, so that reading again would end at the same place.
    pub(in crate::market) fn is_in_the_bytes(&self) -> bool {
        matches!(self, Self::Corrupt { .. } | Self::Record { .. })
    }
}
