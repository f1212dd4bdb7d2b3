//! What a running subtask shows to other threads: counters that its own thread writes once a turn.

use crate::sync::{AtomicU64, Ordering};

/// One subtask's counters. Only the subtask's thread writes; readers may see values a turn old.
#[derive(Debug, Default)]
pub struct SubtaskMetrics {
    records_in: AtomicU64,
    turns: AtomicU64,
    state_bytes: AtomicU64,
}

/// A reading of [`SubtaskMetrics`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubtaskReading {
    /// Records taken from the inputs, or given by the source.
    pub records_in: u64,
    /// Turns that did work.
    pub turns: u64,
    /// Bytes of state memory in use, spares included.
    pub state_bytes: u64,
}

impl SubtaskMetrics {
    /// Adds one turn's work. A load and a store, no read-modify-write: there is one writer.
    #[inline(always)]
    pub(crate) fn add(&self, records: usize) {
        let add = |counter: &AtomicU64, n: u64| {
            counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
        };
        add(&self.records_in, records as u64);
        add(&self.turns, 1);
    }

    pub(crate) fn set_state_bytes(&self, bytes: u64) {
        self.state_bytes.store(bytes, Ordering::Relaxed);
    }

    /// The counters as they stand.
    pub fn read(&self) -> SubtaskReading {
        SubtaskReading {
            records_in: self.records_in.load(Ordering::Relaxed),
            turns: self.turns.load(Ordering::Relaxed),
            state_bytes: self.state_bytes.load(Ordering::Relaxed),
        }
    }
}
