//! The coordinator's thread: opens the store, brings the state back, and runs one execution attempt after another.
//!
//! It runs unpinned and is not on the record path.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, PoisonError};

use crate::checkpoint::{CheckpointConfig, Coordinator};
use crate::hash::{key_groups_of, subtask_of};
use crate::job::attempt::{Attempt, AttemptEnd};
use crate::job::builder::{Job, Plan, Restore, Settings};
use crate::job::cores::{Beginning, Cores, Shared, SubtaskInfo, subtasks};
use crate::job::error::JobError;
use crate::job::event::Event;
use crate::job::handle::{Ended, Link, Outcome};
use crate::job::totals::Totals;
use crate::measure::Clock;
use crate::runtime::subtask::Report;
use crate::snapshot::{
    CheckpointLog, Command as WriterCommand, CommitRecord, Event as WriterEvent, LogError, Manifest, OpenOptions,
    OperatorEntry, OperatorId, RestoredPage, StateEntry, StoreError, WriterConfig, WriterThread,
};
use crate::state::{Arena, ArenaOptions, StateDescriptor, StateKind};

/// What the coordinator's thread begins with.
pub(crate) struct Control {
    plan: Arc<Plan>,
    settings: Settings,
    link: Arc<Link>,
    clock: Clock,
}

impl Control {
    pub(crate) fn new(job: Job, link: Arc<Link>) -> Self {
        Self { plan: job.plan, settings: job.settings, link, clock: Clock::new() }
    }
}

/// The writer's thread with the events that it sends.
pub(crate) struct WriterHandle {
    thread: WriterThread,
    events: Receiver<WriterEvent>,
}

impl WriterHandle {
    /// Gives an order. Where the thread has ended, its last event says why.
    pub(crate) fn send(&self, command: WriterCommand) {
        self.thread.command(command);
    }

    pub(crate) fn try_event(&self) -> Option<WriterEvent> {
        self.events.try_recv().ok()
    }

    /// Lets the writer finish what it was told and mark the log's end as a clean one.
    fn close(self) {
        self.thread.command(WriterCommand::Close);
        self.thread.join();
    }
}

/// Runs the job to its end. `ready` is told once the first attempt's operators are open.
pub(crate) fn run(control: Control, ready: &Sender<()>) -> Result<Outcome, JobError> {
    let Control { plan, settings, link, clock } = control;
    let infos = subtasks(&plan);
    register_metrics(&link, &infos);
    let config = settings.checkpointing.clone().unwrap_or_default();
    let is_source: Vec<bool> = infos.iter().map(|info| info.is_source).collect();
    let mut coordinator = Coordinator::new(config.clone(), &is_source, 1).map_err(JobError::Config)?;
    let mut job = JobRun { plan, settings, link, clock, infos, config, totals: Totals::new(), last_used: 0 };
    let mut restore = job.settings.restore;
    let mut first = true;
    loop {
        let prepared = job.prepare(restore)?;
        let begin_ns = clock.now_ns();
        if first {
            // The embedding thread may have given up waiting.
            let _ = ready.send(());
        } else {
            coordinator.restoring(begin_ns);
        }
        first = false;
        let (restored, restore_ns) = (prepared.restored, prepared.restore_ns);
        let end = job.attempt(&mut coordinator, prepared)?;
        match end {
            AttemptEnd::Restore(checkpoint) => restore = Restore::Checkpoint(checkpoint),
            AttemptEnd::Cancelled => return Err(JobError::Cancelled),
            AttemptEnd::EndOfData | AttemptEnd::Stopped => {
                let ended = if end == AttemptEnd::Stopped { Ended::Stopped } else { Ended::EndOfData };
                return Ok(job.outcome(ended, restored, restore_ns, begin_ns));
            }
        }
    }
}

fn register_metrics(link: &Link, infos: &[SubtaskInfo]) {
    let entries = infos.iter().map(|info| (info.name.name.clone(), info.name.instance, Arc::clone(&info.metrics)));
    *link.metrics.lock().unwrap_or_else(PoisonError::into_inner) = entries.collect();
}

/// What all attempts of a run share.
struct JobRun {
    plan: Arc<Plan>,
    settings: Settings,
    link: Arc<Link>,
    clock: Clock,
    infos: Vec<SubtaskInfo>,
    config: CheckpointConfig,
    totals: Totals,
    /// The largest checkpoint id that was ever given out.
    last_used: u64,
}

/// An attempt whose operators are open.
struct Prepared {
    cores: Cores,
    writer: Option<WriterHandle>,
    retained: Vec<u64>,
    restored: Option<u64>,
    restore_ns: Option<u64>,
}

