//! `placewright bench refusals`: the cost of explanations. The scheduler's service in this process gets requests that
//! no host can serve; there are no sockets, and a connection is a task that sends one request after the other. The
//! figures include parsing, the decision and the response. A host changes between two requests, so that no explanation
//! comes from a cache.

use std::sync::Arc;
use std::time::Instant;

use anyhow::ensure;
use clap::Args;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use placewright_api_scheduler::SchedulerService;
use placewright_control::ControlMachine;
use placewright_engine::{Engine, Options};
use placewright_journal::MemoryJournal;
use placewright_placement::{AllocationRequest, Command, ConsumerGeneration, Inventory, Timestamp};
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::select::Scheduler;
use serde::Serialize;
use uuid::Uuid;

use super::in_process::{
    self, allocation, apply_report, create_provider, new_scheduler, report, scheduler_service,
    submit_all,
};
use super::requests::RandomNumbers;
use super::targets::{TargetedFigure, at_most, print_report};

mod storm;

use storm::Claims;

/// Arguments of `placewright bench refusals`.
#[derive(Debug, Args)]
pub(crate) struct RefusalsBench {
    /// Hosts; each is busy, and its free amounts differ from those of most others
    #[arg(long, default_value_t = 100_000)]
    hosts: u64,

    /// How many of a hundred hosts are trees of two NUMA nodes
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=100))]
    trees: u64,

    /// Refusals of each kind
    #[arg(long, default_value_t = 100)]
    refusals: usize,

    /// Connections whose requests are all refused, for five seconds, while eight other connections claim
    #[arg(long, default_value_t = 0)]
    storm: usize,

    /// Print one JSON object with all figures
    #[arg(long)]
    json: bool,
}

/// Target: the median of the refusals' durations, in milliseconds.
const P50_MS: f64 = 5.0;
/// The time of all commands. Only the hosts' reports have the time of day, because a host that reported long ago is
/// silent.
const AT: Timestamp = Timestamp(1_000_000_000_000);

/// The seeds of random numbers, one for each purpose.
const HOST_SEED: u64 = 1;
const NUMA_NODE_SEED: u64 = 2;
const INSTANCE_SEED: u64 = 3;
const ALLOCATION_SEED: u64 = 4;
const CONSUMER_SEED: u64 = 5;
const DISK_CONSUMER_SEED: u64 = 8;

/// Requests that are refused, each for another reason: the name of the kind, and the fields of the request.
const KINDS: [(&str, &str); 4] = [
    (
        "no memory",
        r#""flavor": {"vcpus": 4, "memory_mb": 262144}"#,
    ),
    (
        "no trait with room",
        r#""flavor": {"vcpus": 16, "memory_mb": 4096, "root_gb": 10,
            "extra_specs": {"trait:HW_CPU_X86_AVX2": "required"}}"#,
    ),
    (
        "no memory with disk",
        r#""flavor": {"vcpus": 1, "memory_mb": 40960, "root_gb": 90}"#,
    ),
    (
        "refused by a filter",
        r#""flavor": {"vcpus": 1, "memory_mb": 512,
            "extra_specs": {"capabilities:hypervisor_type": "none"}}"#,
    ),
];

/// The measured times of one kind of refusal, and the size of its response.
#[derive(Debug, Serialize)]
struct Kind {
    name: &'static str,
    p50_ms: f64,
    p99_ms: f64,
    /// The time of the first refusal, which the percentiles do not include.
    first_ms: f64,
    bytes: usize,
}

#[derive(Debug, Serialize)]
struct Report {
    kinds: Vec<Kind>,
    /// The claims without concurrent refusals, and with them.
    storm: Vec<Claims>,
    #[serde(rename = "bars")]
    targets: Vec<TargetedFigure>,
}

impl RefusalsBench {
    /// Runs the benchmark; returns whether the targets were met.
    pub(crate) fn run(self) -> anyhow::Result<bool> {
        let mut runtime = if self.storm > 0 {
            tokio::runtime::Builder::new_multi_thread()
        } else {
            tokio::runtime::Builder::new_current_thread()
        };
        let runtime = runtime.enable_all().build()?;
        let figures = runtime.block_on(self.measure())?;
        if !self.json {
            outln!("{} hosts, {} % of them trees", self.hosts, self.trees);
            for kind in &figures.kinds {
                outln!(
                    "{:<22} p50 {:>7.2} ms   p99 {:>7.2} ms   the first {:>7.2} ms   ({} bytes)",
                    kind.name,
                    kind.p50_ms,
                    kind.p99_ms,
                    kind.first_ms,
                    kind.bytes
                );
            }
            for claims in &figures.storm {
                outln!("{claims}");
            }
        }
        print_report(&figures.targets, self.json.then_some(&figures))?;
        Ok(figures.targets.iter().all(|target| target.is_met))
    }

