//! An operator behind input gates at the head of a chain: where alignment meets the records.

use crate::channel::{Barrier, Control};
use crate::checkpoint::{Aligner, Decision, DeclineReason};
use crate::operator::{OperatorError, Stage};
use crate::runtime::body::{AlignedBarrier, Body, ChainOut};
use crate::runtime::inputs::{Arrivals, Operator};
use crate::runtime::subtask::{Command, Progress, Report, Subtask, SubtaskIndex, TurnContext};
use crate::runtime::tail::Tail;
use crate::state::StateDescriptor;

/// What one input channel has said so far.
#[derive(Clone, Copy, Debug)]
struct Channel {
    watermark_ns: i64,
    idle: bool,
    end_of_data: bool,
    ended: bool,
}

/// Gates, aligner, operator, chain and tail of one parallel instance.
pub(crate) struct OperatorSubtask<O, C, T> {
    body: Body<C, T>,
    operator: O,
    aligner: Aligner<Barrier>,
    channels: Vec<Channel>,
    watermark_ns: i64,
    arrivals: Arrivals,
    budget: usize,
    /// The operator's `end_of_data` ran in an earlier attempt, before the restored checkpoint.
    end_of_data_done: bool,
    ending: bool,
    closed: bool,
}

impl<O, C, T> OperatorSubtask<O, C, T>
where
    O: Operator,
    C: Stage<O::Out>,
    T: Tail<C::Out>,
{
    pub(crate) fn new(
        body: Body<C, T>,
        operator: O,
        aligner: Aligner<Barrier>,
        budget: usize,
        end_of_data_done: bool,
    ) -> Self {
        let open = Channel { watermark_ns: i64::MIN, idle: false, end_of_data: false, ended: false };
        let channels = vec![open; operator.channels()];
        let arrivals = Arrivals { enabled: body.latency.is_some(), ingest_ns: Vec::with_capacity(budget) };
        Self {
            body,
            operator,
            aligner,
            channels,
            watermark_ns: i64::MIN,
            arrivals,
            budget,
            end_of_data_done,
            ending: false,
            closed: false,
        }
    }

    fn on_control(&mut self, channel: usize, frame: Control, cx: &mut TurnContext<'_>) -> Result<(), OperatorError> {
        match frame {
            Control::Barrier(barrier) => self.on_barrier(channel, barrier, cx),
            Control::Watermark(ns) => {
                let input = &mut self.channels[channel];
                input.idle = false;
                input.watermark_ns = input.watermark_ns.max(ns);
                self.advance_watermark();
                Ok(())
            }
            Control::Idle => {
                self.channels[channel].idle = true;
                self.advance_watermark();
                Ok(())
            }
            Control::EndOfData => {
                self.channels[channel].end_of_data = true;
                self.on_end_of_data(cx)
            }
            Control::End => self.on_end(channel, cx),
        }
    }

    /// The operator's event time is the least of its inputs' that are neither idle nor at their end.
    fn advance_watermark(&mut self) {
        let live = self.channels.iter().filter(|channel| !channel.idle && !channel.end_of_data && !channel.ended);
        if let Some(ns) = live.map(|channel| channel.watermark_ns).min()
            && ns > self.watermark_ns
        {
            self.watermark_ns = ns;
            self.body.tail.control(Control::Watermark(ns));
        }
    }

    fn on_barrier(&mut self, channel: usize, barrier: Barrier, cx: &mut TurnContext<'_>) -> Result<(), OperatorError> {
        self.aligner.barrier(channel, barrier.checkpoint, barrier, cx.clock.now_ns());
        self.settle(cx)
    }

    /// Does what the aligner has decided, then brings the gates' cursors in line with it.
    fn settle(&mut self, cx: &mut TurnContext<'_>) -> Result<(), OperatorError> {
        while let Some(decision) = self.aligner.decide() {
            match decision {
                Decision::Snapshot(snapshot) => {
                    let aligned = AlignedBarrier {
                        barrier: snapshot.carried,
                        first_seen_ns: snapshot.first_barrier_ns,
                        t_align_ns: snapshot.t_align_ns,
                    };
                    self.body.snapshot(aligned, None, self.end_of_data_done, cx)?;
                }
                Decision::Superseded { checkpoint, by } => {
                    let reason = DeclineReason::Superseded { by };
                    cx.reports.push_back((self.body.index, Report::Declined { checkpoint, reason }));
                }
            }
        }
        for channel in (0..self.channels.len()).filter(|&channel| !self.channels[channel].ended) {
            if self.aligner.is_stopped(channel) {
                self.operator.stop(channel);
            } else {
                self.operator.resume(channel);
            }
        }
        Ok(())
    }

    fn on_end_of_data(&mut self, cx: &mut TurnContext<'_>) -> Result<(), OperatorError> {
        if self.channels.iter().all(|channel| channel.end_of_data) {
            if !std::mem::replace(&mut self.end_of_data_done, true) {
                let mut out = ChainOut { chain: &mut self.body.chain, tail: &mut self.body.tail };
                self.operator.end_of_data(&mut self.body.arena, &mut out)?;
            }
            self.body.tail.control(Control::EndOfData);
            cx.reports.push_back((self.body.index, Report::EndOfData));
        }
        self.advance_watermark();
        Ok(())
    }

    fn on_end(&mut self, channel: usize, cx: &mut TurnContext<'_>) -> Result<(), OperatorError> {
        self.channels[channel].ended = true;
        self.operator.end(channel);
        self.aligner.ended(channel, cx.clock.now_ns());
        self.settle(cx)?;
        self.ending = self.channels.iter().all(|channel| channel.ended);
        Ok(())
    }

    fn finish(&mut self, cx: &mut TurnContext<'_>) -> Result<Progress, OperatorError> {
        let end_of_data = self.channels.iter().all(|channel| channel.end_of_data);
        if end_of_data && !std::mem::replace(&mut self.closed, true) {
            self.operator.close(&mut self.body.arena)?;
        }
        let finished = self.body.finish(cx)?;
        Ok(if finished { Progress::Finished } else { Progress::Idle })
    }

    /// Books the latency of the records of this turn, all against one reading of the clock after the last.
    fn book_latency(&mut self, cx: &TurnContext<'_>) {
        if let Some(latency) = &mut self.body.latency {
            let now_ns = cx.clock.now_ns();
            for ingest_ns in self.arrivals.ingest_ns.drain(..) {
                latency.record(now_ns.saturating_sub(ingest_ns));
            }
        }
    }
}

