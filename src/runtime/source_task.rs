//! A source at the head of a chain.

use std::collections::VecDeque;

use crate::channel::{Barrier, Control};
use crate::operator::{Collector, OperatorError, Polled, Source, Stage};
use crate::runtime::body::{AlignedBarrier, Body, ChainOut};
use crate::runtime::subtask::{Command, Progress, Report, Subtask, SubtaskIndex, TurnContext};
use crate::runtime::tail::{Blockable, Tail};
use crate::state::StateDescriptor;

/// Open-loop pacing: message `i` of the input is due `i` intervals after the start, whether or not the job keeps up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    interval_ns: f64,
    origin: Option<(u64, u64)>,
}

impl Pace {
    /// `rate` is in messages a second and above 0.
    pub(crate) fn new(rate: f64) -> Self {
        Self { interval_ns: 1e9 / rate, origin: None }
    }

    /// When message `index` is due, in ns of the job's clock; the first one asked for is due now.
    fn due_ns(&mut self, index: u64, now_ns: u64) -> u64 {
        let (origin_index, origin_ns) = *self.origin.get_or_insert((index, now_ns));
        origin_ns + ((index - origin_index) as f64 * self.interval_ns) as u64
    }
}

/// Where a source stands between its first record and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Giving records.
    Running,
    /// Giving none behind the barrier of this checkpoint, at which the job is to stop.
    Held { checkpoint: u64 },
    /// The input has run dry: taking part in checkpoints until one holds the last position.
    Drained,
    /// To send `End`, and to end.
    Ending,
}

/// A source, the stages chained to it, and the tail.
pub(crate) struct SourceSubtask<S: Source, C, T> {
    body: Body<C, T>,
    source: S,
    group: u16,
    position: Option<u64>,
    phase: Phase,
    end_of_data: bool,
    closed: bool,
    checkpointing: bool,
    triggers: VecDeque<(Barrier, bool)>,
    pace: Option<Pace>,
    polled: u64,
    budget: usize,
}

/// What a source subtask is made with.
pub(crate) struct SourceSettings {
    pub instance: usize,
    pub position: Option<u64>,
    pub checkpointing: bool,
    pub rate: Option<f64>,
    pub budget: usize,
}

impl<S, C, T> SourceSubtask<S, C, T>
where
    S: Source,
    C: Stage<S::Out>,
    T: Tail<C::Out>,
{
    pub(crate) fn new(body: Body<C, T>, source: S, settings: SourceSettings) -> Self {
        Self {
            body,
            source,
            group: settings.instance as u16,
            position: settings.position,
            phase: Phase::Running,
            end_of_data: false,
            closed: false,
            checkpointing: settings.checkpointing,
            triggers: VecDeque::with_capacity(16),
            pace: settings.rate.map(Pace::new),
            polled: 0,
            budget: settings.budget,
        }
    }

    /// A source's state lies in a key group of its own: that of its instance.
    fn enter_group(&mut self) -> Result<(), OperatorError> {
        Ok(self.body.arena.set_key_group(self.group)?)
    }

    fn send_barriers(&mut self, cx: &mut TurnContext<'_>) -> Result<(), OperatorError> {
        while let Some((barrier, hold)) = self.triggers.pop_front() {
            let aligned = AlignedBarrier { barrier, first_seen_ns: cx.clock.now_ns(), t_align_ns: 0 };
            self.body.snapshot(aligned, Some(self.source.position()), self.end_of_data, cx)?;
            if hold && self.phase == Phase::Running {
                self.phase = Phase::Held { checkpoint: barrier.checkpoint };
                break;
            }
        }
        Ok(())
    }

    /// Gives up to a budget's worth of records. The clock is read once a turn.
    fn poll(&mut self, cx: &mut TurnContext<'_>) -> Result<Progress, OperatorError> {
        let now_ns = cx.clock.now_ns();
        let mut records = 0;
        let mut progress = Progress::Busy;
        self.enter_group()?;
        let mut out = ChainOut { chain: &mut self.body.chain, tail: &mut self.body.tail };
        for polls in 0..self.budget {
            let mut ingest_ns = now_ns;
            if let Some(pace) = &mut self.pace {
                ingest_ns = pace.due_ns(self.source.next_index().unwrap_or(self.polled), now_ns);
                if ingest_ns > now_ns {
                    progress = if polls == 0 { Progress::Idle } else { Progress::Busy };
                    break;
                }
            }
            match self.source.poll(&mut self.body.arena)? {
                Polled::Record(mut record) => {
                    if record.ingest_ns == 0 {
                        record.ingest_ns = ingest_ns;
                    }
                    self.polled += 1;
                    records += 1;
                    out.collect(record);
                    if out.is_blocked() {
                        break;
                    }
                }
                Polled::Pending => {
                    progress = if records == 0 { Progress::Idle } else { Progress::Busy };
                    break;
                }
                Polled::EndOfData => {
                    self.drained(cx);
                    break;
                }
            }
        }
        self.body.metrics.add(records);
        Ok(progress)
    }

    /// The input has run dry.
    fn drained(&mut self, cx: &mut TurnContext<'_>) {
        self.end_of_data = true;
        self.body.tail.control(Control::EndOfData);
        self.phase = if self.checkpointing { Phase::Drained } else { Phase::Ending };
        cx.reports.push_back((self.body.index, Report::EndOfData));
    }

    /// Publishes what the source has to say at its normal end, then ends.
    fn end(&mut self, cx: &mut TurnContext<'_>) -> Result<Progress, OperatorError> {
        if self.end_of_data && !std::mem::replace(&mut self.closed, true) {
            self.enter_group()?;
            self.source.close(&mut self.body.arena)?;
        }
        let ended = self.body.finish(cx)?;
        Ok(if ended { Progress::Finished } else { Progress::Idle })
    }
}

impl<S, C, T> Subtask for SourceSubtask<S, C, T>
where
    S: Source,
    C: Stage<S::Out>,
    T: Tail<C::Out>,
{
    fn index(&self) -> SubtaskIndex {
        self.body.index
    }

    fn open(&mut self) -> Result<Vec<StateDescriptor>, OperatorError> {
        self.enter_group()?;
        self.source.open(&mut self.body.arena, self.position)?;
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
        self.send_barriers(cx)?;
        let progress = match self.phase {
            Phase::Running => self.poll(cx)?,
            Phase::Held { .. } | Phase::Drained => Progress::Idle,
            Phase::Ending => self.end(cx)?,
        };
        self.body.tail.take_error()?;
        Ok(progress)
    }

    fn command(&mut self, command: Command, cx: &mut TurnContext<'_>) -> Result<(), OperatorError> {
        match command {
            Command::Trigger { checkpoint, trigger_ns, kind, hold } if self.phase != Phase::Ending => {
                self.triggers.push_back((Barrier { checkpoint, trigger_ns, kind }, hold));
            }
            Command::Abort { checkpoint } => {
                self.triggers.retain(|(barrier, _)| barrier.checkpoint != checkpoint);
                if self.phase == (Phase::Held { checkpoint }) {
                    self.phase = Phase::Running;
                }
            }
            Command::Complete { checkpoint } => self.body.tail.commit(checkpoint)?,
            Command::SendEnd { subtask } if subtask == self.body.index => self.phase = Phase::Ending,
            Command::Stop => self.phase = Phase::Ending,
            Command::Halt => self.body.halt(cx)?,
            Command::Start | Command::Trigger { .. } | Command::SendEnd { .. } | Command::Cancel => {}
        }
        Ok(())
    }

    fn housekeeping(&mut self) -> Result<(), OperatorError> {
        self.body.housekeeping()
    }
}
