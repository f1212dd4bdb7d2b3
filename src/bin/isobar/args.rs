//! The words of the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use isobar::checkpoint::AlignmentMode;
use isobar::market::OnError;

/// A thread-per-core dataflow engine with checkpoints that the records cannot feel.
#[derive(Debug, Parser)]
#[command(name = "isobar", version, about, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run a pipeline to the end of its input.
    Run(Box<RunArgs>),
    /// Write generated market data to a file.
    Generate(GenerateArgs),
    /// Look at a checkpoint store.
    Checkpoints(CheckpointsArgs),
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Pipeline {
    /// Order books of ITCH 5.0 or Databento market-by-order data.
    Orderbook,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ModeArg {
    ExactlyOnce,
    AtLeastOnce,
}

impl From<ModeArg> for AlignmentMode {
    fn from(mode: ModeArg) -> Self {
        match mode {
            ModeArg::ExactlyOnce => Self::ExactlyOnce,
            ModeArg::AtLeastOnce => Self::AtLeastOnce,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum OnErrorArg {
    Skip,
    Fail,
}

impl From<OnErrorArg> for OnError {
    fn from(on_error: OnErrorArg) -> Self {
        match on_error {
            OnErrorArg::Skip => Self::Skip,
            OnErrorArg::Fail => Self::Fail,
        }
    }
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// Which pipeline.
    #[arg(value_enum)]
    pub pipeline: Pipeline,
    /// Market data: ITCH 5.0 (also gzipped) or Databento market-by-order (.dbn, .dbn.zst); generated if left out.
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Time between checkpoints, such as 10ms, 1s, or off.
    #[arg(long, value_name = "T", default_value = "10ms", value_parser = interval)]
    pub checkpoint_interval: Interval,
    /// What a checkpoint promises about the records behind its barrier.
    #[arg(long, value_enum, default_value = "exactly-once")]
    pub mode: ModeArg,
    /// Keep checkpoints here; a temporary folder that is removed at the end if left out.
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// Go on from the last checkpoint in --store; starts afresh where there is none.
    #[arg(long, requires = "store", conflicts_with = "restore")]
    pub resume: bool,
    /// Go on from this checkpoint in --store.
    #[arg(long, requires = "store", value_name = "ID")]
    pub restore: Option<u64>,
    /// Write a line for each change of a best bid or offer to part files here.
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Age at which a part file is published by the next complete checkpoint.
    #[arg(long, value_name = "T", default_value = "1s", value_parser = duration)]
    pub output_roll: Duration,
    /// With --restore: take back output that is newer than the checkpoint instead of refusing.
    #[arg(long, requires = "restore")]
    pub discard_newer_output: bool,
    /// Write a line for each symbol here at the end of the input.
    #[arg(long, value_name = "FILE.csv")]
    pub summary: Option<PathBuf>,
    /// Cores to run on, such as 0,1; all if left out.
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub cores: Option<Vec<usize>>,
    /// Subtasks of the book operator; one if left out.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parallelism)]
    pub parallelism: usize,
    /// Messages a second, such as 50000/s, or max.
    #[arg(long, value_name = "R", default_value = "max", value_parser = rate)]
    pub rate: Rate,
    /// Checkpoints that are kept.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = retained)]
    pub retained: usize,
    /// What to do at a message that is rejected.
    #[arg(long, value_enum, default_value = "skip")]
    pub on_error: OnErrorArg,
    /// Remove what an earlier run left in --store and --output.
    #[arg(long, conflicts_with_all = ["resume", "restore"])]
    pub overwrite: bool,
    /// Write the machine form of the report here; - for standard output, and then nothing else goes there.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Messages to generate where there is no --input.
    #[arg(long, value_name = "N", default_value_t = 5_000_000, conflicts_with = "input")]
    pub messages: u64,
    /// Symbols to generate.
    #[arg(long, value_name = "N", default_value_t = 1_000, conflicts_with = "input")]
    pub symbols: u32,
    /// Seed of the generated data.
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "input")]
    pub seed: u64,
    /// No progress.
    #[arg(long)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// The format.
    #[arg(value_enum)]
    pub format: Format,
    /// The file to write.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// How many messages.
    #[arg(long, default_value_t = 5_000_000)]
    pub messages: u64,
    /// How many symbols.
    #[arg(long, default_value_t = 1_000)]
    pub symbols: u32,
    /// The seed.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Format {
    /// NASDAQ TotalView-ITCH 5.0, each message behind a 2-byte length.
    Itch50,
}

#[derive(Debug, Args)]
pub struct CheckpointsArgs {
    #[command(subcommand)]
    pub verb: CheckpointsVerb,
}

#[derive(Debug, Subcommand)]
pub enum CheckpointsVerb {
    /// The checkpoints that can be restored.
    List {
        /// The store.
        dir: PathBuf,
    },
    /// One checkpoint by operator and subtask; the last if no id is given.
    Show {
        /// The store.
        dir: PathBuf,
        /// The checkpoint.
        id: Option<u64>,
    },
    /// Read everything that a checkpoint needs and check it; the last if no id is given.
    Verify {
        /// The store.
        dir: PathBuf,
        /// The checkpoint.
        id: Option<u64>,
    },
}

/// A checkpoint interval; `None` is off. (A type of its own, since clap takes an `Option` for "may be left out".)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval(pub Option<Duration>);

/// A rate in messages a second; `None` is as fast as it goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate(pub Option<f64>);

fn interval(text: &str) -> Result<Interval, String> {
    if text == "off" {
        return Ok(Interval(None));
    }
    match duration(text)? {
        Duration::ZERO => Err("an interval must be above 0 (or off)".to_string()),
        interval => Ok(Interval(Some(interval))),
    }
}

/// A number with a unit: ns, us, ms, s, m.
fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        _ => return Err("give a number and a unit: 500us, 10ms, 1s".to_string()),
    };
    let number: f64 = number.parse().map_err(|_| "give a number and a unit: 500us, 10ms, 1s".to_string())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|error| error.to_string())
}

fn rate(text: &str) -> Result<Rate, String> {
    if text == "max" {
        return Ok(Rate(None));
    }
    let number = text.strip_suffix("/s").unwrap_or(text);
    let rate: f64 = number.parse().map_err(|_| "give messages a second, such as 50000/s, or max".to_string())?;
    if rate.is_finite() && rate > 0.0 { Ok(Rate(Some(rate))) } else { Err("a rate must be above 0".to_string()) }
}

fn parallelism(text: &str) -> Result<usize, String> {
    positive(text, 128)
}

fn retained(text: &str) -> Result<usize, String> {
    positive(text, 1 << 20)
}

fn positive(text: &str, most: usize) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        _ => Err(format!("give a whole number from 1 to {most}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_rates_and_intervals_are_read_with_their_units() {
        assert_eq!(duration("10ms"), Ok(Duration::from_millis(10)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("500us"), Ok(Duration::from_micros(500)));
        assert!(duration("10").is_err() && duration("ms").is_err() && duration("-1s").is_err());
        assert_eq!(interval("off"), Ok(Interval(None)));
        assert!(interval("0ms").is_err());
        assert_eq!(rate("50000/s"), Ok(Rate(Some(50_000.0))));
        assert_eq!(rate("max"), Ok(Rate(None)));
        assert!(rate("0").is_err() && rate("-3").is_err() && rate("NaN").is_err() && rate("inf").is_err());
    }
}