impl<O, C, T> Subtask for OperatorSubtask<O, C, T>
where
    O: Operator,
    C: Stage<O::Out>,
    T: Tail<C::Out>,
{
    fn index(&self) -> SubtaskIndex {
        self.body.index
    }

    fn open(&mut self) -> Result<Vec<StateDescriptor>, OperatorError> {
        self.operator.open(&mut self.body.arena)?;
        self.body.open()
    }

    fn turn(&mut self, cx: &mut TurnContext<'_>) -> Result<Progress, OperatorError> {
        if self.body.is_halted() {
            return Ok(Progress::Finished);
        }
        self.body.poll_sink(cx);
        if !self.body.tail.drain() {
            return Ok(Progress::Idle);
        }
        if self.ending {
            return self.finish(cx);
        }
        let mut out = ChainOut { chain: &mut self.body.chain, tail: &mut self.body.tail };
        let ran = self.operator.run(self.budget, &mut self.body.arena, &mut out, &mut self.arrivals)?;
        self.body.tail.take_error()?;
        if ran.records > 0 {
            self.body.metrics.add(ran.records);
            self.book_latency(cx);
        }
        match ran.control {
            Some((channel, frame)) => self.on_control(channel, frame, cx)?,
            None if ran.records == 0 => return Ok(Progress::Idle),
            None => {}
        }
        Ok(Progress::Busy)
    }

    fn command(&mut self, command: Command, cx: &mut TurnContext<'_>) -> Result<(), OperatorError> {
        match command {
            Command::Abort { checkpoint } => {
                self.aligner.abort(checkpoint);
                self.settle(cx)
            }
            Command::Complete { checkpoint } => self.body.tail.commit(checkpoint),
            Command::Halt => self.body.halt(cx),
            Command::Start | Command::Trigger { .. } | Command::SendEnd { .. } | Command::Stop | Command::Cancel => {
                Ok(())
            }
        }
    }

    fn housekeeping(&mut self) -> Result<(), OperatorError> {
        self.body.housekeeping()
    }
}
