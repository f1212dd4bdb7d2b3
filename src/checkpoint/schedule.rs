//! When the next checkpoint is due: the interval, the pause after a checkpoint, and the last checkpoint of a bounded
//! input. All times are ns of the job's clock; `u64::MAX` is never.

use std::time::Duration;

use super::config::{CheckpointConfig, nanos};

/// The longest wait until the last checkpoint of a bounded input is tried again after a failure.
const RETRY_MAX: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub(super) struct Schedule {
    interval_ns: u64,
    min_pause_ns: u64,
    retry_ns: u64,
    /// When the next periodic trigger is due.
    due_ns: u64,
    /// The next periodic trigger has been counted as delayed already.
    is_counted_delayed: bool,
    /// When a checkpoint last ended, completed or not.
    last_end_ns: Option<u64>,
    /// When that made room for the next one, if there was none.
    slot_freed_ns: u64,
    /// When the checkpoint that ends a bounded input is due; `None` while data is to come, or while it is in flight.
    last_due_ns: Option<u64>,
}

impl Schedule {
    /// Nothing is due before [`Schedule::start`].
    pub fn new(config: &CheckpointConfig) -> Self {
        let interval_ns = config.interval.map_or(u64::MAX, nanos);
        let min_pause_ns = nanos(config.min_pause);
        Self {
            interval_ns,
            min_pause_ns,
            retry_ns: interval_ns.min(nanos(RETRY_MAX)).max(min_pause_ns),
            due_ns: u64::MAX,
            is_counted_delayed: false,
            last_end_ns: None,
            slot_freed_ns: 0,
            last_due_ns: None,
        }
    }

    /// The job starts to run: the first periodic trigger is one interval away.
    pub fn start(&mut self, now_ns: u64) {
        self.due_ns = now_ns.saturating_add(self.interval_ns);
        self.is_counted_delayed = false;
        self.last_end_ns = None;
        self.slot_freed_ns = now_ns;
        self.last_due_ns = None;
    }

    /// A checkpoint ended; `was_full` says that none could be triggered beside it.
    pub fn checkpoint_ended(&mut self, now_ns: u64, was_full: bool) {
        self.last_end_ns = Some(now_ns);
        if was_full {
            self.slot_freed_ns = now_ns;
        }
    }

    /// When the next periodic trigger may go off as far as time decides.
    pub fn periodic_ns(&self) -> u64 {
        self.due_ns.max(self.pause_end_ns())
    }

    fn pause_end_ns(&self) -> u64 {
        self.last_end_ns.map_or(0, |end| end.saturating_add(self.min_pause_ns))
    }

    /// Counts, once for each due trigger, that it has to wait: for a free slot (`is_full`) or for the pause's end.
    pub fn note_delay(&mut self, now_ns: u64, is_full: bool) -> bool {
        let is_due = now_ns >= self.due_ns;
        let waited = is_full || self.pause_end_ns().max(self.slot_freed_ns) > self.due_ns;
        let is_news = is_due && waited && !self.is_counted_delayed;
        self.is_counted_delayed |= is_news;
        is_news
    }

    /// A periodic trigger went off. The next one keeps the beat of the interval; beats that have passed meanwhile are not
    /// made up for.
    pub fn periodic_triggered(&mut self, now_ns: u64) {
        let next_beat = self.due_ns.saturating_add(self.interval_ns);
        self.due_ns = if next_beat > now_ns { next_beat } else { now_ns.saturating_add(self.interval_ns) };
        self.is_counted_delayed = false;
    }

    /// The checkpoint that ends a bounded input is due from now on.
    pub fn last_is_due(&mut self, now_ns: u64) {
        self.last_due_ns = Some(now_ns);
    }

    /// The last checkpoint came to nothing: try again after a pause.
    pub fn retry_last(&mut self, now_ns: u64) {
        self.last_due_ns = Some(now_ns.saturating_add(self.retry_ns));
    }

    /// It was triggered.
    pub fn last_triggered(&mut self) {
        self.last_due_ns = None;
    }

    /// When the last checkpoint may be triggered; never if it is in flight or not due.
    pub fn last_ns(&self) -> u64 {
        self.last_due_ns.unwrap_or(u64::MAX)
    }
}
