//! Progress on standard error: a bar on a terminal, a line every few seconds otherwise.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

const LINES_APART: Duration = Duration::from_secs(2);

/// How far a run is.
pub struct Progress {
    bar: Option<ProgressBar>,
    quiet: bool,
    total: Option<u64>,
    printed: Instant,
}

impl Progress {
    /// `total`: records to come, where that is known.
    pub fn new(quiet: bool, total: Option<u64>) -> Self {
        let bar = (!quiet && std::io::stderr().is_terminal()).then(|| {
            let bar = total.map_or_else(ProgressBar::no_length, ProgressBar::new);
            let style = ProgressStyle::with_template("{bar:40} {human_pos} records, {per_sec}, {eta} left {msg}");
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Self { bar, quiet, total, printed: Instant::now() }
    }

    /// `records` have been read, `checkpoints` are complete.
    pub fn update(&mut self, records: u64, checkpoints: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(records.min(self.total.unwrap_or(u64::MAX)));
            bar.set_message(format!("({checkpoints} checkpoints)"));
        } else if !self.quiet && self.printed.elapsed() >= LINES_APART {
            self.printed = Instant::now();
            eprintln!("{records} records, {checkpoints} checkpoints");
        }
    }

    /// One line that stays.
    pub fn note(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{line}")),
            None => eprintln!("{line}"),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
