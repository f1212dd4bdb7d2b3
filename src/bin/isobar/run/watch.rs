//! Standing by while the job runs.

use std::time::Duration;

use isobar::job::{Event, Job, JobHandle, Outcome};

use super::places::{Places, Start};
use super::progress::Progress;
use super::signals::Signals;
use crate::failure::Failure;
use crate::files;

/// Between two looks at the job, where nothing happens.
const TICK: Duration = Duration::from_millis(50);
/// Failed checkpoints that are reported one by one; the closing table counts them all.
const FAILURES_SHOWN: u64 = 3;

/// Runs the job to its end, or to a stop that a signal asks for.
pub fn watch(
    job: Job,
    signals: &Signals,
    places: &Places,
    total: Option<u64>,
    quiet: bool,
) -> Result<Outcome, Failure> {
    let handle = job.start()?;
    let mut watch = Watch { progress: Progress::new(total, quiet), completed: 0, failed: 0, restored: false };
    watch.take_events(&handle, Duration::ZERO);
    if places.start() == Start::Resume && !watch.restored {
        let place = places.store_path().unwrap_or(std::path::Path::new("the store")).display();
        files::print_error(&format!("{place} holds no checkpoint: starting afresh\n"));
    }
    let mut told = false;
    while !handle.is_finished() {
        if signals.stop_asked() && !told {
            told = true;
            watch.progress.say("stopping with a last checkpoint; a second signal stops at once");
            handle.stop();
        }
        watch.take_events(&handle, TICK);
        watch.progress.set(records(&handle), watch.completed);
    }
    watch.take_events(&handle, Duration::ZERO);
    watch.progress.finish();
    Ok(handle.join()?)
}

struct Watch {
    progress: Progress,
    completed: u64,
    failed: u64,
    restored: bool,
}

impl Watch {
    /// Takes in what has happened, and waits up to `wait` for something to happen.
    fn take_events(&mut self, handle: &JobHandle, wait: Duration) {
        let mut wait = wait;
        while let Some(event) = handle.next_event(wait) {
            wait = Duration::ZERO;
            match event {
                Event::Completed(_) => self.completed += 1,
                Event::Restored { checkpoint, restore_ns } => {
                    self.restored = true;
                    let took = crate::units::duration(restore_ns);
                    self.progress.say(&format!("restored checkpoint {checkpoint} in {took}"));
                }
                Event::Failed { checkpoint, reason } => {
                    self.failed += 1;
                    if self.failed <= FAILURES_SHOWN {
                        self.progress.say(&format!("checkpoint {checkpoint} failed: {reason}"));
                    }
                }
                Event::Notice(text) => self.progress.say(&text),
                _ => {}
            }
        }
    }
}

/// Records that the sources have given so far.
fn records(handle: &JobHandle) -> u64 {
    let sources =
        handle.metrics().into_iter().filter(|subtask| matches!(subtask.operator.as_str(), "orders" | "trades"));
    sources.map(|subtask| subtask.reading.records_in).sum()
}
