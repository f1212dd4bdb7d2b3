//! Typed streams: what a job is written with.
//!
//! Steps without state (`map`, `filter`, `flat_map`, `key_by`) are collected into one chain behind their head and
//! compile into one call. A ring begins where a stream is read by a keyed process, a union or several readers.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use zerocopy::{Immutable, IntoBytes};

use crate::channel::InputGate;
use crate::checkpoint::Aligner;
use crate::job::edge::{Edge, Spread};
use crate::job::graph::{Build, Built, EdgeRef, Graph, Node, NodeId, Seed, operator_id};
use crate::operator::{Filter, FlatMap, Identity, KeyBy, KeyedCoProcess, KeyedProcess, Map, Sink, Source, Stage, Then};
use crate::runtime::Body;
use crate::runtime::inputs::{OneInput, Operator, TwoInputs, Union};
use crate::runtime::operator_task::OperatorSubtask;
use crate::runtime::source_task::{SourceSettings, SourceSubtask};
use crate::runtime::subtask::Subtask;
use crate::runtime::tail::{RingTail, SinkTail, Tail};

pub(crate) type SharedGraph = Rc<RefCell<Graph>>;

/// What stands at the head of a chain: a source or an operator that reads rings. Implemented by the engine alone.
#[allow(private_interfaces, private_bounds)] // the hidden parts are the engine's own
pub trait Head: sealed::Sealed + Send + Sync + Sized + 'static {
    /// The values that the head gives to its chain.
    type Out;

    #[doc(hidden)]
    const IS_SOURCE: bool = false;

    /// Builds one subtask, with its own copy of the chain.
    #[doc(hidden)]
    fn build<C, O, T>(&self, seed: Seed<'_>, chain: C, tail: T) -> Box<dyn Subtask>
    where
        C: Stage<Self::Out, Out = O>,
        T: Tail<O> + 'static;

    #[doc(hidden)]
    fn inputs(&self) -> Vec<EdgeRef>;
}

mod sealed {
    pub trait Sealed {}
}

/// Name, parallelism and placement of a head that is not part of the graph yet.
#[derive(Clone, Debug)]
pub(crate) struct HeadSpec {
    pub name: String,
    pub uid: Option<String>,
    pub parallelism: usize,
    pub cores: Option<Vec<usize>>,
}

/// A stream of values: a head (`H`) and the chain of stages behind it (`C`).
#[must_use = "a stream that nobody reads is an error when the job is built"]
pub struct Stream<H: Head, C = Identity> {
    graph: SharedGraph,
    spec: HeadSpec,
    head: H,
    chain: C,
}

impl<H: Head> Stream<H> {
    pub(crate) fn new(graph: SharedGraph, spec: HeadSpec, head: H) -> Self {
        Self { graph, spec, head, chain: Identity }
    }
}

