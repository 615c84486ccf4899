//! `placewright bench`: measures a running server, and the project's own bars.

mod connection;
mod figures;
mod http;
mod requests;
mod run;

use clap::Subcommand;

pub(crate) use http::HttpBench;

/// What to measure.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Drive any Placement server over HTTP/1.1: load hosts, ask for candidates, claim
    Http(HttpBench),
}

impl BenchCommand {
    /// Runs it; the answer is whether all bars were met.
    pub(crate) fn run(self) -> anyhow::Result<bool> {
        match self {
            Self::Http(bench) => bench.run(),
        }
    }
}
