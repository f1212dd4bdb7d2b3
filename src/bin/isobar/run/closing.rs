//! The closing table.

use std::fmt::Write;

use isobar::job::{Ended, Outcome};
use isobar::measure::Percentiles;

use super::Finished;
use crate::table::Table;
use crate::units;

/// The run in numbers.
pub fn table(finished: &Finished) -> String {
    let outcome = &finished.outcome;
    let mut text = headline(finished);
    let checkpoints = &outcome.checkpoints;
    if checkpoints.triggered > 0 {
        let [completed, failed, triggered, declined] =
            [checkpoints.completed, checkpoints.failed, checkpoints.triggered, checkpoints.declined].map(units::count);
        let written = units::bytes(checkpoints.bytes);
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{completed} checkpoints completed of {triggered} ({failed} failed, {declined} of them declined), {written} \
             written, {} of state",
            units::bytes(outcome.state_bytes)
        );
    }
    let _ = writeln!(text, "\n{}", distributions(outcome));
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn headline(finished: &Finished) -> String {
    let outcome = &finished.outcome;
    let [messages, records] = [finished.messages(), outcome.records].map(units::count);
    let rate = units::per_second(finished.messages() as f64 / outcome.seconds.max(1e-9));
    let end = match outcome.ended {
        Ended::EndOfData => "end of the input".to_string(),
        Ended::Stopped => match outcome.last_checkpoint {
            Some(checkpoint) => format!("stopped at checkpoint {checkpoint}"),
            None => "stopped".to_string(),
        },
    };
    let from = outcome.restored.map_or(String::new(), |checkpoint| format!(" from checkpoint {checkpoint} on"));
    format!("{messages} messages{from}, {records} records, in {:.2} s: {rate}; {end}\n", outcome.seconds)
}

fn distributions(outcome: &Outcome) -> Table {
    let mut table = Table::new(1, ["", "p50", "p90", "p99", "p99.9", "p99.99", "max"]);
    let mut row = |name: &str, values: Option<Percentiles>, unit: fn(u64) -> String| {
        if let Some(Percentiles { p50, p90, p99, p99_9, p99_99, max }) = values {
            let cells = [p50, p90, p99, p99_9, p99_99, max].map(unit);
            table.row(std::iter::once(name.to_string()).chain(cells));
        }
    };
    let checkpoints = &outcome.checkpoints;
    row("latency", outcome.latency.percentiles(), units::duration);
    row("start delay", checkpoints.start_delay_ns, units::duration);
    row("t_align", checkpoints.t_align_ns, units::duration);
    row("sync", checkpoints.sync_ns, units::duration);
    row("async", checkpoints.async_ns, units::duration);
    row("end to end", checkpoints.end_to_end_ns, units::duration);
    row("bytes", checkpoints.bytes_each, units::bytes);
    table
}
