//! What can go wrong with a job, each as one line that says what to do.

use crate::checkpoint::ConfigError;
use crate::snapshot::{LogError, StoreError};

/// Why a job could not be built, started or finished.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// The graph has nothing that gives records.
    #[error("the job has no source: add one with JobBuilder::source")]
    NoSource,
    /// Two operators or sinks share a name.
    #[error("two operators are called {name:?}: names must differ, since checkpoints know operators by them")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// Two operators have the same stable id.
    #[error("operators {name:?} and {other:?} have the same id: give one of them another name or uid")]
    DuplicateId {
        /// One operator.
        name: String,
        /// The other.
        other: String,
    },
    /// A parallelism that is 0 or above the number of key groups.
    #[error("operator {name:?} has parallelism {parallelism}: it must be between 1 and {max_parallelism}")]
    Parallelism {
        /// The operator.
        name: String,
        /// What was asked for.
        parallelism: usize,
        /// The number of key groups.
        max_parallelism: u16,
    },
    /// A forward edge between operators of different parallelism.
    #[error(
        "{from:?} (parallelism {from_parallelism}) feeds {to:?} (parallelism {to_parallelism}) one to one: give both \
         the same parallelism, or partition with key_by"
    )]
    ForwardParallelism {
        /// The upstream operator.
        from: String,
        /// Its parallelism.
        from_parallelism: usize,
        /// The downstream operator.
        to: String,
        /// Its parallelism.
        to_parallelism: usize,
    },
    /// A shared stream without readers.
    #[error("the shared stream behind {name:?} has no reader: call SharedStream::reader, or end it in a sink")]
    UnreadStream {
        /// The operator.
        name: String,
    },
    /// A core that this process may not run on.
    #[error("there is no core {core} here: choose from {cores:?}")]
    UnknownCore {
        /// What was asked for.
        core: usize,
        /// What there is.
        cores: Vec<usize>,
    },
    /// No cores at all.
    #[error("no core to run on: the list of cores is empty")]
    NoCores,
    /// A rate that is not a number above 0.
    #[error("a rate of {rate} records a second: it must be above 0 (leave it out to run at full speed)")]
    Rate {
        /// What was asked for.
        rate: f64,
    },
    /// The number of key groups is 0 or above 32,768.
    #[error("max parallelism {max_parallelism}: it must be between 1 and 32768")]
    MaxParallelism {
        /// What was asked for.
        max_parallelism: u16,
    },
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Spawn(#[source] std::io::Error),
    /// A thread of the engine itself panicked.
    #[error("thread {name:?} panicked: this is a defect of isobar, please report it")]
    Thread {
        /// The thread's name.
        name: String,
    },
    /// User code failed or panicked.
    #[error("operator {operator:?} subtask {subtask} failed: {reason}")]
    Operator {
        /// The operator's (or its chain head's) name.
        operator: String,
        /// The subtask.
        subtask: usize,
        /// The error's or panic's text.
        reason: String,
    },
    /// More checkpoints failed in a row than the job tolerates.
    #[error("checkpointing failed: {reason}")]
    Checkpointing {
        /// What the coordinator says.
        reason: String,
    },
    /// A checkpointing policy that cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The store cannot be reached, or is in use.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What the store holds cannot be restored or continued.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A checkpoint was asked for where there is no store or nothing in it.
    #[error("checkpoint {checkpoint} cannot be restored: there is no checkpoint yet; start afresh")]
    NothingToRestore {
        /// The checkpoint.
        checkpoint: u64,
    },
    /// A source's parallelism changed; its positions cannot be divided.
    #[error("source {name:?} had parallelism {stored} at the checkpoint and has {now} now: set it back to {stored}")]
    SourceParallelism {
        /// The source.
        name: String,
        /// At the checkpoint.
        stored: usize,
        /// Now.
        now: usize,
    },
    /// The state in memory could not take what the checkpoint holds.
    #[error("cannot restore operator {operator:?}: {reason}")]
    RestoreState {
        /// The operator.
        operator: String,
        /// Why.
        reason: String,
    },
    /// The job was cancelled.
    #[error("the job was cancelled")]
    Cancelled,
}
