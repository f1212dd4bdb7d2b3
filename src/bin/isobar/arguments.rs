//! What can be asked for.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use isobar::market::generator::GeneratorOptions;
use isobar::measure::cores;

/// A thread-per-core dataflow engine for one machine, with asynchronous barrier snapshots.
#[derive(Debug, Parser)]
#[command(name = "isobar", version, propagate_version = true)]
pub struct CommandLine {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run a pipeline.
    Run(RunArguments),
    /// Look into a store of checkpoints. Refused while a job uses it.
    #[command(subcommand)]
    Checkpoints(CheckpointsAction),
    /// Write generated input to a file.
    #[command(subcommand)]
    Generate(GenerateWhat),
    /// Print the points at which ISOBAR_FAILPOINT can kill a run, for the crash loop.
    #[command(hide = true)]
    Failpoints,
}

/// The pipelines that there are.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Pipeline {
    /// Order books from NASDAQ ITCH 5.0 or Databento DBN market-by-order; best quotes out.
    Orderbook,
}

#[derive(Debug, Args)]
pub struct RunArguments {
    /// The pipeline.
    #[arg(value_enum)]
    pub pipeline: Pipeline,
    /// Market data: ITCH 5.0 (also .gz) or DBN (also .zst). Without it: generated ITCH.
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// What is generated.
    #[command(flatten)]
    pub generated: GeneratorArguments,
    /// From one checkpoint to the next, such as 10ms; or off.
    #[arg(long, value_name = "DURATION|off", default_value = "10ms", value_parser = interval)]
    pub checkpoint_interval: Interval,
    /// What a checkpoint promises about records behind the barrier.
    #[arg(long, value_enum, default_value_t = Mode::ExactlyOnce)]
    pub mode: Mode,
    /// Where checkpoints are kept. Without it: in a temporary folder that is removed at the end.
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// Continue from the store's last checkpoint, or start afresh where there is none.
    #[arg(long, requires = "store", conflicts_with_all = ["restore", "overwrite"])]
    pub resume: bool,
    /// Continue from this checkpoint of the store. Refused where newer output is public.
    #[arg(long, value_name = "ID", requires = "store", conflicts_with = "overwrite")]
    pub restore: Option<u64>,
    /// With --restore: take output back that is newer than the checkpoint.
    #[arg(long, requires = "restore")]
    pub discard_newer_output: bool,
    /// Where the changes of best quotes go, as part files.
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Age at which the next complete checkpoint makes a part public.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration_or_zero)]
    pub output_roll: Duration,
    /// Where a line for each symbol goes at the end of the input.
    #[arg(long, value_name = "FILE")]
    pub summary: Option<PathBuf>,
    /// The cores to run on, such as 0,1. Without it: all.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = core)]
    pub cores: Vec<usize>,
    /// Subtasks of the book.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=128))]
    pub parallelism: u16,
    /// Messages a second, such as 50000/s; or max.
    #[arg(long, value_name = "N/s|max", default_value = "max", value_parser = rate)]
    pub rate: Rate,
    /// Complete checkpoints that are kept.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub retained: u32,
    /// What to do about a message that is rejected.
    #[arg(long, value_enum, default_value_t = OnErrorArgument::Skip)]
    pub on_error: OnErrorArgument,
    /// Remove what an earlier run left in --store and --output. No other files are touched.
    #[arg(long)]
    pub overwrite: bool,
    /// Where the report goes as JSON; - is standard output, and then nothing else goes there.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// No progress.
    #[arg(long)]
    pub quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    ExactlyOnce,
    AtLeastOnce,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnErrorArgument {
    /// Count it and go on.
    Skip,
    /// End the run.
    Fail,
}

#[derive(Debug, Subcommand)]
pub enum CheckpointsAction {
    /// The checkpoints in a store.
    List {
        /// The store.
        dir: PathBuf,
    },
    /// One checkpoint: what each subtask put into it.
    Show {
        /// The store.
        dir: PathBuf,
        /// The checkpoint; the last one without it.
        id: Option<u64>,
    },
    /// Remove files that no checkpoint needs.
    Sweep {
        /// The store.
        dir: PathBuf,
    },
    /// Read everything that a checkpoint needs and check it.
    Verify {
        /// The store.
        dir: PathBuf,
        /// The checkpoint; without it the last one, which rests on all earlier ones.
        id: Option<u64>,
    },
}

#[derive(Debug, Subcommand)]
pub enum GenerateWhat {
    /// A day of NASDAQ TotalView-ITCH 5.0.
    Itch50(GenerateArguments),
}

