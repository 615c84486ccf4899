//! `placewright bench destinations`: the throughput of the scheduler's service. The benchmark starts a server on a
//! temporary store with fsync, loads hosts that are two thirds full, and then sends requests over many connections,
//! which claim a host and return alternates.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use clap::Args;
use serde::Serialize;

use super::connection::Connection;
use super::http::phase_time_max;
use super::loaded_hosts::{HostLoadResults, load_hosts, request_base};
use super::phase::{Phase, WarmUp, run_phase};
use super::phase_results::PhaseResults;
use super::requests::{RandomNumbers, RequestBase};
use super::server_process::{ServerProcess, free_address};
use super::targets::{TargetedFigure, at_least, at_most, print_report};
use crate::arguments::positive;

/// Arguments of `placewright bench destinations`.
#[derive(Debug, Args)]
pub(crate) struct DestinationsBench {
    /// Hosts, of three sizes
    #[arg(long, default_value_t = 10_000)]
    hosts: u64,

    /// Connections, each with one request under way at a time
    #[arg(long, default_value_t = 64)]
    connections: usize,

    /// Alternates of each request
    #[arg(long, default_value_t = 2)]
    alternates: usize,

    /// Different flavors among the requests
    #[arg(long, default_value_t = 100)]
    flavors: u64,

    /// Time of the requests, in seconds
    #[arg(long, default_value_t = 10.0, value_parser = positive)]
    seconds: f64,

    /// The directory of the temporary store: on a real disk, because the target includes fsync
    #[arg(long, value_name = "DIRECTORY", default_value = ".")]
    directory: PathBuf,

    /// Print one JSON object with all figures
    #[arg(long)]
    json: bool,
}

/// Target: the number of claims per second.
const CLAIMS_PER_SECOND: f64 = 8_000.0;
/// Target: the 99th percentile of response times, in milliseconds.
const P99_MS: f64 = 25.0;
/// The seeds of random numbers, one for each purpose.
const INSTANCE_SEED: u64 = 3 ^ 0x5eed;
const FLAVOR_SEED: u64 = 3 ^ 0xf1a4;

#[derive(Debug, Serialize)]
struct Report {
    load: PhaseResults,
    states: PhaseResults,
    fill: PhaseResults,
    destinations: PhaseResults,
    server_cpu_s: f64,
    #[serde(rename = "bars")]
    targets: Vec<TargetedFigure>,
}

impl DestinationsBench {
    /// Runs the benchmark; returns whether the targets were met and nothing failed.
    pub(crate) fn run(self) -> anyhow::Result<bool> {
        let directory = tempfile::tempdir_in(&self.directory)?;
        let (placement, scheduler) = (free_address()?, free_address()?);
        let store = directory.path().join("store");
        let arguments: Vec<OsString> = vec![
            "control".into(),
            "--config".into(),
            "/dev/null".into(),
            "--placement-listen".into(),
            placement.to_string().into(),
            "--scheduler-listen".into(),
            scheduler.to_string().into(),
            "--store-path".into(),
            store.clone().into(),
        ];
        let log = store.with_extension("log");
        let server = ServerProcess::start_program(&arguments, placement, log)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let figures = runtime.block_on(self.measure(&server, placement, scheduler))?;
        server.stop()?;
        if !self.json {
            outln!("store with fsync in {}", directory.path().display());
            for results in [
                &figures.load,
                &figures.states,
                &figures.fill,
                &figures.destinations,
            ] {
                results.print();
            }
            outln!(
                "the server took {:.1} s of processor time for the destinations",
                figures.server_cpu_s
            );
        }
        print_report(&figures.targets, self.json.then_some(&figures))?;
        Ok(figures.targets.iter().all(|target| target.is_met))
    }

