//! The kind that the host table records of a change is at least as strong as what changed, so that readers
//! can skip changes of the weaker kinds.

use std::collections::BTreeMap;

use placewright_placement::Timestamp;
use placewright_placement::tree_changes::ChangeKind;
use placewright_scheduler::amounts::Amounts;
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::host_state::{HostReport, HostUpdate, InstanceReport, Load};
use placewright_scheduler::host_table::HostTable;
use placewright_scheduler::hosts::column::{self, OnCapacityLoss, on_capacity_loss};
use proptest::prelude::*;
use uuid::Uuid;

const HOSTS: u32 = 3;

#[derive(Clone, Debug)]
enum Step {
    Update(u32, HostUpdate),
    AddPending(u32, u8),
    RemovePending(u32, u8),
    SetAmounts(u32, Amounts),
    SetAmountsAfterCapacityLoss(u32, Amounts),
}

fn uuid(number: u32) -> Uuid {
    Uuid::from_u128(0x100 + u128::from(number))
}

fn instance(number: u8) -> InstanceReport {
    InstanceReport {
        uuid: Uuid::from_u128(u128::from(number)),
        group: None,
        image_properties: BTreeMap::new(),
    }
}

fn update() -> impl Strategy<Value = HostUpdate> {
    let load = (0u32..4, 0u32..3).prop_map(|(io_ops, failed_builds)| Load {
        io_ops,
        failed_builds,
        running_builds: 0,
    });
    let instances = proptest::collection::btree_set(0u8..6, 0..4);
    let full = (load.clone(), instances).prop_map(|(load, instances)| {
        HostUpdate::Full(Box::new(HostReport {
            load,
            instances: instances.into_iter().map(instance).collect(),
            ..HostReport::default()
        }))
    });
    let came = (0u8..6, load.clone());
    let went = (0u8..6, load.clone());
    prop_oneof![
        1 => full,
        2 => load.prop_map(HostUpdate::Load),
        2 => came.prop_map(|(number, load)| HostUpdate::InstanceCame(Box::new(instance(number)), load)),
        2 => went.prop_map(|(number, load)| HostUpdate::InstanceWent(instance(number).uuid, load)),
        1 => Just(HostUpdate::Alive),
        1 => proptest::option::of(Just("broken".to_owned())).prop_map(HostUpdate::Disabled),
    ]
}

fn amounts() -> impl Strategy<Value = Amounts> {
    let few = || 0i64..4;
    (few(), few(), few(), few()).prop_map(|(ram, disk, vcpus, devices)| Amounts {
        ram_free_mb: ram,
        disk_free_mb: disk,
        vcpus_total: 4,
        vcpus_used: vcpus,
        cpu_ratio: 2.0,
        devices_free: devices,
        ..Amounts::default()
    })
}

fn step() -> impl Strategy<Value = Step> {
    let host = || 0..HOSTS;
    prop_oneof![
        (host(), update()).prop_map(|(host, update)| Step::Update(host, update)),
        (host(), 0u8..6).prop_map(|(host, number)| Step::AddPending(host, number)),
        (host(), 0u8..6).prop_map(|(host, number)| Step::RemovePending(host, number)),
        (host(), amounts()).prop_map(|(host, amounts)| Step::SetAmounts(host, amounts)),
        (host(), amounts())
            .prop_map(|(host, amounts)| Step::SetAmountsAfterCapacityLoss(host, amounts)),
    ]
}

fn apply(table: &mut HostTable, step: &Step) {
    match step {
        Step::Update(host, update) => {
            table.apply(uuid(*host), Timestamp::from_seconds(1), update);
        }
        Step::AddPending(host, number) => table.add_pending_instance(*host, &instance(*number)),
        Step::RemovePending(host, number) => {
            table.remove_pending_instance(*host, instance(*number).uuid);
        }
        Step::SetAmounts(host, amounts) => table.set_amounts(*host, *amounts),
        Step::SetAmountsAfterCapacityLoss(host, amounts) => {
            table.set_amounts_after_capacity_loss(*host, *amounts);
        }
    }
}

/// The values of a host in all columns.
fn values(table: &HostTable, slot: u32) -> [f64; column::COUNT] {
    std::array::from_fn(|number| table.columns()[number].get(slot))
}

/// Whether the values of a host changed only as a loss of capacity can change them.
fn is_capacity_loss(before: &[f64; column::COUNT], after: &[f64; column::COUNT]) -> bool {
    (0..column::COUNT).all(|number| match on_capacity_loss(number) {
        OnCapacityLoss::Falls => after[number] <= before[number],
        OnCapacityLoss::Rises => after[number] >= before[number],
        OnCapacityLoss::Stays => after[number].to_bits() == before[number].to_bits(),
    })
}

proptest! {
    #[test]
    fn the_recorded_kind_covers_what_changed(
        batches in proptest::collection::vec(proptest::collection::vec(step(), 1..5), 0..30),
    ) {
        let mut table = HostTable::new(&SchedulerConfig::default());
        for host in 0..HOSTS {
            let report = HostUpdate::Full(Box::default());
            table.apply(uuid(host), Timestamp::from_seconds(1), &report);
            table.bind_to_slot(uuid(host), host);
        }
        drop(table.drain_changes());
        for batch in &batches {
            let before: Vec<_> = (0..HOSTS).map(|slot| values(&table, slot)).collect();
            let usable: Vec<_> = (0..HOSTS).map(|slot| table.usable().contains(slot)).collect();
            batch.iter().for_each(|step| apply(&mut table, step));
            let changes: Vec<_> = table.drain_changes().collect();
            for slot in 0..HOSTS {
                let index = slot as usize;
                let found: Vec<_> = changes.iter().filter(|change| change.slot == slot).collect();
                prop_assert!(found.len() <= 1, "a host is recorded once");
                let after = values(&table, slot);
                match found.first().map(|change| change.kind) {
                    None => prop_assert_eq!(before[index], after),
                    Some(ChangeKind::CapacityLoss) => {
                        prop_assert!(is_capacity_loss(&before[index], &after), "{before:?} {after:?}");
                    }
                    Some(ChangeKind::CapacityChange | ChangeKind::Anything) => {}
                }
                if found.first().map(|change| change.kind) != Some(ChangeKind::Anything) {
                    prop_assert_eq!(usable[index], table.usable().contains(slot));
                }
            }
        }
    }
}

/// Of 100 MiB, two instances of 30 MiB are expected to take 60. Then one of them is claimed on this host,
/// and the other is no longer expected here: 70 MiB are free, more than before.
#[test]
fn a_smaller_reduction_than_before_is_a_gain_of_capacity() {
    let mut table = HostTable::new(&SchedulerConfig::default());
    table.apply(
        uuid(0),
        Timestamp::from_seconds(1),
        &HostUpdate::Full(Box::default()),
    );
    table.bind_to_slot(uuid(0), 0);
    let with_free = |ram_free_mb| Amounts {
        ram_free_mb,
        ..Amounts::default()
    };
    table.set_amounts(0, with_free(100));
    drop(table.drain_changes());
    let mut kind_of = |free| {
        table.set_amounts_after_capacity_loss(0, with_free(free));
        let changes: Vec<_> = table.drain_changes().collect();
        changes.iter().map(|change| change.kind).collect::<Vec<_>>()
    };
    assert_eq!(
        kind_of(40),
        [ChangeKind::CapacityLoss],
        "two instances are expected"
    );
    assert_eq!(
        kind_of(70),
        [ChangeKind::CapacityChange],
        "one of them was claimed, the other not"
    );
}
