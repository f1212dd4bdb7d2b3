//! What the coordinator counts.

/// Counts since the coordinator was made, over all execution attempts.
///
/// Every triggered checkpoint ends in exactly one of the next four:
/// `triggered = completed + failed + declined + aborted + in flight`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointStatistics {
    /// Checkpoints begun.
    pub triggered: u64,
    /// Checkpoints whose commit record is durable.
    pub completed: u64,
    /// Checkpoints that expired, could not be written, or at which a subtask failed.
    pub failed: u64,
    /// Checkpoints that a subtask declined without having failed.
    pub declined: u64,
    /// Checkpoints that were subsumed by a newer one, or cut short by a restore or the job's end.
    pub aborted: u64,
    /// Requests for a checkpoint or a stop that were refused at once.
    pub refused: u64,
    /// Periodic triggers that had to wait for an earlier checkpoint or for the pause after it.
    pub delayed: u64,
    /// Messages of earlier execution attempts, without effect.
    pub stale: u64,
    /// Late, repeated and unknown messages of this attempt, without effect.
    pub ignored: u64,
}

impl CheckpointStatistics {
    /// Checkpoints that have ended, one way or the other.
    pub fn ended(&self) -> u64 {
        self.completed + self.failed + self.declined + self.aborted
    }
}

/// The report knows four outcomes: what was aborted counts as failed there.
impl From<CheckpointStatistics> for crate::measure::report::Checkpoints {
    fn from(statistics: CheckpointStatistics) -> Self {
        Self {
            triggered: statistics.triggered,
            completed: statistics.completed,
            failed: statistics.failed + statistics.aborted,
            declined: statistics.declined,
        }
    }
}
