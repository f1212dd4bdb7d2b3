//! The loop of one core: commands in, a turn for each subtask, reports out.
//!
//! It knows no executor, thread or file; a driver turns it, and hands it its clock.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::measure::TimeSource;
use crate::operator::OperatorError;
use crate::runtime::mailbox::{MailReceiver, MailSender};
use crate::runtime::subtask::{Command, Progress, Report, Reports, Subtask, SubtaskIndex, TurnContext};

/// What one turn of a core did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Some subtask had work.
    Busy,
    /// None had.
    Idle,
    /// All subtasks have ended and every report is delivered.
    Finished,
}

/// Makes one subtask, on the thread that will turn it.
pub(crate) type SubtaskFactory<'a> = Box<dyn FnOnce() -> Result<Box<dyn Subtask>, OperatorError> + 'a>;

/// The subtasks of one core and their two mailboxes.
pub(crate) struct CoreLoop {
    subtasks: Vec<Option<Box<dyn Subtask>>>,
    commands: MailReceiver<Command>,
    outgoing: MailSender<(SubtaskIndex, Report)>,
    reports: Reports,
    clock: Box<dyn TimeSource>,
    started: bool,
    cancelled: bool,
}

impl CoreLoop {
    pub(crate) fn new(
        commands: MailReceiver<Command>,
        outgoing: MailSender<(SubtaskIndex, Report)>,
        clock: Box<dyn TimeSource>,
    ) -> Self {
        Self {
            subtasks: Vec::new(),
            commands,
            outgoing,
            reports: Reports::with_capacity(64),
            clock,
            started: false,
            cancelled: false,
        }
    }

    /// Makes and opens a subtask. A failure or panic in user code is reported as the subtask's.
    pub(crate) fn add(&mut self, index: SubtaskIndex, factory: SubtaskFactory<'_>) {
        let opened = guarded(|| {
            let mut subtask = factory()?;
            let states = subtask.open()?;
            Ok((subtask, states))
        });
        let report = match opened {
            Ok((subtask, states)) => {
                self.subtasks.push(Some(subtask));
                Report::Opened(states)
            }
            Err(reason) => Report::Failed(reason),
        };
        self.reports.push_back((index, report));
    }

    /// Takes the commands, gives each subtask a turn, delivers the reports.
    pub(crate) fn turn(&mut self) -> Turn {
        while let Some(command) = self.commands.receive() {
            match command {
                Command::Start => self.started = true,
                Command::Cancel => {
                    self.cancelled = true;
                    self.subtasks.clear();
                }
                other => self.each(|subtask, cx| subtask.command(other, cx).map(|()| Progress::Busy)),
            }
        }
        let mut busy = false;
        if self.started {
            self.each(|subtask, cx| {
                let progress = subtask.turn(cx)?;
                busy |= progress == Progress::Busy;
                Ok(progress)
            });
        }
        self.deliver();
        let ended = self.cancelled || (self.started && self.subtasks.iter().all(Option::is_none));
        match () {
            () if ended && self.reports.is_empty() => Turn::Finished,
            () if busy => Turn::Busy,
            () => Turn::Idle,
        }
    }

    /// The subtasks' work that is not urgent.
    pub(crate) fn housekeeping(&mut self) {
        if self.started {
            self.each(|subtask, _| subtask.housekeeping().map(|()| Progress::Busy));
            self.deliver();
        }
    }

    /// Calls `f` for each live subtask; one that fails, panics or finishes is live no longer.
    fn each(&mut self, mut f: impl FnMut(&mut dyn Subtask, &mut TurnContext<'_>) -> Result<Progress, OperatorError>) {
        let mut cx = TurnContext { clock: &*self.clock, reports: &mut self.reports };
        for slot in &mut self.subtasks {
            let Some(subtask) = slot else { continue };
            match guarded(|| f(subtask.as_mut(), &mut cx)) {
                Ok(Progress::Busy | Progress::Idle) => {}
                Ok(Progress::Finished) => *slot = None,
                Err(reason) => {
                    cx.reports.push_back((subtask.index(), Report::Failed(reason)));
                    *slot = None;
                }
            }
        }
    }

    /// Sends what the mailbox takes, in order; the rest waits for the next turn.
    fn deliver(&mut self) {
        while let Some(report) = self.reports.pop_front() {
            if let Err(report) = self.outgoing.send(report) {
                self.reports.push_front(report);
                break;
            }
        }
    }
}

/// Runs user code; an error or a panic becomes one line.
fn guarded<R>(f: impl FnOnce() -> Result<R, OperatorError>) -> Result<R, String> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(error.to_string()),
        Err(panic) => Err(format!("panicked: {}", panic_message(&*panic))),
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