    async fn measure(&self) -> anyhow::Result<Report> {
        let engine: Engine<ControlMachine> =
            Engine::open(MemoryJournal::new(), Options::default(), ())?;
        let mut scheduler = new_scheduler(SchedulerConfig::default())?;
        self.fill(&engine, &mut scheduler).await?;
        let service = scheduler_service(&engine, scheduler)?;
        let mut kinds = Vec::new();
        for (name, request) in KINDS {
            let mut times = Vec::with_capacity(self.refusals);
            let mut bytes = 0;
            // One more than the refusals that count: the first is reported by itself.
            for number in 0..=self.refusals {
                let instance = uuid(INSTANCE_SEED, number as u64);
                let body = format!(
                    "{{\"request\": {{{request}}}, \"instances\": [\"{instance}\"], \
                     \"claim\": false}}"
                );
                let host = number as u64 % self.hosts;
                let kind_index = kinds.len() as u64;
                let change = claim_disk(host, number as u64, kind_index);
                submit_all(&engine, [change]).await?;
                let start = Instant::now();
                let (status, text) = request_destination(&service, body).await?;
                times.push(start.elapsed().as_secs_f64() * 1000.0);
                ensure!(
                    status == 409 && text.contains("\"placement\":{"),
                    "{name}: status {status}: {text}"
                );
                bytes = text.len();
            }
            let first_ms = times.remove(0);
            times.sort_by(f64::total_cmp);
            let percentile = |percent: usize| times.get(times.len() * percent / 100).copied();
            kinds.push(Kind {
                name,
                p50_ms: percentile(50).unwrap_or(first_ms),
                p99_ms: percentile(99).unwrap_or(first_ms),
                first_ms,
                bytes,
            });
        }
        let mut storm = Vec::new();
        let slowest_p50_ms = kinds.iter().map(|kind| kind.p50_ms).fold(0.0, f64::max);
        let mut targets = vec![at_most(
            "p50 of a whole refusal in ms",
            slowest_p50_ms,
            P50_MS,
        )];
        if self.storm > 0 {
            let without_refusals = storm::claims_beside(&service, 0).await?;
            let with_refusals = storm::claims_beside(&service, self.storm).await?;
            targets.extend(with_refusals.targets(&without_refusals));
            storm.extend([without_refusals, with_refusals]);
        }
        engine.shutdown();
        Ok(Report {
            kinds,
            storm,
            targets,
        })
    }

    /// Creates hosts with different allocations, and reports all of them to the scheduler.
    async fn fill(
        &self,
        engine: &Engine<ControlMachine>,
        scheduler: &mut Scheduler,
    ) -> anyhow::Result<()> {
        submit_all(engine, [Command::SyncStandardNames { at: AT }]).await?;
        for first in (0..self.hosts).step_by(1000) {
            let hosts = first..self.hosts.min(first + 1000);
            for step in [
                create_root,
                create_numa_nodes,
                set_root_inventories,
                set_numa_node_inventories,
                set_traits,
                claim,
            ] {
                let commands = hosts.clone().flat_map(|host| step(host, self.trees));
                submit_all(engine, commands).await?;
            }
        }
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
        let now = Timestamp(i64::try_from(now.as_micros())?);
        for host in 0..self.hosts {
            let mut report = report(host, Uuid::nil());
            report.facts.platform.hypervisor_type = Some("QEMU".to_owned());
            apply_report(scheduler, uuid(HOST_SEED, host), report, now);
        }
        Ok(())
    }
}

/// A command that claims some disk of a host, so that the state changes.
fn claim_disk(host: u64, number: u64, kind: u64) -> Command {
    let consumer = uuid(DISK_CONSUMER_SEED, number * KINDS.len() as u64 + kind);
    let disk = allocation(uuid(HOST_SEED, host), [("DISK_GB", 1)]);
    claim_as_new(consumer, vec![disk])
}

/// A claim of a new consumer.
fn claim_as_new(consumer: Uuid, allocations: Vec<AllocationRequest>) -> Command {
    let consumer = (consumer, ConsumerGeneration::Is(None));
    in_process::claim(consumer, "bench", allocations, AT)
}

