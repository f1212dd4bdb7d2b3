//! The command line: each verb calls the library and says what came of it.
//!
//! Tables go to standard output, progress and notices to standard error. Exit codes: 0 success, 1 runtime or I/O error,
//! 2 usage. Errors are one line.

mod arguments;
mod checkpoints;
mod failure;
mod files;
mod generate;
mod run;
mod table;
mod units;

use std::process::ExitCode;

use arguments::{CommandLine, Verb};
use clap::Parser;
use failure::Failure;

fn main() -> ExitCode {
    match CommandLine::try_parse() {
        Ok(CommandLine { verb }) => done(dispatch(verb)),
        // Help and version, asked for.
        Err(error) if !error.use_stderr() => {
            // A closed pipe is the reader's wish.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        Err(error) => done(Err(Failure::from(error))),
    }
}

fn dispatch(verb: Verb) -> Result<(), Failure> {
    match verb {
        Verb::Run(arguments) => run::run(arguments),
        Verb::Checkpoints(action) => checkpoints::checkpoints(action),
        Verb::Generate(what) => generate::generate(what),
        Verb::Failpoints => files::print(&(isobar::failpoint::NAMES.join("\n") + "\n")),
    }
}

fn done(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            files::print_error(&format!("isobar: {failure}\n"));
            failure.exit_code()
        }
    }
}
