//! A replica that was away for so long that the entries it needs next are gone goes on from a snapshot.

use placewright_control::{ControlMachine, SchedulerHandle, now, submit_placement};
use placewright_engine::{Engine, Options};
use placewright_journal::{Fault, Faults, Faulty, Journal as _, MemoryJournal, Operation};
use placewright_placement::{
    AllocationRequest, Command, ConsumerClaim, ConsumerGeneration, ConsumerUuid, Inventory,
};
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::host_state::HostUpdate;
use placewright_scheduler::prepare::PrepareOptions;
use placewright_scheduler::select::Scheduler;
use placewright_testing::replicas::Network;
use uuid::Uuid;

/// The number of claims on the second host: more than all other changes of this test together.
const MANY: u128 = 200;

fn host(number: u128) -> Uuid {
    Uuid::from_u128(0x4057_0000 + number)
}

async fn submit(engine: &Engine<ControlMachine>, command: Command) {
    submit_placement(engine, command).await.unwrap().unwrap();
}

async fn create_host(engine: &Engine<ControlMachine>, uuid: Uuid) {
    let at = now();
    let create = Command::CreateProvider {
        uuid,
        name: uuid.to_string(),
        parent: None,
        at,
    };
    submit(engine, create).await;
    let set = Command::SetInventories {
        provider: uuid,
        generation: None,
        inventories: vec![("VCPU".into(), Inventory::new(1_000, 1.0))],
        may_reserve_all: true,
        at,
    };
    submit(engine, set).await;
}

async fn claim(engine: &Engine<ControlMachine>, consumer: u128, host: Uuid, cpus: i64) {
    let claim = ConsumerClaim {
        consumer: ConsumerUuid::from_uuid(Uuid::from_u128(consumer)),
        generation: ConsumerGeneration::Any,
        project: "project".into(),
        user: "user".into(),
        consumer_type: None,
        allocations: vec![AllocationRequest {
            provider: host,
            resources: vec![("VCPU".into(), cpus)],
        }],
    };
    let command = Command::Claim {
        consumers: vec![claim],
        at: now(),
    };
    submit(engine, command).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scheduler_ranks_on_the_state_that_was_loaded() {
    let (mut journal, network) = (MemoryJournal::new(), Network::default());
    let open = |origin| {
        let faults = Faults::new();
        let handle = Faulty::new(journal.try_clone().unwrap(), faults.clone());
        let link = network.options(origin);
        let engine = Engine::<ControlMachine>::open_replica(handle, Options::default(), (), link);
        let engine = engine.unwrap();
        network.join(origin, engine.replica());
        (engine, faults)
    };
    let (leader, _) = open(1);
    submit(&leader, Command::SyncStandardNames { at: now() }).await;
    create_host(&leader, host(1)).await;
    create_host(&leader, host(2)).await;
    let (follower, faults) = open(2);
    follower.confirm().await.unwrap();
    let scheduler = Scheduler::new(SchedulerConfig::default(), PrepareOptions::default());
    let scheduler = SchedulerHandle::new(follower.clone(), scheduler.unwrap());
    scheduler.change_hosts(|hosts| {
        for number in [1, 2] {
            hosts.apply(host(number), now(), &HostUpdate::Full(Box::default()));
        }
    });
    let used = || {
        scheduler.with_state(|scheduler, _| {
            let hosts = scheduler.hosts();
            [1, 2].map(|number| {
                let (slot, _) = hosts.by_uuid(host(number)).unwrap();
                hosts.amounts(slot).vcpus_used
            })
        })
    };
    assert_eq!(used(), [0, 0]);

    // The follower hears nothing of the leader, and none of its reads of the journal succeeds, however many it tries.
    network.cut(1, 2);
    faults.fail(Operation::Read, 0, u64::MAX, Fault::Io);
    claim(&leader, 1, host(1), 7).await;
    leader.snapshot().await.unwrap();
    journal.trim(leader.durable_sequence() + 1).unwrap();
    for consumer in 2..2 + MANY {
        claim(&leader, consumer, host(2), 1).await;
    }
    network.heal();
    faults.cancel_all();
    follower.confirm().await.unwrap();
    assert_eq!(used(), [7, i64::try_from(MANY).unwrap()]);
    for engine in [leader, follower] {
        tokio::task::spawn_blocking(move || engine.shutdown())
            .await
            .unwrap();
    }
}
