//! `placewright bench` and `placewright replay`: commands that the program `placewright-bench` carries out, which is
//! installed beside this program.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{Context as _, anyhow};
use clap::Args;

/// The program with the benchmarks and the replay.
const PROGRAM: &str = "placewright-bench";

/// The arguments of a command, which are passed on to `placewright-bench`. That program also prints the help.
#[derive(Debug, Args)]
pub(crate) struct Forwarded {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    arguments: Vec<OsString>,
}

impl Forwarded {
    /// Replaces this process by `placewright-bench`, with the arguments `first` and then the forwarded ones. If that
    /// program is not installed, or cannot be executed, the error is returned.
    pub(crate) fn execute(&self, first: &[&str]) -> anyhow::Error {
        let this_program = match std::env::current_exe().context("the path of this program") {
            Ok(this_program) => this_program,
            Err(error) => return error,
        };
        let program = this_program.with_file_name(PROGRAM);
        if !program.exists() {
            return anyhow!(
                "{} is not installed: measurements and the replay are a program of their own, \
                 {PROGRAM}, in the same directory; `cargo build --release -p placewright-cli` builds \
                 both, in target/release",
                program.display()
            );
        }
        let mut command = Command::new(&program);
        // Benchmarks start the servers that they measure from this program's file.
        command.env(placewright_roles::PROGRAM_VARIABLE, this_program);
        command.args(first.iter().map(OsStr::new));
        // `exec` returns only if the program cannot be executed.
        let error = command.args(&self.arguments).exec();
        anyhow::Error::from(error).context(format!("cannot execute {}", program.display()))
    }
}
