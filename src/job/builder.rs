//! Putting a job together.

use std::cell::RefCell;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use crate::checkpoint::CheckpointConfig;
use crate::job::error::JobError;
use crate::job::graph::{Graph, operator_id};
use crate::job::ingress::{Ingress, IngressHead, ingress};
use crate::job::placement::{Placement, place};
use crate::job::stream::{HeadSpec, SharedGraph, SourceHead, Stream};
use crate::measure::cores;
use crate::operator::Source;
use crate::runtime::IdleStrategy;
use crate::snapshot::{DirectoryStore, MemoryStore, OperatorId, Store, StoreError};

/// Which checkpoint a job begins from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Restore {
    /// None; the store must be empty.
    #[default]
    Fresh,
    /// The last complete one, or none where there is none yet.
    Latest,
    /// This one.
    Checkpoint(u64),
}

/// How the job's threads are driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Driver {
    /// glommio executors, or plain threads where io_uring is refused (an event says so).
    #[default]
    Auto,
    /// Plain threads.
    Threads,
}

/// Everything about a job that is not its graph.
pub(crate) struct Settings {
    pub name: String,
    pub checkpointing: Option<CheckpointConfig>,
    pub store: Option<Arc<dyn Store>>,
    pub restore: Restore,
    pub cores: Option<Vec<usize>>,
    pub max_parallelism: u16,
    pub idle: Option<IdleStrategy>,
    pub driver: Driver,
    pub ring_capacity: usize,
    pub turn_budget: usize,
    pub max_state_bytes: u64,
    pub rate: Option<f64>,
    pub measure_latency: bool,
    pub input_identity: Vec<(String, String)>,
    pub published: Option<u64>,
}

/// Called with a record number up to which (exclusive) a checkpoint has made an ingress's records durable.
pub(crate) type DurableCallback = Box<dyn Fn(u64) + Send + Sync>;

/// Builds a [`Job`]: first the settings, then the streams, then [`build`](JobBuilder::build).
pub struct JobBuilder {
    graph: SharedGraph,
    settings: Settings,
    durable: HashMap<OperatorId, DurableCallback>,
}

impl JobBuilder {
    /// A job called `name`. Checkpointing is off, parallelism 1, all cores that the process may run on.
    pub fn new(name: &str) -> Self {
        let graph = Graph { default_parallelism: 1, ..Graph::default() };
        let settings = Settings {
            name: name.to_string(),
            checkpointing: None,
            store: None,
            restore: Restore::Fresh,
            cores: None,
            max_parallelism: 128,
            idle: None,
            driver: Driver::Auto,
            ring_capacity: 1024,
            turn_budget: 128,
            max_state_bytes: 16 << 30,
            rate: None,
            measure_latency: false,
            input_identity: Vec::new(),
            published: None,
        };
        Self { graph: Rc::new(RefCell::new(graph)), settings, durable: HashMap::new() }
    }

    /// Turns checkpointing on.
    pub fn checkpointing(mut self, config: CheckpointConfig) -> Self {
        self.settings.checkpointing = Some(config);
        self
    }

    /// Keeps checkpoints in `directory`, which is made where it does not exist. Without a store they are kept in
    /// memory, which serves restarts within the process alone.
    ///
    /// # Errors
    /// Where the directory cannot be made or is in use by another process.
    pub fn store_directory(self, directory: &Path) -> Result<Self, StoreError> {
        let store = DirectoryStore::create(directory, &self.settings.name)?;
        Ok(self.store(Arc::new(store)))
    }

