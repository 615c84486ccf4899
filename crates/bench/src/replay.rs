//! `placewright replay`: drives a running installation with a trace through the compute API.

pub(crate) mod api;
mod chart;
pub(crate) mod flavors;
pub(crate) mod fleet;
pub(crate) mod page;
mod progress;
pub(crate) mod replay_run;
mod report;
mod retries;
pub(crate) mod servers;
mod stop;
pub(crate) mod task_progress;
#[cfg(test)]
mod tests;
pub(crate) mod usage;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use placewright_roles::output::print;
use placewright_trace::{Node, Task, flavor::flavor, nodes, tasks};

use crate::arguments::positive;
use api::{Access, Api, CallError};
use flavors::Flavors;
use page::Page;
use progress::ProgressDisplay;
use replay_run::{ReplayRun, RunLimits, ServerPlan};
use report::{FinishedRun, Report};
use stop::Stop;
use task_progress::{Counts, TaskProgress};
use usage::{Amounts, Sample, percent};

/// Arguments of `placewright replay`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    placewright up --nodes crates/trace/data/nodes.csv &\n  \
    placewright replay --nodes crates/trace/data/nodes.csv --tasks crates/trace/data/tasks.csv\n  \
    placewright replay … --speed 3600   # an hour of the trace in a second, with its deletions\n  \
    placewright replay … --page   # with a page in the browser")]
pub(crate) struct Replay {
    /// The machines: CSV with the columns sn, cpu_milli, memory_mib, gpu, model
    #[arg(long, value_name = "FILE")]
    nodes: PathBuf,

    /// The tasks: CSV with the columns name, cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec,
    /// creation_time, deletion_time
    #[arg(long, value_name = "FILE")]
    tasks: PathBuf,

    /// Keep the trace's times, but X times as fast; without this option servers are requested one after the
    /// other as fast as they are accepted, and none is deleted
    #[arg(long, value_name = "X", value_parser = positive)]
    speed: Option<f64>,

    /// With --speed: do not delete servers when their tasks end
    #[arg(long, requires = "speed")]
    no_delete: bool,

    /// Only the first tasks of the trace
    #[arg(long, value_name = "TASKS")]
    limit: Option<usize>,

    #[command(flatten)]
    access: Access,

    /// Requests under way at a time
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: u16,

    /// Servers being built at a time
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    in_flight: u32,

    /// How long to wait for the installation to have all hosts
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u64,

    /// How long to wait when servers are being built and none gets ready
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    patience: u64,

    /// Where the chart (fill.svg) and the figures (report.json) are written
    #[arg(long, value_name = "FOLDER", default_value = "replay")]
    out: PathBuf,

    /// Delete the servers of the run that are left at its end
    #[arg(long)]
    clean_up: bool,

    /// Serve a page with the progress and then the result, until Ctrl-C or SIGTERM; on this machine only
    #[arg(
        long,
        value_name = "ADDRESS",
        num_args = 0..=1,
        default_missing_value = page::DEFAULT_ADDRESS,
        value_parser = page::loopback
    )]
    page: Option<SocketAddr>,
}

/// The latest time, since the start of the run, of a request or a deletion: thirty years. A very small `--speed` leads
/// to times for which a [`Duration`] or an [`Instant`] has no room.
const TIME_MAX: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// The longest interval between two samples of the installation's usage.
const SAMPLE_INTERVAL_MAX: Duration = Duration::from_millis(500);
/// The interval between the first two samples. It is short, so that the chart of a short run has enough points, and
/// grows from one sample to the next, so that a long run does not have too many.
const SAMPLE_INTERVAL_FIRST: Duration = Duration::from_millis(20);

