//! What can go wrong with a store. Every message is one line: what failed, on what, why, what to do.

use std::io;

use super::commit::EncodeError;
use super::manifest::Mismatch;

/// The store's files cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An operation of the operating system failed.
    #[error("cannot {action} {place}: {source}; {}", advice(source))]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or folder.
        place: String,
        /// Why it failed.
        source: io::Error,
    },
    /// Another process has the store open.
    #[error("cannot lock {place}: {holder} is using this store; stop it or choose another store")]
    Locked {
        /// The lock file.
        place: String,
        /// Who holds it, as far as the lock file tells.
        holder: String,
    },
    /// There is no store of this job.
    #[error(
        "there is no store at {place}: nothing was ever written there, or the path is wrong; check the path or start afresh"
    )]
    Missing {
        /// Where it was looked for.
        place: String,
    },
    /// The job's name cannot be a folder.
    #[error(
        "job name {name:?} cannot name a folder: use 1 to 100 letters, digits, '-', '_' and '.', not starting with '.'"
    )]
    JobName {
        /// The name.
        name: String,
    },
}

impl StoreError {
    pub(crate) fn io(action: &'static str, place: impl Into<String>) -> impl FnOnce(io::Error) -> StoreError {
        let place = place.into();
        move |source| StoreError::Io { action, place, source }
    }
}

/// What to do about a failed operation.
pub(crate) fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free space on that disk and try again",
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            "the store needs a folder that can be written to: change its permissions or choose another"
        }
        io::ErrorKind::NotFound => "check the path",
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => "something else is there: choose another folder",
        io::ErrorKind::OutOfMemory => "free memory and try again",
        _ => "check the disk",
    }
}

/// A store cannot be opened, restored or written as asked.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The files cannot be reached.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store has a manifest already.
    #[error("{place} already holds the store of job {job:?}: resume it or choose another folder")]
    Exists {
        /// Where.
        place: String,
        /// The job found there.
        job: String,
    },
    /// The bytes are no part of an isobar store.
    #[error("{place} is not {expected}: it was written by something else; check the path")]
    Foreign {
        /// The file.
        place: String,
        /// What it should be.
        expected: &'static str,
    },
    /// Another format version.
    #[error("{place} has format version {found}, this program reads {supported}: use the program that wrote it")]
    Version {
        /// The file.
        place: String,
        /// The version found.
        found: u32,
        /// The version that this program reads.
        supported: u32,
    },
    /// Bytes that were durable are damaged or gone.
    #[error("{place} is damaged at byte {offset}: {what}; {advice}")]
    Damaged {
        /// The file.
        place: String,
        /// Where in it.
        offset: u64,
        /// What cannot be read.
        what: String,
        /// What to do.
        advice: &'static str,
    },
    /// A segment that the history needs does not exist.
    #[error("{place} is missing, and the checkpoints up to {last} need it: restore the file from a backup")]
    MissingSegment {
        /// The file.
        place: String,
        /// The last checkpoint known to need it.
        last: u64,
    },
    /// Output of a checkpoint is public that the log does not hold.
    #[error(
        "{place} ends at checkpoint {last}, but the output of checkpoint {published} is already published: going back \
         would repeat it; restore the log from a backup or discard that output"
    )]
    BehindPublished {
        /// The store.
        place: String,
        /// The last checkpoint in the log, 0 if none.
        last: u64,
        /// The checkpoint whose output is public.
        published: u64,
    },
    /// No such checkpoint.
    #[error("checkpoint {checkpoint} is not in {place}, which holds {held}: choose one of these")]
    UnknownCheckpoint {
        /// The checkpoint asked for.
        checkpoint: u64,
        /// The store.
        place: String,
        /// What can be chosen.
        held: String,
    },
    /// The store belongs to a job of another shape.
    #[error("{place} does not fit this job: {mismatch}")]
    Mismatch {
        /// The store.
        place: String,
        /// What differs.
        mismatch: Mismatch,
    },
    /// The receiver of the restored pages gave up.
    #[error("cannot restore checkpoint {checkpoint} from {place}: {source}")]
    Apply {
        /// The checkpoint.
        checkpoint: u64,
        /// The store.
        place: String,
        /// The receiver's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A record cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The attempt record cannot be made durable.
    #[error("cannot begin to write: {0}")]
    Start(FailReason),
    /// The writer's configuration makes no sense.
    #[error("writer configuration: {0}")]
    Config(String),
}

/// Why a checkpoint was not made durable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FailReason {
    /// The log could not be written.
    #[error("cannot {action} {place}: {error}; {advice}")]
    Write {
        /// What was tried.
        action: &'static str,
        /// On which segment.
        place: String,
        /// The operating system's error.
        error: String,
        /// What to do.
        advice: &'static str,
    },
    /// The checkpoint was aborted before its commit record was written.
    #[error("the checkpoint was aborted before it was written")]
    Aborted,
    /// Its id is not greater than that of the last complete one.
    #[error("checkpoint ids must grow: {last} is already complete")]
    OutOfOrder {
        /// The last complete checkpoint.
        last: u64,
    },
    /// Its commit record does not fit into a segment.
    #[error(
        "the commit record takes {bytes} bytes, more than a segment holds: use larger segments or smaller sink states"
    )]
    TooLarge {
        /// Bytes of the record.
        bytes: usize,
    },
    /// Its commit record cannot be archived.
    #[error("{error}; free memory and try again")]
    Encode {
        /// Why.
        error: String,
    },
    /// The writer was closed first.
    #[error("the writer was closed before the checkpoint was written")]
    Closed,
}
