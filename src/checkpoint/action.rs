//! What the coordinator asks for, and why checkpoints end without completing.

use thiserror::Error;

/// One thing for the driver to do, in the order in which the coordinator gives them out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send the trigger to these sources' mailboxes. The other subtasks meet the barrier in their inputs.
    Trigger(Trigger),
    /// Tell every subtask and the writer that the checkpoint will not be: stopped channels are released, later barriers
    /// passed over, a source that was to stop behind its barrier goes on. Its changed lines stay the writer's to pack; only
    /// the commit record is not written.
    Abort {
        /// The checkpoint that is given up.
        checkpoint: u64,
        /// Why.
        reason: AbortReason,
    },
    /// Every acknowledgement is there: have the writer append commit record `checkpoint` and make it durable, then report
    /// [`durable`](super::Coordinator::durable) or [`write_failed`](super::Coordinator::write_failed). One is asked for at a
    /// time, in ascending order.
    Commit {
        /// The checkpoint to commit.
        checkpoint: u64,
        /// Subtasks whose last state this checkpoint holds: they carry the `finished` flag in its record.
        ended: Vec<usize>,
    },
    /// The checkpoint is complete: tell every subtask, so that sinks publish. It implies all older ones.
    Completed(Completion),
    /// This source's last position is in a complete checkpoint (or checkpointing is off): it sends `End` and finishes. Comes
    /// after the `Completed` that made it so.
    SendEnd {
        /// The source.
        subtask: usize,
    },
    /// The checkpoint is no longer needed: the store may drop it.
    Retire {
        /// The checkpoint to drop.
        checkpoint: u64,
    },
    /// The stop is through: every subtask ends where it stands. With checkpointing on, `checkpoint` is complete and the
    /// sources have given nothing since its barrier.
    Stop {
        /// The last checkpoint, `None` with checkpointing off.
        checkpoint: Option<u64>,
    },
    /// The stop's checkpoint came to nothing: the job runs on, and may be asked to stop again.
    StopFailed {
        /// Why.
        reason: AbortReason,
    },
    /// More checkpoints failed in a row than are tolerated: end the job with this error, or restart it.
    FailJob(JobFailure),
}

/// A new checkpoint, as its sources are told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// The checkpoint's id, larger than every earlier one.
    pub checkpoint: u64,
    /// The execution attempt that takes it.
    pub attempt: u64,
    /// When it was triggered, in ns of the job's clock.
    pub trigger_ns: u64,
    /// Why it was triggered.
    pub cause: Cause,
    /// The sources that inject the barrier.
    pub sources: Vec<usize>,
}

impl Trigger {
    /// Whether the sources give no record behind this barrier until they hear of its outcome.
    pub fn stops_sources(&self) -> bool {
        self.cause == Cause::Stop
    }
}

/// Why a checkpoint was triggered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The interval has passed.
    Periodic,
    /// It was asked for.
    Manual,
    /// Every source has run dry: it carries their last positions.
    EndOfData,
    /// The job is to stop at its barrier.
    Stop,
}

/// A complete checkpoint, with the times of its way, in ns of the job's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The checkpoint's id.
    pub checkpoint: u64,
    /// When it was triggered.
    pub trigger_ns: u64,
    /// When its last acknowledgement came.
    pub acknowledged_ns: u64,
    /// When its commit record was durable.
    pub durable_ns: u64,
}

impl Completion {
    /// From the trigger to the durable commit record, in ns.
    pub fn end_to_end_ns(&self) -> u64 {
        self.durable_ns.saturating_sub(self.trigger_ns)
    }
}

/// Why a subtask cannot take part in a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DeclineReason {
    /// The barrier of a newer checkpoint came where this one's was missing.
    #[error("its gate met barrier {by} instead")]
    Superseded {
        /// The newer checkpoint.
        by: u64,
    },
    /// The writer is so far behind that the copy-on-write reserve is low, or too many frozen lists wait for it.
    #[error("the writer is behind: the spare extents or the places for frozen lists have run low")]
    WriterBehind,
    /// The operator, its state or its sink failed at it.
    #[error("{0}")]
    Failed(String),
}

/// Why a checkpoint ended without completing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AbortReason {
    /// Acknowledgements were missing when the timeout had passed. Counts as a failure.
    #[error(
        "{missing} of its acknowledgements were missing after the timeout; raise the checkpoint timeout or look for backpressure"
    )]
    Expired {
        /// How many subtasks had not acknowledged.
        missing: usize,
    },
    /// A subtask declined it. Counts as a failure if that subtask failed ([`DeclineReason::Failed`]).
    #[error("subtask {subtask} declined it: {reason}")]
    Declined {
        /// The subtask.
        subtask: usize,
        /// Its reason.
        reason: DeclineReason,
    },
    /// Its blocks or its commit record could not be made durable. Counts as a failure.
    #[error("it could not be written: {0}")]
    WriteFailed(String),
    /// A newer checkpoint got all its acknowledgements first.
    #[error("checkpoint {by} was acknowledged by all before it")]
    Subsumed {
        /// The newer checkpoint.
        by: u64,
    },
    /// A subtask ended without having acknowledged it.
    #[error("subtask {subtask} ended before it acknowledged")]
    SubtaskFinished {
        /// The subtask.
        subtask: usize,
    },
    /// The execution attempt that took it is over.
    #[error("the job is being restored")]
    Restoring,
    /// The job failed or was cancelled while it was in flight.
    #[error("the job has been ended")]
    JobEnded,
}

impl AbortReason {
    /// Whether it counts towards `tolerable_failures`.
    pub fn is_failure(&self) -> bool {
        match self {
            Self::Expired { .. } | Self::WriteFailed(_) => true,
            Self::Declined { reason, .. } => matches!(reason, DeclineReason::Failed(_)),
            Self::Subsumed { .. } | Self::SubtaskFinished { .. } | Self::Restoring | Self::JobEnded => false,
        }
    }
}

/// More checkpoints failed in a row than are tolerated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{failures} checkpoints in a row failed, {tolerable} are tolerated; the last was checkpoint {checkpoint}: {reason}"
)]
pub struct JobFailure {
    /// How many failed in a row.
    pub failures: u32,
    /// How many may.
    pub tolerable: u32,
    /// The last of them.
    pub checkpoint: u64,
    /// Why that one failed.
    pub reason: AbortReason,
}

/// Why a requested checkpoint or stop was refused at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TriggerError {
    /// No interval is configured.
    #[error("no checkpoint was triggered: checkpointing is off; set a checkpoint interval")]
    Off,
    /// The job is starting or being restored.
    #[error("no checkpoint was triggered: the job is being restored; ask again once it runs")]
    Restoring,
    /// The job is stopping, and its last checkpoint is decided.
    #[error("no checkpoint was triggered: the job is stopping")]
    Stopping,
    /// The job has ended, or all its sources have.
    #[error("no checkpoint was triggered: the job has ended, its last state is in the last complete checkpoint")]
    Ended,
}
