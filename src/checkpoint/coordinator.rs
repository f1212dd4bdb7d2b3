//! The coordinator: one per job, decides when checkpoints begin and how each of them ends.

mod rules;

use std::collections::VecDeque;

use super::{
    action::{AbortReason, Action, Cause, Completion, DeclineReason, JobFailure, Trigger, TriggerError},
    config::{CheckpointConfig, ConfigError, nanos},
    pending::{Acknowledgement, Pending},
    schedule::Schedule,
    statistics::CheckpointStatistics,
    subtasks::{SubtaskPhase, Subtasks},
};

/// Who sent a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The execution attempt that the sender belongs to.
    pub attempt: u64,
    /// The sender, by its index in the slice given to [`Coordinator::new`].
    pub subtask: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Until the subtasks of this attempt have their state.
    Restoring,
    Running,
    /// A stop was asked for; its checkpoint, once it is triggered.
    Stopping {
        checkpoint: Option<u64>,
    },
    /// Stopped, failed or cancelled: no checkpoint begins any more in this attempt.
    Over,
}

/// The state machine of one job's checkpoints: decides when they begin and how each of them ends.
///
/// A pure state machine. Messages of subtasks and of the writer go in with the time at which they came; [`Action`]s come
/// out and are carried out by the driver in their order. After each input the driver takes actions until `None`, and
/// then sleeps until [`Coordinator::next_deadline`] or the next message.
///
/// ```
/// use isobar::checkpoint::{Action, CheckpointConfig, Coordinator, Origin};
/// use std::time::Duration;
///
/// // Subtask 0 is a source, subtask 1 is not. The job starts at 0 ns, with a checkpoint every 10 ms.
/// let config = CheckpointConfig::every(Duration::from_millis(10));
/// let mut coordinator = Coordinator::new(config, &[true, false], 1)?;
/// coordinator.restored(None, &[], 0);
///
/// let due = coordinator.next_deadline().unwrap();
/// coordinator.tick(due);
/// let Some(Action::Trigger(trigger)) = coordinator.next_action() else { panic!("the first checkpoint is due") };
///
/// for subtask in [0, 1] {
///     coordinator.acknowledge(Origin { attempt: trigger.attempt, subtask }, trigger.checkpoint, false, due + 1_000);
/// }
/// assert!(matches!(coordinator.next_action(), Some(Action::Commit { checkpoint: 1, .. })));
/// coordinator.durable(1, due + 200_000);
/// let Some(Action::Completed(completion)) = coordinator.next_action() else { panic!("it is complete") };
/// assert_eq!(completion.end_to_end_ns(), 200_000);
/// # Ok::<(), isobar::checkpoint::ConfigError>(())
/// ```
///
/// **End of input.** A source that runs dry sends `EndOfData` and reports [`Coordinator::end_of_data`]. It goes on taking
/// part in checkpoints; its next acknowledgement says `last`, as does that of every subtask all of whose inputs have
/// reached their end of data before the barrier. When such a checkpoint completes, these subtasks have
/// [ended](SubtaskPhase::Ended): the sources among them get [`Action::SendEnd`], later checkpoints do without them. Once
/// every source is dry, the last checkpoint is triggered at once and not at the next interval. With checkpointing off
/// `SendEnd` follows the report directly. (Flink's final checkpoint, FLIP-147.)
///
/// **Restores.** [`Coordinator::restoring`] begins a new execution attempt. Whatever an older one still sends is fenced
/// off, and triggers are refused until [`Coordinator::restored`]. A checkpoint that the writer has at that moment stays in
/// doubt until the writer answers, or the restore shows how it ended.
#[derive(Clone, Debug)]
pub struct Coordinator {
    config: CheckpointConfig,
    timeout_ns: u64,
    subtasks: Subtasks,
    phase: Phase,
    attempt: u64,
    next_checkpoint: u64,
    /// In flight, by ascending id. Only the oldest can be with the writer.
    pending: VecDeque<Pending>,
    /// Complete and kept, by ascending id.
    retained: VecDeque<u64>,
    schedule: Schedule,
    /// A checkpoint was asked for and has not been triggered yet.
    is_requested: bool,
    failures_in_a_row: u32,
    statistics: CheckpointStatistics,
    actions: VecDeque<Action>,
}

