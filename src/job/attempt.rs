//! One execution attempt from the coordinator's side: what the subtasks report, what the coordinator decides, and what
//! the writer makes durable, matched with each other.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::thread;
use std::time::Duration;

use crate::channel::BarrierKind;
use crate::checkpoint::{AbortReason, Action, Cause, Completion, Coordinator, Origin, Trigger};
use crate::job::builder::Plan;
use crate::job::cores::{Cores, SubtaskInfo};
use crate::job::driver::WriterHandle;
use crate::job::error::JobError;
use crate::job::event::{CheckpointStats, Event};
use crate::job::handle::{Link, Request};
use crate::job::totals::Totals;
use crate::measure::Clock;
use crate::runtime::subtask::{Acknowledgement, Command, Report, SubtaskIndex, SubtaskTotals};
use crate::snapshot::{Command as WriterCommand, CommitParts, Event as WriterEvent, PhaseTimes, SubtaskCommit};

/// While a checkpoint is in flight the thread looks this often; its reaction time is part of the asynchronous phase
/// alone.
const LOOK: Duration = Duration::from_micros(200);
/// Otherwise at least this often, for reports that announce themselves by nothing else.
const LOOK_IDLE: Duration = Duration::from_millis(1);
/// The cores' housekeeping is woken this often.
const BEAT_NS: u64 = 1_000_000;

/// What is known of a checkpoint in flight.
#[derive(Debug, Default)]
struct InFlight {
    stats: CheckpointStats,
    wall_clock_ns: u64,
    parts: BTreeMap<SubtaskIndex, Part>,
}

/// One subtask's part in a checkpoint, or, once it has finished, in all that follow.
#[derive(Clone, Debug, Default)]
struct Part {
    position: Option<u64>,
    sink_state: Option<Vec<u8>>,
    last: bool,
    times: PhaseTimes,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptEnd {
    /// All subtasks have finished, at the end of the data.
    EndOfData,
    /// All subtasks have finished because the job was asked to stop.
    Stopped,
    /// It was cancelled.
    Cancelled,
    /// It is given up for another that begins from this checkpoint.
    Restore(u64),
}

/// Everything that one attempt's loop works on.
pub(crate) struct Attempt<'a> {
    coordinator: &'a mut Coordinator,
    writer: Option<&'a WriterHandle>,
    cores: Cores,
    infos: &'a [SubtaskInfo],
    plan: &'a Plan,
    link: &'a Link,
    totals: &'a mut Totals,
    clock: Clock,
    in_flight: BTreeMap<u64, InFlight>,
    /// The last part of every subtask whose input has ended.
    ended: BTreeMap<SubtaskIndex, Part>,
    live: usize,
    stopping: bool,
    beaten_ns: u64,
}

impl<'a> Attempt<'a> {
    #[allow(clippy::too_many_arguments)] // each is a part of the coordinator's thread that the attempt borrows
    pub(crate) fn new(
        coordinator: &'a mut Coordinator,
        writer: Option<&'a WriterHandle>,
        cores: Cores,
        infos: &'a [SubtaskInfo],
        plan: &'a Plan,
        link: &'a Link,
        totals: &'a mut Totals,
        clock: Clock,
    ) -> Self {
        let live = infos.len();
        let (in_flight, ended) = (BTreeMap::new(), BTreeMap::new());
        Self {
            coordinator,
            writer,
            cores,
            infos,
            plan,
            link,
            totals,
            clock,
            in_flight,
            ended,
            live,
            stopping: false,
            beaten_ns: 0,
        }
    }

    /// Runs until the subtasks have finished or the attempt is given up; its threads have ended when this returns.
    pub(crate) fn run(mut self) -> Result<AttemptEnd, JobError> {
        self.cores.tell(Command::Start);
        let outcome = self.drive();
        if !matches!(outcome, Ok(AttemptEnd::EndOfData | AttemptEnd::Stopped)) {
            self.coordinator.cancel(self.clock.now_ns());
            self.cores.tell(Command::Cancel);
        }
        let joined = self.join();
        outcome.and_then(|end| joined.map(|()| end))
    }

    fn drive(&mut self) -> Result<AttemptEnd, JobError> {
        loop {
            let mut busy = false;
            while let Some((subtask, report)) = self.cores.report() {
                busy = true;
                self.on_report(subtask, report)?;
            }
            while let Some(event) = self.writer.and_then(WriterHandle::try_event) {
                busy = true;
                self.on_written(event)?;
            }
            if let Some(end) = self.on_requests() {
                return Ok(end);
            }
            while let Some(notice) = self.cores.notice() {
                self.link.events.push(Event::Notice(notice));
            }
            let now_ns = self.clock.now_ns();
            if now_ns.saturating_sub(self.beaten_ns) >= BEAT_NS {
                self.beaten_ns = now_ns;
                self.cores.beat();
            }
            self.coordinator.tick(now_ns);
            self.act()?;
            if self.live == 0 {
                return Ok(if self.stopping { AttemptEnd::Stopped } else { AttemptEnd::EndOfData });
            }
            if !busy {
                if self.cores.ended() {
                    // A core's thread ended although its subtasks had not: join says why.
                    return Ok(AttemptEnd::Cancelled);
                }
                thread::park_timeout(self.pause());
            }
        }
    }