#[derive(Debug, Args)]
pub struct GenerateArguments {
    /// The file; an existing one is replaced.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    #[command(flatten)]
    pub generated: GeneratorArguments,
}

#[derive(Clone, Copy, Debug, Args)]
pub struct GeneratorArguments {
    /// Generated messages in all.
    #[arg(long, value_name = "N", default_value_t = 5_000_000)]
    pub messages: u64,
    /// Generated securities.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub symbols: u32,
    /// The seed of everything generated: the same options give the same bytes.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

impl From<GeneratorArguments> for GeneratorOptions {
    fn from(arguments: GeneratorArguments) -> Self {
        let GeneratorArguments { messages, symbols, seed } = arguments;
        Self { messages, symbols, seed }
    }
}

/// A checkpoint interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interval {
    Every(Duration),
    Off,
}

/// Messages a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    PerSecond(f64),
    Max,
}

fn interval(text: &str) -> Result<Interval, String> {
    match text {
        "off" => Ok(Interval::Off),
        _ => match duration_or_zero(text)? {
            Duration::ZERO => Err("an interval of 0 leaves no time between checkpoints; give 10ms, or off".to_string()),
            duration => Ok(Interval::Every(duration)),
        },
    }
}

/// A number with a unit: ns, us, ms, s, m or h.
fn duration_or_zero(text: &str) -> Result<Duration, String> {
    let wrong = || "a duration is a number with ns, us, ms, s, m or h, such as 10ms or 1.5s".to_string();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let nanos_per_unit = match &text[digits.len()..] {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        "h" => 3600e9,
        _ => return Err(wrong()),
    };
    let nanos = decimal(digits).ok_or_else(wrong)? * nanos_per_unit;
    // Beyond 584 years a u64 of ns overflows.
    if nanos < u64::MAX as f64 {
        Ok(Duration::from_nanos(nanos.round() as u64))
    } else {
        Err(format!("a duration of {text} is too long"))
    }
}

fn rate(text: &str) -> Result<Rate, String> {
    if text == "max" {
        return Ok(Rate::Max);
    }
    let number = text.strip_suffix("/s").and_then(decimal);
    let number = number.ok_or("a rate is a number of messages a second, such as 50000/s, or max")?;
    if number > 0.0 {
        Ok(Rate::PerSecond(number))
    } else {
        Err("a rate of 0 would never end; give a rate above 0, or max".to_string())
    }
}

/// An unsigned decimal number without exponent: digits, with at most one point among them.
fn decimal(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.') && text.bytes().any(|b| b.is_ascii_digit());
    if plain { f64::from_str(text).ok().filter(|number| number.is_finite()) } else { None }
}

fn core(text: &str) -> Result<usize, String> {
    let here = cores();
    let core = text.parse().ok().filter(|core| here.contains(core));
    core.ok_or_else(|| format!("there is no such core; this process may run on {here:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn durations_have_a_number_and_a_unit() {
        let ms = |n| Ok(Duration::from_millis(n));
        assert_eq!(duration_or_zero("10ms"), ms(10));
        assert_eq!(duration_or_zero("1.5s"), ms(1_500));
        assert_eq!(duration_or_zero("2m"), ms(120_000));
        assert_eq!(duration_or_zero("0s"), ms(0));
        for bad in ["", "10", "ms", "10 ms", "-1s", "1e3s", "1.2.3s", ".s", "10d", "nans", "infs", "99999999999h"] {
            assert!(duration_or_zero(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_interval_is_a_duration_above_zero_or_off() {
        assert_eq!(interval("off"), Ok(Interval::Off));
        assert_eq!(interval("10ms"), Ok(Interval::Every(Duration::from_millis(10))));
        assert!(interval("0ms").is_err() && interval("never").is_err());
    }

    #[test]
    fn a_rate_is_per_second_and_above_zero_or_max() {
        assert_eq!(rate("max"), Ok(Rate::Max));
        assert_eq!(rate("50000/s"), Ok(Rate::PerSecond(50_000.0)));
        assert_eq!(rate("0.5/s"), Ok(Rate::PerSecond(0.5)));
        for bad in ["0/s", "0.0/s", "-1/s", "50000", "fast", "/s", "50000/m", "inf/s", "NaN/s"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn cores_are_those_of_this_machine() {
        let first = cores()[0];
        assert_eq!(core(&first.to_string()), Ok(first));
        assert!(core("100000").is_err() && core("-1").is_err() && core("").is_err());
    }
}
