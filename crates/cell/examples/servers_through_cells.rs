//! How many servers a second cells take from control's message to ACTIVE, and what that costs:
//!
//! ```text
//! cargo run --release -p placewright-cell --example servers_through_cells -- [CELLS] [HOSTS] [SERVERS]
//! ```
//!
//! The cells keep their stores in a temporary directory. Agents answer at once. Each cell has one
//! follower, in place of control. The processor time is that of the whole process: cells, agents,
//! followers, and the tasks that deliver control's messages.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a program that measures"
)]

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use placewright_cell::{Cell, Options};
use placewright_conductor::cell_conductor::VmState;
use placewright_conductor::message::{Create, Envelope};
use placewright_conductor::{
    Amounts, Candidate, CellId, ClaimRequest, ClaimResponse, HostId, InstanceId, Message, Spec,
};
use placewright_journal::SqliteOptions;
use placewright_link::{
    AgentLink as _, CellEvent, CellLink as _, LinkFuture, PlacementLink, SessionStart, ToAgent,
    ToCell,
};
use placewright_placement::Timestamp;
use placewright_types::host_state::{HostUpdate, InstanceReport, Load, NumberedUpdate};
use uuid::Uuid;

/// The allocator of the product.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The number of messages in one delivery.
const BATCH: u128 = 64;
/// The number of concurrent deliveries to one cell.
const LANES: u128 = 4;

/// A placement that no cell calls, because no build fails.
struct NoPlacement;

impl PlacementLink for NoPlacement {
    fn request_claims(&self, _: Vec<ClaimRequest>) -> LinkFuture<'_, Vec<ClaimResponse>> {
        panic!("no build fails here");
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp(i64::try_from(since.as_micros()).unwrap())
}

fn host(cell: u128, number: u128) -> HostId {
    HostId(Uuid::from_u128((cell << 64) + number + 1))
}

fn create(cell: u128, number: u128, hosts: u128) -> Envelope {
    let candidate = |number: u128| {
        let host = host(cell, number % hosts);
        Candidate {
            host,
            zone: Some("nova".into()),
            amounts: vec![Amounts {
                provider: host.0,
                resources: vec![("VCPU".into(), 1), ("MEMORY_MB".into(), 512)],
            }],
            mappings: Vec::new(),
        }
    };
    Envelope {
        sent_at: now(),
        message: Message::Create(Box::new(Create {
            instance: InstanceId(Uuid::from_u128((cell << 96) + number)),
            spec: Spec {
                name: format!("server-{number}"),
                project: "6f70656e737461636b".into(),
                user: "6f70656e737461636b".into(),
                group: None,
                rules: Default::default(),
                body: "x".repeat(1500).into(),
                created_at: now(),
                usage: Default::default(),
                build_secrets: Default::default(),
                secrets: Default::default(),
            },
            selection: candidate(number).into(),
            alternates: vec![candidate(number + 1), candidate(number + 2)].into(),
            claim_number: 1,
        })),
    }
}

/// Runs all agents of a cell on one connection.
async fn run_agents(cell: Arc<Cell>, cell_number: u128, hosts: u128) {
    let mut connection = cell.connect().await.unwrap();
    for host_number in 0..hosts {
        let host = host(cell_number, host_number);
        let start = ToCell::Started(Box::new(SessionStart {
            host,
            name: host.to_string(),
            session: 1,
            guests: Vec::new(),
        }));
        connection.to_cell.send(start).await.unwrap();
        let full = HostUpdate::Full(Box::default());
        connection.to_cell.send(state(host, 1, full)).await.unwrap();
    }
    let mut sequences = std::collections::BTreeMap::<HostId, u64>::new();
    while let Some(message) = connection.from_cell.recv().await {
        let ToAgent::Step {
            host,
            session,
            order,
        } = message
        else {
            continue;
        };
        let ended = ToCell::StepEnded {
            host,
            instance: order.instance,
            session,
            attempt: order.attempt,
            failure: None,
        };
        connection.to_cell.send(ended).await.unwrap();
        let report = InstanceReport {
            uuid: order.instance.0,
            ..InstanceReport::default()
        };
        let came = HostUpdate::InstanceCame(Box::new(report), Load::default());
        let sequence = sequences.entry(host).or_insert(1);
        *sequence += 1;
        let came = state(host, *sequence, came);
        connection.to_cell.send(came).await.unwrap();
    }
}

fn state(host: HostId, sequence: u64, update: HostUpdate) -> ToCell {
    ToCell::State {
        host,
        update: Box::new(NumberedUpdate {
            incarnation: 1,
            sequence,
            update,
        }),
    }
}

async fn wait_active(cell: Arc<Cell>, servers: u128) {
    let mut events = cell.follow().await.unwrap();
    let mut active = std::collections::BTreeSet::new();
    while (active.len() as u128) < servers {
        if let CellEvent::Instance {
            instance,
            view: Some(view),
        } = events.recv().await.unwrap()
            && view.vm_state == VmState::Active
        {
            active.insert(instance);
        }
    }
}

/// The processor time of this process so far, in user and in system mode.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    // `utime` and `stime` of proc_pid_stat(5), which follow 11 fields after the name of the program.
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    // Linux has 100 ticks a second.
    Duration::from_millis(ticks * 10)
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse().unwrap());
    let cells: u128 = arguments.next().unwrap_or(3);
    let hosts: u128 = arguments.next().unwrap_or(10_000) / cells;
    let servers: u128 = arguments.next().unwrap_or(30_000) / cells;
    let directory = tempfile::tempdir().unwrap();
    let mut opened = Vec::new();
    for number in 0..cells {
        let options = Options::new(CellId(Uuid::from_u128(number + 1)));
        let path = directory.path().join(number.to_string());
        let store = SqliteOptions::default();
        let cell = Cell::open(&path, store, options, (), Arc::new(NoPlacement));
        let cell = cell.await.unwrap();
        tokio::spawn(run_agents(Arc::clone(&cell), number, hosts));
        opened.push(cell);
    }
    while opened
        .iter()
        .any(|cell| u128::from(cell.metrics().hosts_up) < hosts)
    {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (started, processor) = (Instant::now(), processor_time());
    let mut waits = Vec::new();
    for (number, cell) in (0..).zip(&opened) {
        waits.push(tokio::spawn(wait_active(Arc::clone(cell), servers)));
        for lane in 0..LANES {
            let cell = Arc::clone(cell);
            waits.push(tokio::spawn(async move {
                let mut first = lane * BATCH;
                while first < servers {
                    let batch = first..(first + BATCH).min(servers);
                    let batch = batch.map(|server| create(number, server, hosts)).collect();
                    cell.deliver(batch).await.unwrap();
                    first += LANES * BATCH;
                }
            }));
        }
    }
    for wait in waits {
        wait.await.unwrap();
    }
    let (elapsed, used) = (started.elapsed(), processor_time() - processor);
    let server_count = (servers * cells) as f64;
    println!(
        "{server_count} servers on {} hosts in {cells} cells",
        hosts * cells
    );
    println!(
        "{:.0} servers a second",
        server_count / elapsed.as_secs_f64()
    );
    println!(
        "{:.0} µs of processor time a server",
        used.as_secs_f64() * 1e6 / server_count
    );
    for cell in opened {
        let metrics = cell.metrics();
        println!("{metrics:?}");
        cell.shutdown().await;
    }
}