impl<H, C> Stream<H, C>
where
    H: Head,
    C: Stage<H::Out> + Sync,
    C::Out: Clone + Send + 'static,
{
    /// How many parallel subtasks the head operator runs as. A source has 1 unless told otherwise, any other operator
    /// the job's default.
    pub fn parallelism(mut self, subtasks: usize) -> Self {
        self.spec.parallelism = subtasks;
        self
    }

    /// The cores that the head operator's subtasks run on, in turn; automatic otherwise.
    pub fn cores(mut self, cores: &[usize]) -> Self {
        self.spec.cores = Some(cores.to_vec());
        self
    }

    /// The stable id by which a checkpoint knows the head operator; its name unless told otherwise. With a fixed
    /// `uid` an operator may be renamed.
    pub fn uid(mut self, uid: &str) -> Self {
        self.spec.uid = Some(uid.to_string());
        self
    }

    fn then<S: Stage<C::Out>>(self, stage: S) -> Stream<H, Then<C, S>> {
        let Self { graph, spec, head, chain } = self;
        Stream { graph, spec, head, chain: Then(chain, stage) }
    }

    /// One value out for each value in.
    pub fn map<Out, F>(self, f: F) -> Stream<H, Then<C, Map<F>>>
    where
        F: FnMut(C::Out) -> Out + Clone + Send + 'static,
    {
        self.then(Map(f))
    }

    /// Keeps the values for which `f` is true.
    pub fn filter<F>(self, f: F) -> Stream<H, Then<C, Filter<F>>>
    where
        F: FnMut(&C::Out) -> bool + Clone + Send + 'static,
    {
        self.then(Filter(f))
    }

    /// Any number of values out for each value in. Output that does not fit the next ring waits in a spill buffer;
    /// no further input is taken until it is gone.
    pub fn flat_map<I, F>(self, f: F) -> Stream<H, Then<C, FlatMap<F>>>
    where
        I: IntoIterator,
        F: FnMut(C::Out) -> I + Clone + Send + 'static,
    {
        self.then(FlatMap(f))
    }

    /// Partitions the stream by a key of plain bytes: all records with equal keys are handled by one subtask of the
    /// next operator, in their order.
    pub fn key_by<K, F>(self, key: F) -> KeyedStream<H, Then<C, KeyBy<F>>>
    where
        K: IntoBytes + Immutable,
        F: FnMut(&C::Out) -> K + Clone + Send + 'static,
    {
        KeyedStream(self.then(KeyBy::new(key)))
    }

    /// Both streams as one. The order within each is kept, that between them is not defined. Both heads must have the
    /// same parallelism.
    pub fn union<H2, C2>(self, other: Stream<H2, C2>) -> Stream<UnionHead<C::Out>>
    where
        H2: Head,
        C2: Stage<H2::Out, Out = C::Out> + Sync,
    {
        let graph = Rc::clone(&self.graph);
        let spec = HeadSpec {
            name: format!("union({}, {})", self.spec.name, other.spec.name),
            uid: None,
            parallelism: self.spec.parallelism,
            cores: None,
        };
        let edges = vec![self.attach(Spread::Forward), other.attach(Spread::Forward)];
        Stream::new(graph, spec, UnionHead { edges })
    }

    /// Sends every record to every subtask of the next operator.
    pub fn broadcast(self, parallelism: usize) -> Stream<UnionHead<C::Out>> {
        let graph = Rc::clone(&self.graph);
        let name = format!("broadcast({})", self.spec.name);
        let edges = vec![self.attach(Spread::Broadcast)];
        Stream::new(graph, HeadSpec { name, uid: None, parallelism, cores: None }, UnionHead { edges })
    }

    /// A handle that can be read any number of times; each reader gets every record.
    pub fn share(self) -> SharedStream<C::Out> {
        let graph = Rc::clone(&self.graph);
        let (name, parallelism) = (self.spec.name.clone(), self.spec.parallelism);
        let edges = Arc::new(std::sync::Mutex::new(Vec::new()));
        let node = self.into_node(Arc::clone(&edges));
        graph.borrow_mut().shared.push((node, 0));
        SharedStream { graph, node, name, parallelism, edges }
    }

    /// Ends the stream in a sink, chained to the head: one sink instance per subtask, made by `sink` with the
    /// instance's index.
    pub fn sink<S: Sink<In = C::Out>>(self, name: &str, sink: impl Fn(usize) -> S + Send + Sync + 'static) {
        let Self { graph, spec, head, chain } = self;
        let inputs = head.inputs();
        let build = move |mut seed: Seed<'_>| -> Built {
            let restored = std::mem::take(&mut seed.sink_states);
            let tail = SinkTail::new(sink(seed.instance), seed.instance, restored, seed.restored_checkpoint);
            Ok(head.build(seed, chain.clone(), tail))
        };
        let sink = Some((name.to_string(), operator_id(name)));
        add_node(&graph, spec, H::IS_SOURCE, inputs, sink, Box::new(build));
    }

    /// Ends the stream in a function that is called for each record, on the thread of the subtask's core, as soon as
    /// the record has come through the chain and so before any checkpoint holds it: after a restore it sees records
    /// again. For output that must appear exactly once use a [`Sink`].
    pub fn for_each<F>(self, name: &str, f: F)
    where
        F: FnMut(crate::channel::Record<C::Out>) + Clone + Send + Sync + 'static,
    {
        self.sink(name, move |_| crate::operator::CallbackSink::new(f.clone()));
    }

    /// Makes the head a node of the graph, read through one edge.
    fn attach(self, spread: Spread) -> TypedEdge<C::Out> {
        let edge = Edge::new(spread);
        let from = self.into_node(Arc::new(std::sync::Mutex::new(vec![Arc::clone(&edge)])));
        TypedEdge { from, edge }
    }

    fn into_node(self, edges: Readers<C::Out>) -> NodeId {
        let Self { graph, spec, head, chain } = self;
        let inputs = head.inputs();
        let build = move |seed: Seed<'_>| -> Built {
            let edges = edges.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
            let mut outboxes =
                edges.iter().map(|edge| edge.outbox(seed.instance, seed.max_parallelism, &mut *seed.locals));
            let first = outboxes.next().ok_or("the stream has no reader")??;
            let others = outboxes.collect::<Result<_, _>>()?;
            Ok(head.build(seed, chain.clone(), RingTail::new(first, others)))
        };
        add_node(&graph, spec, H::IS_SOURCE, inputs, None, Box::new(build))
    }
}

