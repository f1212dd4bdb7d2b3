//! What all subtasks have in common: the arena, the chain behind the head, its tail, and their part in checkpoints.

use std::sync::Arc;

use crate::channel::{Control, Record};
use crate::checkpoint::DeclineReason;
use crate::measure::Histogram;
use crate::operator::{Collector, OperatorError, Stage};
use crate::runtime::metrics::SubtaskMetrics;
use crate::runtime::subtask::{Acknowledgement, Report, SubtaskIndex, SubtaskTotals, TurnContext};
use crate::runtime::tail::{Blockable, Tail};
use crate::state::{Arena, FreezeDeclined, StateDescriptor};

/// A chain with its tail as one collector: the call that a record goes through.
pub(crate) struct ChainOut<'a, C, T> {
    pub chain: &'a mut C,
    pub tail: &'a mut T,
}

impl<In, C: Stage<In>, T: Collector<C::Out>> Collector<In> for ChainOut<'_, C, T> {
    #[inline(always)]
    fn collect(&mut self, record: Record<In>) {
        self.chain.apply(record, self.tail);
    }
}

impl<C, T: Blockable> Blockable for ChainOut<'_, C, T> {
    #[inline(always)]
    fn is_blocked(&self) -> bool {
        self.tail.is_blocked()
    }
}

/// A barrier that has reached this subtask on every live input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AlignedBarrier {
    pub barrier: crate::channel::Barrier,
    pub first_seen_ns: u64,
    pub t_align_ns: u64,
}

/// The settings of one subtask that its head does not decide.
pub(crate) struct BodySettings {
    pub index: SubtaskIndex,
    pub arena: Arena,
    pub metrics: Arc<SubtaskMetrics>,
    pub measure_latency: bool,
    /// With checkpointing off a sink commits once, at the end, as this checkpoint.
    pub commit_at_end: Option<u64>,
}

/// The common part of a subtask. `In` is what the chain takes.
pub(crate) struct Body<C, T> {
    pub index: SubtaskIndex,
    pub arena: Arena,
    pub chain: C,
    pub tail: T,
    pub metrics: Arc<SubtaskMetrics>,
    pub latency: Option<Histogram>,
    commit_at_end: Option<u64>,
    end: EndStep,
    copied_before: u64,
}

/// How far the orderly end of a subtask has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndStep {
    Open,
    Committing(u64),
    Closing,
    Halted,
}

impl<C, T> Body<C, T> {
    pub(crate) fn new<In>(settings: BodySettings, mut chain: C, tail: T, max_parallelism: u16) -> Self
    where
        C: Stage<In>,
        T: Tail<C::Out>,
    {
        chain.configure(max_parallelism);
        let latency = (settings.measure_latency && T::IS_SINK).then(Histogram::new);
        Self {
            index: settings.index,
            arena: settings.arena,
            chain,
            tail,
            metrics: settings.metrics,
            latency,
            commit_at_end: settings.commit_at_end,
            end: EndStep::Open,
            copied_before: 0,
        }
    }

    pub(crate) fn open<O>(&mut self) -> Result<Vec<StateDescriptor>, OperatorError>
    where
        T: Tail<O>,
    {
        self.tail.open()?;
        Ok(self.arena.descriptors().cloned().collect())
    }