    /// Keeps checkpoints in `store`.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.settings.store = Some(store);
        self
    }

    /// Which checkpoint to begin from; none unless told otherwise.
    pub fn restore(mut self, restore: Restore) -> Self {
        self.settings.restore = restore;
        self
    }

    /// The cores to use.
    pub fn cores(mut self, cores: &[usize]) -> Self {
        self.settings.cores = Some(cores.to_vec());
        self
    }

    /// The parallelism of operators that do not name their own; sources have 1. Set it before the first stream.
    pub fn parallelism(self, subtasks: usize) -> Self {
        self.graph.borrow_mut().default_parallelism = subtasks;
        self
    }

    /// The number of key groups: the highest parallelism that the job's checkpoints can ever be restored with.
    /// 128 unless told otherwise; fixed for the life of a store.
    pub fn max_parallelism(mut self, key_groups: u16) -> Self {
        self.settings.max_parallelism = key_groups;
        self
    }

    /// How a core waits for work. Unless told otherwise: backoff.
    pub fn idle(mut self, strategy: IdleStrategy) -> Self {
        self.settings.idle = Some(strategy);
        self
    }

    /// How the job's threads are driven.
    pub fn driver(mut self, driver: Driver) -> Self {
        self.settings.driver = driver;
        self
    }

    /// Frames that a ring holds, rounded up to a power of two; 1,024 unless told otherwise.
    pub fn ring_capacity(mut self, frames: usize) -> Self {
        self.settings.ring_capacity = frames.max(2);
        self
    }

    /// Records that a subtask handles in one turn at most; 128 unless told otherwise.
    pub fn turn_budget(mut self, records: usize) -> Self {
        self.settings.turn_budget = records.max(1);
        self
    }

    /// The most memory that one subtask's state may take, in bytes; 16 GiB unless told otherwise. A write beyond it is
    /// an error of the operator. Memory is reserved, not taken, until it is used.
    pub fn max_state_bytes(mut self, bytes: u64) -> Self {
        self.settings.max_state_bytes = bytes;
        self
    }

    /// Runs the sources open-loop at `rate` messages a second: message i is due at i / rate, whether or not the job
    /// keeps up, and latency counts from there.
    pub fn rate(mut self, rate: f64) -> Self {
        self.settings.rate = Some(rate);
        self
    }

    /// Measures the latency of each record that reaches a sink's operator, from the time it was due.
    pub fn measure_latency(mut self, on: bool) -> Self {
        self.settings.measure_latency = on;
        self
    }

    /// Facts about the input that a resumed job must find unchanged, such as its length and a hash.
    pub fn input_identity(mut self, key: &str, value: &str) -> Self {
        self.settings.input_identity.push((key.to_string(), value.to_string()));
        self
    }

    /// The newest checkpoint whose output is already public, as a sink's own files show: a store that ends before it
    /// is refused.
    pub fn published(mut self, checkpoint: Option<u64>) -> Self {
        self.settings.published = checkpoint;
        self
    }

    /// A stream from a replayable source; `make` makes the instance of each subtask.
    pub fn source<S, F>(&self, name: &str, make: F) -> Stream<SourceHead<S, F>>
    where
        F: Fn(usize) -> S + Send + Sync + 'static,
        S: Source,
        S::Out: Clone + Send + 'static,
    {
        let spec = HeadSpec { name: name.to_string(), uid: None, parallelism: 1, cores: None };
        Stream::new(Rc::clone(&self.graph), spec, SourceHead { make, source: PhantomData })
    }

    /// A stream of records that the embedding thread pushes, with room for `capacity` that the job has not taken yet.
    ///
    /// `durable` is called on the coordinator's thread after each complete checkpoint with the number of the first
    /// record that it does not hold: everything before need never be sent again.
    pub fn ingress<T>(
        &mut self,
        name: &str,
        capacity: usize,
        durable: impl Fn(u64) + Send + Sync + 'static,
    ) -> (Ingress<T>, Stream<IngressHead<T>>)
    where
        T: Clone + Send + 'static,
    {
        let (ours, make) = ingress(capacity);
        self.durable.insert(operator_id(name), Box::new(durable));
        (ours, self.source(name, make))
    }

    /// Checks the graph and fixes the placement.
    ///
    /// # Errors
    /// [`JobError`] for what the graph lacks or contradicts; see there.
    pub fn build(self) -> Result<Job, JobError> {
        let Self { graph, mut settings, durable } = self;
        let graph = graph.take();
        if settings.max_parallelism == 0 || settings.max_parallelism > 1 << 15 {
            return Err(JobError::MaxParallelism { max_parallelism: settings.max_parallelism });
        }
        if let Some(rate) = settings.rate
            && !(rate.is_finite() && rate > 0.0)
        {
            return Err(JobError::Rate { rate });
        }
        graph.validate(settings.max_parallelism)?;
        let here = cores();
        let chosen = settings.cores.clone().unwrap_or_else(|| here.to_vec());
        if let Some(&core) = chosen.iter().find(|core| !here.contains(core)) {
            return Err(JobError::UnknownCore { core, cores: here.to_vec() });
        }
        let placement = place(&graph, &chosen)?;
        if settings.checkpointing.is_some() && settings.store.is_none() {
            settings.store = Some(Arc::new(MemoryStore::new()));
        }
        Ok(Job { plan: Arc::new(Plan { graph, placement, durable }), settings })
    }
}

/// What every execution attempt shares.
pub(crate) struct Plan {
    pub graph: Graph,
    pub placement: Placement,
    pub durable: HashMap<OperatorId, DurableCallback>,
}

/// A job ready to run.
pub struct Job {
    pub(crate) plan: Arc<Plan>,
    pub(crate) settings: Settings,
}
