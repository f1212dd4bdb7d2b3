//! The logical graph: operators as nodes, typed edges between them, and what makes their subtasks.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::job::edge::{LocalEnds, Spread, Wire};
use crate::job::error::JobError;
use crate::operator::{OperatorError, SinkState};
use crate::runtime::BodySettings;
use crate::runtime::subtask::Subtask;
use crate::snapshot::OperatorId;

/// A node's number, in the order of building: readers come after what they read.
pub(crate) type NodeId = usize;

/// What one subtask is built with, on its own core.
pub(crate) struct Seed<'a> {
    pub instance: usize,
    pub body: BodySettings,
    pub max_parallelism: u16,
    pub budget: usize,
    pub checkpointing: bool,
    pub mode: crate::checkpoint::AlignmentMode,
    pub rate: Option<f64>,
    pub position: Option<u64>,
    pub end_of_data: bool,
    pub sink_states: Vec<SinkState>,
    pub restored_checkpoint: u64,
    pub locals: &'a mut LocalEnds,
}

pub(crate) type Built = Result<Box<dyn Subtask>, OperatorError>;
pub(crate) type Build = Box<dyn Fn(Seed<'_>) -> Built + Send + Sync>;

/// One operator with the chain and sink behind it.
pub(crate) struct Node {
    pub name: String,
    pub operator: OperatorId,
    pub parallelism: usize,
    pub cores: Option<Vec<usize>>,
    pub sink: Option<(String, OperatorId)>,
    pub is_source: bool,
    pub inputs: Vec<EdgeRef>,
    pub build: Build,
}

/// An edge as its reader sees it.
#[derive(Clone)]
pub(crate) struct EdgeRef {
    pub from: NodeId,
    pub wire: Arc<dyn Wire>,
}

/// The nodes, in topological order.
#[derive(Default)]
pub(crate) struct Graph {
    pub nodes: Vec<Node>,
    /// Shared streams: node and name, with how often each is read.
    pub shared: Vec<(NodeId, usize)>,
    pub default_parallelism: usize,
}

/// The stable id of an operator: the hash of its name.
pub(crate) fn operator_id(name: &str) -> OperatorId {
    OperatorId(crate::hash::stable_hash(name.as_bytes()))
}

impl Graph {
    /// The checks that need the whole graph.
    pub(crate) fn validate(&self, max_parallelism: u16) -> Result<(), JobError> {
        if !self.nodes.iter().any(|node| node.is_source) {
            return Err(JobError::NoSource);
        }
        let mut names = HashSet::new();
        let mut ids = HashMap::new();
        for node in &self.nodes {
            let sink = node.sink.as_ref().map(|(name, id)| (name, *id));
            for (name, id) in std::iter::once((&node.name, node.operator)).chain(sink) {
                if !names.insert(name) {
                    return Err(JobError::DuplicateName { name: name.clone() });
                }
                if let Some(other) = ids.insert(id, name) {
                    return Err(JobError::DuplicateId { name: name.clone(), other: other.clone() });
                }
            }
            if node.parallelism == 0 || node.parallelism > usize::from(max_parallelism) {
                let (name, parallelism) = (node.name.clone(), node.parallelism);
                return Err(JobError::Parallelism { name, parallelism, max_parallelism });
            }
            for edge in &node.inputs {
                let from = &self.nodes[edge.from];
                if edge.wire.spread() == Spread::Forward && from.parallelism != node.parallelism {
                    return Err(JobError::ForwardParallelism {
                        from: from.name.clone(),
                        from_parallelism: from.parallelism,
                        to: node.name.clone(),
                        to_parallelism: node.parallelism,
                    });
                }
            }
        }
        let unread = self.shared.iter().find(|(_, readers)| *readers == 0);
        match unread {
            Some((node, _)) => Err(JobError::UnreadStream { name: self.nodes[*node].name.clone() }),
            None => Ok(()),
        }
    }
}
