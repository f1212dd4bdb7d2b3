//! How far a run is: a bar on a terminal, plain lines otherwise, nothing when asked to be quiet.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{files, units};

/// Between two plain lines.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Where progress goes.
pub struct Progress {
    form: Form,
    begun: Instant,
}

enum Form {
    Bar(ProgressBar),
    Lines { last: Instant },
    Quiet,
}

impl Progress {
    /// Progress towards `total` messages, where that is known.
    pub fn new(total: Option<u64>, quiet: bool) -> Self {
        let begun = Instant::now();
        let form = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Form::Quiet,
            (false, false) => Form::Lines { last: begun },
            (false, true) => Form::Bar(bar(total)),
        };
        Self { form, begun }
    }

    /// The run stands here.
    pub fn set(&mut self, records: u64, checkpoints: u64) {
        let elapsed = self.begun.elapsed();
        let rate = units::per_second(records as f64 / elapsed.as_secs_f64().max(1e-9));
        match &mut self.form {
            Form::Bar(bar) => {
                bar.set_position(records);
                bar.set_message(format!("{rate}, {} checkpoints", units::count(checkpoints)));
            }
            Form::Lines { last } if last.elapsed() >= LINE_EVERY => {
                *last = Instant::now();
                let (seconds, records) = (elapsed.as_secs_f64(), units::count(records));
                let checkpoints = units::count(checkpoints);
                files::print_error(&format!("{seconds:.1} s: {records} records, {rate}, {checkpoints} checkpoints\n"));
            }
            Form::Lines { .. } | Form::Quiet => {}
        }
    }

    /// Says something beside the progress.
    pub fn say(&self, text: &str) {
        match &self.form {
            Form::Bar(bar) => bar.println(text),
            Form::Lines { .. } => files::print_error(&format!("{text}\n")),
            Form::Quiet => {}
        }
    }

    /// Takes the bar away: the closing table says more.
    pub fn finish(&self) {
        if let Form::Bar(bar) = &self.form {
            bar.finish_and_clear();
        }
    }
}

fn bar(total: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr_with_hz(10));
    let template = match total {
        Some(_) => "{elapsed_precise} {wide_bar} {human_pos} of {human_len}, {msg}",
        None => "{elapsed_precise} {spinner} {human_pos} records, {msg}",
    };
    // A template that does not parse would be a defect of this line; the default bar does as well.
    ProgressStyle::with_template(template).map_or(bar.clone(), |style| bar.with_style(style))
}