impl Coordinator {
    /// A coordinator for a job whose n-th subtask is a source if `is_source[n]`, in its first execution attempt
    /// (numbered `attempt`), before its start: call [`Coordinator::restored`] when the subtasks have their state.
    ///
    /// A job that continues on a store gives an attempt number above every earlier one, and what the store holds through
    /// [`Coordinator::continue_from`].
    ///
    /// # Errors
    /// [`ConfigError`] if a policy has a value with which no checkpoint could complete.
    pub fn new(config: CheckpointConfig, is_source: &[bool], attempt: u64) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            timeout_ns: nanos(config.timeout),
            subtasks: Subtasks::new(is_source),
            phase: Phase::Restoring,
            attempt,
            next_checkpoint: 1,
            pending: VecDeque::new(),
            retained: VecDeque::new(),
            schedule: Schedule::new(&config),
            is_requested: false,
            failures_in_a_row: 0,
            statistics: CheckpointStatistics::default(),
            actions: VecDeque::new(),
            config,
        })
    }

    /// The store holds these complete checkpoints, and `last_used` is the largest id that any checkpoint, complete or not,
    /// ever had in it: ids go on from there and are never used twice.
    pub fn continue_from(&mut self, retained: &[u64], last_used: u64) {
        self.retained = retained.iter().copied().collect();
        self.retained.make_contiguous().sort_unstable();
        let newest = self.retained.back().copied().unwrap_or(0);
        self.next_checkpoint = self.next_checkpoint.max(last_used.max(newest).saturating_add(1));
    }

    /// A new execution attempt begins, whose number is returned; the job's subtasks are being put back to a checkpoint.
    ///
    /// Choose that checkpoint only when the writer has answered for everything it was asked to commit.
    pub fn restoring(&mut self, now_ns: u64) -> u64 {
        self.give_up_all(&AbortReason::Restoring, now_ns);
        self.attempt += 1;
        self.phase = Phase::Restoring;
        self.subtasks.restart();
        self.attempt
    }

    /// Every subtask has its state: that of `checkpoint`, or the initial one. `ended` are the subtasks whose last state is
    /// in it. Periodic triggers start one interval from now.
    pub fn restored(&mut self, checkpoint: Option<u64>, ended: &[usize], now_ns: u64) {
        if self.phase != Phase::Restoring {
            self.statistics.ignored += 1;
            return;
        }
        let restored = checkpoint.unwrap_or(0);
        while let Some(doubtful) = self.pending.front().map(|pending| pending.checkpoint) {
            if doubtful <= restored {
                self.complete_oldest(now_ns);
            } else {
                self.give_up(0, AbortReason::Restoring, now_ns);
            }
        }
        self.go_back_to(checkpoint);
        for &subtask in ended {
            if self.subtasks.advance(subtask, SubtaskPhase::Ended) && self.subtasks.is_source(subtask) {
                self.actions.push_back(Action::SendEnd { subtask });
            }
        }
        self.failures_in_a_row = 0;
        self.phase = Phase::Running;
        self.schedule.start(now_ns);
        self.proceed(now_ns);
    }

    /// Time has passed: triggers what is due and gives up what took too long.
    pub fn tick(&mut self, now_ns: u64) {
        self.proceed(now_ns);
    }

    /// Asks for a checkpoint as soon as `max_concurrent` allows, whatever interval and pause say. Returns the id that
    /// it will have; requests that wait are served by one checkpoint.
    ///
    /// # Errors
    /// [`TriggerError`] says why there will be none.
    pub fn trigger_now(&mut self, now_ns: u64) -> Result<u64, TriggerError> {
        let refusal = match self.phase {
            _ if !self.config.is_on() => Some(TriggerError::Off),
            Phase::Restoring => Some(TriggerError::Restoring),
            Phase::Stopping { .. } => Some(TriggerError::Stopping),
            Phase::Over => Some(TriggerError::Ended),
            Phase::Running if self.subtasks.triggerable().next().is_none() => Some(TriggerError::Ended),
            Phase::Running => None,
        };
        if let Some(error) = refusal {
            self.statistics.refused += 1;
            return Err(error);
        }
        self.is_requested = true;
        let checkpoint = self.next_checkpoint;
        self.proceed(now_ns);
        Ok(checkpoint)
    }

    /// Stops the job at a last checkpoint: it is triggered as soon as `max_concurrent` allows, and the sources give
    /// nothing behind its barrier. It ends in [`Action::Stop`], or in [`Action::StopFailed`] with the job running on.
    /// A source that runs dry meanwhile ends as it would have. With checkpointing off the job stops where it stands.
    ///
    /// # Errors
    /// [`TriggerError`] if the job is being restored or has ended. Stopping twice is not an error.
    pub fn stop(&mut self, now_ns: u64) -> Result<(), TriggerError> {
        match self.phase {
            Phase::Restoring | Phase::Over => {
                self.statistics.refused += 1;
                Err(if self.phase == Phase::Over { TriggerError::Ended } else { TriggerError::Restoring })
            }
            Phase::Stopping { .. } => Ok(()),
            Phase::Running if !self.config.is_on() => {
                self.phase = Phase::Over;
                self.actions.push_back(Action::Stop { checkpoint: None });
                Ok(())
            }
            Phase::Running => {
                self.phase = Phase::Stopping { checkpoint: None };
                self.proceed(now_ns);
                Ok(())
            }
        }
    }

    /// The job is being ended without a last checkpoint: nothing begins any more, and what is in flight is given up.
    pub fn cancel(&mut self, now_ns: u64) {
        self.give_up_all(&AbortReason::JobEnded, now_ns);
        self.phase = Phase::Over;
    }

    /// A subtask has done its synchronous phase, and, for a sink, its pre-commit is durable. `last` says that all of its
    /// input lies before this barrier (a source: it has run dry), so that this is its last state.
    pub fn acknowledge(&mut self, origin: Origin, checkpoint: u64, last: bool, now_ns: u64) -> Acknowledgement {
        let outcome = if origin.attempt != self.attempt {
            Acknowledgement::Stale
        } else if let Some(index) = self.find(checkpoint) {
            self.pending[index].acknowledge(origin.subtask, last, now_ns)
        } else {
            Acknowledgement::Unknown
        };
        match outcome {
            Acknowledgement::Accepted => self.proceed(now_ns),
            Acknowledgement::Stale => self.statistics.stale += 1,
            Acknowledgement::Duplicate | Acknowledgement::Unknown => self.statistics.ignored += 1,
        }
        outcome
    }

    /// A subtask cannot take part in `checkpoint`, which is given up unless the writer has it already.
    pub fn decline(&mut self, origin: Origin, checkpoint: u64, reason: DeclineReason, now_ns: u64) {
        if !self.is_current(origin) {
            return;
        }
        match self.find(checkpoint) {
            Some(index) if !self.pending[index].is_committing && self.pending[index].takes_part(origin.subtask) => {
                self.give_up(index, AbortReason::Declined { subtask: origin.subtask, reason }, now_ns);
                self.proceed(now_ns);
            }
            _ => self.statistics.ignored += 1,
        }
    }

    /// The writer: commit record `checkpoint` is durable.
    pub fn durable(&mut self, checkpoint: u64, now_ns: u64) {
        match self.pending.front() {
            Some(oldest) if oldest.checkpoint == checkpoint && oldest.is_committing => {
                self.complete_oldest(now_ns);
                self.proceed(now_ns);
            }
            _ => self.statistics.ignored += 1,
        }
    }

    /// The writer: blocks of `checkpoint` or its commit record could not be made durable, and never will be under this id.
    pub fn write_failed(&mut self, checkpoint: u64, reason: impl Into<String>, now_ns: u64) {
        match self.find(checkpoint) {
            Some(index) => {
                self.give_up(index, AbortReason::WriteFailed(reason.into()), now_ns);
                self.proceed(now_ns);
            }
            None => self.statistics.ignored += 1,
        }
    }

    /// A source has run dry and has sent `EndOfData`. See [`Coordinator`] for what follows.
    pub fn end_of_data(&mut self, origin: Origin, now_ns: u64) {
        if !self.is_current(origin) {
            return;
        }
        let is_news =
            self.subtasks.is_source(origin.subtask) && self.subtasks.advance(origin.subtask, SubtaskPhase::EndOfData);
        if !is_news {
            self.statistics.ignored += 1;
            return;
        }
        if !self.config.is_on() {
            self.subtasks.advance(origin.subtask, SubtaskPhase::Ended);
            self.actions.push_back(Action::SendEnd { subtask: origin.subtask });
        }
        self.proceed(now_ns);
    }

    /// A subtask is through: its inputs have ended (or the job was stopped), and it will send nothing any more.
    pub fn subtask_finished(&mut self, origin: Origin, now_ns: u64) {
        if !self.is_current(origin) {
            return;
        }
        if !self.subtasks.advance(origin.subtask, SubtaskPhase::Finished) {
            self.statistics.ignored += 1;
            return;
        }
        while let Some(index) = self.pending.iter().position(|pending| pending.awaits(origin.subtask)) {
            self.give_up(index, AbortReason::SubtaskFinished { subtask: origin.subtask }, now_ns);
        }
        self.proceed(now_ns);
    }

    /// The next thing to do; `None` when all is done for now.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`Coordinator::tick`] has something to do if no message comes before, in ns of the job's clock.
    pub fn next_deadline(&self) -> Option<u64> {
        let expiry = self.pending.iter().filter_map(|pending| pending.expiry_ns(self.timeout_ns)).min();
        let trigger = if self.is_full() { u64::MAX } else { self.next_trigger_ns() };
        Some(expiry.unwrap_or(u64::MAX).min(trigger)).filter(|&deadline| deadline != u64::MAX)
    }

    /// The number of the execution attempt whose messages are heard.
    pub fn attempt(&self) -> u64 {
        self.attempt
    }

    /// The policies it was made with.
    pub fn config(&self) -> &CheckpointConfig {
        &self.config
    }

    /// What was counted so far.
    pub fn statistics(&self) -> CheckpointStatistics {
        self.statistics
    }

    /// The checkpoints in flight, by ascending id.
    pub fn in_flight(&self) -> impl Iterator<Item = u64> + '_ {
        self.pending.iter().map(|pending| pending.checkpoint)
    }

    /// The complete checkpoints that are kept, by ascending id.
    pub fn retained(&self) -> impl Iterator<Item = u64> + '_ {
        self.retained.iter().copied()
    }

    /// How far a subtask is; `None` if there is no such subtask.
    pub fn subtask_phase(&self, subtask: usize) -> Option<SubtaskPhase> {
        self.subtasks.phase(subtask)
    }

    /// Whether every subtask has finished and no checkpoint is in flight.
    pub fn is_finished(&self) -> bool {
        self.subtasks.all_finished() && self.pending.is_empty()
    }
}

#[cfg(test)]
mod tests;