    async fn measure(
        &self,
        server: &ServerProcess,
        placement: SocketAddr,
        scheduler: SocketAddr,
    ) -> anyhow::Result<Report> {
        let connections = self.connections;
        let HostLoadResults { load, states, fill } =
            load_hosts(placement, scheduler, self.hosts, connections).await;
        self.check_response(scheduler).await?;
        let cpu_before_s = server.cpu_s()?;
        let first_instance = 0;
        let phase = destinations_phase(first_instance, self.alternates, self.flavors, self.seconds);
        let destinations = run_phase(scheduler, connections, phase).await;
        let server_cpu_s = server.cpu_s()? - cpu_before_s;
        #[allow(
            clippy::cast_precision_loss,
            reason = "counts of failures are below 2^53"
        )]
        let failed = [&load, &states, &fill, &destinations]
            .iter()
            .map(|results| results.failed)
            .sum::<u64>() as f64;
        let targets = vec![
            at_least(
                "claims with alternates a second",
                destinations.requests_per_second,
                CLAIMS_PER_SECOND,
            ),
            at_most("p99 of an answer in ms", destinations.p99_ms, P99_MS),
            at_most("failed requests", failed, 0.0),
        ];
        Ok(Report {
            load,
            states,
            fill,
            destinations,
            server_cpu_s,
            targets,
        })
    }

    /// Claims an instance, and checks that the response has a claimed host and all alternates.
    async fn check_response(&self, scheduler: SocketAddr) -> anyhow::Result<()> {
        let (mut request, mut body) = (String::new(), String::new());
        // A number that no other request has.
        let number = u64::MAX;
        let flavors = 1;
        write_request(
            &request_base(),
            &mut request,
            &mut body,
            number,
            flavors,
            self.alternates,
        );
        let mut connection = Connection::new(scheduler);
        let http_response = connection.exchange(request.as_bytes()).await?;
        let text = String::from_utf8_lossy(http_response.body);
        ensure!(http_response.status == 200, "the first request: {text}");
        let response: serde_json::Value = serde_json::from_str(&text)?;
        let selection = &response["selections"][0];
        let alternates = selection["alternates"].as_array().map_or(0, Vec::len);
        ensure!(
            response["claimed"] == true
                && selection["selected"]["provider"].is_string()
                && alternates == self.alternates,
            "an incomplete answer: {text}"
        );
        Ok(())
    }
}

/// Claims of one instance each, with alternates, for some seconds. The instances are numbered from `first`.
pub(super) fn destinations_phase(
    first: u64,
    alternates: usize,
    flavors: u64,
    seconds: f64,
) -> Phase {
    let flavors = flavors.max(1);
    let base = request_base();
    Phase {
        name: "destinations",
        units: u64::MAX,
        steps: 1,
        warm_up: WarmUp::same_request(base.version_request()),
        time_max: phase_time_max(seconds),
        write: Box::new(move |unit, _, output, body| {
            write_request(&base, output, body, first + unit, flavors, alternates);
        }),
    }
}

/// Deletes the allocations of the first `instances` instances of a [`destinations_phase`], which are numbered from
/// `first`.
pub(super) fn release_phase(first: u64, instances: u64) -> Phase {
    let base = request_base();
    Phase {
        name: "release",
        units: instances,
        steps: 1,
        warm_up: WarmUp::same_request(base.version_request()),
        time_max: Duration::MAX,
        write: Box::new(move |unit, _, output, _| {
            let path = format!("/allocations/{}", instance_uuid(first + unit));
            base.write(output, "DELETE", &path, "");
        }),
    }
}

/// The UUID of instance number `number`.
fn instance_uuid(number: u64) -> uuid::Uuid {
    RandomNumbers::new(INSTANCE_SEED, number).uuid()
}

/// Writes request number `number`: for one instance, of one of `flavors` flavors.
fn write_request(
    base: &RequestBase,
    output: &mut String,
    body: &mut String,
    number: u64,
    flavors: u64,
    alternates: usize,
) {
    let instance = instance_uuid(number);
    let mut random = RandomNumbers::new(FLAVOR_SEED, number % flavors);
    let vcpus = 1 << (random.next() % 3);
    let memory_mb = vcpus * (512 << (random.next() % 3)) + 64 * (random.next() % 16);
    let root_gb = 1 + random.next() % 8;
    body.clear();
    let _ = write!(
        body,
        "{{\"request\":{{\"flavor\":{{\"vcpus\":{vcpus},\"memory_mb\":{memory_mb},\
         \"root_gb\":{root_gb}}},\"project_id\":\"bench-project\",\"user_id\":\"bench-user\"}},\
         \"instances\":[\"{instance}\"],\"alternates\":{alternates},\"claim\":true}}"
    );
    base.write(output, "POST", "/v1/destinations", body);
}
