//! `placewright bench pages`: what the streams to open web pages (`/ui/`) cost the server. Its hosts are two thirds
//! full. Claims are measured in turn without pages, and while pages show the fleet as in browsers.

mod changes;
mod open_pages;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};

use super::destinations::{destinations_phase, release_phase};
use super::loaded_hosts::load_hosts;
use super::phase::run_phase;
use super::phase_results::PhaseResults;
use super::server_process::{ServerProcess, free_address};
use super::targets::{TargetedFigure, at_least, at_most, count, print_report};
use crate::arguments::positive;
use changes::{changes_phase, keep_changing};
use open_pages::{OpenPages, StalledPages};

/// Arguments of `placewright bench pages`.
#[derive(Debug, Args)]
pub(crate) struct PagesBench {
    /// Hosts, of three sizes
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    hosts: u64,

    /// Pages that have the fleet open
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=64))]
    pages: u16,

    /// Connections that claim, each with one request under way at a time
    #[arg(long, default_value_t = 64)]
    connections: usize,

    /// Seconds in which claims are made with pages, over all rounds; the claims without pages take as long again
    #[arg(long, default_value_t = 48.0, value_parser = positive)]
    seconds: f64,

    /// Measure nothing: print the page's address, and change so many hosts a second until Ctrl-C
    #[arg(long, value_name = "A_SECOND", value_parser = positive, conflicts_with_all = ["pages", "seconds", "json"])]
    changes: Option<f64>,

    /// The directory of the temporary store
    #[arg(long, value_name = "DIRECTORY", default_value = ".")]
    directory: PathBuf,

    /// Print one JSON object with all figures
    #[arg(long)]
    json: bool,
}

/// Target: the lowest rate of claims while pages are open, in percent of the rate without pages.
const CLAIMS_PERCENT_MIN: f64 = 95.0;
/// Target: by how many megabytes the server's memory may grow when pages are opened.
const MEMORY_MB_MAX: f64 = 64.0;
/// The rounds of claims, each with and without pages. Their median does not depend on a round in which the machine was
/// busy.
const ROUNDS: u32 = 12;
/// How long hosts change before the memory is read, in seconds.
const SETTLING_S: f64 = 4.0;
/// For how many seconds the pages read nothing from their connections. In this time the system's buffers fill, and then
/// the 10 s pass after which the service drops a page that reads nothing (docs/ui.md).
const STALLED_S: f64 = 30.0;
/// Each measurement numbers its instances from a multiple of this number. No measurement claims as many, so no two
/// measurements use the same number.
const MEASUREMENT_STRIDE: u64 = 1 << 32;
/// The scheduler's rules: hosts are reported once here, and have to be up until the end.
const RULES: &str = "[filter_scheduler]\nservice_down_time_s = 1000000\n";
/// The alternates of each claim, as in `bench destinations`.
const ALTERNATES: usize = 2;
/// The number of different flavors among the claims, as in `bench destinations`.
const FLAVORS: u64 = 100;

#[derive(Debug, Serialize)]
struct Report {
    load: PhaseResults,
    without_pages: Vec<PhaseResults>,
    with_pages: Vec<PhaseResults>,
    memory_without_pages_mb: f64,
    memory_with_pages_mb: f64,
    /// What all pages were sent, in megabytes.
    sent_mb: f64,
    #[serde(rename = "bars")]
    targets: Vec<TargetedFigure>,
}

/// The claims of all rounds.
#[derive(Debug, Default)]
struct Rounds {
    without_pages: Vec<PhaseResults>,
    with_pages: Vec<PhaseResults>,
    /// What the pages were sent.
    sent_bytes: u64,
    /// The number of requests that failed.
    failed: u64,
}

/// The addresses of a server's listeners.
#[derive(Debug, Clone, Copy)]
struct Listeners {
    placement: SocketAddr,
    scheduler: SocketAddr,
    page: SocketAddr,
}

impl PagesBench {
    /// Runs the benchmark; returns whether the targets were met and nothing failed.
    pub(crate) fn run(self) -> anyhow::Result<bool> {
        let directory = tempfile::tempdir_in(&self.directory)?;
        let listeners = Listeners {
            placement: free_address()?,
            scheduler: free_address()?,
            page: free_address()?,
        };
        let store = directory.path().join("store");
        let mut arguments: Vec<OsString> =
            ["control", "--config", "/dev/null"].map(Into::into).into();
        for (option, address) in [
            ("--placement-listen", listeners.placement),
            ("--scheduler-listen", listeners.scheduler),
            ("--ui-listen", listeners.page),
        ] {
            arguments.extend([option.into(), address.to_string().into()]);
        }
        arguments.extend(["--store-path".into(), store.clone().into()]);
        let rules = directory.path().join("rules.toml");
        std::fs::write(&rules, RULES)?;
        arguments.extend(["--scheduler-rules-file".into(), rules.into()]);
        let log = store.with_extension("log");
        let server = ServerProcess::start_program(&arguments, listeners.placement, log)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        if let Some(rate) = self.changes {
            runtime.block_on(self.show(listeners, rate))?;
            server.stop()?;
            return Ok(true);
        }
        let report = runtime.block_on(self.measure(&server, listeners))?;
        server.stop()?;
        if !self.json {
            report.load.print();
            outln!("claims without and with {} pages in turn", self.pages);
            for (without, with) in report.without_pages.iter().zip(&report.with_pages) {
                without.print();
                with.print();
            }
            outln!(
                "memory of the server: {:.1} MB without pages, {:.1} MB with; the pages were sent {:.1} MB",
                report.memory_without_pages_mb,
                report.memory_with_pages_mb,
                report.sent_mb
            );
        }
        print_report(&report.targets, self.json.then_some(&report))?;
        Ok(report.targets.iter().all(|target| target.is_met))
    }

