//! The program `placewright-bench`: benchmarks, and the replay of traces.
//!
//! Most benchmarks measure servers over the network; the servers that they start are the program `placewright` in the
//! folder of this program. The benchmarks of races and refusals, and most of the experiments of `seeds`, measure the
//! product's code in this process.
//! `placewright bench` and `placewright replay` run this program.

#[macro_use(outln)]
extern crate placewright_roles;

mod arguments;
mod bench;
mod replay;
mod svg;

use std::ffi::OsString;
use std::process::ExitCode;

pub use bench::seeds::is_as_written;
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

impl Cli {
    fn run(self) -> anyhow::Result<bool> {
        match self.command {
            Command::Bench(command) => command.run(),
            Command::Replay(replay) => replay.run(),
        }
    }
}

/// Runs a command in this process, for tests: the name of the program, and the arguments. Returns whether all targets
/// were met.
///
/// # Errors
///
/// The arguments are wrong, or the command fails.
pub fn run(
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> anyhow::Result<bool> {
    Cli::try_parse_from(arguments)?.run()
}

/// Runs the command in the arguments of this process. The exit code is 1 for errors and for targets that were not met,
/// and 2 for errors in the user's files and for an address that cannot be used, as for a wrong command line.
#[must_use]
pub fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("placewright-bench: {error:#}");
            if error.is::<placewright_trace::TraceError>()
                || error.is::<bench::seeds::NovaFileError>()
                || error.is::<replay::page::PageError>()
            {
                ExitCode::from(2)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}
