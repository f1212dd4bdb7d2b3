//! `isobar run`: a pipeline to the end of its input.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use isobar::checkpoint::CheckpointConfig;
use isobar::job::{Ended, Event, JobBuilder, JobHandle, Outcome, Restore};
use isobar::market::generator::GeneratorOptions;
use isobar::market::pipeline::OrderBookPipeline;
use isobar::market::{Input, OrderBookResult, Results, SymbolNames};
use isobar::measure::report::{Checkpoints, Errors, InputError, Report, Run};
use isobar::measure::{Host, cores, noise_floor};
use isobar::operator::file_sink::{FileSinkOptions, NewerOutput, Outputs};
use isobar::snapshot::DirectoryStore;

use crate::Failure;
use crate::args::RunArgs;
use crate::progress::Progress;
use crate::table;

/// The job's name, and so its folder in a store.
const JOB: &str = "orderbook";
const NOISE_FLOOR: Duration = Duration::from_millis(100);

pub fn run(args: &RunArgs) -> Result<(), Failure> {
    let input = open_input(args)?;
    let names = input.names();
    let results = Results::new();
    // A temporary store is removed when this goes out of scope.
    let temporary = if args.store.is_none() { Some(tempfile::tempdir()?) } else { None };
    let store =
        args.store.clone().or_else(|| temporary.as_ref().map(|dir| dir.path().to_path_buf())).unwrap_or_default();
    let job = build(args, &input, &results, &store)?;
    let signals = Signals::install()?;
    let progress = Progress::new(args.quiet, args.input.is_none().then_some(args.messages));
    let handle = job.build()?.start()?;
    let outcome = watch(handle, &signals, progress)?;
    let result = results.get()?;
    if outcome.ended == Ended::EndOfData {
        finish(args, &names, &result)?;
    } else {
        eprintln!("stopped; go on with --resume");
    }
    print(args, &outcome, &result)
}

fn open_input(args: &RunArgs) -> Result<Input, Failure> {
    Ok(match &args.input {
        Some(path) => Input::open(path)?,
        None => Input::generated(GeneratorOptions { messages: args.messages, symbols: args.symbols, seed: args.seed })?,
    })
}

fn build(args: &RunArgs, input: &Input, results: &Results, store: &Path) -> Result<JobBuilder, Failure> {
    let chosen = args.cores.clone().unwrap_or_else(|| cores().to_vec());
    if let Some(core) = chosen.iter().find(|core| !cores().contains(core)) {
        return Err(format!("there is no core {core} here: choose from {:?}", cores()).into());
    }
    let restore = prepare_store(args, store)?;
    let outputs = prepare_output(args, restore)?;
    let identity = input.identity();
    let mut job = JobBuilder::new(JOB)
        .cores(&chosen)
        .measure_latency(true)
        .restore(restore)
        .input_identity("length", &identity.length.to_string())
        .input_identity("hash", &format!("{:016x}", identity.hash));
    if let Some(rate) = args.rate.0 {
        job = job.rate(rate);
    }
    if let Some(interval) = args.checkpoint_interval.0 {
        let config =
            CheckpointConfig { mode: args.mode.into(), retained: args.retained, ..CheckpointConfig::every(interval) };
        job = job.checkpointing(config);
    }
    if args.checkpoint_interval.0.is_some() || restore != Restore::Fresh {
        job = job.store_directory(store)?;
    }
    let pipeline = OrderBookPipeline {
        input: input.clone(),
        on_error: args.on_error.into(),
        results: results.clone(),
        outputs,
        parallelism: args.parallelism,
        cores: chosen,
    };
    pipeline.add_to(&job);
    Ok(job)
}

/// Clears, or looks at, what an earlier run left in the store; says from where to begin.
fn prepare_store(args: &RunArgs, store: &Path) -> Result<Restore, Failure> {
    let held = store.join(JOB).join("manifest").exists();
    if args.overwrite && held {
        // Taking the lock makes sure that nobody is using what is removed.
        let locked = DirectoryStore::open(store, JOB)?;
        let path = locked.folder().to_path_buf();
        fs::remove_dir_all(&path).map_err(|error| format!("cannot remove {}: {error}", path.display()))?;
    }
    match (args.resume, args.restore) {
        (_, Some(id)) => Ok(Restore::Checkpoint(id)),
        (true, None) if held => Ok(Restore::Latest),
        (true, None) => {
            eprintln!("{} holds no checkpoint: starting afresh", store.display());
            Ok(Restore::Fresh)
        }
        (false, None) if held && !args.overwrite => {
            Err(format!("{} holds an earlier run: go on with --resume, or --overwrite it", store.display()).into())
        }
        (false, None) => Ok(Restore::Fresh),
    }
}

