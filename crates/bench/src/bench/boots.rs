//! `placewright bench boots`: servers a second from request to ACTIVE, over the compute API, of an
//! installation with simulated hosts in one process; and the outcome of builds that fail.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Args;
use serde::Serialize;
use tokio::sync::watch;

use super::server_process::{ServerProcess, free_address};
use super::targets::{TargetedFigure, at_least, at_most, print_report};
use crate::replay::api::{Access, Api};
use crate::replay::flavors::Flavors;
use crate::replay::fleet::Fleet;
use crate::replay::replay_run::{ReplayRun, RunLimits, ServerPlan};
use crate::replay::task_progress::{TaskEnd, TaskProgress};
use crate::replay::{clean_up, servers, usage};

/// Arguments of `placewright bench boots`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    placewright bench boots\n  \
    placewright bench boots --fail 10    # percent of the builds fail")]
pub(crate) struct BootsBench {
    /// Servers to boot, in requests through the compute API
    #[arg(long, default_value_t = 20_000)]
    servers: u32,

    /// Simulated hosts on which the servers are built
    #[arg(long, default_value_t = 10_000)]
    hosts: u32,

    /// Cells among which the hosts are distributed
    #[arg(long, default_value_t = 3)]
    cells: u32,

    /// How many percent of the builds fail, at random; then only the share of servers that get active has a bar
    #[arg(long, value_name = "PERCENT", default_value_t = 0,
          value_parser = clap::value_parser!(u8).range(0..=100))]
    fail: u8,

    /// Requests under way at a time
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: u16,

    /// Servers being built at a time. The command learns from listings that a build has ended, so a small number
    /// measures how often it lists
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    in_flight: u32,

    /// Drive the installation that runs at --url, with all its hosts, instead of starting one; missed bars are
    /// then no failure
    #[arg(long)]
    running: bool,

    #[command(flatten)]
    access: Access,

    /// Delete the servers at the end
    #[arg(long)]
    clean_up: bool,

    /// The run ends when for this time no server got active and none was refused
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u16).range(1..))]
    patience: u16,

    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

/// Target: servers per second from request to ACTIVE, on 2 cores with everything in one process.
const BOOTS_PER_SECOND_MIN: f64 = 1500.0;
/// Target: the servers that get active, in percent.
const ACTIVE_PERCENT_MIN: f64 = 99.8;
/// The maximum number of servers that did not get active and are printed.
const NOT_ACTIVE_SHOWN_MAX: usize = 3;

/// The longest wait for the hosts to be available.
const HOSTS_WAIT_MAX: Duration = Duration::from_secs(300);
/// The longest wait for the allocations of failed builds to be released.
const RELEASE_WAIT_MAX: Duration = Duration::from_secs(30);

/// The results of the benchmark.
#[derive(Debug, Serialize)]
struct Figures {
    hosts: u32,
    cells: u32,
    fail_percent: u8,
    servers: u32,
    active: u64,
    seconds: f64,
    boots_per_second: f64,
    latency_p50_ms: f64,
    latency_p99_ms: f64,
    /// How many more VCPU are allocated than the active servers have; `None` if other users may use the installation,
    /// too.
    allocations_left: Option<u64>,
    #[serde(rename = "bars")]
    targets: Vec<TargetedFigure>,
}