impl Replay {
    /// Runs the replay; returns whether every server became active or was refused with a reason, and the user did not
    /// stop the run.
    ///
    /// # Errors
    ///
    /// A file is not valid, the page's address cannot be used, the installation does not answer or has other hosts, or
    /// the results cannot be written.
    pub(crate) fn run(self) -> anyhow::Result<bool> {
        let nodes = nodes::read(&self.nodes).context("--nodes")?;
        let mut tasks = tasks::read(&self.tasks).context("--tasks")?;
        tasks.truncate(self.limit.unwrap_or(usize::MAX));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let stop = Stop::new();
            stop.handle_signals()?;
            let page = self.open_page(&nodes, &tasks).await?;
            let has_succeeded = self.replay(&nodes, &tasks, page.as_ref(), &stop).await?;
            stop.end_run();
            if let Some(page) = &page
                && !stop.is_stopped()
            {
                eprintln!("the page stays at {} until Ctrl-C", page.url());
                stop.wait().await;
            }
            Ok(has_succeeded)
        })
    }

    /// Serves the page, if one is wanted, and says where.
    async fn open_page(&self, nodes: &[Node], tasks: &[Task]) -> anyhow::Result<Option<Page>> {
        let Some(address) = self.page else {
            return Ok(None);
        };
        let trace = page::Trace {
            nodes_file: page::file_name(&self.nodes),
            tasks_file: page::file_name(&self.tasks),
            hosts: nodes.len(),
            tasks: tasks.len(),
            speed: self.speed,
            deletes: self.speed.is_some() && !self.no_delete,
        };
        let page = Page::open(address, trace).await?;
        eprintln!("the page of this replay: {}", page.url());
        Ok(Some(page))
    }

    async fn replay(
        &self,
        nodes: &[Node],
        tasks: &[Task],
        page: Option<&Page>,
        stop: &Stop,
    ) -> anyhow::Result<bool> {
        let connections = usize::from(self.connections);
        let api = Arc::new(Api::new(&self.access, connections)?);
        let wait = Duration::from_secs(self.wait);
        let fleet = fleet::wait_for(&api, nodes, wait).await?;
        let additional_hosts = fleet.additional_hosts(nodes);
        if additional_hosts > 0 {
            eprintln!(
                "the installation has {additional_hosts} more hosts than the nodes file: percentages are of the capacity of the hosts in the file"
            );
        }
        let plans = self.plans(&api, tasks).await?;
        stop.begin_run();
        let task_progress = Arc::new(TaskProgress::new(plans.len(), self.in_flight as usize));
        let replay_run = Arc::new(ReplayRun {
            api: Arc::clone(&api),
            plans: plans.into(),
            task_progress: Arc::clone(&task_progress),
            limits: RunLimits {
                connections,
                patience: Duration::from_secs(self.patience),
            },
            stop: stop.receiver(),
            start: Instant::now(),
        });
        let totals = usage::totals(nodes);
        let samples = run_sampled(&replay_run, &totals, page).await;
        let time = last_end(&replay_run, &task_progress);
        let report = Report::new(FinishedRun {
            plans: &replay_run.plans,
            task_states: &task_progress.task_states(),
            samples: &samples,
            totals: &totals,
            hosts: nodes.len(),
            time,
            is_stopped: stop.is_stopped(),
            retries: count_retries(&api, &task_progress, connections).await,
        });
        if let Some(page) = page {
            page.show_result(&report, &totals, &samples);
        }
        let written = self.write(&report, &totals, &samples);
        if self.clean_up {
            stop.begin_clean_up();
            clean_up(&api, &task_progress, connections).await;
        }
        // Only now, because the servers are to be deleted even if the results cannot be written.
        written?;
        Ok(report.is_settled() && !report.stopped)
    }

    /// The servers to create, with their times and flavors. Flavors that the installation lacks are created.
    async fn plans(&self, api: &Api, tasks: &[Task]) -> anyhow::Result<Vec<ServerPlan>> {
        let mut flavors = Flavors::read(api).await?;
        let mut flavor_ids = BTreeMap::new();
        let first_s = tasks.first().map_or(0, |task| task.created_s);
        let time_of = |time_s: u64| {
            let speed = self.speed?;
            #[expect(clippy::cast_precision_loss, reason = "times of traces are small")]
            let seconds = time_s.saturating_sub(first_s) as f64 / speed;
            let time = Duration::try_from_secs_f64(seconds).unwrap_or(TIME_MAX);
            Some(time.min(TIME_MAX))
        };
        let mut plans = Vec::with_capacity(tasks.len());
        for task in tasks {
            let flavor_spec = flavor(task);
            let flavor = match flavor_ids.get(&flavor_spec) {
                Some(id) => Arc::clone(id),
                None => {
                    let id = flavors.ensure(api, &flavor_spec).await?;
                    flavor_ids.insert(flavor_spec, Arc::clone(&id));
                    id
                }
            };
            plans.push(ServerPlan {
                name: task.name.clone(),
                flavor,
                create_at: time_of(task.created_s).unwrap_or_default(),
                delete_at: task.deleted_s.filter(|_| !self.no_delete).and_then(time_of),
            });
        }
        eprintln!(
            "{} tasks of {} flavors, {} of them new",
            tasks.len(),
            flavor_ids.len(),
            flavors.created_count
        );
        Ok(plans)
    }

    fn write(&self, report: &Report, totals: &Amounts, samples: &[Sample]) -> anyhow::Result<()> {
        print(&report.to_text())?;
        let folder_text = || format!("the folder {}", self.out.display());
        std::fs::create_dir_all(&self.out).with_context(folder_text)?;
        let name = self.tasks.file_name().unwrap_or_default();
        let title = format!("{}, {} hosts", name.to_string_lossy(), report.hosts);
        let chart = chart::draw(&title, report.tasks, totals, samples);
        std::fs::write(self.out.join("fill.svg"), chart).with_context(folder_text)?;
        let json = serde_json::to_string_pretty(report)?;
        std::fs::write(self.out.join("report.json"), json).with_context(folder_text)?;
        let out = self.out.display();
        print(&format!(
            "\nfill over time: {out}/fill.svg   figures: {out}/report.json\n"
        ))
    }
}

