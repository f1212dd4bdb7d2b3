//! Sinks, with the steps of a two-phase commit.

use super::OperatorError;
use crate::channel::Record;

/// The end of a chain. `write` is on the record path; the others are called at checkpoints.
///
/// The order of calls is that of a two-phase commit: `open`, then any number of `write`, `pre_commit(n)` at barrier
/// n, and `commit(n)` once checkpoint n is durable. A checkpoint may fail: then `commit(n)` never comes, and the next
/// `commit(m)`, m > n, stands for all before it. `commit` may be repeated after a restore.
pub trait Sink: Send + 'static {
    /// The input's values.
    type In;

    /// Called once before any record. `restored` holds what `pre_commit` returned at the restored checkpoint, one
    /// element for each earlier subtask whose transaction this subtask takes over (none at a fresh start; several
    /// after a rescale), with the restored checkpoint's id.
    fn open(&mut self, subtask: usize, restored: &[SinkState], checkpoint: u64) -> Result<(), OperatorError>;

    /// Takes one record.
    fn write(&mut self, record: Record<Self::In>) -> Result<(), OperatorError>;

    /// Whether the sink can take another record now. While it says no, its operator takes no input, and the pressure
    /// goes upstream. Asked once a turn: `write` may be called for the rest of a turn after the room is gone.
    fn has_room(&self) -> bool {
        true
    }

    /// Called now and then while the core has nothing else to do and after batches: hand buffered output on.
    fn flush(&mut self) -> Result<(), OperatorError> {
        Ok(())
    }

    /// Barrier `checkpoint` has come: everything written so far belongs to it. Returns the transaction's state, which
    /// goes into the commit record. Must not block: it starts making the data durable, `pre_committed` tells when
    /// that has happened.
    fn pre_commit(&mut self, checkpoint: u64) -> Result<SinkState, OperatorError>;

    /// Whether everything before barrier `checkpoint` is durable on the sink's side. Polled until true; the
    /// checkpoint's commit record is not written before. An error fails this checkpoint only.
    fn pre_committed(&mut self, _checkpoint: u64) -> Result<bool, OperatorError> {
        Ok(true)
    }

    /// Checkpoint `checkpoint` is complete: publish what was pre-committed up to it. Repeatable.
    fn commit(&mut self, checkpoint: u64) -> Result<(), OperatorError>;

    /// The job ends normally: wait until all that was committed is published.
    fn close(&mut self) -> Result<(), OperatorError> {
        Ok(())
    }
}

/// A sink transaction's state as the commit record keeps it: opaque bytes of at most a few hundred.
pub type SinkState = Vec<u8>;