impl BootsBench {
    /// Runs the benchmark; returns whether all targets were met.
    pub(crate) fn run(self) -> anyhow::Result<bool> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        let figures = if self.running {
            let hosts_min = 1;
            runtime.block_on(self.measure(&self.access, hosts_min))?
        } else {
            let folder = tempfile::tempdir()?;
            // Kept until the end of the block: the installation is dropped, and so ended, before its folder is
            // deleted.
            let (_installation, access) = self.start(folder.path())?;
            runtime.block_on(self.measure(&access, self.hosts as usize))?
        };
        if !self.json {
            let site = if self.running {
                "the hosts that there are".to_owned()
            } else {
                format!("{} hosts in {} cells", figures.hosts, figures.cells)
            };
            outln!(
                "{} servers on {site}, {} % of the builds fail: {} active in {:.1} s; \
                 p50 {:.0} ms, p99 {:.0} ms",
                figures.servers,
                figures.fail_percent,
                figures.active,
                figures.seconds,
                figures.latency_p50_ms,
                figures.latency_p99_ms
            );
        }
        print_report(&figures.targets, self.json.then_some(&figures))?;
        Ok(self.running || figures.targets.iter().all(|target| target.is_met))
    }

    /// Starts an installation with its store in this folder.
    fn start(&self, folder: &Path) -> anyhow::Result<(ServerProcess, Access)> {
        let (compute, placement) = (free_address()?, free_address()?);
        let number = |number: u32| OsString::from(number.to_string());
        let arguments = [
            "up".into(),
            "--config".into(),
            "/dev/null".into(),
            "--auth-strategy".into(),
            "noauth2".into(),
            "--hosts".into(),
            number(self.hosts),
            "--cells".into(),
            number(self.cells),
            "--fail".into(),
            number(self.fail.into()),
            "--folder".into(),
            folder.join("state").into(),
            "--compute-listen".into(),
            compute.to_string().into(),
            "--placement-listen".into(),
            placement.to_string().into(),
        ];
        let installation =
            ServerProcess::start_program(&arguments, compute, folder.join("up.log"))?;
        let access = Access {
            url: format!("http://{compute}"),
            placement_url: format!("http://{placement}"),
            token: "admin".to_owned(),
            headers: Vec::new(),
        };
        Ok((installation, access))
    }

    /// Boots the servers once the installation has at least `hosts_min` hosts.
    async fn measure(&self, access: &Access, hosts_min: usize) -> anyhow::Result<Figures> {
        let connections = usize::from(self.connections);
        let api = Arc::new(Api::new(access, connections)?);
        wait_for_hosts(&api, hosts_min).await?;
        let flavor_spec = placewright_trace::Flavor {
            name: "bench".to_owned(),
            vcpus: 1,
            memory_mib: 512,
            extra_specs: BTreeMap::new(),
        };
        let flavor = Flavors::read(&api)
            .await?
            .ensure(&api, &flavor_spec)
            .await?;
        let plan = |number| ServerPlan {
            name: format!("bench-{number}"),
            flavor: Arc::clone(&flavor),
            create_at: Duration::ZERO,
            delete_at: None,
        };
        let progress = Arc::new(TaskProgress::new(
            self.servers as usize,
            self.in_flight as usize,
        ));
        let (_stop_sender, stop) = watch::channel(false);
        let replay_run = Arc::new(ReplayRun {
            api: Arc::clone(&api),
            plans: (0..self.servers).map(plan).collect(),
            task_progress: Arc::clone(&progress),
            limits: RunLimits {
                connections,
                patience: Duration::from_secs(self.patience.into()),
            },
            stop,
            start: Instant::now(),
        });
        replay_run.run().await;
        let time = progress
            .last_end()
            .context("no server got active or was refused")?
            .saturating_duration_since(replay_run.start);
        let allocations_left = if self.running {
            None
        } else {
            Some(wait_for_releases(&api, &progress).await?)
        };
        if self.clean_up {
            clean_up(&api, &progress, connections).await;
        }
        Ok(self.figures(&progress, time, allocations_left))
    }

    #[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
    fn figures(
        &self,
        progress: &TaskProgress,
        time: Duration,
        allocations_left: Option<u64>,
    ) -> Figures {
        let task_states = progress.task_states();
        let active = progress.counts().active;
        for task_state in task_states
            .iter()
            .filter(|task_state| task_state.end != Some(TaskEnd::Active))
            .take(NOT_ACTIVE_SHOWN_MAX)
        {
            eprintln!("not active: {:?}: {:?}", task_state.server, task_state.end);
        }
        let active_tasks = task_states
            .iter()
            .filter(|task_state| task_state.end == Some(TaskEnd::Active));
        let mut latencies: Vec<_> = active_tasks.map(|task_state| task_state.latency).collect();
        latencies.sort_unstable();
        let percentile_ms = |percent: usize| {
            let rank = (latencies.len() * percent).div_ceil(100).saturating_sub(1);
            latencies
                .get(rank)
                .map_or(0.0, |time| time.as_secs_f64() * 1000.0)
        };
        let boots_per_second = active as f64 / time.as_secs_f64();
        let active_percent = active as f64 / f64::from(self.servers.max(1)) * 100.0;
        let mut targets = vec![at_least(
            "servers that get active, %",
            active_percent,
            ACTIVE_PERCENT_MIN,
        )];
        if let Some(extra_vcpus) = allocations_left {
            let name = "VCPU allocated beyond the servers' own";
            targets.push(at_most(name, extra_vcpus as f64, 0.0));
        }
        if self.fail == 0 {
            let name = "servers a second from request to ACTIVE";
            targets.insert(0, at_least(name, boots_per_second, BOOTS_PER_SECOND_MIN));
        }
        Figures {
            hosts: self.hosts,
            cells: self.cells,
            fail_percent: self.fail,
            servers: self.servers,
            active,
            seconds: time.as_secs_f64(),
            boots_per_second,
            latency_p50_ms: percentile_ms(50),
            latency_p99_ms: percentile_ms(99),
            allocations_left,
            targets,
        }
    }
}

async fn wait_for_hosts(api: &Api, hosts_min: usize) -> anyhow::Result<()> {
    let start = Instant::now();
    loop {
        let available = Fleet::read(api).await?.ready.len();
        if available >= hosts_min {
            return Ok(());
        }
        if start.elapsed() > HOSTS_WAIT_MAX {
            bail!("{available} of {hosts_min} hosts are there");
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Waits until the allocations of failed builds are released, which may be a moment after the servers show their
/// status. Returns how many more VCPU are then allocated than the active servers have, which is one for each: 0, or
/// more after a time-out. It is an error if fewer are allocated, because then an active server holds nothing.
async fn wait_for_releases(api: &Api, progress: &TaskProgress) -> anyhow::Result<u64> {
    let server = progress.any_server().context("no server was accepted")?;
    let project = servers::show(api, server).await?.tenant_id;
    let start = Instant::now();
    loop {
        let used = usage::project_usage(api, &project).await?;
        let used = used.get("VCPU").copied().unwrap_or(0);
        let active = progress.counts().active;
        let Some(extra_vcpus) = used.checked_sub(active) else {
            bail!("{used} VCPU are allocated for {active} active servers of one VCPU each");
        };
        if extra_vcpus == 0 || start.elapsed() > RELEASE_WAIT_MAX {
            return Ok(extra_vcpus);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