    async fn measure(
        &self,
        server: &ServerProcess,
        listeners: Listeners,
    ) -> anyhow::Result<Report> {
        let loaded = load_hosts(
            listeners.placement,
            listeners.scheduler,
            self.hosts,
            self.connections,
        )
        .await;
        let mut failed = loaded.failed();
        let memory_without_pages_mb = self
            .settled_memory_mb(server, listeners, &mut failed)
            .await?;
        let pages = OpenPages::open(listeners.page, self.pages).await?;
        let memory_with_pages_mb = self
            .settled_memory_mb(server, listeners, &mut failed)
            .await?;
        let mut sent_bytes = pages.close()?;

        let rounds = self.measure_rounds(listeners).await?;
        failed += rounds.failed;
        sent_bytes += rounds.sent_bytes;

        let stalled = StalledPages::open(listeners.page, self.pages).await?;
        let changes = changes_phase(self.hosts, STALLED_S);
        failed += run_phase(listeners.placement, self.connections, changes)
            .await
            .failed;
        let served = stalled.count_served().await;

        let targets = vec![
            at_least(
                "claims beside the pages in % of those without, median of the rounds",
                percent_of(&rounds.without_pages, &rounds.with_pages),
                CLAIMS_PERCENT_MIN,
            ),
            at_most(
                "what the pages take of the server's memory in MB",
                memory_with_pages_mb - memory_without_pages_mb,
                MEMORY_MB_MAX,
            ),
            at_most("pages that read nothing and are kept", count(served), 0.0),
            at_most("failed requests", count(failed), 0.0),
        ];
        Ok(Report {
            load: loaded.load,
            without_pages: rounds.without_pages,
            with_pages: rounds.with_pages,
            memory_without_pages_mb,
            memory_with_pages_mb,
            sent_mb: megabytes(sent_bytes),
            targets,
        })
    }

    /// Claims without and with pages in turn.
    async fn measure_rounds(&self, listeners: Listeners) -> anyhow::Result<Rounds> {
        let mut rounds = Rounds::default();
        for round in 0..ROUNDS {
            let are_pages_first = round % 2 == 1;
            for has_pages in [are_pages_first, !are_pages_first] {
                let first = MEASUREMENT_STRIDE * u64::from(2 * round + u32::from(has_pages));
                let seconds = self.seconds / f64::from(ROUNDS);
                let phase = destinations_phase(first, ALTERNATES, FLAVORS, seconds);
                let pages = match has_pages {
                    true => Some(OpenPages::open(listeners.page, self.pages).await?),
                    false => None,
                };
                let results = run_phase(listeners.scheduler, self.connections, phase).await;
                if let Some(pages) = pages {
                    rounds.sent_bytes += pages.close()?;
                }
                // Without this the hosts would be full before the last round.
                let release = release_phase(first, results.succeeded);
                let released = run_phase(listeners.placement, self.connections, release).await;
                rounds.failed += results.failed + released.failed;
                let phases = match has_pages {
                    true => &mut rounds.with_pages,
                    false => &mut rounds.without_pages,
                };
                phases.push(results);
            }
        }
        Ok(rounds)
    }

    /// The server's memory after hosts have changed for a while, in megabytes. The changes add no rows, so that the
    /// state does not grow by them.
    async fn settled_memory_mb(
        &self,
        server: &ServerProcess,
        listeners: Listeners,
        failed: &mut u64,
    ) -> anyhow::Result<f64> {
        let changes = changes_phase(self.hosts, SETTLING_S);
        *failed += run_phase(listeners.placement, self.connections, changes)
            .await
            .failed;
        Ok(megabytes(server.memory()?.resident_bytes))
    }

    /// Loads the hosts, prints the page's address, and changes hosts until Ctrl-C.
    async fn show(&self, listeners: Listeners, rate: f64) -> anyhow::Result<()> {
        let changed = async {
            let loaded = load_hosts(
                listeners.placement,
                listeners.scheduler,
                self.hosts,
                self.connections,
            )
            .await;
            loaded.ensure_complete()?;
            outln!(
                "{} hosts, {rate} changes a second: page http://{}/ui/#/fleet placement http://{} scheduler \
                 http://{} (sign in as admin)",
                self.hosts,
                listeners.page,
                listeners.placement,
                listeners.scheduler,
            );
            keep_changing(listeners.placement, self.hosts, rate).await
        };
        let mut terminate = signal(SignalKind::terminate()).context("waiting for SIGTERM")?;
        tokio::select! {
            ended = changed => ended,
            interrupted = tokio::signal::ctrl_c() => interrupted.context("waiting for Ctrl-C"),
            _ = terminate.recv() => Ok(()),
        }
    }
}

/// The median of the rounds' rates with pages, in percent of those without pages in the same round. The number of
/// rounds is even, so the median is the mean of the two values in the middle.
fn percent_of(without: &[PhaseResults], with: &[PhaseResults]) -> f64 {
    let rate = |phase: &PhaseResults| count(phase.succeeded) / phase.seconds;
    let mut percents: Vec<f64> = without
        .iter()
        .zip(with)
        .map(|(without, with)| 100.0 * rate(with) / rate(without))
        .collect();
    percents.sort_by(f64::total_cmp);
    let middle = percents.len() / 2;
    let middle_percents = percents.get(middle.saturating_sub(1)..=middle);
    middle_percents.map_or(0.0, |both| both.iter().sum::<f64>() / 2.0)
}

fn megabytes(bytes: u64) -> f64 {
    count(bytes) / 1e6
}
