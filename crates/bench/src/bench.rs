//! The benchmarks. `bench http` measures any Placement server. The others check the project's own performance targets,
//! which the output and the documents call bars.

mod boots;
mod cold;
mod connection;
mod destinations;
mod durable;
mod durable_tls;
mod endpoint;
mod fleet;
mod http;
mod in_process;
mod loaded_hosts;
mod pages;
mod phase;
mod phase_results;
mod races;
mod refusals;
mod requests;
pub(crate) mod seeds;
mod server_process;
mod targets;

use clap::Subcommand;

use http::HttpBench;

/// The benchmarks, each a command.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Drive any Placement server over HTTP/1.1: load hosts, ask for candidates, claim
    Http(HttpBench),
    /// The bar of durable claims: a server with fsync on this machine, driven over HTTP
    Durable(durable::DurableBench),
    /// The bars of boots: servers a second from request to ACTIVE, and builds that fail
    Boots(boots::BootsBench),
    /// The bar of destinations: the scheduler with fsync on this machine, driven over HTTP
    Destinations(destinations::DestinationsBench),
    /// The bars of the page's streams: what claims and memory lose to pages that are open
    Pages(pages::PagesBench),
    /// The bar of races: many schedulers on old copies of the state, in this process
    Races(races::RacesBench),
    /// The bar of explanations: what a refusal costs with its reasons, in this process
    Refusals(refusals::RefusalsBench),
    /// The experiments that started it all, beside the old ways; writes docs/experiments.md
    Seeds(seeds::SeedsBench),
    /// The bar of cold starts: time to ready and memory of an empty and of a big store
    Cold(cold::ColdBench),
}

impl BenchCommand {
    /// Runs the benchmark; returns whether all targets were met.
    pub(crate) fn run(self) -> anyhow::Result<bool> {
        match self {
            Self::Http(bench) => bench.run(),
            Self::Durable(bench) => bench.run(),
            Self::Boots(bench) => bench.run(),
            Self::Destinations(bench) => bench.run(),
            Self::Pages(bench) => bench.run(),
            Self::Races(bench) => bench.run(),
            Self::Refusals(bench) => bench.run(),
            Self::Seeds(bench) => bench.run(),
            Self::Cold(bench) => bench.run(),
        }
    }
}
