//! The program `placewright-bench`: benchmarks, and the replay of traces.
//!
//! It measures servers from outside, and starts those of its own from the program `placewright` beside
//! it. What is measured in this process (races, refusals) is the product's own code.
//! `placewright bench` and `placewright replay` are names for it.

#[macro_use(outln)]
extern crate placewright_roles;

mod arguments;
mod bench;
mod replay;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measures Placewright, and drives an installation with a trace
#[derive(Debug, Parser)]
#[command(name = "placewright-bench", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Bench(bench::BenchCommand),
    /// Drive a running installation with a trace of machines and tasks
    Replay(replay::Replay),
}

/// Runs the command that the arguments of this process ask for. Not met targets end with 1, as errors
/// do; errors in the user's files with 2, as a wrong command line does.
#[must_use]
pub fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Bench(command) => command.run(),
        Command::Replay(replay) => replay.run(),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("placewright-bench: {error:#}");
            if error.is::<placewright_trace::TraceError>() {
                ExitCode::from(2)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}