    /// How long there is nothing to do unless something comes in.
    fn pause(&self) -> Duration {
        if !self.in_flight.is_empty() {
            return LOOK;
        }
        let until = self.coordinator.next_deadline().map(|due| due.saturating_sub(self.clock.now_ns()));
        until.map_or(LOOK_IDLE, |ns| Duration::from_nanos(ns).min(LOOK_IDLE))
    }

    fn on_requests(&mut self) -> Option<AttemptEnd> {
        loop {
            let request = self.link.requests.lock().unwrap_or_else(PoisonError::into_inner).pop_front()?;
            let now_ns = self.clock.now_ns();
            match request {
                Request::Trigger => {
                    if let Err(refused) = self.coordinator.trigger_now(now_ns) {
                        self.link.events.push(Event::Notice(refused.to_string()));
                    }
                }
                Request::Stop => {
                    // Refused only when the job ends anyway.
                    let _ = self.coordinator.stop(now_ns);
                }
                Request::Cancel => return Some(AttemptEnd::Cancelled),
                Request::Restore(checkpoint) => return Some(AttemptEnd::Restore(checkpoint)),
            }
        }
    }

    fn origin(&self, subtask: SubtaskIndex) -> Origin {
        Origin { attempt: self.coordinator.attempt(), subtask }
    }

    fn on_report(&mut self, subtask: SubtaskIndex, report: Report) -> Result<(), JobError> {
        let now_ns = self.clock.now_ns();
        let origin = self.origin(subtask);
        match report {
            Report::Opened(_) => {}
            Report::Acknowledged(acknowledgement) => self.on_acknowledged(subtask, *acknowledgement),
            Report::SinkDurable { checkpoint } => self.acknowledge(subtask, checkpoint),
            Report::Declined { checkpoint, reason } => {
                self.link.events.push(Event::Declined {
                    checkpoint,
                    subtask: self.infos[subtask].name.to_string(),
                    reason: reason.to_string(),
                });
                self.totals.declined += 1;
                self.coordinator.decline(origin, checkpoint, reason, now_ns);
            }
            Report::EndOfData => {
                if self.infos[subtask].is_source {
                    self.coordinator.end_of_data(origin, now_ns);
                }
            }
            Report::Finished(totals) => self.on_finished(subtask, *totals),
            Report::Failed(reason) => {
                let name = &self.infos[subtask].name;
                return Err(JobError::Operator { operator: name.name.clone(), subtask: name.instance, reason });
            }
        }
        Ok(())
    }

    /// Hands the frozen pages to the writer, whatever becomes of the checkpoint, and notes the part.
    fn on_acknowledged(&mut self, subtask: SubtaskIndex, acknowledgement: Acknowledgement) {
        let Acknowledgement { checkpoint, position, sink, end_of_data, list, .. } = acknowledgement;
        let times = PhaseTimes {
            start_delay_ns: acknowledgement.start_delay_ns,
            t_align_ns: acknowledgement.t_align_ns,
            sync_ns: acknowledgement.sync_ns,
            dirty_pages: acknowledgement.dirty_pages,
            copied_pages: acknowledgement.copied_pages,
            ..PhaseTimes::default()
        };
        self.totals.sync_ns.record(times.sync_ns);
        if let Some(writer) = self.writer {
            let name = &self.infos[subtask].name;
            let (operator, subtask) = (name.operator, name.instance as u32);
            writer.send(WriterCommand::Delta { checkpoint, operator, subtask, pages: Box::new(list) });
        }
        let waits_for_sink = sink.is_some();
        if let Some(in_flight) = self.in_flight.get_mut(&checkpoint) {
            in_flight.stats.add(&times);
            in_flight.parts.insert(subtask, Part { position, sink_state: sink, last: end_of_data, times });
            if !waits_for_sink {
                self.acknowledge(subtask, checkpoint);
            }
        }
    }

    fn acknowledge(&mut self, subtask: SubtaskIndex, checkpoint: u64) {
        let part = self.in_flight.get(&checkpoint).and_then(|in_flight| in_flight.parts.get(&subtask));
        if let Some(last) = part.map(|part| part.last) {
            self.coordinator.acknowledge(self.origin(subtask), checkpoint, last, self.clock.now_ns());
        }
    }

    fn on_finished(&mut self, subtask: SubtaskIndex, totals: SubtaskTotals) {
        self.live -= 1;
        self.totals.add(&totals);
        self.coordinator.subtask_finished(self.origin(subtask), self.clock.now_ns());
    }

    fn on_written(&mut self, event: WriterEvent) -> Result<(), JobError> {
        let now_ns = self.clock.now_ns();
        match event {
            WriterEvent::Durable(completed) => {
                if let Some(in_flight) = self.in_flight.get_mut(&completed.checkpoint) {
                    in_flight.stats.bytes = completed.bytes;
                }
                self.coordinator.durable(completed.checkpoint, now_ns);
            }
            WriterEvent::Failed { checkpoint, reason } => {
                self.coordinator.write_failed(checkpoint, reason.to_string(), now_ns);
            }
            WriterEvent::Closed(reason) => {
                let reason = reason.unwrap_or_else(|| "the snapshot writer has stopped".to_string());
                return Err(JobError::Checkpointing { reason });
            }
        }
        Ok(())
    }

