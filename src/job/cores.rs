//! The threads of one execution attempt: one for each core in use, each with its loop and two mailboxes.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use crate::job::builder::{Driver, Plan};
use crate::job::edge::LocalEnds;
use crate::job::error::JobError;
use crate::job::graph::Seed;
use crate::measure::Clock;
use crate::operator::SinkState;
use crate::runtime::core_loop::CoreLoop;
use crate::runtime::mailbox::{MailReceiver, MailSender, mailbox};
use crate::runtime::metrics::SubtaskMetrics;
use crate::runtime::pulse::Pulse;
use crate::runtime::subtask::{Command, Report, SubtaskIndex, SubtaskName};
use crate::runtime::{BodySettings, IdleStrategy, glommio_driver, thread_driver};
use crate::snapshot::OperatorId;
use crate::state::Arena;

/// Messages that a mailbox holds: a few for each checkpoint in flight and subtask.
const MAILBOX: usize = 1024;

/// What the attempt knows of one of its subtasks.
#[derive(Clone, Debug)]
pub(crate) struct SubtaskInfo {
    pub name: SubtaskName,
    pub sink: Option<OperatorId>,
    pub node: usize,
    pub core: usize,
    pub is_source: bool,
    pub metrics: Arc<SubtaskMetrics>,
}

/// What a subtask begins with: empty, or what a checkpoint holds.
pub(crate) struct Beginning {
    pub arena: Arena,
    pub position: Option<u64>,
    pub end_of_data: bool,
    pub sink_states: Vec<SinkState>,
}

/// The settings that all subtasks of an attempt share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shared {
    pub max_parallelism: u16,
    pub budget: usize,
    pub ring_capacity: usize,
    pub mode: crate::checkpoint::AlignmentMode,
    pub checkpointing: bool,
    pub rate: Option<f64>,
    pub measure_latency: bool,
    pub restored_checkpoint: u64,
    pub commit_at_end: Option<u64>,
    pub idle: IdleStrategy,
    pub driver: Driver,
    pub clock: Clock,
}

/// One core's thread as the coordinator sees it.
struct CoreHandle {
    commands: MailSender<Command>,
    reports: MailReceiver<(SubtaskIndex, Report)>,
    pulse: Pulse,
    thread: Option<JoinHandle<()>>,
}

/// All cores of an attempt.
pub(crate) struct Cores {
    cores: Vec<CoreHandle>,
    notices: mpsc::Receiver<String>,
}

/// Lists the subtasks of a plan, in the order of their indices.
pub(crate) fn subtasks(plan: &Plan) -> Vec<SubtaskInfo> {
    let mut all = Vec::new();
    for (node, spec) in plan.graph.nodes.iter().enumerate() {
        for (instance, &core) in plan.placement[node].iter().enumerate() {
            all.push(SubtaskInfo {
                name: SubtaskName { operator: spec.operator, name: spec.name.clone(), instance },
                sink: spec.sink.as_ref().map(|(_, id)| *id),
                node,
                core,
                is_source: spec.is_source,
                metrics: Arc::new(SubtaskMetrics::default()),
            });
        }
    }
    all
}

impl Cores {
    /// Wires the edges and starts the threads; each builds and opens its subtasks, reports, and waits for
    /// [`Command::Start`].
    pub(crate) fn start(
        plan: &Arc<Plan>,
        infos: &[SubtaskInfo],
        beginnings: Vec<Beginning>,
        shared: Shared,
    ) -> Result<Self, JobError> {
        wire(plan, shared.ring_capacity);
        let mut ids: Vec<usize> = infos.iter().map(|info| info.core).collect();
        ids.sort_unstable();
        ids.dedup();
        let mut beginnings: Vec<_> = beginnings.into_iter().map(Some).collect();
        let (notify, notices) = mpsc::channel();
        let mut cores = Vec::new();
        for core in ids {
            let (commands, inbox) = mailbox(MAILBOX);
            let (outbox, reports) = mailbox(MAILBOX);
            let mine: Vec<_> = infos
                .iter()
                .enumerate()
                .filter(|(_, info)| info.core == core)
                .filter_map(|(index, info)| Some((index, info.clone(), beginnings[index].take()?)))
                .collect();
            let plan = Arc::clone(plan);
            let make = move || {
                let core_loop = CoreLoop::new(inbox, outbox, Box::new(shared.clock));
                populate(core_loop, &plan, mine, shared)
            };
            let (notify, pulse) = (notify.clone(), Pulse::default());
            let felt = pulse.clone();
            let thread = thread::Builder::new()
                .name(format!("isobar-core-{core}"))
                .spawn(move || run(core, shared, make, &notify, felt))
                .map_err(JobError::Spawn)?;
            cores.push(CoreHandle { commands, reports, pulse, thread: Some(thread) });
        }
        Ok(Self { cores, notices })
    }

