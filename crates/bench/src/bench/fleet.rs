//! Builds a store with a fleet and its allocations directly through the engine, which is far faster than
//! over HTTP and writes the same entries to the journal.

use std::collections::VecDeque;
use std::path::Path;
use std::pin::Pin;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::bail;
use placewright_control::{ControlMachine, submit_placement};
use placewright_engine::{Engine, Options, SubmitError};
use placewright_journal::{SqliteJournal, SqliteOptions};
use placewright_placement::{
    AllocationRequest, Command, ConsumerClaim, ConsumerGeneration, ConsumerUuid, Inventory,
    Outcome, Refusal, Timestamp,
};
use uuid::Uuid;

use super::in_process;
use super::requests::RandomNumbers;

/// The size of a fleet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FleetSize {
    pub(crate) hosts: u64,
    /// The number of consumers with one allocation of three classes each, spread evenly over the
    /// hosts.
    pub(crate) consumers: u64,
}

type SubmitResult = Result<Result<Outcome, Refusal>, SubmitError>;

/// The maximum number of pending commands; more would only use memory.
const PENDING_MAX: usize = 8_192;
/// The seeds of UUIDs, one for each kind of object.
const HOST_SEED: u64 = 1;
const CONSUMER_SEED: u64 = 2;
const AGGREGATE_SEED: u64 = u64::MAX;
/// The number of aggregates among which the hosts are distributed.
const AGGREGATES: u64 = 100;

/// Submits commands to an engine, with a limited number of pending ones.
struct CommandSubmitter {
    engine: Engine<ControlMachine>,
    pending: VecDeque<Pin<Box<dyn Future<Output = SubmitResult> + Send>>>,
}

impl CommandSubmitter {
    async fn submit(&mut self, command: Command) -> anyhow::Result<()> {
        if self.pending.len() >= PENDING_MAX {
            self.wait_for_oldest().await?;
        }
        self.pending
            .push_back(Box::pin(submit_placement(&self.engine, command)));
        Ok(())
    }

    async fn wait_for_all(&mut self) -> anyhow::Result<()> {
        while !self.pending.is_empty() {
            self.wait_for_oldest().await?;
        }
        Ok(())
    }

    async fn wait_for_oldest(&mut self) -> anyhow::Result<()> {
        if let Some(result) = self.pending.pop_front()
            && let Err(refusal) = result.await?
        {
            bail!("refused: {refusal:?}");
        }
        Ok(())
    }
}

/// Creates a store with a fleet of this size.
///
/// # Errors
///
/// The store cannot be written.
pub(crate) fn build_store(store: &Path, size: FleetSize) -> anyhow::Result<()> {
    let journal = SqliteJournal::open(store, SqliteOptions::default())?;
    let engine = Engine::<ControlMachine>::open(journal, Options::default(), ())?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let result = runtime.block_on(submit_fleet(engine.clone(), size));
    engine.shutdown();
    result
}

async fn submit_fleet(engine: Engine<ControlMachine>, size: FleetSize) -> anyhow::Result<()> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let time = Timestamp::from_seconds(i64::try_from(seconds)?);
    let mut submitter = CommandSubmitter {
        engine,
        pending: VecDeque::new(),
    };
    // Each step ends before the next one, which depends on it.
    submitter
        .submit(Command::SyncStandardNames { at: time })
        .await?;
    submitter.wait_for_all().await?;
    for step in [create_provider, set_inventories, set_traits, set_aggregates] {
        for host in 0..size.hosts {
            submitter.submit(step(host, time)).await?;
        }
        submitter.wait_for_all().await?;
    }
    for number in 0..size.consumers {
        submitter
            .submit(claim(number, number % size.hosts.max(1), time))
            .await?;
    }
    submitter.wait_for_all().await
}

fn create_provider(host: u64, time: Timestamp) -> Command {
    in_process::create_provider(host_uuid(host), format!("host-{host}"), None, time)
}

fn set_inventories(host: u64, time: Timestamp) -> Command {
    let inventories = vec![
        ("VCPU".to_owned(), Inventory::new(64, 16.0)),
        ("MEMORY_MB".to_owned(), Inventory::new(1 << 20, 1.0)),
        ("DISK_GB".to_owned(), Inventory::new(8192, 1.0)),
    ];
    Command::SetInventories {
        provider: host_uuid(host),
        generation: Some(0),
        inventories,
        may_reserve_all: true,
        at: time,
    }
}

fn set_traits(host: u64, time: Timestamp) -> Command {
    let traits = vec!["HW_CPU_X86_AVX2".to_owned(), "COMPUTE_NODE".to_owned()];
    Command::SetTraits {
        provider: host_uuid(host),
        generation: Some(1),
        traits,
        at: time,
    }
}

fn set_aggregates(host: u64, time: Timestamp) -> Command {
    let aggregate = RandomNumbers::new(AGGREGATE_SEED, host % AGGREGATES).uuid();
    let aggregates = vec![aggregate.to_string()];
    Command::SetAggregates {
        provider: host_uuid(host),
        generation: Some(2),
        aggregates,
        at: time,
    }
}

/// A claim of a small instance by a new consumer.
fn claim(number: u64, host: u64, time: Timestamp) -> Command {
    let resources = vec![
        ("VCPU".to_owned(), 1),
        ("MEMORY_MB".to_owned(), 512),
        ("DISK_GB".to_owned(), 1),
    ];
    let consumer = ConsumerClaim {
        consumer: ConsumerUuid::from_uuid(RandomNumbers::new(CONSUMER_SEED, number).uuid()),
        generation: ConsumerGeneration::Is(None),
        project: format!("project-{}", number % 1000),
        user: format!("user-{}", number % 5000),
        consumer_type: Some("INSTANCE".to_owned()),
        allocations: vec![AllocationRequest {
            provider: host_uuid(host),
            resources,
        }],
    };
    Command::Claim {
        consumers: vec![consumer],
        at: time,
    }
}

fn host_uuid(host: u64) -> Uuid {
    RandomNumbers::new(HOST_SEED, host).uuid()
}