fn prepare_output(args: &RunArgs, restore: Restore) -> Result<Option<Outputs>, Failure> {
    let Some(path) = &args.output else { return Ok(None) };
    if args.overwrite {
        Outputs::remove_all(path)?;
    } else if restore == Restore::Fresh {
        let holdings = Outputs::holdings(path)?;
        // A run that was killed before its first checkpoint leaves hidden files alone; those are swept.
        if holdings.parts > 0 || (holdings.hidden > 0 && !args.resume) {
            let refusal =
                format!("{} holds output of an earlier run: go on with --resume, or --overwrite it", path.display());
            return Err(refusal.into());
        }
        Outputs::remove_all(path)?;
    }
    let newer_output = if args.discard_newer_output { NewerOutput::Discard } else { NewerOutput::Refuse };
    let options = FileSinkOptions { roll: args.output_roll, newer_output, ..FileSinkOptions::default() };
    Ok(Some(Outputs::open(path, options)?))
}

/// Counts SIGINT and SIGTERM.
struct Signals(Arc<AtomicUsize>);

impl Signals {
    fn install() -> Result<Self, Failure> {
        let count = Arc::new(AtomicUsize::new(0));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            let counted = Arc::clone(&count);
            signal_hook::flag::register_usize(signal, Arc::clone(&counted), 1)?;
        }
        Ok(Self(count))
    }

    /// How many came since the last look: the flag is set to 1 by each.
    fn came(&self) -> bool {
        self.0.swap(0, Ordering::Relaxed) > 0
    }
}

/// Follows the job to its end. The first signal stops it with a last checkpoint, the second at once.
fn watch(handle: JobHandle, signals: &Signals, mut progress: Progress) -> Result<Outcome, Failure> {
    let mut completed = 0;
    let mut asked = false;
    while !handle.is_finished() {
        match handle.next_event(Duration::from_millis(50)) {
            Some(Event::Completed(_)) => completed += 1,
            Some(Event::Restored { checkpoint, restore_ns }) => {
                progress.note(&format!("restored checkpoint {checkpoint} in {}", table::time(restore_ns)));
            }
            Some(Event::Failed { checkpoint, reason }) => {
                progress.note(&format!("checkpoint {checkpoint} failed: {reason}"));
            }
            Some(Event::Notice(notice)) => progress.note(&notice),
            _ => {}
        }
        let metrics = handle.metrics();
        let read = metrics.iter().filter(|subtask| subtask.operator == "orders").map(|s| s.reading.records_in).sum();
        progress.update(read, completed);
        if signals.came() {
            if asked {
                handle.cancel();
            } else {
                handle.stop();
            }
            asked = true;
        }
    }
    drop(progress);
    Ok(handle.join()?)
}

/// What is written at the end of the input: errors and the summary.
fn finish(args: &RunArgs, names: &SymbolNames, result: &OrderBookResult) -> Result<(), Failure> {
    result.faults.write_to(&mut std::io::stderr())?;
    let Some(path) = &args.summary else { return Ok(()) };
    let mut text = Vec::new();
    result.write_summary(names, &mut text)?;
    replace(path, &text).map_err(|error| format!("cannot write {}: {error}; choose another file", path.display()))?;
    Ok(())
}

/// Writes a file as a whole: whoever reads it sees the old one or the new one.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