async fn request_destination(
    service: &Arc<SchedulerService>,
    body: String,
) -> anyhow::Result<(u16, String)> {
    let request = Request::post("/v1/destinations")
        .header("x-auth-token", "admin")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))?;
    send(service, request).await
}

async fn send(
    service: &Arc<SchedulerService>,
    request: Request<Full<Bytes>>,
) -> anyhow::Result<(u16, String)> {
    // The request did not come over a connection.
    let remote_address = None;
    let response = placewright_http::handle(service, request, remote_address).await;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await;
    let body = body.map_err(|error| anyhow::anyhow!("{error}"))?.to_bytes();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

fn uuid(seed: u64, number: u64) -> Uuid {
    RandomNumbers::new(seed, number).uuid()
}

/// Whether a host is a tree, if `trees` of a hundred hosts are trees.
fn is_tree(host: u64, trees: u64) -> bool {
    host % 100 < trees
}

fn numa_nodes(host: u64, trees: u64) -> impl Iterator<Item = Uuid> {
    let count = if is_tree(host, trees) { 2 } else { 0 };
    (0..count).map(move |node| uuid(NUMA_NODE_SEED, host * 2 + node))
}

fn create_root(host: u64, _trees: u64) -> Vec<Command> {
    let name = format!("host-{host}");
    vec![create_provider(uuid(HOST_SEED, host), name, None, AT)]
}

fn create_numa_nodes(host: u64, trees: u64) -> Vec<Command> {
    let create =
        |node: Uuid| create_provider(node, node.to_string(), Some(uuid(HOST_SEED, host)), AT);
    numa_nodes(host, trees).map(create).collect()
}

fn set_inventories(provider: Uuid, totals: &[(&'static str, i32)]) -> Command {
    let inventory = |(class, total): &(&'static str, i32)| (*class, Inventory::new(*total, 1.0));
    in_process::set_inventories(provider, totals.iter().map(inventory), AT)
}

fn set_root_inventories(host: u64, trees: u64) -> Vec<Command> {
    let mut totals = vec![("MEMORY_MB", 65_536), ("DISK_GB", 100)];
    if !is_tree(host, trees) {
        totals.push(("VCPU", 64));
    }
    vec![set_inventories(uuid(HOST_SEED, host), &totals)]
}

fn set_numa_node_inventories(host: u64, trees: u64) -> Vec<Command> {
    numa_nodes(host, trees)
        .map(|node| set_inventories(node, &[("VCPU", 32)]))
        .collect()
}

/// Sets the trait on every second host. `claim` leaves these hosts few CPUs, so that none serves a request for the
/// trait and many CPUs.
fn set_traits(host: u64, _trees: u64) -> Vec<Command> {
    let traits = ["HW_CPU_X86_AVX2"].into_iter();
    vec![Command::SetTraits {
        provider: uuid(HOST_SEED, host),
        generation: None,
        traits: traits
            .filter(|_| host.is_multiple_of(2))
            .map(str::to_owned)
            .collect(),
        at: AT,
    }]
}

/// Claims resources of a host at random. Hosts with the trait have fewer than 16 CPUs left. Hosts with much disk left
/// have little memory left. So no host can serve the requests of [`KINDS`].
fn claim(host: u64, trees: u64) -> Vec<Command> {
    let mut random = RandomNumbers::new(ALLOCATION_SEED, host);
    let mut random_below = |end: u64| i64::try_from(random.next() % end).unwrap_or(0);
    let cpus = if host.is_multiple_of(2) {
        50 + random_below(14)
    } else {
        random_below(64)
    };
    let disk = random_below(90);
    let memory = if disk < 10 {
        30_000 + random_below(30_000)
    } else {
        1 + random_below(65_000)
    };
    let amounts = [("MEMORY_MB", memory), ("DISK_GB", disk + 1)];
    let mut allocations = vec![allocation(uuid(HOST_SEED, host), amounts)];
    let nodes_with_cpus: Vec<Uuid> = numa_nodes(host, trees).collect();
    if nodes_with_cpus.is_empty() {
        allocations[0].resources.push(("VCPU".to_owned(), cpus + 1));
    }
    for node in nodes_with_cpus {
        allocations.push(allocation(node, [("VCPU", cpus / 2 + 1)]));
    }
    vec![claim_as_new(uuid(CONSUMER_SEED, host), allocations)]
}
