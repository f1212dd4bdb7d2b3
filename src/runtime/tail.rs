//! The end of a chain: rings to other subtasks, or a sink.

use std::collections::VecDeque;

use crate::channel::{Control, Outbox, Record};
use crate::operator::{Collector, OperatorError, Sink, SinkState};

/// Whether output can be taken at once. An operator that sees its output blocked takes no more input.
pub trait Blockable {
    /// True while output waits for room, or a sink has failed.
    fn is_blocked(&self) -> bool;
}

/// The end of a chain.
pub(crate) trait Tail<T>: Collector<T> + Blockable {
    /// Whether records end here.
    const IS_SINK: bool;

    /// Sends a control frame behind everything collected so far.
    fn control(&mut self, frame: Control);

    /// Moves waiting output on; true once none is left.
    fn drain(&mut self) -> bool;

    /// The error that a sink met while it collected.
    fn take_error(&mut self) -> Result<(), OperatorError> {
        Ok(())
    }

    /// Opens the sink.
    fn open(&mut self) -> Result<(), OperatorError> {
        Ok(())
    }

    /// The sink's part of barrier `checkpoint`.
    fn pre_commit(&mut self, _checkpoint: u64) -> Result<Option<SinkState>, OperatorError> {
        Ok(None)
    }

    /// The oldest pre-committed checkpoint about which the sink has decided since the last call: durable, or failed.
    fn poll_pre_committed(&mut self) -> Option<(u64, Result<(), OperatorError>)> {
        None
    }

    /// Publishes what was pre-committed up to `checkpoint`.
    fn commit(&mut self, _checkpoint: u64) -> Result<(), OperatorError> {
        Ok(())
    }

    /// Hands buffered output on.
    fn flush(&mut self) -> Result<(), OperatorError> {
        Ok(())
    }

    /// The job ends normally.
    fn close(&mut self) -> Result<(), OperatorError> {
        Ok(())
    }
}

/// Rings to the operators that read this chain: one outbox per reader.
pub(crate) struct RingTail<T> {
    first: Outbox<T>,
    others: Vec<Outbox<T>>,
}

impl<T: Clone + Send + 'static> RingTail<T> {
    pub(crate) fn new(first: Outbox<T>, others: Vec<Outbox<T>>) -> Self {
        Self { first, others }
    }
}

impl<T: Clone + Send + 'static> Collector<T> for RingTail<T> {
    #[inline(always)]
    fn collect(&mut self, record: Record<T>) {
        for outbox in &mut self.others {
            outbox.emit(record.clone());
        }
        self.first.emit(record);
    }
}

impl<T> Blockable for RingTail<T> {
    #[inline(always)]
    fn is_blocked(&self) -> bool {
        self.first.is_blocked() || self.others.iter().any(Outbox::is_blocked)
    }
}

impl<T: Clone + Send + 'static> Tail<T> for RingTail<T> {
    const IS_SINK: bool = false;

    fn control(&mut self, frame: Control) {
        self.first.send_control(frame);
        for outbox in &mut self.others {
            outbox.send_control(frame);
        }
    }

    #[inline]
    fn drain(&mut self) -> bool {
        let mut blocked = self.first.drain();
        for outbox in &mut self.others {
            blocked |= outbox.drain();
        }
        !blocked
    }
}

/// A sink at the end of a chain, with the checkpoints that wait for it.
pub(crate) struct SinkTail<S> {
    sink: S,
    instance: usize,
    restored: Vec<SinkState>,
    restored_checkpoint: u64,
    waiting: VecDeque<u64>,
    error: Option<OperatorError>,
}

impl<S: Sink> SinkTail<S> {
    pub(crate) fn new(sink: S, instance: usize, restored: Vec<SinkState>, restored_checkpoint: u64) -> Self {
        Self { sink, instance, restored, restored_checkpoint, waiting: VecDeque::with_capacity(16), error: None }
    }
}

impl<S: Sink> Collector<S::In> for SinkTail<S> {
    #[inline(always)]
    fn collect(&mut self, record: Record<S::In>) {
        // After a failure the turn ends before another record is taken; what one record still emits is dropped with
        // the job.
        if self.error.is_none()
            && let Err(error) = self.sink.write(record)
        {
            self.error = Some(error);
        }
    }
}

impl<S> Blockable for SinkTail<S> {
    #[inline(always)]
    fn is_blocked(&self) -> bool {
        self.error.is_some()
    }
}

impl<S: Sink> Tail<S::In> for SinkTail<S> {
    const IS_SINK: bool = true;

    fn control(&mut self, _frame: Control) {}

    /// Asked once a turn, so a sink that is full gets at most a turn's records more.
    #[inline]
    fn drain(&mut self) -> bool {
        self.sink.has_room()
    }

    fn take_error(&mut self) -> Result<(), OperatorError> {
        self.error.take().map_or(Ok(()), Err)
    }

    fn open(&mut self) -> Result<(), OperatorError> {
        let restored = std::mem::take(&mut self.restored);
        self.sink.open(self.instance, &restored, self.restored_checkpoint)
    }

    fn pre_commit(&mut self, checkpoint: u64) -> Result<Option<SinkState>, OperatorError> {
        let state = self.sink.pre_commit(checkpoint)?;
        self.waiting.push_back(checkpoint);
        Ok(Some(state))
    }

    fn poll_pre_committed(&mut self) -> Option<(u64, Result<(), OperatorError>)> {
        let checkpoint = *self.waiting.front()?;
        let decided = match self.sink.pre_committed(checkpoint) {
            Ok(false) => return None,
            Ok(true) => Ok(()),
            Err(error) => Err(error),
        };
        self.waiting.pop_front();
        Some((checkpoint, decided))
    }

    fn commit(&mut self, checkpoint: u64) -> Result<(), OperatorError> {
        self.sink.commit(checkpoint)
    }

    fn flush(&mut self) -> Result<(), OperatorError> {
        self.sink.flush()
    }

    fn close(&mut self) -> Result<(), OperatorError> {
        self.sink.close()
    }
}
