//! Replayable sources.

use super::OperatorError;
use crate::channel::Record;
use crate::state::Arena;

/// What a source's poll found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Polled<T> {
    /// One record. The engine fills `ingest_ns` in where the source leaves it 0.
    Record(Record<T>),
    /// Nothing at the moment: ask again on a later turn.
    Pending,
    /// The input has ended; polling again gives the same.
    EndOfData,
}

/// A replayable source: it can be put back to any position that it reported, and then gives the same records.
pub trait Source: Send + 'static {
    /// The records' values.
    type Out;

    /// Called once before the first poll. `position` is what [`Source::position`] gave at the checkpoint that is
    /// restored, or `None` at a fresh start. States registered here are restored as well; a source's state lies
    /// in key group 0.
    fn open(&mut self, state: &mut Arena, position: Option<u64>) -> Result<(), OperatorError>;

    /// The next record. Must not block.
    fn poll(&mut self, state: &mut Arena) -> Result<Polled<Self::Out>, OperatorError>;

    /// Where the source stands: every record given so far lies before it, every later one at or behind it. Read in
    /// each checkpoint's synchronous phase, so it costs nanoseconds.
    fn position(&self) -> u64;

    /// The index, within the whole input, of the message that the next poll will look at; it paces a job that runs at
    /// a given rate. Several sources that read the same input keep step by it. `None`: the engine counts the records.
    fn next_index(&self) -> Option<u64> {
        None
    }

    /// The source ends normally (also when a finished job is resumed).
    fn close(&mut self, _state: &mut Arena) -> Result<(), OperatorError> {
        Ok(())
    }
}
