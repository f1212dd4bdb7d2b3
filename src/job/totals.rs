//! What a run adds up.

use crate::job::event::CheckpointStats;
use crate::job::handle::CheckpointTotals;
use crate::measure::Histogram;
use crate::runtime::subtask::SubtaskTotals;

/// Counters and distributions over all checkpoints and subtasks of a run.
#[derive(Debug)]
pub(crate) struct Totals {
    pub triggered: u64,
    pub completed: u64,
    pub failed: u64,
    pub declined: u64,
    pub last_checkpoint: Option<u64>,
    pub last_triggered: u64,
    pub latency: Histogram,
    pub sync_ns: Histogram,
    bytes: u64,
    dirty_pages: u64,
    copied_pages: u64,
    start_delay_ns: Histogram,
    t_align_ns: Histogram,
    async_ns: Histogram,
    end_to_end_ns: Histogram,
    bytes_each: Histogram,
}

impl Totals {
    pub(crate) fn new() -> Self {
        Self {
            triggered: 0,
            completed: 0,
            failed: 0,
            declined: 0,
            last_checkpoint: None,
            last_triggered: 0,
            latency: Histogram::new(),
            sync_ns: Histogram::new(),
            bytes: 0,
            dirty_pages: 0,
            copied_pages: 0,
            start_delay_ns: Histogram::new(),
            t_align_ns: Histogram::new(),
            async_ns: Histogram::new(),
            end_to_end_ns: Histogram::new(),
            bytes_each: Histogram::new(),
        }
    }

    /// Adds a finished subtask.
    pub(crate) fn add(&mut self, subtask: &SubtaskTotals) {
        if let Some(latency) = &subtask.latency {
            self.latency.merge(latency);
        }
    }

    /// Adds a complete checkpoint.
    pub(crate) fn complete(&mut self, stats: &CheckpointStats) {
        self.completed += 1;
        self.last_checkpoint = Some(stats.checkpoint);
        self.bytes += stats.bytes;
        self.dirty_pages += stats.dirty_pages;
        self.copied_pages += stats.copied_pages;
        self.start_delay_ns.record(stats.start_delay_ns);
        self.t_align_ns.record(stats.t_align_ns);
        self.async_ns.record(stats.async_ns);
        self.end_to_end_ns.record(stats.end_to_end_ns);
        self.bytes_each.record(stats.bytes);
    }

    /// The checkpoints' part, as the outcome shows it.
    pub(crate) fn checkpoints(&self) -> CheckpointTotals {
        CheckpointTotals {
            triggered: self.triggered,
            completed: self.completed,
            failed: self.failed,
            declined: self.declined,
            bytes: self.bytes,
            dirty_pages: self.dirty_pages,
            copied_pages: self.copied_pages,
            start_delay_ns: self.start_delay_ns.percentiles(),
            t_align_ns: self.t_align_ns.percentiles(),
            sync_ns: self.sync_ns.percentiles(),
            async_ns: self.async_ns.percentiles(),
            end_to_end_ns: self.end_to_end_ns.percentiles(),
            bytes_each: self.bytes_each.percentiles(),
        }
    }
}
