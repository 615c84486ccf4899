//! Which experiments are run on how many hosts, by how many schedulers, how often.

use std::path::Path;
use std::time::Duration;

use super::builds::{self, BuildFigures, BuildSizes};
use super::cells::{self, CellFigures, CellSizes};
use super::earlier_schedulers::{self, EarlierFigures, WAYS};
use super::etcd_process::EtcdProcess;
use super::fleet::Filling;
use super::nova::{self, NovaReport, OurFigures};
use super::replicas::JournalPlace;
use super::shared_state::{self, Setup, SharedStateFigures};
use super::walking::{self, HttpShare, WalkingFigures, WalkingSizes};

/// The sizes of the experiments.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// The numbers of schedulers, each of which is measured on each fleet.
    schedulers: Vec<usize>,
    /// The numbers of hosts, each with the rounds of requests.
    fleets: Vec<(u32, usize)>,
    walking: WalkingSizes,
    /// The share of HTTP is measured with this number of requests over HTTP, and with the same number of calls.
    http_requests: usize,
    pub(super) build_sizes: BuildSizes,
    pub(super) cell_sizes: CellSizes,
}

impl Plan {
    /// The experiments as the page needs them.
    pub(super) fn full(is_large: bool) -> Self {
        let mut fleets = vec![(3, 20), (1_000, 10), (10_000, 3)];
        if is_large {
            fleets.push((100_000, 2));
        }
        Self {
            schedulers: vec![1, 4, 32],
            fleets,
            walking: WalkingSizes {
                hosts: vec![100, 1_000, 10_000, 100_000],
                workers: vec![1, 2, 4, 8],
                time: Duration::from_millis(300),
                hosts_per_claim: 2,
            },
            http_requests: 500,
            build_sizes: BuildSizes {
                cells: 3,
                hosts: 300,
                servers: 600,
                fail_percents: vec![0, 10, 25, 50],
                retries: vec![0, 2, 6],
            },
            cell_sizes: CellSizes {
                cells: vec![1, 3, 10, 30],
                hosts: if is_large { 100_000 } else { 3_000 },
                down: vec![0, 1, 10],
                servers: 1_000,
                boots: 500,
                pages: 40,
            },
        }
    }

    /// The least that shows whether the command works.
    pub(super) fn short() -> Self {
        Self {
            schedulers: vec![1, 4],
            fleets: vec![(3, 2), (400, 1)],
            walking: WalkingSizes {
                hosts: vec![20, 100],
                workers: vec![1, 2],
                time: Duration::from_millis(10),
                hosts_per_claim: 2,
            },
            http_requests: 3,
            build_sizes: BuildSizes {
                cells: 2,
                hosts: 6,
                servers: 10,
                fail_percents: vec![0, 50],
                retries: vec![0, 3],
            },
            cell_sizes: CellSizes {
                cells: vec![1, 3],
                hosts: 6,
                down: vec![0, 1],
                servers: 8,
                boots: 4,
                pages: 3,
            },
        }
    }

    /// Each number of schedulers on each fleet.
    fn setups(&self) -> impl Iterator<Item = Setup> {
        self.fleets.iter().flat_map(|(hosts, rounds)| {
            self.schedulers.iter().map(|schedulers| Setup {
                hosts: *hosts,
                schedulers: *schedulers,
                rounds: *rounds,
            })
        })
    }

    /// The experiment with schedulers that share their state: one on SQLite, and each number of them on etcd if that is
    /// installed.
    ///
    /// # Errors
    ///
    /// A store fails.
    pub(super) fn shared_state(&self, directory: &Path) -> anyhow::Result<Vec<SharedStateFigures>> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        let mut figures = Vec::new();
        for setup in self.setups() {
            let folder = tempfile::tempdir_in(directory)?;
            if setup.schedulers == 1 {
                print_progress("shared state", setup, "SQLite");
                let place = JournalPlace::Sqlite(folder.path().join("store"));
                figures.push(runtime.block_on(shared_state::measure(&place, setup))?);
            }
            if EtcdProcess::version().is_some() {
                print_progress("shared state", setup, "etcd");
                // Each measurement has an etcd member of its own, whose store has no entries of earlier measurements.
                let member = EtcdProcess::start(folder.path())?;
                let place = JournalPlace::Etcd(member.store("seeds"));
                figures.push(runtime.block_on(shared_state::measure(&place, setup))?);
            }
        }
        Ok(figures)
    }

    /// The experiment with earlier schedulers.
    ///
    /// # Errors
    ///
    /// A table of hosts cannot be used.
    pub(super) fn earlier_schedulers(
        &self,
        directory: &Path,
    ) -> anyhow::Result<Vec<EarlierFigures>> {
        let mut figures = Vec::new();
        for setup in self.setups() {
            for way in WAYS {
                print_progress("old ways", setup, way.name);
                let folder = tempfile::tempdir_in(directory)?;
                figures.push(earlier_schedulers::measure(folder.path(), way, setup)?);
            }
        }
        Ok(figures)
    }

    /// The product's figures on the fleets of Nova's scheduler, one for each of Nova's figures.
    ///
    /// # Errors
    ///
    /// A store fails.
    pub(super) fn nova(directory: &Path, report: &NovaReport) -> anyhow::Result<Vec<OurFigures>> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        let mut measured: Vec<((u32, Filling), OurFigures)> = Vec::new();
        let mut figures = Vec::new();
        for nova_figures in &report.figures {
            let (hosts, filling) = (nova_figures.hosts, nova_figures.fleet);
            // The report may have several figures of Nova on one fleet, with different limits of candidates.
            // Placewright has no such limit, so it is measured once on each fleet.
            let measured_before = measured
                .iter()
                .find(|(fleet, _)| *fleet == (hosts, filling));
            let our_figures = if let Some((_, our_figures)) = measured_before {
                *our_figures
            } else {
                eprintln!("Nova's scheduler: {hosts} hosts, {filling:?}: Placewright");
                let folder = tempfile::tempdir_in(directory)?;
                let place = JournalPlace::Sqlite(folder.path().join("store"));
                runtime.block_on(nova::measure(&place, hosts, filling))?
            };
            measured.push(((hosts, filling), our_figures));
            figures.push(our_figures);
        }
        Ok(figures)
    }

    /// The experiment with walking over the hosts, and the share of HTTP.
    ///
    /// # Errors
    ///
    /// A decision fails, which would be a bug.
    pub(super) fn walking(&self) -> anyhow::Result<(Vec<WalkingFigures>, Vec<HttpShare>)> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        let (mut figures, mut http_shares) = (Vec::new(), Vec::new());
        for hosts in &self.walking.hosts {
            figures.extend(walking::measure(*hosts, &self.walking)?);
            http_shares.push(runtime.block_on(walking::measure_http(*hosts, self.http_requests))?);
        }
        Ok((figures, http_shares))
    }

    /// The experiment with builds that fail.
    ///
    /// # Errors
    ///
    /// An installation does not work.
    pub(super) fn builds(&self) -> anyhow::Result<Vec<BuildFigures>> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        runtime.block_on(builds::measure(&self.build_sizes))
    }

    /// The experiment with cells that are down.
    ///
    /// # Errors
    ///
    /// An installation does not work.
    pub(super) fn cells(&self) -> anyhow::Result<Vec<CellFigures>> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        runtime.block_on(cells::measure(&self.cell_sizes))
    }
}

fn print_progress(experiment: &str, setup: Setup, how: &str) {
    let Setup {
        hosts,
        schedulers,
        rounds,
    } = setup;
    eprintln!("{experiment}: {hosts} hosts, {schedulers} schedulers, {rounds} rounds: {how}");
}