    /// Carries out what the coordinator has decided.
    fn act(&mut self) -> Result<(), JobError> {
        while let Some(action) = self.coordinator.next_action() {
            match action {
                Action::Trigger(trigger) => self.trigger(&trigger),
                Action::Abort { checkpoint, reason } => self.abort(checkpoint, &reason),
                Action::Commit { checkpoint, ended } => self.commit(checkpoint, &ended),
                Action::Completed(completion) => self.completed(completion),
                Action::SendEnd { subtask } => self.cores.tell(Command::SendEnd { subtask }),
                Action::Stop { checkpoint } => {
                    self.stopping = true;
                    self.cores.tell(if checkpoint.is_some() { Command::Halt } else { Command::Stop });
                }
                Action::StopFailed { reason } => {
                    self.link.events.push(Event::Notice(format!("the job could not be stopped and runs on: {reason}")));
                }
                // Old segments stay until compaction makes them superfluous.
                Action::Retire { .. } => {}
                Action::FailJob(failure) => return Err(JobError::Checkpointing { reason: failure.to_string() }),
            }
        }
        Ok(())
    }

    fn trigger(&mut self, trigger: &Trigger) {
        let &Trigger { checkpoint, trigger_ns, .. } = trigger;
        let stats = CheckpointStats { checkpoint, ..CheckpointStats::default() };
        let wall_clock_ns = wall_clock_ns();
        self.in_flight.insert(checkpoint, InFlight { stats, wall_clock_ns, parts: BTreeMap::new() });
        self.totals.triggered += 1;
        self.totals.last_triggered = checkpoint;
        self.link.events.push(Event::Triggered { checkpoint });
        let (kind, hold) = (BarrierKind::Checkpoint, trigger.cause == Cause::Stop);
        self.cores.tell(Command::Trigger { checkpoint, trigger_ns, kind, hold });
    }

    fn abort(&mut self, checkpoint: u64, reason: &AbortReason) {
        self.in_flight.remove(&checkpoint);
        self.totals.failed += 1;
        self.link.events.push(Event::Failed { checkpoint, reason: reason.to_string() });
        self.cores.tell(Command::Abort { checkpoint });
        if let Some(writer) = self.writer {
            writer.send(WriterCommand::Abort { checkpoint });
        }
    }

    /// Has the writer append the commit record: the part of every subtask, of those that had ended the last one.
    fn commit(&mut self, checkpoint: u64, ended: &[SubtaskIndex]) {
        let Some(in_flight) = self.in_flight.get(&checkpoint) else { return };
        let mut subtasks = Vec::new();
        for (index, info) in self.infos.iter().enumerate() {
            let part = in_flight.parts.get(&index).or_else(|| self.ended.get(&index));
            let Some(part) = part else { continue };
            let finished = part.last || ended.contains(&index);
            let entry = |operator, position, sink_state, times| SubtaskCommit {
                operator,
                subtask: info.name.instance as u32,
                position,
                sink_state,
                finished,
                times,
            };
            subtasks.push(entry(info.name.operator, part.position, Vec::new(), part.times));
            if let Some((sink, state)) = info.sink.zip(part.sink_state.as_ref()) {
                subtasks.push(entry(sink, None, state.clone(), PhaseTimes::default()));
            }
        }
        if let Some(writer) = self.writer {
            let wall_clock_ns = in_flight.wall_clock_ns;
            writer.send(WriterCommand::Commit(CommitParts { checkpoint, wall_clock_ns, subtasks }));
        }
    }

    fn completed(&mut self, completion: Completion) {
        let checkpoint = completion.checkpoint;
        self.cores.tell(Command::Complete { checkpoint });
        let Some(in_flight) = self.in_flight.remove(&checkpoint) else { return };
        self.in_flight.retain(|id, _| *id > checkpoint);
        let mut stats = in_flight.stats;
        stats.async_ns = completion.durable_ns.saturating_sub(completion.acknowledged_ns);
        stats.end_to_end_ns = completion.end_to_end_ns();
        for (index, part) in in_flight.parts {
            if let Some((position, durable)) =
                part.position.zip(self.plan.durable.get(&self.infos[index].name.operator))
            {
                durable(position);
            }
            if part.last {
                self.ended.insert(index, part);
            }
        }
        self.totals.complete(&stats);
        self.link.events.push(Event::Completed(stats));
    }

    /// Waits for the cores' threads, and keeps their mailboxes moving meanwhile so that none waits for room.
    fn join(&mut self) -> Result<(), JobError> {
        while !self.cores.ended() {
            while self.cores.report().is_some() {}
            self.cores.beat();
            thread::sleep(LOOK);
        }
        self.cores.join()
    }
}

/// Wall-clock time in ns since the Unix epoch, for people.
fn wall_clock_ns() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
