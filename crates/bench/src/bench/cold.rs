//! `placewright bench cold`: the time and memory of starts on a large and on an empty store.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

use super::fleet::{FleetSize, build_store};
use super::server_process::ServerProcess;
use super::targets::{TargetedFigure, at_most, print_report};

/// Arguments of `placewright bench cold`.
#[derive(Debug, Args)]
pub(crate) struct ColdBench {
    /// Hosts of the big store
    #[arg(long, default_value_t = 100_000)]
    hosts: u64,

    /// Consumers of the big store, each with one allocation on one host (of three classes)
    #[arg(long, default_value_t = 1_000_000)]
    allocations: u64,

    /// Where the temporary stores are made
    #[arg(long, value_name = "DIRECTORY", default_value = ".")]
    directory: PathBuf,

    /// Print one JSON object with all figures
    #[arg(long)]
    json: bool,
}

/// Target: the time until a server on the large store is ready, in milliseconds.
const BIG_READY_MS: f64 = 10_000.0;
/// Target: the peak memory of a server on the large store, in MiB.
const BIG_MEMORY_MIB: f64 = 2_048.0;
/// Target: the time until a server on an empty store is ready, in milliseconds.
const EMPTY_READY_MS: f64 = 100.0;

/// The figures of the starts on the empty store (the second one as *again*), and of the start on the big store.
#[derive(Debug, Serialize)]
struct Report {
    build_s: f64,
    store_mib: f64,
    big_ready_ms: f64,
    big_cpu_s: f64,
    big_resident_mib: f64,
    big_peak_mib: f64,
    empty_ready_ms: f64,
    empty_again_ready_ms: f64,
    empty_resident_mib: f64,
    #[serde(rename = "bars")]
    targets: Vec<TargetedFigure>,
}

impl ColdBench {
    /// Runs the benchmark; returns whether the targets were met.
    pub(crate) fn run(self) -> anyhow::Result<bool> {
        let directory = tempfile::tempdir_in(&self.directory)?;

        let empty = directory.path().join("empty");
        let server = ServerProcess::start(&empty)?;
        let empty_ready_ms = milliseconds(server.time_to_ready);
        let empty_memory = server.memory()?;
        server.stop()?;
        let server = ServerProcess::start(&empty)?;
        let empty_again_ready_ms = milliseconds(server.time_to_ready);
        server.stop()?;

        let big = directory.path().join("big");
        let start = Instant::now();
        build_store(
            &big,
            FleetSize {
                hosts: self.hosts,
                consumers: self.allocations,
            },
        )?;
        let build_s = start.elapsed().as_secs_f64();
        let server = ServerProcess::start(&big)?;
        let big_ready_ms = milliseconds(server.time_to_ready);
        let big_cpu_s = server.cpu_s()?;
        let memory = server.memory()?;
        server.stop()?;

        let big_peak_mib = mebibytes(memory.peak_bytes);
        let targets = vec![
            at_most("empty store: ready in ms", empty_ready_ms, EMPTY_READY_MS),
            at_most("big store: ready in ms", big_ready_ms, BIG_READY_MS),
            at_most(
                "big store: resident MiB at most",
                big_peak_mib,
                BIG_MEMORY_MIB,
            ),
        ];
        let full_report = Report {
            build_s,
            store_mib: mebibytes(size_of_files(&big)?),
            big_ready_ms,
            big_cpu_s,
            big_resident_mib: mebibytes(memory.resident_bytes),
            big_peak_mib,
            empty_ready_ms,
            empty_again_ready_ms,
            empty_resident_mib: mebibytes(empty_memory.resident_bytes),
            targets,
        };
        if !self.json {
            full_report.print(self.hosts, self.allocations);
        }
        print_report(&full_report.targets, self.json.then_some(&full_report))?;
        Ok(full_report.targets.iter().all(|target| target.is_met))
    }
}

impl Report {
    fn print(&self, hosts: u64, allocations: u64) {
        outln!(
            "empty store   ready in {:.0} ms (made new), {:.0} ms (started again), {:.0} MiB resident",
            self.empty_ready_ms,
            self.empty_again_ready_ms,
            self.empty_resident_mib
        );
        outln!(
            "big store     {hosts} hosts, {allocations} consumers, {:.0} MiB on disk, built in {:.1} s",
            self.store_mib,
            self.build_s
        );
        outln!(
            "              ready in {:.0} ms ({:.1} s of processor time), {:.0} MiB resident, {:.0} MiB at most",
            self.big_ready_ms,
            self.big_cpu_s,
            self.big_resident_mib,
            self.big_peak_mib
        );
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[allow(clippy::cast_precision_loss, reason = "sizes in bytes are below 2^53")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The size of the files in a directory.
fn size_of_files(directory: &Path) -> std::io::Result<u64> {
    std::fs::read_dir(directory)?
        .map(|entry| Ok(entry?.metadata()?.len()))
        .sum()
}