impl JobRun {
    /// Brings the state back, starts the cores, and makes the store ready for a new attempt.
    fn prepare(&mut self, restore: Restore) -> Result<Prepared, JobError> {
        let begin_ns = self.clock.now_ns();
        let log = self.open_log(restore)?;
        let restored = match (&log, restore) {
            (Some(log), Restore::Latest) => log.last(),
            (Some(_), Restore::Checkpoint(id)) => Some(id),
            (None, Restore::Checkpoint(id)) => return Err(JobError::NothingToRestore { checkpoint: id }),
            _ => None,
        };
        let beginnings = self.beginnings(log.as_ref().zip(restored))?;
        let restore_ns = restored.map(|_| self.clock.now_ns().saturating_sub(begin_ns));
        let shared = self.shared(restored, log.as_ref());
        let mut cores = Cores::start(&self.plan, &self.infos, beginnings, shared)?;
        let states = match self.opened(&mut cores) {
            Ok(states) => states,
            Err(error) => {
                cores.tell(crate::runtime::subtask::Command::Cancel);
                cores.join()?;
                return Err(error);
            }
        };
        let retained = log.as_ref().map(|log| log.checkpoints().collect()).unwrap_or_default();
        self.last_used = self.last_used.max(log.as_ref().map_or(0, CheckpointLog::highest));
        let writer = match self.start_writer(log, restored, &states) {
            Ok(writer) => writer,
            Err(error) => {
                cores.tell(crate::runtime::subtask::Command::Cancel);
                cores.join()?;
                return Err(error);
            }
        };
        if let Some((checkpoint, restore_ns)) = restored.zip(restore_ns) {
            self.link.events.push(Event::Restored { checkpoint, restore_ns });
        }
        Ok(Prepared { cores, writer, retained, restored, restore_ns })
    }

