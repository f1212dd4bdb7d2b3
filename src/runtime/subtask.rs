//! What a core loop turns: one parallel instance of a chain of operators.

use std::fmt;

use crate::channel::BarrierKind;
use crate::checkpoint::DeclineReason;
use crate::measure::TimeSource;
use crate::operator::{OperatorError, SinkState};
use crate::snapshot::OperatorId;
use crate::state::{FrozenList, StateDescriptor};

/// A subtask's number within one execution attempt: the subtasks of all operators, counted through.
pub type SubtaskIndex = usize;

/// Who a subtask is, for people and for the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubtaskName {
    /// The operator's stable id.
    pub operator: OperatorId,
    /// The operator's name.
    pub name: String,
    /// Which of the operator's parallel instances this is.
    pub instance: usize,
}

impl fmt::Display for SubtaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operator {:?} subtask {}", self.name, self.instance)
    }
}

/// What one turn did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There was work and there may be more.
    Busy,
    /// Nothing to do now.
    Idle,
    /// The subtask has ended; it is not turned again.
    Finished,
}

/// What the coordinator tells the subtasks of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// All subtasks are open: begin.
    Start,
    /// Sources: inject barrier `checkpoint`.
    Trigger {
        /// The checkpoint's id.
        checkpoint: u64,
        /// When it was triggered, in ns of the job's clock.
        trigger_ns: u64,
        /// Checkpoint or savepoint.
        kind: BarrierKind,
        /// Give no record behind the barrier until [`Command::Halt`], or go on after [`Command::Abort`].
        hold: bool,
    },
    /// Checkpoint `checkpoint` will not complete: release what it stopped.
    Abort {
        /// The checkpoint's id.
        checkpoint: u64,
    },
    /// Checkpoint `checkpoint`, and with it every older one, is durable: sinks commit.
    Complete {
        /// The checkpoint's id.
        checkpoint: u64,
    },
    /// This source's last position is in a complete checkpoint, of which every core has been told: it sends `End`. (Only
    /// then, so that what follows from an end cannot reach a sink before it knows what to commit.)
    SendEnd {
        /// The source.
        subtask: SubtaskIndex,
    },
    /// Sources: take no more input and send `End`. With checkpointing off.
    Stop,
    /// End where you stand: the job stops, and its last checkpoint is complete.
    Halt,
    /// Drop everything at once.
    Cancel,
}

/// What a subtask contributes to one checkpoint.
#[derive(Debug)]
pub struct Acknowledgement {
    /// The checkpoint's id.
    pub checkpoint: u64,
    /// A source's position.
    pub position: Option<u64>,
    /// A sink's transaction; if there is one, [`Report::SinkDurable`] follows before the checkpoint may complete.
    pub sink: Option<SinkState>,
    /// All input that will ever come lies before this barrier.
    pub end_of_data: bool,
    /// The pages that changed since the last barrier.
    pub list: FrozenList,
    /// From the trigger to the first barrier seen, ns.
    pub start_delay_ns: u64,
    /// From the first barrier seen to the last, ns.
    pub t_align_ns: u64,
    /// The synchronous phase, ns.
    pub sync_ns: u64,
    /// Pages in `list`.
    pub dirty_pages: u64,
    /// Pages copied on a first write since the last barrier.
    pub copied_pages: u64,
}

/// What a subtask tells the coordinator.
#[derive(Debug)]
pub enum Report {
    /// The operator's states are registered; the subtask waits for [`Command::Start`].
    Opened(Vec<StateDescriptor>),
    /// The synchronous phase of a checkpoint is done.
    Acknowledged(Box<Acknowledgement>),
    /// The subtask cannot take part in this checkpoint; the stream goes on.
    Declined {
        /// The checkpoint's id.
        checkpoint: u64,
        /// Why.
        reason: DeclineReason,
    },
    /// The sink's side of this checkpoint is durable.
    SinkDurable {
        /// The checkpoint's id.
        checkpoint: u64,
    },
    /// The source's input has run dry, or the operator's inputs have.
    EndOfData,
    /// The subtask has ended in an orderly way.
    Finished(Box<SubtaskTotals>),
    /// User code failed or panicked; the job cannot go on.
    Failed(String),
}

/// A subtask's totals at its end.
#[derive(Debug, Default)]
pub struct SubtaskTotals {
    /// Latencies of the records that ended here, ns, where the subtask is the last of its path.
    pub latency: Option<crate::measure::Histogram>,
}

/// The queue of reports of one core, filled during turns and emptied into the core's mailbox by its loop.
pub(crate) type Reports = std::collections::VecDeque<(SubtaskIndex, Report)>;

/// What a turn may use besides the subtask itself.
pub(crate) struct TurnContext<'a> {
    pub clock: &'a dyn TimeSource,
    pub reports: &'a mut Reports,
}

/// One parallel instance of a chain, placed on a core.
pub(crate) trait Subtask {
    fn index(&self) -> SubtaskIndex;

    /// Registers states and opens files. Called once, before [`Command::Start`].
    fn open(&mut self) -> Result<Vec<StateDescriptor>, OperatorError>;

    /// Does a bounded amount of work.
    fn turn(&mut self, cx: &mut TurnContext<'_>) -> Result<Progress, OperatorError>;

    /// Takes note of a command. The work it causes happens in turns.
    fn command(&mut self, command: Command, cx: &mut TurnContext<'_>) -> Result<(), OperatorError>;

    /// Work that is not urgent, called about once a millisecond: hand buffered output on, show counters.
    fn housekeeping(&mut self) -> Result<(), OperatorError>;
}
