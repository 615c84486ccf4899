//! For the benchmarks that measure the product's code in this process: commands that build fleets, reports of hosts,
//! and the scheduler with its service.

use std::sync::Arc;

use placewright_api_scheduler::{KeepOptions, SchedulerService};
use placewright_control::{
    ClaimMetrics, ControlMachine, Placement, SchedulerHandle, submit_placement,
};
use placewright_engine::Engine;
use placewright_placement::{
    AllocationRequest, Command, ConsumerClaim, ConsumerGeneration, ConsumerUuid, Inventory,
    Timestamp,
};
use placewright_roles::in_process;
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::host_state::{HostReport, HostUpdate};
use placewright_scheduler::prepare::PrepareOptions;
use placewright_scheduler::select::Scheduler;
use uuid::Uuid;

/// Submits commands that do not depend on each other, and waits until all of them are carried out.
///
/// # Errors
///
/// The engine refuses a command, which would be a bug of the benchmark, or its store fails.
pub(super) async fn submit_all(
    engine: &Engine<ControlMachine>,
    commands: impl IntoIterator<Item = Command>,
) -> anyhow::Result<()> {
    let answers: Vec<_> = commands
        .into_iter()
        .map(|command| submit_placement(engine, command))
        .collect();
    for answer in answers {
        let decided = answer.await?;
        decided.map_err(|refusal| anyhow::anyhow!("refused: {refusal}"))?;
    }
    Ok(())
}

/// The command that creates a resource provider.
pub(super) fn create_provider(
    uuid: Uuid,
    name: String,
    parent: Option<Uuid>,
    at: Timestamp,
) -> Command {
    Command::CreateProvider {
        uuid,
        name,
        parent,
        at,
    }
}

/// The command that gives a resource provider these inventories, whatever it had before.
pub(super) fn set_inventories(
    provider: Uuid,
    inventories: impl IntoIterator<Item = (impl Into<String>, Inventory)>,
    at: Timestamp,
) -> Command {
    let inventories = inventories.into_iter();
    Command::SetInventories {
        provider,
        generation: None,
        inventories: inventories
            .map(|(class, inventory)| (class.into(), inventory))
            .collect(),
        may_reserve_all: true,
        at,
    }
}

/// The command with which a consumer, whose project and user are called `owner`, claims amounts of resource providers.
/// With the generation `Is(None)` the consumer has to be new.
pub(super) fn claim(
    (consumer, generation): (Uuid, ConsumerGeneration),
    owner: &str,
    allocations: Vec<AllocationRequest>,
    at: Timestamp,
) -> Command {
    Command::Claim {
        consumers: vec![ConsumerClaim {
            consumer: ConsumerUuid::from_uuid(consumer),
            generation,
            project: owner.to_owned(),
            user: owner.to_owned(),
            consumer_type: None,
            allocations,
        }],
        at,
    }
}

/// The amounts of one resource provider in a claim.
pub(super) fn allocation(
    provider: Uuid,
    resources: impl IntoIterator<Item = (impl Into<String>, i64)>,
) -> AllocationRequest {
    let resources = resources.into_iter();
    AllocationRequest {
        provider,
        resources: resources
            .map(|(class, amount)| (class.into(), amount))
            .collect(),
    }
}

/// A scheduler that knows no hosts yet.
///
/// # Errors
///
/// The configuration is not valid, which would be a bug.
pub(super) fn new_scheduler(config: SchedulerConfig) -> anyhow::Result<Scheduler> {
    let scheduler = Scheduler::new(config, PrepareOptions::default());
    scheduler.map_err(|errors| anyhow::anyhow!("{errors:?}"))
}

/// The report of a host with this number in a cell.
pub(super) fn report(number: u64, cell: Uuid) -> HostReport {
    let mut report = HostReport::default();
    report.facts.names.service_host = format!("host-{number}");
    report.facts.names.node = format!("node-{number}");
    report.facts.names.cell = cell;
    report
}

/// Applies the report of a host to a scheduler.
pub(super) fn apply_report(
    scheduler: &mut Scheduler,
    host: Uuid,
    report: HostReport,
    at: Timestamp,
) {
    let full = HostUpdate::Full(Box::new(report));
    scheduler.hosts_mut().apply(host, at, &full);
}

/// The scheduler's service on an engine, without sockets.
///
/// # Errors
///
/// The system has no random numbers.
pub(super) fn scheduler_service(
    engine: &Engine<ControlMachine>,
    scheduler: Scheduler,
) -> anyhow::Result<Arc<SchedulerService>> {
    Ok(Arc::new(SchedulerService::new(
        in_process::gateway()?,
        Placement::new(engine.clone(), ClaimMetrics::default()),
        SchedulerHandle::new(engine.clone(), scheduler),
        KeepOptions::default(),
    )))
}
