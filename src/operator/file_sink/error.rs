//! What can go wrong with part files, each as one line that says what to do.

use std::io;
use std::path::PathBuf;

/// Why an output folder is refused or output cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileSinkError {
    /// The operating system refused a file operation.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as an infinitive.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A fresh run found output of an earlier one.
    #[error("output folder {} holds {part} of an earlier run: resume that run, clear the folder, or choose another", folder.display())]
    EarlierRun {
        /// The folder.
        folder: PathBuf,
        /// One of the files.
        part: String,
    },
    /// The restored checkpoint is older than public output.
    #[error(
        "output folder {} holds {part}, newer than the restored checkpoint {checkpoint}: restore a later checkpoint, \
         or ask for the newer output to be discarded",
        folder.display()
    )]
    NewerOutput {
        /// The folder.
        folder: PathBuf,
        /// One of the newer parts.
        part: String,
        /// The checkpoint to be restored.
        checkpoint: u64,
    },
    /// A file has lost committed lines.
    #[error(
        "{} has {bytes} bytes, but checkpoint {checkpoint} committed {committed}: the output was damaged; restore the \
         file, or run again from the start into another folder",
        path.display()
    )]
    Short {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
        /// The length that it must have at least.
        committed: u64,
        /// The checkpoint that says so.
        checkpoint: u64,
    },
    /// A file is not what was committed.
    #[error(
        "{} differs from what checkpoint {checkpoint} committed: the output was changed; restore the file, or run \
         again from the start into another folder",
        path.display()
    )]
    Differs {
        /// The file.
        path: PathBuf,
        /// The checkpoint that says so.
        checkpoint: u64,
    },
    /// A file with committed lines is gone.
    #[error(
        "{} is missing, but checkpoint {checkpoint} committed {committed} bytes of it: restore the file, or run again \
         from the start into another folder",
        path.display()
    )]
    Missing {
        /// The file.
        path: PathBuf,
        /// How much of it is committed.
        committed: u64,
        /// The checkpoint that says so.
        checkpoint: u64,
    },
    /// The checkpoint's part about this sink cannot be read.
    #[error("checkpoint {checkpoint} holds no readable state of the file sink: {reason}")]
    State {
        /// The checkpoint.
        checkpoint: u64,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Lines of a checkpoint could not be made durable; they are kept and written again.
    #[error("cannot make the lines in {} durable: {reason}", folder.display())]
    NotDurable {
        /// The folder.
        folder: PathBuf,
        /// The first failure.
        reason: String,
    },
    /// The disk keeps failing and memory for lines has run out.
    #[error(
        "output folder {} cannot be written ({reason}) and {bytes} bytes of lines wait in memory: make room or repair \
         the disk, then resume",
        folder.display()
    )]
    Stuck {
        /// The folder.
        folder: PathBuf,
        /// The last failure.
        reason: String,
        /// What waits.
        bytes: u64,
    },
    /// The worker thread has gone.
    #[error("the thread that writes to {} has ended early: this is a defect of isobar, please report it", folder.display())]
    WorkerGone {
        /// The folder.
        folder: PathBuf,
    },
}