type Readers<T> = Arc<std::sync::Mutex<Vec<Arc<Edge<T>>>>>;

fn add_node(
    graph: &SharedGraph,
    spec: HeadSpec,
    is_source: bool,
    inputs: Vec<EdgeRef>,
    sink: Option<(String, crate::snapshot::OperatorId)>,
    build: Build,
) -> NodeId {
    let mut graph = graph.borrow_mut();
    graph.nodes.push(Node {
        operator: operator_id(spec.uid.as_deref().unwrap_or(&spec.name)),
        name: spec.name,
        parallelism: spec.parallelism,
        cores: spec.cores,
        sink,
        is_source,
        inputs,
        build,
    });
    graph.nodes.len() - 1
}

/// A stream whose records carry their key group. Made by [`Stream::key_by`].
#[must_use = "a stream that nobody reads is an error when the job is built"]
pub struct KeyedStream<H: Head, C>(Stream<H, C>);

impl<H, C> KeyedStream<H, C>
where
    H: Head,
    C: Stage<H::Out> + Sync,
    C::Out: Clone + Send + 'static,
{
    /// Handles the records with a keyed process; `make` makes the instance of each subtask.
    pub fn process<P, F>(self, name: &str, make: F) -> Stream<ProcessHead<P, F>>
    where
        F: Fn(usize) -> P + Send + Sync + 'static,
        P: KeyedProcess<In = C::Out>,
    {
        let graph = Rc::clone(&self.0.graph);
        let spec = HeadSpec::keyed(name, &graph);
        let edge = self.0.attach(Spread::KeyGroup);
        Stream::new(graph, spec, ProcessHead { make, edge })
    }

    /// Joins two keyed streams for an operator with two inputs. Records with equal keys on either side meet in the
    /// same subtask.
    pub fn connect<H2: Head, C2>(self, other: KeyedStream<H2, C2>) -> ConnectedStreams<H, C, H2, C2> {
        ConnectedStreams { first: self.0, second: other.0 }
    }
}

/// Two keyed streams side by side. Made by [`KeyedStream::connect`].
#[must_use = "a stream that nobody reads is an error when the job is built"]
pub struct ConnectedStreams<H1: Head, C1, H2: Head, C2> {
    first: Stream<H1, C1>,
    second: Stream<H2, C2>,
}