/// Runs the replay and takes samples during it, the first at the start and the last at the end. Samples whose usages
/// cannot be read are left out.
async fn run_sampled(
    replay_run: &Arc<ReplayRun>,
    totals: &Amounts,
    page: Option<&Page>,
) -> Vec<Sample> {
    let mut progress = ProgressDisplay::new(replay_run.plans.len());
    let mut samples: Vec<Sample> = Vec::new();
    let mut project = None;
    let running = Arc::clone(replay_run);
    let counts = replay_run.task_progress.counts();
    samples.extend(sample(replay_run, counts, &mut project).await);
    let mut run = tokio::spawn(async move { running.run().await });
    let mut interval = SAMPLE_INTERVAL_FIRST;
    loop {
        let is_over = tokio::select! {
            _ = &mut run => true,
            () = tokio::time::sleep(interval) => false,
        };
        interval = (interval * 11 / 10).min(SAMPLE_INTERVAL_MAX);
        let counts = replay_run.task_progress.counts();
        samples.extend(sample(replay_run, counts, &mut project).await);
        let highest_share = samples.last().and_then(|last| {
            let shares = totals.iter().map(|(class, total)| {
                let used = last.used.get(class).copied().unwrap_or(0);
                (class.as_str(), percent(used, *total))
            });
            shares.max_by(|(_, left), (_, right)| left.total_cmp(right))
        });
        progress.show(&counts, highest_share);
        if let Some(page) = page {
            page.show(totals, &samples);
        }
        if is_over {
            progress.finish();
            return samples;
        }
    }
}

/// Takes a sample of the installation, with the present numbers of tasks in `counts`. `None` if the usages cannot be
/// read: a sample without amounts would show an empty installation. `project` is as for [`used_amounts`].
async fn sample(
    replay_run: &ReplayRun,
    counts: Counts,
    project: &mut Option<String>,
) -> Option<Sample> {
    let at_s = replay_run.start.elapsed().as_secs_f64();
    match used_amounts(replay_run, project).await {
        Ok(used) => Some(Sample { at_s, counts, used }),
        Err(error) => {
            tracing::debug!("a look at the usages failed: {error}");
            None
        }
    }
}

/// The amounts that the project of the run uses. The project is that of any server of the run, and is kept in `project`
/// once it is known. While the run has no server, nothing is used.
async fn used_amounts(
    replay_run: &ReplayRun,
    project: &mut Option<String>,
) -> Result<Amounts, CallError> {
    if project.is_none()
        && let Some(server) = replay_run.task_progress.any_server()
    {
        let shown = servers::show(&replay_run.api, server).await?;
        *project = Some(shown.tenant_id);
    }
    match project {
        Some(project) => usage::project_usage(&replay_run.api, project).await,
        None => Ok(Amounts::new()),
    }
}

/// The time from the start until the last build was seen to end, with its server active or refused; zero if none ended.
fn last_end(replay_run: &ReplayRun, task_progress: &TaskProgress) -> Duration {
    task_progress.last_end().map_or(Duration::ZERO, |time| {
        time.saturating_duration_since(replay_run.start)
    })
}

/// Counts the retried builds of servers that still exist. `None` if the installation does not answer or refuses to say.
async fn count_retries(
    api: &Arc<Api>,
    task_progress: &TaskProgress,
    connections: usize,
) -> Option<retries::BuildRetries> {
    let task_states = task_progress.task_states();
    let existing = task_states
        .iter()
        .filter(|task_state| !task_state.is_deleted);
    let servers = existing
        .filter_map(|task_state| task_state.server)
        .collect();
    match retries::count(api, servers, connections).await {
        Ok(retries) => Some(retries),
        Err(error) => {
            eprintln!("how often builds were tried again is unknown: {error}");
            None
        }
    }
}

/// Deletes the servers of the run that still exist.
pub(crate) async fn clean_up(api: &Arc<Api>, task_progress: &TaskProgress, connections: usize) {
    let task_states = task_progress.task_states();
    let remaining_servers = task_states
        .iter()
        .filter(|task_state| !task_state.is_deleted);
    let mut remaining_servers = remaining_servers
        .filter_map(|task_state| task_state.server)
        .collect::<Vec<_>>();
    let mut deletions = tokio::task::JoinSet::new();
    let mut failed = 0_u32;
    let mut first_error = None;
    while let Some(server) = remaining_servers.pop() {
        let api = Arc::clone(api);
        deletions.spawn(async move { servers::delete(&api, server).await });
        while deletions.len() >= connections
            || (remaining_servers.is_empty() && !deletions.is_empty())
        {
            if let Some(Ok(Err(error))) = deletions.join_next().await {
                failed += 1;
                first_error.get_or_insert(error);
            }
        }
    }
    if let Some(error) = first_error {
        eprintln!("{failed} servers are left, the first because of: {error}");
    }
}
