//! `isobar run`: one pipeline, from its input to the closing table.

mod closing;
mod places;
mod progress;
mod report;
mod signals;
mod watch;

use std::path::Path;

use isobar::checkpoint::{AlignmentMode, CheckpointConfig};
use isobar::hash::stable_hash;
use isobar::job::{Ended, Job, JobBuilder, Outcome};
use isobar::market::pipeline::OrderBookPipeline;
use isobar::market::{Input, OnError, OrderBookResult, Results};
use isobar::measure::cores;

use crate::arguments::{Interval, Mode, OnErrorArgument, Pipeline, Rate, RunArguments};
use crate::failure::Failure;
use crate::files;
use places::Places;
use signals::Signals;

/// The job's name: its folder in a store.
pub const JOB: &str = "orderbook";

/// A finished run, as table and report show it.
pub struct Finished {
    pub outcome: Outcome,
    pub result: OrderBookResult,
    /// The summary's text; only at the end of the input.
    pub summary: Option<Vec<u8>>,
}

impl Finished {
    /// Messages read in this run. A source that was stopped does not say how many it has seen: then the records.
    pub fn messages(&self) -> u64 {
        self.result.messages.max(self.outcome.records)
    }
}

/// Runs the pipeline.
pub fn run(arguments: RunArguments) -> Result<(), Failure> {
    let Pipeline::Orderbook = arguments.pipeline;
    let to_stdout = arguments.json.as_deref() == Some(Path::new("-"));
    check_files(&arguments, to_stdout)?;
    let input = input(&arguments)?;
    let places = Places::prepare(&arguments)?;
    let signals = Signals::install(places.temporary())?;
    let machine = arguments.json.is_some().then(|| report::Machine::measure(&chosen_cores(&arguments)));

    let results = Results::new();
    let job = job(&arguments, &input, &places, &results)?;
    let total = arguments.input.is_none().then_some(arguments.generated.messages);
    let outcome = watch::watch(job, &signals, &places, total, arguments.quiet)?;
    let finished = finish(&arguments, &input, outcome, &results)?;

    report_faults(&finished.result);
    if let Some((file, machine)) = arguments.json.as_deref().zip(machine) {
        report::write(file, to_stdout, &machine.report(&arguments, &finished))?;
    }
    let table = closing::table(&finished);
    if !to_stdout {
        return files::print(&table);
    }
    if !arguments.quiet {
        files::print_error(&table);
    }
    Ok(())
}

fn check_files(arguments: &RunArguments, json_to_stdout: bool) -> Result<(), Failure> {
    let json = arguments.json.as_deref().filter(|_| !json_to_stdout);
    arguments.summary.as_deref().into_iter().chain(json).try_for_each(files::check_writable)
}

fn input(arguments: &RunArguments) -> Result<Input, Failure> {
    match &arguments.input {
        Some(path) => Ok(Input::open(path)?),
        None => Ok(Input::generated(arguments.generated.into())?),
    }
}

/// The cores to run on.
fn chosen_cores(arguments: &RunArguments) -> Vec<usize> {
    if arguments.cores.is_empty() { cores().to_vec() } else { arguments.cores.clone() }
}

fn job(arguments: &RunArguments, input: &Input, places: &Places, results: &Results) -> Result<Job, Failure> {
    let identity = input.identity();
    let mut job = JobBuilder::new(JOB)
        .cores(&chosen_cores(arguments))
        .measure_latency(true)
        .input_identity("length", &identity.length.to_string())
        .input_identity("hash", &format!("{:016x}", identity.hash))
        .restore(places.start().restore())
        .published(places.published());
    if let Interval::Every(interval) = arguments.checkpoint_interval {
        job = job.checkpointing(CheckpointConfig {
            mode: match arguments.mode {
                Mode::ExactlyOnce => AlignmentMode::ExactlyOnce,
                Mode::AtLeastOnce => AlignmentMode::AtLeastOnce,
            },
            retained: arguments.retained as usize,
            ..CheckpointConfig::every(interval)
        });
    }
    if let Some(store) = places.store() {
        job = job.store(store);
    }
    if let Rate::PerSecond(rate) = arguments.rate {
        job = job.rate(rate);
    }
    let pipeline = OrderBookPipeline {
        input: input.clone(),
        on_error: match arguments.on_error {
            OnErrorArgument::Skip => OnError::Skip,
            OnErrorArgument::Fail => OnError::Fail,
        },
        results: results.clone(),
        outputs: places.outputs(),
        parallelism: arguments.parallelism.into(),
        cores: chosen_cores(arguments),
    };
    pipeline.add_to(&job);
    Ok(job.build()?)
}

/// Writes the summary, where the input came to its end.
fn finish(arguments: &RunArguments, input: &Input, outcome: Outcome, results: &Results) -> Result<Finished, Failure> {
    let result = results.get()?;
    if outcome.ended != Ended::EndOfData {
        return Ok(Finished { outcome, result, summary: None });
    }
    let mut summary = Vec::new();
    let written = result.write_summary(&input.names(), &mut summary);
    written.map_err(|error| Failure::io("write", "the summary", error))?;
    if let Some(path) = &arguments.summary {
        files::write_whole(path, |file| std::io::Write::write_all(file, &summary))?;
    }
    Ok(Finished { outcome, result, summary: Some(summary) })
}

/// A hash of the answer.
fn result_hash(finished: &Finished) -> Option<String> {
    finished.summary.as_ref().map(|summary| format!("{:016x}", stable_hash(summary)))
}

fn report_faults(result: &OrderBookResult) {
    let mut text = Vec::new();
    // Writing to a vector does not fail.
    let _ = result.faults.write_to(&mut text);
    files::print_error(&String::from_utf8_lossy(&text));
}
