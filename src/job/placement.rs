//! Which core a subtask runs on.

use crate::job::error::JobError;
use crate::job::graph::Graph;

/// The core of every subtask, by node and instance.
pub(crate) type Placement = Vec<Vec<usize>>;

/// Places every subtask on one of `cores`. An operator that names its own cores gets them, instance by instance in
/// turn; the others are dealt out in topological order, each instance to the core with the fewest subtasks so far
/// (the first such core in a tie), so that neighbours in a pipeline land on different cores where there is room.
pub(crate) fn place(graph: &Graph, cores: &[usize]) -> Result<Placement, JobError> {
    let mut load = vec![0usize; cores.len()];
    let mut placement: Placement = vec![Vec::new(); graph.nodes.len()];
    let position = |core: usize| cores.iter().position(|&c| c == core);
    for (id, node) in graph.nodes.iter().enumerate() {
        let Some(wanted) = &node.cores else { continue };
        for instance in 0..node.parallelism {
            let core = *wanted.get(instance % wanted.len().max(1)).unwrap_or(&usize::MAX);
            let slot = position(core).ok_or_else(|| JobError::UnknownCore { core, cores: cores.to_vec() })?;
            load[slot] += 1;
            placement[id].push(core);
        }
    }
    for (id, node) in graph.nodes.iter().enumerate() {
        if node.cores.is_some() {
            continue;
        }
        for _ in 0..node.parallelism {
            let slot = (0..cores.len()).min_by_key(|&slot| load[slot]).ok_or(JobError::NoCores)?;
            load[slot] += 1;
            placement[id].push(cores[slot]);
        }
    }
    Ok(placement)
}
