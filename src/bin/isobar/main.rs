//! The command line. Thin: each verb parses its words, calls the library, and prints what comes back.

mod args;
mod checkpoints;
mod generate;
mod progress;
mod run;
mod table;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Verb};

/// Whatever ends a verb: one line.
type Failure = Box<dyn std::error::Error>;

/// Exit codes: 0 success, 1 a run that failed, 2 words that make no sense.
fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            // clap's first paragraph says what is wrong; one line is the contract.
            let text = error.to_string();
            let first = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
            eprintln!("isobar: {}; see isobar --help", first.trim_start_matches("error: "));
            return ExitCode::from(2);
        }
        Err(help) => {
            print!("{help}");
            return ExitCode::SUCCESS;
        }
    };
    let done = match cli.verb {
        Verb::Run(args) => run::run(&args),
        Verb::Generate(args) => generate::generate(&args),
        Verb::Checkpoints(args) => checkpoints::checkpoints(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("isobar: {}", error.to_string().replace('\n', " "));
            ExitCode::FAILURE
        }
    }
}
