//! The machine form of a run.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use isobar::market::OrderBookResult;
use isobar::measure::report::{Checkpoints, Errors, InputError, Report, Run};
use isobar::measure::{Host, Percentiles, hop, noise_floor};
use serde_json::{Value, json};

use super::{Finished, chosen_cores, result_hash};
use crate::arguments::{Interval, Mode, OnErrorArgument, Rate, RunArguments};
use crate::failure::Failure;
use crate::files;

/// Spent on finding out what the machine does by itself.
const NOISE: Duration = Duration::from_millis(200);
const HOP: Duration = Duration::from_millis(50);

/// The machine, measured right before the run on the run's cores.
pub struct Machine {
    host: Host,
    noise_floor_ns: Option<Percentiles>,
    hop_ns: Option<Percentiles>,
}

impl Machine {
    /// Measures for about a quarter of a second. What the machine refuses is left out.
    pub fn measure(cores: &[usize]) -> Self {
        let noise = noise_floor(cores, NOISE).ok();
        let hop = match cores {
            [first, second, ..] => hop(*first, *second, HOP).ok(),
            _ => None,
        };
        Self {
            host: Host::read(),
            noise_floor_ns: noise.and_then(|noise| noise.percentiles()),
            hop_ns: hop.and_then(|hop| hop.percentiles()),
        }
    }

    /// The report of one run.
    pub fn report(self, arguments: &RunArguments, finished: &Finished) -> Report {
        // Arguments that are not UTF-8 are shown as well as can be.
        let argv = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
        let mut report = Report::new(self.host, argv);
        report.noise_floor_ns = self.noise_floor_ns;
        report.hop_ns = self.hop_ns;
        report.runs.push(run(arguments, finished));
        report
    }
}

fn run(arguments: &RunArguments, finished: &Finished) -> Run {
    let outcome = &finished.outcome;
    let totals = &outcome.checkpoints;
    let is_on = arguments.checkpoint_interval != Interval::Off;
    let mut run = Run {
        scenario: "orderbook".to_string(),
        params: params(arguments),
        result_hash: result_hash(finished),
        errors: finished.summary.is_some().then(|| errors(&finished.result)),
        latency_ns: outcome.latency.percentiles(),
        checkpoints: is_on.then_some(Checkpoints {
            triggered: totals.triggered,
            completed: totals.completed,
            failed: totals.failed.saturating_sub(totals.declined),
            declined: totals.declined,
        }),
        start_delay_ns: totals.start_delay_ns,
        t_align_ns: totals.t_align_ns,
        sync_ns: totals.sync_ns,
        async_ns: totals.async_ns,
        end_to_end_ns: totals.end_to_end_ns,
        bytes_written: is_on.then_some(totals.bytes),
        dirty_pages: is_on.then_some(totals.dirty_pages),
        copied_pages: is_on.then_some(totals.copied_pages),
        state_bytes: Some(outcome.state_bytes),
        restore_ns: outcome.restore_ns,
        ..Run::default()
    };
    run.set_duration(finished.messages(), outcome.seconds);
    run
}

fn params(arguments: &RunArguments) -> BTreeMap<String, Value> {
    let interval_ns = match arguments.checkpoint_interval {
        Interval::Every(interval) => json!(interval.as_nanos() as u64),
        Interval::Off => Value::Null,
    };
    let rate_per_s = match arguments.rate {
        Rate::PerSecond(rate) => json!(rate),
        Rate::Max => Value::Null,
    };
    let mode = match arguments.mode {
        Mode::ExactlyOnce => "exactly-once",
        Mode::AtLeastOnce => "at-least-once",
    };
    let on_error = match arguments.on_error {
        OnErrorArgument::Skip => "skip",
        OnErrorArgument::Fail => "fail",
    };
    let input = arguments.input.as_ref().map(|path| path.to_string_lossy().into_owned());
    let params = [
        ("checkpoint_interval_ns", interval_ns),
        ("cores", json!(chosen_cores(arguments))),
        ("input", json!(input)),
        ("mode", json!(mode)),
        ("on_error", json!(on_error)),
        ("output", json!(arguments.output.is_some())),
        ("parallelism", json!(arguments.parallelism)),
        ("rate_per_s", rate_per_s),
    ];
    params.into_iter().map(|(key, value)| (key.to_string(), value)).collect()
}

fn errors(result: &OrderBookResult) -> Errors {
    let faults = &result.faults;
    let first = faults.first().map(|fault| InputError {
        offset: fault.offset,
        kind: fault.kind.name().to_string(),
        what: fault.to_string(),
    });
    Errors {
        count: faults.total(),
        by_kind: faults.by_kind().into_iter().map(|(kind, count)| (kind.name().to_string(), count)).collect(),
        first: first.collect(),
    }
}

/// Writes the report to its file, or to standard output.
pub fn write(file: &Path, to_stdout: bool, report: &Report) -> Result<(), Failure> {
    if !to_stdout {
        return files::write_whole(file, |file| report.write(file)).map(|_| ());
    }
    let mut text = Vec::new();
    let written = report.write(&mut text);
    written.map_err(|error| Failure::io("write", "the report", error))?;
    files::print(&String::from_utf8_lossy(&text))
}
