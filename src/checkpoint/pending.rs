//! One checkpoint in flight: who has acknowledged it, and how far it is.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The subtask's end is in an earlier complete checkpoint: nothing to come.
    None,
    Awaited,
    Acknowledged {
        last: bool,
    },
}

/// How an acknowledgement was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledgement {
    /// It counts.
    Accepted,
    /// This subtask has acknowledged this checkpoint before.
    Duplicate,
    /// The checkpoint is not in flight (any more), or does not wait for this subtask.
    Unknown,
    /// It comes from another execution attempt: whatever came with it must not be used.
    Stale,
}

#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub checkpoint: u64,
    pub trigger_ns: u64,
    /// All sources had run dry when it was triggered, so it can hold the last positions.
    pub after_data: bool,
    /// When the last acknowledgement came so far.
    pub acknowledged_ns: u64,
    /// The writer has it: no way back from there but the writer's answer.
    pub is_committing: bool,
    parts: Vec<Part>,
    missing: usize,
}

impl Pending {
    /// A checkpoint that waits for the subtasks that `takes_part` says.
    pub fn new(checkpoint: u64, trigger_ns: u64, takes_part: impl Iterator<Item = bool>) -> Self {
        let parts: Vec<_> = takes_part.map(|takes| if takes { Part::Awaited } else { Part::None }).collect();
        let missing = parts.iter().filter(|part| **part == Part::Awaited).count();
        Self {
            checkpoint,
            trigger_ns,
            after_data: false,
            acknowledged_ns: trigger_ns,
            is_committing: false,
            parts,
            missing,
        }
    }

    pub fn acknowledge(&mut self, subtask: usize, last: bool, now_ns: u64) -> Acknowledgement {
        match self.parts.get_mut(subtask) {
            Some(part @ Part::Awaited) => {
                *part = Part::Acknowledged { last };
                self.missing -= 1;
                self.acknowledged_ns = now_ns;
                Acknowledgement::Accepted
            }
            Some(Part::Acknowledged { .. }) => Acknowledgement::Duplicate,
            Some(Part::None) | None => Acknowledgement::Unknown,
        }
    }

    pub fn awaits(&self, subtask: usize) -> bool {
        self.parts.get(subtask) == Some(&Part::Awaited)
    }

    pub fn takes_part(&self, subtask: usize) -> bool {
        matches!(self.parts.get(subtask), Some(Part::Awaited | Part::Acknowledged { .. }))
    }

    /// Subtasks whose acknowledgement said that their input lies wholly before the barrier.
    pub fn last_parts(&self) -> impl Iterator<Item = usize> + '_ {
        self.parts.iter().enumerate().filter(|(_, part)| **part == Part::Acknowledged { last: true }).map(|(i, _)| i)
    }

    pub fn missing(&self) -> usize {
        self.missing
    }

    /// When it fails if acknowledgements are still missing; `None` once all are there.
    pub fn expiry_ns(&self, timeout_ns: u64) -> Option<u64> {
        (self.missing > 0).then(|| self.trigger_ns.saturating_add(timeout_ns))
    }
}