impl<H1, C1, H2, C2> ConnectedStreams<H1, C1, H2, C2>
where
    H1: Head,
    C1: Stage<H1::Out> + Sync,
    C1::Out: Clone + Send + 'static,
    H2: Head,
    C2: Stage<H2::Out> + Sync,
    C2::Out: Clone + Send + 'static,
{
    /// Handles both inputs with one keyed process; `make` makes the instance of each subtask.
    pub fn process<P, F>(self, name: &str, make: F) -> Stream<CoProcessHead<P, F>>
    where
        F: Fn(usize) -> P + Send + Sync + 'static,
        P: KeyedCoProcess<In1 = C1::Out, In2 = C2::Out>,
    {
        let graph = Rc::clone(&self.first.graph);
        let spec = HeadSpec::keyed(name, &graph);
        let edge1 = self.first.attach(Spread::KeyGroup);
        let edge2 = self.second.attach(Spread::KeyGroup);
        Stream::new(graph, spec, CoProcessHead { make, edge1, edge2 })
    }
}

/// A stream with several readers. Made by [`Stream::share`].
pub struct SharedStream<T> {
    graph: SharedGraph,
    node: NodeId,
    name: String,
    parallelism: usize,
    edges: Readers<T>,
}

impl<T: Clone + Send + 'static> SharedStream<T> {
    /// One more reader, with all records.
    pub fn reader(&self) -> Stream<UnionHead<T>> {
        let edge = Edge::new(Spread::Forward);
        self.edges.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(Arc::clone(&edge));
        let mut readers = 0;
        for (node, count) in &mut self.graph.borrow_mut().shared {
            if *node == self.node {
                *count += 1;
                readers = *count;
            }
        }
        let name = format!("{} reader {readers}", self.name);
        let spec = HeadSpec { name, uid: None, parallelism: self.parallelism, cores: None };
        let edges = vec![TypedEdge { from: self.node, edge }];
        Stream::new(Rc::clone(&self.graph), spec, UnionHead { edges })
    }
}

/// An edge with the node that feeds it.
pub(crate) struct TypedEdge<T> {
    from: NodeId,
    edge: Arc<Edge<T>>,
}

impl<T: Clone + Send + 'static> TypedEdge<T> {
    fn reference(&self) -> EdgeRef {
        EdgeRef { from: self.from, wire: Arc::clone(&self.edge) as _ }
    }

    fn gate(&self, seed: &mut Seed<'_>) -> InputGate<T> {
        InputGate::new(self.edge.receivers(seed.instance, seed.locals))
    }
}

impl HeadSpec {
    fn keyed(name: &str, graph: &SharedGraph) -> Self {
        let parallelism = graph.borrow().default_parallelism;
        Self { name: name.to_string(), uid: None, parallelism, cores: None }
    }
}