fn print(args: &RunArgs, outcome: &Outcome, result: &OrderBookResult) -> Result<(), Failure> {
    let to_stdout = args.json.as_deref() == Some(Path::new("-"));
    if !to_stdout {
        say(table_of(outcome, result).as_bytes())?;
    }
    if let Some(path) = &args.json {
        let report = report(args, outcome, result);
        let mut text = Vec::new();
        report.write(&mut text)?;
        if to_stdout {
            say(&text)?;
        } else {
            replace(path, &text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        }
    }
    Ok(())
}

/// Writes to standard output; a reader that has gone away is no failure of the run.
fn say(text: &[u8]) -> std::io::Result<()> {
    match std::io::stdout().write_all(text) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

fn table_of(outcome: &Outcome, result: &OrderBookResult) -> String {
    let checkpoints = &outcome.checkpoints;
    let rate = result.messages.max(outcome.records) as f64 / outcome.seconds;
    let mut lines = vec![format!(
        "{} messages, {} records in {:.2} s: {} messages/s",
        table::count(result.messages),
        table::count(outcome.records),
        outcome.seconds,
        table::count(rate as u64)
    )];
    lines.push(format!(
        "checkpoints: {} completed, {} failed, {} declined; {} written; {} of state",
        checkpoints.completed,
        checkpoints.failed,
        checkpoints.declined,
        table::bytes(checkpoints.bytes),
        table::bytes(outcome.state_bytes)
    ));
    lines.push(table::head());
    lines.push(table::row("latency", outcome.latency.percentiles().as_ref(), table::time));
    for (label, values) in [
        ("start delay", &checkpoints.start_delay_ns),
        ("t_align", &checkpoints.t_align_ns),
        ("synchronous phase", &checkpoints.sync_ns),
        ("asynchronous phase", &checkpoints.async_ns),
        ("end to end", &checkpoints.end_to_end_ns),
    ] {
        lines.push(table::row(label, values.as_ref(), table::time));
    }
    lines.push(table::row("bytes", checkpoints.bytes_each.as_ref(), table::bytes));
    lines.join("\n") + "\n"
}

fn report(args: &RunArgs, outcome: &Outcome, result: &OrderBookResult) -> Report {
    let checkpoints = &outcome.checkpoints;
    let error = |fault: &isobar::market::Fault| InputError {
        offset: fault.offset,
        kind: fault.kind.name().to_string(),
        what: fault.to_string(),
    };
    let mut run = Run {
        scenario: JOB.to_string(),
        params: params(args),
        errors: Some(Errors {
            count: result.faults.total(),
            by_kind: result.faults.by_kind().into_iter().map(|(kind, n)| (kind.name().to_string(), n)).collect(),
            first: result.faults.first().map(error).collect(),
        }),
        latency_ns: outcome.latency.percentiles(),
        checkpoints: args.checkpoint_interval.0.map(|_| Checkpoints {
            triggered: checkpoints.triggered,
            completed: checkpoints.completed,
            failed: checkpoints.failed - checkpoints.declined.min(checkpoints.failed),
            declined: checkpoints.declined,
        }),
        start_delay_ns: checkpoints.start_delay_ns,
        t_align_ns: checkpoints.t_align_ns,
        sync_ns: checkpoints.sync_ns,
        async_ns: checkpoints.async_ns,
        end_to_end_ns: checkpoints.end_to_end_ns,
        bytes_written: Some(checkpoints.bytes),
        dirty_pages: Some(checkpoints.dirty_pages),
        copied_pages: Some(checkpoints.copied_pages),
        state_bytes: Some(outcome.state_bytes),
        restore_ns: outcome.restore_ns,
        ..Run::default()
    };
    run.set_duration(result.messages, outcome.seconds);
    let mut report = Report::new(Host::read(), std::env::args().collect());
    report.noise_floor_ns = noise_floor(cores(), NOISE_FLOOR).ok().and_then(|floor| floor.percentiles());
    report.runs.push(run);
    report
}

fn params(args: &RunArgs) -> std::collections::BTreeMap<String, serde_json::Value> {
    let interval = args.checkpoint_interval.0.map(|interval| interval.as_secs_f64() * 1e3);
    let input = args.input.as_ref().map(|path: &PathBuf| path.display().to_string());
    [
        ("checkpoint_interval_ms", serde_json::json!(interval)),
        ("input", serde_json::json!(input)),
        ("parallelism", serde_json::json!(args.parallelism)),
        ("rate_per_s", serde_json::json!(args.rate.0)),
        ("mode", serde_json::json!(format!("{:?}", isobar::checkpoint::AlignmentMode::from(args.mode)))),
    ]
    .map(|(name, value)| (name.to_string(), value))
    .into()
}
