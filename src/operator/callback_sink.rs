//! A sink that calls a function.

use super::{OperatorError, Sink, SinkState};
use crate::channel::Record;

/// Calls a function for each record, on the subtask's thread, before any checkpoint holds the record. It has no
/// transaction: after a restore the function sees records again.
pub struct CallbackSink<T, F> {
    call: F,
    input: std::marker::PhantomData<fn(T)>,
}

impl<T, F: FnMut(Record<T>)> CallbackSink<T, F> {
    /// A sink that calls `call`.
    pub fn new(call: F) -> Self {
        Self { call, input: std::marker::PhantomData }
    }
}

impl<T: 'static, F: FnMut(Record<T>) + Send + 'static> Sink for CallbackSink<T, F> {
    type In = T;

    fn open(&mut self, _subtask: usize, _restored: &[SinkState], _checkpoint: u64) -> Result<(), OperatorError> {
        Ok(())
    }

    #[inline]
    fn write(&mut self, record: Record<T>) -> Result<(), OperatorError> {
        (self.call)(record);
        Ok(())
    }

    fn pre_commit(&mut self, _checkpoint: u64) -> Result<SinkState, OperatorError> {
        Ok(SinkState::new())
    }

    fn commit(&mut self, _checkpoint: u64) -> Result<(), OperatorError> {
        Ok(())
    }
}
