//! The subtasks as the coordinator sees them, from their first record to the end of their input.

/// How far a subtask is.
///
/// A source that runs dry says so and goes on taking part in checkpoints, with nothing left to give, until one that
/// holds its last position is complete. Only then does it send `End`, so nobody ever ends whose last state is not safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubtaskPhase {
    /// Records are still to come.
    Running,
    /// A source that has run dry and waits for the checkpoint with its last position.
    EndOfData,
    /// Its last state is in a complete checkpoint (or checkpointing is off); later checkpoints do not wait for it.
    Ended,
    /// Its thread is through with it.
    Finished,
}

#[derive(Clone, Debug)]
pub(super) struct Subtasks {
    is_source: Box<[bool]>,
    phases: Box<[SubtaskPhase]>,
}

impl Subtasks {
    pub fn new(is_source: &[bool]) -> Self {
        Self { is_source: is_source.into(), phases: vec![SubtaskPhase::Running; is_source.len()].into_boxed_slice() }
    }

    /// Everybody starts again.
    pub fn restart(&mut self) {
        self.phases.fill(SubtaskPhase::Running);
    }

    pub fn contains(&self, subtask: usize) -> bool {
        subtask < self.phases.len()
    }

    pub fn is_source(&self, subtask: usize) -> bool {
        self.is_source.get(subtask) == Some(&true)
    }

    pub fn phase(&self, subtask: usize) -> Option<SubtaskPhase> {
        self.phases.get(subtask).copied()
    }

    /// Moves a subtask on. Phases only go forward: says whether this was a step.
    pub fn advance(&mut self, subtask: usize, to: SubtaskPhase) -> bool {
        match self.phases.get_mut(subtask) {
            Some(phase) if (*phase as u8) < to as u8 => {
                *phase = to;
                true
            }
            _ => false,
        }
    }

    /// For each subtask, whether the next checkpoint waits for it.
    pub fn takes_part(&self) -> impl Iterator<Item = bool> + '_ {
        self.phases.iter().map(|phase| matches!(phase, SubtaskPhase::Running | SubtaskPhase::EndOfData))
    }

    /// The sources that the next checkpoint is triggered at.
    pub fn triggerable(&self) -> impl Iterator<Item = usize> + '_ {
        self.takes_part().enumerate().filter(|&(subtask, takes)| takes && self.is_source[subtask]).map(|(s, _)| s)
    }

    /// Subtasks whose last state is in a complete checkpoint.
    pub fn ended(&self) -> impl Iterator<Item = usize> + '_ {
        self.takes_part().enumerate().filter(|(_, takes)| !takes).map(|(subtask, _)| subtask)
    }

    pub fn sources_in(&self, wanted: SubtaskPhase) -> impl Iterator<Item = usize> + '_ {
        let phases = self.phases.iter().enumerate();
        phases.filter(move |&(subtask, phase)| self.is_source[subtask] && *phase == wanted).map(|(subtask, _)| subtask)
    }

    /// No source has a record left, and at least one waits for the checkpoint that says so.
    pub fn await_last_checkpoint(&self) -> bool {
        self.sources_in(SubtaskPhase::Running).next().is_none()
            && self.sources_in(SubtaskPhase::EndOfData).next().is_some()
    }

    pub fn all_finished(&self) -> bool {
        self.phases.iter().all(|phase| *phase == SubtaskPhase::Finished)
    }
}
