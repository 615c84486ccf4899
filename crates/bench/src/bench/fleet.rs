//! A fleet with allocations, created directly through the engine: far faster than over HTTP, with
//! the same entries in the journal.

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

use super::requests::Numbers;

/// The size of a fleet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) hosts: u64,
    /// The number of consumers with one allocation of three classes each, spread evenly over the
    /// hosts.
    pub(crate) consumers: u64,
}

type Answer = Result<Result<Outcome, Refusal>, SubmitError>;

/// The most commands under way; more would only use memory.
const UNDER_WAY_MAX: usize = 8_192;

/// Submits commands to an engine, a limited number at a time.
struct Writer {
    engine: Engine<ControlMachine>,
    under_way: VecDeque<Pin<Box<dyn Future<Output = Answer> + Send>>>,
}

impl Writer {
    async fn write(&mut self, command: Command) -> anyhow::Result<()> {
        if self.under_way.len() >= UNDER_WAY_MAX {
            self.wait_for_one().await?;
        }
        self.under_way
            .push_back(Box::pin(submit_placement(&self.engine, command)));
        Ok(())
    }

    async fn wait_for_all(&mut self) -> anyhow::Result<()> {
        while !self.under_way.is_empty() {
            self.wait_for_one().await?;
        }
        Ok(())
    }

    async fn wait_for_one(&mut self) -> anyhow::Result<()> {
        if let Some(answer) = self.under_way.pop_front()
            && let Err(refusal) = answer.await?
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
pub(crate) fn build(store: &Path, size: Size) -> anyhow::Result<()> {
    let journal = SqliteJournal::open(store, SqliteOptions::default())?;
    let engine = Engine::<ControlMachine>::open(journal, Options::default(), ())?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let result = runtime.block_on(fill(engine.clone(), size));
    engine.shutdown();
    result
}

async fn fill(engine: Engine<ControlMachine>, size: Size) -> anyhow::Result<()> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let at = Timestamp::from_seconds(i64::try_from(seconds)?);
    let mut writer = Writer {
        engine,
        under_way: VecDeque::new(),
    };
    // The engine may decide waiting commands in any order, so each step ends before the next one,
    // which depends on it.
    writer.write(Command::SyncStandardNames { at }).await?;
    writer.wait_for_all().await?;
    for step in [create, set_inventories, set_traits, set_aggregates] {
        for host in 0..size.hosts {
            writer.write(step(host, at)).await?;
        }
        writer.wait_for_all().await?;
    }
    for number in 0..size.consumers {
        writer
            .write(claim(number, number % size.hosts.max(1), at))
            .await?;
    }
    writer.wait_for_all().await
}

fn create(host: u64, at: Timestamp) -> Command {
    let name = format!("host-{host}");
    Command::CreateProvider {
        uuid: host_uuid(host),
        name,
        parent: None,
        at,
    }
}

fn set_inventories(host: u64, at: Timestamp) -> Command {
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
        at,
    }
}

fn set_traits(host: u64, at: Timestamp) -> Command {
    let traits = vec!["HW_CPU_X86_AVX2".to_owned(), "COMPUTE_NODE".to_owned()];
    Command::SetTraits {
        provider: host_uuid(host),
        generation: Some(1),
        traits,
        at,
    }
}

fn set_aggregates(host: u64, at: Timestamp) -> Command {
    let aggregates = vec![Numbers::new(u64::MAX, host % 100).uuid().to_string()];
    Command::SetAggregates {
        provider: host_uuid(host),
        generation: Some(2),
        aggregates,
        at,
    }
}

/// A claim of a small instance by a new consumer.
fn claim(number: u64, host: u64, at: Timestamp) -> Command {
    let resources = vec![
        ("VCPU".to_owned(), 1),
        ("MEMORY_MB".to_owned(), 512),
        ("DISK_GB".to_owned(), 1),
    ];
    let consumer = ConsumerClaim {
        consumer: ConsumerUuid::from_uuid(Numbers::new(2, number).uuid()),
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
        at,
    }
}

fn host_uuid(host: u64) -> Uuid {
    Numbers::new(1, host).uuid()
}
