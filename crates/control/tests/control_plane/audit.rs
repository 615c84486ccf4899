//! Inconsistencies are found, and repaired where that is safe.

use placewright_conductor::InstanceId;
use placewright_conductor::cell_conductor::VmState;
use placewright_control::{Finding, FindingKind, RepairOptions, now, submit_placement};
use placewright_placement::{
    AllocationRequest, Command, ConsumerClaim, ConsumerGeneration, ConsumerUuid,
};
use placewright_testing::site::{Site, Stores, host, instance};
use uuid::Uuid;

/// Leaves findings about guests out: the agents of these tests do not report guests.
fn without_guests(findings: Vec<Finding>) -> Vec<Finding> {
    let of_guests = |finding: &Finding| {
        matches!(
            finding.kind,
            FindingKind::MissingGuest | FindingKind::UnknownGuest
        )
    };
    findings
        .into_iter()
        .filter(|finding| !of_guests(finding))
        .collect()
}

async fn claim(site: &Site, consumer: Uuid, consumer_type: &str) {
    let claim = ConsumerClaim {
        consumer: ConsumerUuid::from_uuid(consumer),
        generation: ConsumerGeneration::Any,
        project: "p".into(),
        user: "u".into(),
        consumer_type: Some(consumer_type.into()),
        allocations: vec![AllocationRequest {
            provider: host(0, 0).0,
            resources: vec![("VCPU".into(), 1)],
        }],
    };
    let command = Command::Claim {
        consumers: vec![claim],
        at: now(),
    };
    let engine = site.conductor.engine();
    submit_placement(engine, command).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orphans_are_found_and_released_and_others_are_left_alone() {
    // Two cells with three hosts each.
    let mut site = Site::start(Stores::Memory, 2, 3, std::sync::Arc::default()).await;
    site.create(0..6, 1).await;
    site.until("6 active", |control, views| {
        let is_active = |number: &usize| {
            let mapping = control.conductor.mappings().get(&instance(*number));
            let cell = mapping.and_then(|mapping| mapping.cell);
            let view = cell.and_then(|cell| views.instance(cell, instance(*number)));
            view.is_some_and(|view| view.vm_state == VmState::Active)
        };
        (0..6).filter(is_active).count() == 6
    })
    .await;
    site.wait_until_at_rest().await;
    let audited = site.runtime.audit(Some(RepairOptions::default())).await;
    assert_eq!(without_guests(audited.findings), []);

    let orphan = Uuid::from_u128(0xdead);
    claim(&site, orphan, "INSTANCE").await;
    // A consumer of another service, which control does not know.
    let volume = Uuid::from_u128(0xbeef);
    claim(&site, volume, "VOLUME").await;
    let without_repairs = None;
    let found = without_guests(site.runtime.audit(without_repairs).await.findings);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        (found[0].kind, found[0].id),
        (FindingKind::OrphanAllocation, orphan)
    );
    assert_eq!(
        site.runtime
            .audit(Some(RepairOptions::default()))
            .await
            .repaired,
        1
    );
    let audited = site.runtime.audit(None).await;
    assert_eq!(without_guests(audited.findings), []);
    let held = site.conductor.read(move |control, _| {
        let holds = |uuid| {
            control
                .placement
                .consumer(InstanceId(uuid).consumer())
                .is_some()
        };
        [holds(orphan), holds(volume)]
    });
    assert_eq!(held.await, [false, true]);
    site.shutdown().await;
}
