//! `placewright bench durable`: the throughput of durable claims. The benchmark starts a server on a temporary store
//! with fsync, loads hosts through its API, and then makes claims over many connections.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::durable_tls::TlsBench;
use super::http::{HttpBench, PhaseName};
use super::phase_results::PhaseResults;
use super::server_process::ServerProcess;
use super::targets::{TargetedFigure, at_least, at_most, count, print_report};
use crate::arguments::positive;

/// Arguments of `placewright bench durable`.
#[derive(Debug, Args)]
pub(crate) struct DurableBench {
    /// Hosts to load before the claims, which choose among them at random
    #[arg(long, default_value_t = 10_000)]
    hosts: u64,

    /// Connections, each with one claim under way at a time
    #[arg(long, default_value_t = 64)]
    connections: usize,

    /// Time of the claims, in seconds
    #[arg(long, default_value_t = 10.0, value_parser = positive)]
    seconds: f64,

    /// The directory of the temporary store: on a real disk, because the target includes fsync
    #[arg(long, value_name = "DIRECTORY", default_value = ".")]
    directory: PathBuf,

    /// Measure claims over TLS 1.3 too, in turn with claims without, and handshakes
    #[arg(long)]
    tls: bool,

    /// Print one JSON object with all figures
    #[arg(long)]
    json: bool,
}

/// Target: the number of claims per second.
const CLAIMS_PER_SECOND: f64 = 10_000.0;
/// Target: the 99th percentile of claims' durations, in milliseconds.
const P99_MS: f64 = 25.0;

#[derive(Debug, Serialize)]
struct Report {
    load: PhaseResults,
    claims: PhaseResults,
    #[serde(rename = "bars")]
    targets: Vec<TargetedFigure>,
}

impl DurableBench {
    /// Runs the benchmark; returns whether the targets were met and nothing failed.
    pub(crate) fn run(self) -> anyhow::Result<bool> {
        if self.tls {
            let bench = TlsBench {
                hosts: self.hosts,
                connections: self.connections,
                seconds: self.seconds,
                directory: self.directory,
                json: self.json,
            };
            return bench.run();
        }
        let directory = tempfile::tempdir_in(&self.directory)?;
        let server = ServerProcess::start(&directory.path().join("store"))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let bench = |phase, connections| HttpBench {
            hosts: self.hosts,
            connections,
            seconds: self.seconds,
            ..HttpBench::new(server.url(), phase)
        };
        let load = runtime.block_on(bench(PhaseName::Load, self.connections).measure_one())?;
        let claims = runtime.block_on(bench(PhaseName::Claims, self.connections).measure_one())?;
        server.stop()?;
        let targets = vec![
            at_least(
                "claims a second",
                claims.requests_per_second,
                CLAIMS_PER_SECOND,
            ),
            at_most("p99 of a claim in ms", claims.p99_ms, P99_MS),
            at_most("failed requests", count(load.failed + claims.failed), 0.0),
        ];
        if !self.json {
            outln!("store with fsync in {}", directory.path().display());
            load.print();
            claims.print();
        }
        let is_met = targets.iter().all(|target| target.is_met);
        print_report(
            &targets,
            self.json.then_some(&Report {
                load,
                claims,
                targets: targets.clone(),
            }),
        )?;
        Ok(is_met)
    }
}
