//! An audit's findings are repaired; where that is not possible, the finding says why.

use std::sync::Arc;
use std::time::Duration;

use placewright_conductor::cell_conductor::VmState;
use placewright_conductor::message::Envelope;
use placewright_conductor::super_conductor::Command;
use placewright_conductor::{HostId, InstanceId, Message, MigrationId, MoveKind, Reply};
use placewright_control::{Finding, FindingKind, RepairOptions, now, submit_placement};
use placewright_link::{CellLink as _, InstanceView};
use placewright_placement as placement;
use placewright_placement::{AllocationRequest, ConsumerClaim, ConsumerGeneration, ConsumerUuid};
use placewright_scheduler::host_state::{HostUpdate, Load};
use placewright_testing::site::{STUCK_AFTER, Site, Stores, cell, guest, host, instance};
use uuid::Uuid;

/// One cell with this number of hosts.
async fn start_site(hosts: u32) -> Site {
    Site::start(Stores::Memory, 1, hosts, Arc::default()).await
}

/// Creates active instances and waits until nothing is under way. Their guests are reported to the
/// scheduler here, because the agents of these tests do not do that.
async fn create_active(site: &Site, count: usize, vcpus: u32) {
    site.create(0..count, vcpus).await;
    for number in 0..count {
        until(site, number, |view| view.vm_state == VmState::Active).await;
    }
    site.wait_until_at_rest().await;
    for number in 0..count {
        let guest = view(site, number).await.unwrap().guest.unwrap();
        report_guest(site, guest.host.0, instance(number).0);
    }
}

fn report_guest(site: &Site, host: Uuid, uuid: Uuid) {
    let came = Box::new(guest(uuid));
    let update = HostUpdate::InstanceCame(came, Load::default());
    site.runtime
        .scheduler()
        .change_hosts(|hosts| hosts.apply(host, now(), &update));
}

async fn view(site: &Site, number: usize) -> Option<InstanceView> {
    let read = site
        .conductor
        .read(move |_, views| views.instance(cell(0), instance(number)).cloned());
    read.await
}

