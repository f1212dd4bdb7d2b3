//! The machine form of a measurement, `isobar.report/1`, written by `run` and `bench` and read by the regression gate.
//!
//! Every key is always there; what does not apply is null. The JSON Schema is `perf/report.schema.json`.

use std::{collections::BTreeMap, io};

use serde::{Deserialize, Serialize};

use super::{Host, Percentiles, Ratio};

/// The version that this build writes and reads.
pub const SCHEMA: &str = "isobar.report/1";

/// One report: the machine, and what was run and compared on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The machine.
    pub host: Host,
    /// The revision of the source that was measured.
    pub git: Option<String>,
    /// The command line.
    pub argv: Vec<String>,
    /// What the machine does to an idle thread on the same cores, see [`noise_floor`](super::noise_floor).
    pub noise_floor_ns: Option<Percentiles>,
    /// A cache line's way between two cores, see [`hop`](super::hop).
    pub hop_ns: Option<Percentiles>,
    /// What was run.
    pub runs: Vec<Run>,
    /// What was compared.
    pub pairs: Vec<Pair>,
}

/// One run of one scenario. Times are ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The scenario's name.
    pub scenario: String,
    /// Its parameters.
    pub params: BTreeMap<String, serde_json::Value>,
    /// Records that went through.
    pub records: u64,
    /// How long that took, in s.
    pub seconds: f64,
    /// Records a second; see [`Run::set_duration`].
    pub records_per_s: Option<f64>,
    /// A hash of the answer: runs that should agree do.
    pub result_hash: Option<String>,
    /// What was wrong with the input.
    pub errors: Option<Errors>,
    /// From when a record was due to when the sink had it.
    pub latency_ns: Option<Percentiles>,
    /// The checkpoints by their outcome.
    pub checkpoints: Option<Checkpoints>,
    /// From a checkpoint's trigger to the first barrier at a subtask.
    pub start_delay_ns: Option<Percentiles>,
    /// From the first barrier at a subtask to the last.
    pub t_align_ns: Option<Percentiles>,
    /// The synchronous phase at a subtask.
    pub sync_ns: Option<Percentiles>,
    /// From the end of the synchronous phase until the subtask's part is with the log.
    pub async_ns: Option<Percentiles>,
    /// From a checkpoint's trigger to its durable commit record.
    pub end_to_end_ns: Option<Percentiles>,
    /// Bytes written for all checkpoints.
    pub bytes_written: Option<u64>,
    /// Pages that were dirty at a checkpoint, over all of them.
    pub dirty_pages: Option<u64>,
    /// Pages that a write had to copy, because the writer had not got past them.
    pub copied_pages: Option<u64>,
    /// Bytes of state at the end.
    pub state_bytes: Option<u64>,
    /// How long the restore at the start took.
    pub restore_ns: Option<u64>,
}

impl Run {
    /// Sets `records`, `seconds` and the rate, which is `None` if no time passed.
    pub fn set_duration(&mut self, records: u64, seconds: f64) {
        let rate = records as f64 / seconds;
        (self.records, self.seconds) = (records, seconds);
        self.records_per_s = rate.is_finite().then_some(rate);
    }
}

/// Errors in the input, all counted, the first few in full.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errors {
    /// How many there were.
    pub count: u64,
    /// How many of each kind.
    pub by_kind: BTreeMap<String, u64>,
    /// Those with the smallest offsets.
    pub first: Vec<InputError>,
}

/// One error in the input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputError {
    /// The byte offset in the uncompressed input.
    pub offset: u64,
    /// Its kind, as in [`Errors::by_kind`].
    pub kind: String,
    /// What was wrong, in words.
    pub what: String,
}

/// Checkpoints by their outcome: `triggered = completed + failed + declined`, plus those in flight at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoints {
    /// Checkpoints begun.
    pub triggered: u64,
    /// Checkpoints that became durable.
    pub completed: u64,
    /// Checkpoints that failed, or were given up for a newer one or at the job's end.
    pub failed: u64,
    /// Checkpoints that a subtask declined without having failed.
    pub declined: u64,
}

/// A comparison of two things that were measured in turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// What was compared.
    pub name: String,
    /// By which figure.
    pub metric: String,
    /// Candidate over baseline.
    pub ratio: f64,
    /// The ratio's 95 % interval.
    pub ci95: [f64; 2],
    /// From how many pairs.
    pub pairs: usize,
}

impl Pair {
    /// The comparison of `name` by `metric` that came out as `ratio`.
    pub fn new(name: impl Into<String>, metric: impl Into<String>, ratio: Ratio) -> Self {
        let Ratio { ratio, lo, hi, pairs } = ratio;
        Self { name: name.into(), metric: metric.into(), ratio, ci95: [lo, hi], pairs }
    }
}

impl Report {
    /// A report of this machine and command line, with nothing run yet.
    pub fn new(host: Host, argv: Vec<String>) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            host,
            git: None,
            argv,
            noise_floor_ns: None,
            hop_ns: None,
            runs: Vec::new(),
            pairs: Vec::new(),
        }
    }

    /// Writes the report as indented JSON with a line break at its end.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut impl io::Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }

    /// Reads a report back.
    ///
    /// # Errors
    /// `InvalidData` if it is not a report of this version; those of `input`.
    pub fn read(input: impl io::Read) -> io::Result<Self> {
        let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        let report: serde_json::Value = serde_json::from_reader(input)?;
        match report.get("schema").and_then(serde_json::Value::as_str) {
            Some(SCHEMA) => serde_json::from_value(report)
                .map_err(|error| invalid(format!("the report is damaged: {error}; write it again"))),
            Some(other) => {
                Err(invalid(format!("the report's schema is {other:?}, this build reads {SCHEMA:?}; write it again")))
            }
            None => {
                Err(invalid(format!("this is not a report: it has no schema {SCHEMA:?}; give a file made with --json")))
            }
        }
    }
}