    /// Tells every core. A mailbox that is full is waited for: a core empties its mailbox on each turn.
    pub(crate) fn tell(&mut self, command: Command) {
        for core in &mut self.cores {
            let running = |core: &CoreHandle| core.thread.as_ref().is_some_and(|thread| !thread.is_finished());
            while core.commands.send(command).is_err() && running(core) {
                thread::yield_now();
            }
        }
    }

    /// Wakes every core's housekeeping.
    pub(crate) fn beat(&self) {
        for core in self.cores.iter().filter(|core| core.thread.as_ref().is_some_and(|thread| !thread.is_finished())) {
            core.pulse.beat();
        }
    }

    /// The next report of any core.
    pub(crate) fn report(&mut self) -> Option<(SubtaskIndex, Report)> {
        self.cores.iter_mut().find_map(|core| core.reports.receive())
    }

    /// The next line that a core's driver has for a person.
    pub(crate) fn notice(&self) -> Option<String> {
        self.notices.try_recv().ok()
    }

    /// Whether every thread has ended.
    pub(crate) fn ended(&self) -> bool {
        self.cores.iter().all(|core| core.thread.as_ref().is_none_or(JoinHandle::is_finished))
    }

    /// Waits for the threads. User code's panics are caught in the core loop, so a thread that panicked is a defect
    /// of the engine: the text says so.
    pub(crate) fn join(&mut self) -> Result<(), JobError> {
        let mut outcome = Ok(());
        for thread in self.cores.iter_mut().filter_map(|core| core.thread.take()) {
            let name = thread.thread().name().unwrap_or_default().to_string();
            if thread.join().is_err() {
                outcome = Err(JobError::Thread { name });
            }
        }
        outcome
    }
}

/// Makes the rings of every edge for this placement.
fn wire(plan: &Plan, capacity: usize) {
    let mut id = 0;
    for (node, spec) in plan.graph.nodes.iter().enumerate() {
        for edge in &spec.inputs {
            edge.wire.wire(id, &plan.placement[edge.from], &plan.placement[node], capacity);
            id += 1;
        }
    }
}

/// Builds and opens a core's subtasks, in the order of the graph.
fn populate(
    mut core_loop: CoreLoop,
    plan: &Plan,
    mine: Vec<(SubtaskIndex, SubtaskInfo, Beginning)>,
    shared: Shared,
) -> CoreLoop {
    let mut locals = LocalEnds::new();
    for (index, info, beginning) in mine {
        let Beginning { arena, position, end_of_data, sink_states } = beginning;
        let seed = Seed {
            instance: info.name.instance,
            body: BodySettings {
                index,
                arena,
                metrics: info.metrics,
                measure_latency: shared.measure_latency,
                commit_at_end: shared.commit_at_end,
            },
            max_parallelism: shared.max_parallelism,
            budget: shared.budget,
            checkpointing: shared.checkpointing,
            mode: shared.mode,
            rate: shared.rate,
            position,
            end_of_data,
            sink_states,
            restored_checkpoint: shared.restored_checkpoint,
            locals: &mut locals,
        };
        let build = &plan.graph.nodes[info.node].build;
        core_loop.add(index, Box::new(move || build(seed)));
    }
    core_loop
}

/// The body of a core's thread.
fn run(core: usize, shared: Shared, make: impl FnOnce() -> CoreLoop, notify: &mpsc::Sender<String>, pulse: Pulse) {
    // Short sleeps end when they should and not up to 50 us later; a refusal costs latency alone.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    if shared.driver == Driver::Auto {
        match glommio_driver::executor_on(core) {
            Ok(executor) => return glommio_driver::drive(&executor, make, shared.idle, pulse),
            Err(error) => {
                let _ = notify.send(format!(
                    "io_uring is refused on core {core} ({error}); likely a container's seccomp profile, the sysctl \
                     kernel.io_uring_disabled, or a memlock limit that is too low. Using plain threads."
                ));
            }
        }
    }
    if !core_affinity::set_for_current(core_affinity::CoreId { id: core }) {
        let _ = notify.send(format!("cannot pin a thread to core {core}; it runs unpinned"));
    }
    thread_driver::drive(make(), shared.idle);
}