    /// The synchronous phase: freeze the state, note position and transaction, send the barrier on. Its time depends
    /// neither on the size of the state nor on how much of it is dirty. What it reports of itself is all of it, but for
    /// putting the report into the queue.
    pub(crate) fn snapshot<O>(
        &mut self,
        aligned: AlignedBarrier,
        position: Option<u64>,
        end_of_data: bool,
        cx: &mut TurnContext<'_>,
    ) -> Result<(), OperatorError>
    where
        T: Tail<O>,
    {
        let AlignedBarrier { barrier, first_seen_ns, t_align_ns } = aligned;
        let checkpoint = barrier.checkpoint;
        let begin_ns = cx.clock.now_ns();
        let report = match self.arena.freeze() {
            Ok(list) => {
                let sink = self.tail.pre_commit(checkpoint)?;
                self.tail.control(Control::Barrier(barrier));
                let mut acknowledgement = Acknowledgement {
                    checkpoint,
                    position,
                    sink,
                    end_of_data,
                    dirty_pages: list.len() as u64,
                    list,
                    start_delay_ns: first_seen_ns.saturating_sub(barrier.trigger_ns),
                    t_align_ns,
                    sync_ns: 0,
                    copied_pages: self.copied_since_last(),
                };
                acknowledgement.sync_ns = cx.clock.now_ns().saturating_sub(begin_ns);
                Report::Acknowledged(acknowledgement)
            }
            Err(declined) => {
                self.tail.control(Control::Barrier(barrier));
                let reason = match declined {
                    FreezeDeclined::ListLost => DeclineReason::Failed(declined.to_string()),
                    _ => DeclineReason::WriterBehind,
                };
                Report::Declined { checkpoint, reason }
            }
        };
        cx.reports.push_back((self.index, report));
        Ok(())
    }

    /// Pages that copy-on-write has moved since this was last asked.
    fn copied_since_last(&mut self) -> u64 {
        let copied = self.arena.copied_pages();
        copied - std::mem::replace(&mut self.copied_before, copied)
    }

    /// Shows the size of the state, and hands a sink's buffers on.
    pub(crate) fn housekeeping<O>(&mut self) -> Result<(), OperatorError>
    where
        T: Tail<O>,
    {
        self.metrics.set_state_bytes(self.arena.stats().bytes);
        self.tail.flush()
    }

    /// Asks the sink which checkpoints are durable on its side. Called on each turn: a look at an empty queue, but for
    /// the turns between a barrier and the sink's answer.
    #[inline]
    pub(crate) fn poll_sink<O>(&mut self, cx: &mut TurnContext<'_>)
    where
        T: Tail<O>,
    {
        if self.end != EndStep::Open {
            return;
        }
        while let Some((checkpoint, decided)) = self.tail.poll_pre_committed() {
            let report = match decided {
                Ok(()) => Report::SinkDurable { checkpoint },
                Err(error) => Report::Declined { checkpoint, reason: DeclineReason::Failed(error.to_string()) },
            };
            cx.reports.push_back((self.index, report));
        }
    }

    /// Takes the orderly end a step further; true once the subtask has ended and said so.
    pub(crate) fn finish<O>(&mut self, cx: &mut TurnContext<'_>) -> Result<bool, OperatorError>
    where
        T: Tail<O>,
    {
        if self.end == EndStep::Open {
            self.tail.control(Control::End);
            self.end = match self.commit_at_end {
                Some(checkpoint) if T::IS_SINK => {
                    self.tail.pre_commit(checkpoint)?;
                    EndStep::Committing(checkpoint)
                }
                _ => EndStep::Closing,
            };
        }
        if let EndStep::Committing(checkpoint) = self.end {
            match self.tail.poll_pre_committed() {
                None => return Ok(false),
                Some((_, Err(error))) => return Err(error),
                Some((_, Ok(()))) => self.tail.commit(checkpoint)?,
            }
            self.end = EndStep::Closing;
        }
        if !self.tail.drain() {
            return Ok(false);
        }
        self.close(cx)?;
        Ok(true)
    }

    /// Ends at once: the job stops, and what it is to resume from is in its last checkpoint.
    pub(crate) fn halt<O>(&mut self, cx: &mut TurnContext<'_>) -> Result<(), OperatorError>
    where
        T: Tail<O>,
    {
        self.end = EndStep::Halted;
        self.close(cx)
    }

    /// Whether [`halt`](Self::halt) was called.
    #[inline]
    pub(crate) fn is_halted(&self) -> bool {
        self.end == EndStep::Halted
    }

    fn close<O>(&mut self, cx: &mut TurnContext<'_>) -> Result<(), OperatorError>
    where
        T: Tail<O>,
    {
        self.tail.close()?;
        let totals = SubtaskTotals { latency: self.latency.take() };
        cx.reports.push_back((self.index, Report::Finished(Box::new(totals))));
        Ok(())
    }
}