    /// The log, where there is one to continue. A fresh start wants an empty store.
    fn open_log(&self, restore: Restore) -> Result<Option<CheckpointLog>, JobError> {
        let Some(store) = &self.settings.store else { return Ok(None) };
        let options = OpenOptions { published: self.settings.published };
        match CheckpointLog::open(Arc::clone(store), &options) {
            Ok(log) if restore == Restore::Fresh => {
                let (place, job) = (store.place(), log.manifest().job.clone());
                Err(LogError::Exists { place, job }.into())
            }
            Ok(log) => Ok(Some(log)),
            Err(LogError::Store(StoreError::Missing { .. })) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What each subtask begins with.
    fn beginnings(&self, from: Option<(&CheckpointLog, u64)>) -> Result<Vec<Beginning>, JobError> {
        let mut beginnings = Vec::new();
        for info in &self.infos {
            beginnings.push(Beginning {
                arena: self.arena(info)?,
                position: None,
                end_of_data: false,
                sink_states: Vec::new(),
            });
        }
        if let Some((log, checkpoint)) = from {
            self.describe(log.manifest(), &mut beginnings)?;
            let owners = Owners::new(&self.plan, &self.infos, self.settings.max_parallelism);
            let commit = log.restore(checkpoint, |page: RestoredPage<'_>| match owners.of(&page) {
                Some(owner) => beginnings[owner].arena.apply(page.id, page.mask, page.lines),
                // An operator that this job does not have: the manifest's check refuses it by name.
                None => Ok(()),
            })?;
            self.put_back(&commit, &mut beginnings)?;
        }
        Ok(beginnings)
    }

    /// An empty arena for the key groups that the subtask owns. A source's state lies in the group of its instance.
    fn arena(&self, info: &SubtaskInfo) -> Result<Arena, JobError> {
        let node = &self.plan.graph.nodes[info.node];
        let instance = info.name.instance;
        let key_groups = if info.is_source {
            instance as u16..instance as u16 + 1
        } else {
            key_groups_of(instance, self.settings.max_parallelism, node.parallelism)
        };
        let options = ArenaOptions { key_groups, max_bytes: self.settings.max_state_bytes, ..ArenaOptions::default() };
        Arena::new(options).map_err(|error| self.state_error(info, error))
    }

    fn state_error(&self, info: &SubtaskInfo, error: impl ToString) -> JobError {
        JobError::RestoreState { operator: info.name.name.clone(), reason: error.to_string() }
    }

    /// Tells each arena the states that the store holds for its operator.
    fn describe(&self, manifest: &Manifest, beginnings: &mut [Beginning]) -> Result<(), JobError> {
        for operator in &manifest.operators {
            let states = operator.states.iter().map(descriptor).collect::<Option<Vec<_>>>();
            for (info, beginning) in self.infos.iter().zip(&mut *beginnings) {
                if info.name.operator != operator.id {
                    continue;
                }
                let node = &self.plan.graph.nodes[info.node];
                if info.is_source && node.parallelism != operator.parallelism as usize {
                    let (name, now) = (node.name.clone(), node.parallelism);
                    return Err(JobError::SourceParallelism { name, stored: operator.parallelism as usize, now });
                }
                let states = states.as_ref().ok_or_else(|| self.state_error(info, "a state of an unknown kind"))?;
                let described = beginning.arena.restore_descriptors(states);
                described.map_err(|error| self.state_error(info, error))?;
            }
        }
        Ok(())
    }

    /// Hands out positions, flags and sink transactions. A sink whose parallelism changed takes over in turn.
    fn put_back(&self, commit: &CommitRecord, beginnings: &mut [Beginning]) -> Result<(), JobError> {
        for part in &commit.subtasks {
            let heads = self.infos.iter().zip(&mut *beginnings).filter(|(info, _)| info.name.operator == part.operator);
            for (info, beginning) in heads {
                if info.name.instance == part.subtask as usize {
                    beginning.position = part.position;
                }
                // After a rescale every subtask has a share of every earlier one's key groups, and all of them saw
                // the end of the same inputs.
                beginning.end_of_data |= part.finished;
            }
            let sinks: Vec<usize> =
                (0..self.infos.len()).filter(|&index| self.infos[index].sink == Some(part.operator)).collect();
            if !sinks.is_empty() {
                let index = sinks[part.subtask as usize % sinks.len()];
                beginnings[index].sink_states.push(part.sink_state.clone());
            }
        }
        Ok(())
    }

    fn shared(&self, restored: Option<u64>, log: Option<&CheckpointLog>) -> Shared {
        let settings = &self.settings;
        let checkpointing = self.config.is_on();
        Shared {
            max_parallelism: settings.max_parallelism,
            budget: settings.turn_budget,
            ring_capacity: settings.ring_capacity,
            mode: self.config.mode,
            checkpointing,
            rate: settings.rate,
            measure_latency: settings.measure_latency,
            restored_checkpoint: restored.unwrap_or(0),
            commit_at_end: (!checkpointing).then(|| match log.map(CheckpointLog::highest) {
                Some(highest) if restored.is_some() => highest + 1,
                _ => 0,
            }),
            idle: settings.idle.unwrap_or_default(),
            driver: settings.driver,
            clock: self.clock,
        }
    }

    /// Waits until every subtask is open; gives the states that each operator has.
    fn opened(&self, cores: &mut Cores) -> Result<HashMap<OperatorId, Vec<StateEntry>>, JobError> {
        let mut states = HashMap::new();
        let mut waiting = self.infos.len();
        while waiting > 0 {
            while let Some(notice) = cores.notice() {
                self.link.events.push(Event::Notice(notice));
            }
            match cores.report() {
                Some((subtask, Report::Opened(descriptors))) => {
                    waiting -= 1;
                    let entries = descriptors.iter().map(state_entry).collect();
                    states.insert(self.infos[subtask].name.operator, entries);
                }
                Some((subtask, Report::Failed(reason))) => {
                    let name = &self.infos[subtask].name;
                    return Err(JobError::Operator { operator: name.name.clone(), subtask: name.instance, reason });
                }
                Some(_) => {}
                None if cores.ended() => {
                    cores.join()?;
                    return Err(JobError::Cancelled);
                }
                None => {
                    cores.beat();
                    std::thread::sleep(std::time::Duration::from_micros(100));
                }
            }
        }
        Ok(states)
    }

    /// Creates or adopts the log and starts its writer; none where checkpointing is off.
    fn start_writer(
        &self,
        log: Option<CheckpointLog>,
        restored: Option<u64>,
        states: &HashMap<OperatorId, Vec<StateEntry>>,
    ) -> Result<Option<WriterHandle>, JobError> {
        let Some(store) = &self.settings.store else { return Ok(None) };
        let mut manifest =
            Manifest::new(&self.settings.name, self.settings.max_parallelism, self.operator_entries(states));
        manifest.input.clone_from(&self.settings.input_identity);
        if !self.config.is_on() {
            // The store is read, not written: what it holds must fit all the same.
            return log.map_or(Ok(None), |log| Ok(log.check(&manifest).map(|()| None)?));
        }
        let log = match log {
            Some(mut log) => {
                log.adopt(&manifest)?;
                log
            }
            None => CheckpointLog::create(Arc::clone(store), manifest)?,
        };
        let clock = self.clock;
        let config = WriterConfig { clock: Arc::new(move || clock.now_ns()), ..WriterConfig::default() };
        let (sender, events) = channel();
        let thread = WriterThread::start(log, restored, config, move |event| {
            // Nobody listens any more once the attempt is over.
            let _ = sender.send(event);
        })?;
        if let Some(reason) = &thread.info().reason {
            self.link.events.push(Event::Notice(reason.clone()));
        }
        Ok(Some(WriterHandle { thread, events }))
    }

    fn operator_entries(&self, states: &HashMap<OperatorId, Vec<StateEntry>>) -> Vec<OperatorEntry> {
        let mut entries = Vec::new();
        for node in &self.plan.graph.nodes {
            let parallelism = node.parallelism as u32;
            let states = states.get(&node.operator).cloned().unwrap_or_default();
            entries.push(OperatorEntry { id: node.operator, name: node.name.clone(), parallelism, states });
            if let Some((name, id)) = &node.sink {
                entries.push(OperatorEntry { id: *id, name: name.clone(), parallelism, states: Vec::new() });
            }
        }
        entries
    }

    /// Runs a prepared attempt to its end.
    fn attempt(&mut self, coordinator: &mut Coordinator, prepared: Prepared) -> Result<AttemptEnd, JobError> {
        let Prepared { cores, writer, retained, restored, .. } = prepared;
        coordinator.continue_from(&retained, self.last_used);
        coordinator.restored(restored, &[], self.clock.now_ns());
        let attempt = Attempt::new(
            coordinator,
            writer.as_ref(),
            cores,
            &self.infos,
            &self.plan,
            &self.link,
            &mut self.totals,
            self.clock,
        );
        let end = attempt.run();
        if let Some(writer) = writer {
            writer.close();
        }
        // Ids that were given out and came to nothing are not used again either.
        self.last_used = self.last_used.max(self.totals.last_triggered);
        end
    }

    fn outcome(&self, ended: Ended, restored: Option<u64>, restore_ns: Option<u64>, begin_ns: u64) -> Outcome {
        let readings = || self.infos.iter().map(|info| (info, info.metrics.read()));
        Outcome {
            ended,
            records: readings().filter(|(info, _)| info.is_source).map(|(_, reading)| reading.records_in).sum(),
            seconds: self.clock.now_ns().saturating_sub(begin_ns) as f64 / 1e9,
            latency: self.totals.latency.clone(),
            restored,
            restore_ns,
            last_checkpoint: self.totals.last_checkpoint.or(restored),
            checkpoints: self.totals.checkpoints(),
            state_bytes: readings().map(|(_, reading)| reading.state_bytes).sum(),
        }
    }
}

/// Which subtask owns a restored page.
struct Owners {
    heads: HashMap<OperatorId, (usize, usize, bool)>,
    max_parallelism: u16,
}

impl Owners {
    fn new(plan: &Plan, infos: &[SubtaskInfo], max_parallelism: u16) -> Self {
        let first = infos.iter().enumerate().filter(|(_, info)| info.name.instance == 0);
        let heads = first.map(|(index, info)| {
            (info.name.operator, (index, plan.graph.nodes[info.node].parallelism, info.is_source))
        });
        Self { heads: heads.collect(), max_parallelism }
    }

    fn of(&self, page: &RestoredPage<'_>) -> Option<usize> {
        let &(first, parallelism, is_source) = self.heads.get(&page.operator)?;
        let group = page.id.key_group;
        let instance =
            if is_source { usize::from(group) } else { subtask_of(group, self.max_parallelism, parallelism) };
        (instance < parallelism).then_some(first + instance)
    }
}

fn state_entry(state: &StateDescriptor) -> StateEntry {
    StateEntry {
        id: state.id,
        name: state.name.clone(),
        kind: state.kind as u8,
        key_size: state.key_size,
        value_size: state.value_size,
        align: state.align,
        version: state.version,
    }
}

/// `None` for a kind that this program does not know.
fn descriptor(entry: &StateEntry) -> Option<StateDescriptor> {
    Some(StateDescriptor {
        id: entry.id,
        name: entry.name.clone(),
        kind: StateKind::from_number(entry.kind)?,
        key_size: entry.key_size,
        value_size: entry.value_size,
        align: entry.align,
        version: entry.version,
    })
}