fn operator_subtask<O: Operator, C, T>(seed: Seed<'_>, operator: O, chain: C, tail: T) -> Box<dyn Subtask>
where
    C: Stage<O::Out>,
    T: Tail<C::Out> + 'static,
{
    let aligner = Aligner::new(seed.mode, operator.channels());
    let body = Body::new(seed.body, chain, tail, seed.max_parallelism);
    Box::new(OperatorSubtask::new(body, operator, aligner, seed.budget, seed.end_of_data))
}

/// A source as a head.
pub struct SourceHead<S, F> {
    pub(crate) make: F,
    pub(crate) source: std::marker::PhantomData<fn() -> S>,
}

impl<S: Source, F: Fn(usize) -> S + Send + Sync + 'static> sealed::Sealed for SourceHead<S, F> {}

#[allow(private_interfaces, private_bounds)]
impl<S: Source, F: Fn(usize) -> S + Send + Sync + 'static> Head for SourceHead<S, F> {
    type Out = S::Out;
    const IS_SOURCE: bool = true;

    fn build<C, O, T>(&self, seed: Seed<'_>, chain: C, tail: T) -> Box<dyn Subtask>
    where
        C: Stage<Self::Out, Out = O>,
        T: Tail<O> + 'static,
    {
        let source = (self.make)(seed.instance);
        let settings = SourceSettings {
            instance: seed.instance,
            position: seed.position,
            checkpointing: seed.checkpointing,
            rate: seed.rate,
            budget: seed.budget,
        };
        let body = Body::new(seed.body, chain, tail, seed.max_parallelism);
        Box::new(SourceSubtask::new(body, source, settings))
    }

    fn inputs(&self) -> Vec<EdgeRef> {
        Vec::new()
    }
}

/// A keyed process as a head.
pub struct ProcessHead<P: KeyedProcess, F> {
    make: F,
    edge: TypedEdge<P::In>,
}

impl<P: KeyedProcess, F: Fn(usize) -> P + Send + Sync + 'static> sealed::Sealed for ProcessHead<P, F> where
    P::In: Clone + Send + 'static
{
}

#[allow(private_interfaces, private_bounds)]
impl<P: KeyedProcess, F: Fn(usize) -> P + Send + Sync + 'static> Head for ProcessHead<P, F>
where
    P::In: Clone + Send + 'static,
{
    type Out = P::Out;

    fn build<C, O, T>(&self, mut seed: Seed<'_>, chain: C, tail: T) -> Box<dyn Subtask>
    where
        C: Stage<Self::Out, Out = O>,
        T: Tail<O> + 'static,
    {
        let operator = OneInput { gate: self.edge.gate(&mut seed), process: (self.make)(seed.instance) };
        operator_subtask(seed, operator, chain, tail)
    }

    fn inputs(&self) -> Vec<EdgeRef> {
        vec![self.edge.reference()]
    }
}

/// A keyed process with two inputs as a head.
pub struct CoProcessHead<P: KeyedCoProcess, F> {
    make: F,
    edge1: TypedEdge<P::In1>,
    edge2: TypedEdge<P::In2>,
}

impl<P: KeyedCoProcess, F: Fn(usize) -> P + Send + Sync + 'static> sealed::Sealed for CoProcessHead<P, F>
where
    P::In1: Clone + Send + 'static,
    P::In2: Clone + Send + 'static,
{
}

#[allow(private_interfaces, private_bounds)]
impl<P: KeyedCoProcess, F: Fn(usize) -> P + Send + Sync + 'static> Head for CoProcessHead<P, F>
where
    P::In1: Clone + Send + 'static,
    P::In2: Clone + Send + 'static,
{
    type Out = P::Out;

    fn build<C, O, T>(&self, mut seed: Seed<'_>, chain: C, tail: T) -> Box<dyn Subtask>
    where
        C: Stage<Self::Out, Out = O>,
        T: Tail<O> + 'static,
    {
        let operator = TwoInputs {
            gate1: self.edge1.gate(&mut seed),
            gate2: self.edge2.gate(&mut seed),
            process: (self.make)(seed.instance),
            second_first: false,
        };
        operator_subtask(seed, operator, chain, tail)
    }

    fn inputs(&self) -> Vec<EdgeRef> {
        vec![self.edge1.reference(), self.edge2.reference()]
    }
}

/// Several streams read as one, as a head.
pub struct UnionHead<T> {
    edges: Vec<TypedEdge<T>>,
}

impl<T: Clone + Send + 'static> sealed::Sealed for UnionHead<T> {}

#[allow(private_interfaces, private_bounds)]
impl<T: Clone + Send + 'static> Head for UnionHead<T> {
    type Out = T;

    fn build<C, O, Tl>(&self, seed: Seed<'_>, chain: C, tail: Tl) -> Box<dyn Subtask>
    where
        C: Stage<Self::Out, Out = O>,
        Tl: Tail<O> + 'static,
    {
        let receivers = self.edges.iter().flat_map(|edge| edge.edge.receivers(seed.instance, seed.locals)).collect();
        let operator = Union { gate: InputGate::new(receivers) };
        operator_subtask(seed, operator, chain, tail)
    }

    fn inputs(&self) -> Vec<EdgeRef> {
        self.edges.iter().map(TypedEdge::reference).collect()
    }
}
