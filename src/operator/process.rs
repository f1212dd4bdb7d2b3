//! Keyed processes with one and with two inputs.

use super::OperatorError;
use crate::channel::Record;
use crate::state::Arena;

/// Where an operator's output goes. Times and key group are those of the record that is being processed unless
/// the operator sets others.
pub trait Collector<T> {
    /// Takes one output record.
    fn collect(&mut self, record: Record<T>);
}

/// A keyed operator with one input. One instance runs per subtask; all its state lies in the subtask's arena,
/// scoped to the key group of the record at hand, and is part of every checkpoint.
pub trait KeyedProcess: Send + 'static {
    /// The input's values, read in place.
    type In;
    /// The output's values.
    type Out;

    /// Registers (or, after a restore, finds again) the operator's states. Called once, before any record.
    fn open(&mut self, state: &mut Arena) -> Result<(), OperatorError>;

    /// Handles one record.
    fn process(
        &mut self,
        record: Record<&Self::In>,
        state: &mut Arena,
        out: &mut impl Collector<Self::Out>,
    ) -> Result<(), OperatorError>;

    /// The input has ended. Called once in the life of the job, before the last barrier; what it emits is in the
    /// last checkpoint.
    fn end_of_data(&mut self, _state: &mut Arena, _out: &mut impl Collector<Self::Out>) -> Result<(), OperatorError> {
        Ok(())
    }

    /// The subtask ends normally. Called at each normal end, so also when a finished job is resumed; it may
    /// publish what the state holds, and cannot emit.
    fn close(&mut self, _state: &mut Arena) -> Result<(), OperatorError> {
        Ok(())
    }
}

/// A keyed operator with two inputs of different types that share the same key groups. See [`KeyedProcess`].
pub trait KeyedCoProcess: Send + 'static {
    /// The first input's values.
    type In1;
    /// The second input's values.
    type In2;
    /// The output's values.
    type Out;

    /// As [`KeyedProcess::open`].
    fn open(&mut self, state: &mut Arena) -> Result<(), OperatorError>;

    /// Handles one record of the first input.
    fn process1(
        &mut self,
        record: Record<&Self::In1>,
        state: &mut Arena,
        out: &mut impl Collector<Self::Out>,
    ) -> Result<(), OperatorError>;

    /// Handles one record of the second input.
    fn process2(
        &mut self,
        record: Record<&Self::In2>,
        state: &mut Arena,
        out: &mut impl Collector<Self::Out>,
    ) -> Result<(), OperatorError>;

    /// Both inputs have ended. As [`KeyedProcess::end_of_data`].
    fn end_of_data(&mut self, _state: &mut Arena, _out: &mut impl Collector<Self::Out>) -> Result<(), OperatorError> {
        Ok(())
    }

    /// As [`KeyedProcess::close`].
    fn close(&mut self, _state: &mut Arena) -> Result<(), OperatorError> {
        Ok(())
    }
}