async fn until(site: &Site, number: usize, holds: impl Fn(&InstanceView) -> bool) {
    for _ in 0..1000 {
        if view(site, number).await.is_some_and(|view| holds(&view)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {:?}", view(site, number).await);
}

/// Repairs with these options, and returns the only finding.
async fn repair_only_finding(site: &Site, options: RepairOptions) -> Finding {
    let audited = site.runtime.audit(Some(options)).await;
    assert_eq!(audited.findings.len(), 1, "{:?}", audited.findings);
    let finding = audited.findings.into_iter().next().unwrap();
    let is_done = finding.outcome.as_deref() == Some("done");
    assert_eq!(audited.repaired, usize::from(is_done), "{finding:?}");
    finding
}

async fn check_no_findings(site: &Site) {
    let without_repairs = None;
    let found = site.runtime.audit(without_repairs).await.findings;
    assert_eq!(found, []);
}

fn default_repairs() -> RepairOptions {
    RepairOptions::default()
}

async fn release_allocations(site: &Site, number: usize) {
    let consumer = instance(number).consumer();
    let release = placement::Command::Release { consumer };
    let engine = site.conductor.engine();
    submit_placement(engine, release).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_allocations_are_claimed_again() {
    let mut site = start_site(1).await;
    create_active(&site, 2, 2).await;
    check_no_findings(&site).await;
    let before = site.wait_until_at_rest().await;
    release_allocations(&site, 1).await;
    let finding = repair_only_finding(&site, default_repairs()).await;
    assert_eq!(
        (finding.kind, finding.id),
        (FindingKind::MissingAllocation, instance(1).0)
    );
    assert_eq!(finding.outcome.as_deref(), Some("done"));
    check_no_findings(&site).await;
    let held = |control: &placewright_conductor::ControlState| {
        placewright_conductor::claims::held_allocations(&control.placement, instance(1))
    };
    let now_held = site.conductor.read(move |control, _| held(control)).await;
    assert_eq!(now_held, held(&before.control));
    // The instance can still be deleted, although its allocations were claimed anew.
    let delete = Command::Delete {
        instance: instance(1),
    };
    site.conductor.submit(delete).await.unwrap().unwrap();
    site.until("it is gone", |control, _| {
        !control.conductor.mappings().contains_key(&instance(1))
    })
    .await;
    site.wait_until_at_rest().await;
    site.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_claim_that_does_not_fit_any_more_is_not_repaired() {
    let mut site = start_site(1).await;
    create_active(&site, 1, 10).await;
    release_allocations(&site, 0).await;
    // A concurrent claim came first.
    let claim = ConsumerClaim {
        consumer: ConsumerUuid::from_uuid(Uuid::from_u128(0xbeef)),
        generation: ConsumerGeneration::Any,
        project: "p".into(),
        user: "u".into(),
        consumer_type: Some("VOLUME".into()),
        allocations: vec![AllocationRequest {
            provider: host(0, 0).0,
            resources: vec![("VCPU".into(), 10)],
        }],
    };
    let claim = placement::Command::Claim {
        consumers: vec![claim],
        at: now(),
    };
    let engine = site.conductor.engine();
    submit_placement(engine, claim).await.unwrap().unwrap();
    let finding = repair_only_finding(&site, default_repairs()).await;
    assert_eq!(finding.kind, FindingKind::MissingAllocation);
    assert_eq!(
        finding.outcome.as_deref(),
        Some("its host has no room for what it needs, lacks a trait that it needs, or is disabled")
    );
    let holds_nothing = site
        .conductor
        .read(|control, _| control.placement.consumer(instance(0).consumer()).is_none());
    assert!(holds_nothing.await);
    site.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_whose_guest_is_gone_is_in_error() {
    let mut site = start_site(1).await;
    create_active(&site, 2, 1).await;
    lose_guest(&site, 0).await;
    let finding = repair_only_finding(&site, default_repairs()).await;
    assert_eq!(
        (finding.kind, finding.id),
        (FindingKind::MissingGuest, instance(0).0)
    );
    until(&site, 0, |view| view.vm_state == VmState::Error).await;
    let fault = view(&site, 0).await.unwrap().fault.unwrap();
    assert!(fault.message.contains("does not have"), "{fault:?}");
    let other = view(&site, 1).await.unwrap();
    assert_eq!(other.vm_state, VmState::Active);
    check_no_findings(&site).await;
    site.shutdown().await;
}

/// Makes the host of an instance lose its guest, and report so.
async fn lose_guest(site: &Site, number: usize) {
    let guest = view(site, number).await.unwrap().guest.unwrap();
    let key = (instance(number), guest.number);
    let mut fleet = site.fleet.lock();
    let removed = fleet
        .agents
        .get_mut(&guest.host)
        .unwrap()
        .guests
        .remove(&key);
    assert!(removed.is_some());
    drop(fleet);
    remove_report(site, guest.host, number);
}

async fn is_active(site: &Site, number: usize) -> bool {
    view(site, number).await.unwrap().vm_state == VmState::Active
}

/// Removes an instance's guest from what its host has reported, as if the host had reported that the guest is gone.
fn remove_report(site: &Site, host: HostId, number: usize) {
    let gone = HostUpdate::InstanceWent(instance(number).0, Load::default());
    site.runtime
        .scheduler()
        .change_hosts(|hosts| hosts.apply(host.0, now(), &gone));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_its_host_has_not_reported_yet_is_left_alone() {
    let mut site = start_site(1).await;
    create_active(&site, 2, 1).await;
    let guest = view(&site, 0).await.unwrap().guest.unwrap();
    // The host's agent ended before it could report the guest, and has not begun a new session.
    site.stop_agents(0).await;
    remove_report(&site, guest.host, 0);
    let finding = repair_only_finding(&site, default_repairs()).await;
    assert_eq!(
        (finding.kind, finding.id),
        (FindingKind::MissingGuest, instance(0).0)
    );
    assert!(is_active(&site, 0).await);
    site.start_agents(0, 1);
    site.wait_until_at_rest().await;
    for _ in 0..1000 {
        if site.runtime.audit(None).await.findings.is_empty() {
            break;
        }
    }
    check_no_findings(&site).await;
    // The guest exists but is not reported.
    remove_report(&site, guest.host, 0);
    let finding = repair_only_finding(&site, default_repairs()).await;
    assert_eq!(finding.outcome.as_deref(), Some("done"));
    for _ in 0..1000 {
        if site.runtime.audit(None).await.findings.is_empty() {
            break;
        }
    }
    check_no_findings(&site).await;
    assert!(is_active(&site, 0).await);
    site.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_guest_is_destroyed_only_when_that_is_allowed() {
    let mut site = start_site(1).await;
    create_active(&site, 1, 1).await;
    let unknown = InstanceId(Uuid::from_u128(0x5742));
    let on_host = host(0, 0);
    let is_there = |site: &Site| {
        let fleet = site.fleet.lock();
        fleet.agents[&on_host].guests.contains_key(&(unknown, 1))
    };
    let is_running = true;
    site.fleet
        .lock()
        .agents
        .get_mut(&on_host)
        .unwrap()
        .guests
        .insert((unknown, 1), is_running);
    report_guest(&site, on_host.0, unknown.0);
    let finding = repair_only_finding(&site, default_repairs()).await;
    assert_eq!(
        (finding.kind, finding.id, finding.outcome),
        (FindingKind::UnknownGuest, unknown.0, None)
    );
    assert!(is_there(&site));

    let with_destroy = RepairOptions {
        destroy_unknown_guests: true,
    };
    let finding = repair_only_finding(&site, with_destroy).await;
    assert_eq!(finding.outcome.as_deref(), Some("done"));
    for _ in 0..1000 {
        if !is_there(&site) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(!is_there(&site));
    let world = site.wait_until_at_rest().await;
    let mut guests = world.agents[&on_host].guests.keys();
    assert!(guests.all(|(of_instance, _)| *of_instance == instance(0)));
    site.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_that_control_lost_is_forgotten_by_its_cell() {
    let mut site = start_site(2).await;
    create_active(&site, 1, 1).await;
    let reserve = Envelope {
        sent_at: now(),
        message: Message::Reserve {
            instance: instance(0),
            migration: MigrationId(Uuid::from_u128(0x1057)),
            kind: MoveKind::ColdMigrate,
            move_number: 1,
        },
    };
    let link = Arc::clone(&site.cells[&cell(0)]);
    let replies = link.deliver(vec![reserve]).await.unwrap();
    assert_eq!(replies, [Reply::Accepted]);
    until(&site, 0, |view| view.job.is_some()).await;
    site.clock.advance(STUCK_AFTER);
    let finding = repair_only_finding(&site, default_repairs()).await;
    assert_eq!(
        (finding.kind, finding.id),
        (FindingKind::Stuck, instance(0).0)
    );
    assert_eq!(finding.outcome.as_deref(), Some("done"));
    until(&site, 0, |view| {
        view.job.is_none() && view.vm_state == VmState::Active
    })
    .await;
    check_no_findings(&site).await;
    // The next move begins as usual.
    let migration = MigrationId(Uuid::from_u128(0x1058));
    let begin = Command::StartMove {
        migration,
        instance: instance(0),
        kind: MoveKind::LiveMigrate,
        spec: None,
    };
    site.conductor.submit(begin).await.unwrap().unwrap();
    site.wait_until_at_rest().await;
    site.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_whose_order_was_lost_is_requested_again() {
    let mut site = start_site(1).await;
    create_active(&site, 1, 1).await;
    // The agent ignores orders until its next session.
    site.fleet.lock().ignoring_orders.push(host(0, 0));
    site.create(1..2, 1).await;
    until(&site, 1, |view| view.job.is_some()).await;
    site.clock.advance(STUCK_AFTER);
    let finding = repair_only_finding(&site, default_repairs()).await;
    assert_eq!(
        (finding.kind, finding.id),
        (FindingKind::Stuck, instance(1).0)
    );
    until(&site, 1, |view| view.vm_state == VmState::Active).await;
    site.wait_until_at_rest().await;
    site.shutdown().await;
}
