//! Orders that a host gets twice, late, or while it carries out another order.

use crate::cell::{instance, order};
use placewright_agent::Operation;
use placewright_agent::description::HostDescription;
use placewright_agent::host::{Action, Host, Outcome, PhysicalCapacity, WorkResult};
use placewright_conductor::HostId;
use placewright_conductor::cell_conductor::{Order, Step};
use placewright_types::host_state::HostUpdate;
use uuid::Uuid;

const HOST: HostId = HostId(Uuid::from_u128(0x1000));

/// The time of all calls: no test depends on when destroyed guests are forgotten.
const NOW_MS: u64 = 0;

fn host_with_session() -> Host {
    let mut host = Host::new(HOST, [], PhysicalCapacity::default());
    host.begin_session(1, "host");
    host
}

fn arrive_order(attempt: u32, guest_number: u32) -> Order {
    let mut order = order(HOST, instance(1), Step::Arrive, 1);
    (order.attempt, order.guest_number) = (attempt, guest_number);
    order
}

fn end_work(host: &mut Host, work_number: u64, guest_number: u32, outcome: Outcome) -> Vec<Action> {
    let result = WorkResult {
        number: work_number,
        guest: (instance(1), guest_number),
        outcome,
    };
    let mut actions = Vec::new();
    host.end_work(result, NOW_MS, &mut actions);
    actions
}

fn updates_of(host: &mut Host) -> Vec<HostUpdate> {
    let updates = host.take_updates(&HostDescription::default(), "host");
    updates.into_iter().map(|update| update.update).collect()
}

#[test]
fn duplicated_and_late_orders_start_no_second_work() {
    let mut host = host_with_session();
    let mut actions = Vec::new();
    host.handle_order(1, arrive_order(2, 2), &mut actions);
    let is_work = |action: &&Action| matches!(action, Action::Work(_));
    assert_eq!(actions.iter().filter(is_work).count(), 1);
    actions.clear();
    // A duplicate, an earlier attempt, and another session.
    host.handle_order(1, arrive_order(2, 2), &mut actions);
    host.handle_order(1, arrive_order(1, 1), &mut actions);
    host.handle_order(2, arrive_order(3, 3), &mut actions);
    assert_eq!(actions, []);
    let actions_after_end = end_work(&mut host, 1, 2, Outcome::Done);
    assert!(matches!(
        actions_after_end.last(),
        Some(Action::StepEnded {
            attempt: 2,
            failure: None,
            ..
        })
    ));
    // A second end of the same work has no effect, and a duplicate order gets the response.
    assert_eq!(end_work(&mut host, 1, 2, Outcome::Done), []);
    host.handle_order(1, arrive_order(2, 2), &mut actions);
    assert!(matches!(
        actions[..],
        [Action::StepEnded { attempt: 2, .. }]
    ));
}

#[test]
fn a_destruction_waits_until_work_under_way_has_ended() {
    let mut host = host_with_session();
    let mut actions = Vec::new();
    host.handle_order(1, arrive_order(1, 1), &mut actions);
    actions.clear();
    host.handle_destroy(1, (instance(1), 1), NOW_MS, &mut actions);
    assert_eq!(actions, [Action::Cancel(1)]);
    actions.clear();
    host.handle_destroy(1, (instance(1), 1), NOW_MS, &mut actions);
    assert_eq!(actions, []);
    // The build was completed before it was cancelled.
    let ended = end_work(&mut host, 1, 1, Outcome::Done);
    let is_destroy_work = |action: &Action| matches!(action, Action::Work(work) if work.operations == [Operation::Destroy]);
    assert!(ended.iter().any(is_destroy_work), "{ended:?}");
    assert!(
        !ended
            .iter()
            .any(|action| matches!(action, Action::StepEnded { .. }))
    );
    let ended = end_work(&mut host, 2, 1, Outcome::Done);
    let [Action::EraseGuest(_), Action::Destroyed { number: 1, .. }] = &ended[..] else {
        panic!("{ended:?}");
    };
    // An order for the destroyed guest arrives late, and is ignored although its attempt is the newest.
    host.handle_order(1, arrive_order(3, 1), &mut actions);
    assert_eq!(actions, []);
}

#[test]
fn a_rebuilt_guest_is_reported_with_the_properties_of_its_new_image() {
    let mut host = host_with_session();
    let mut actions = Vec::new();
    let distribution_of_arrival = |updates: &[HostUpdate]| match updates {
        [HostUpdate::InstanceCame(report, _)] => report.image_properties["os_distro"].clone(),
        other => panic!("{other:?}"),
    };
    updates_of(&mut host);
    host.handle_order(1, arrive_order(1, 1), &mut actions);
    end_work(&mut host, 1, 1, Outcome::Done);
    assert_eq!(distribution_of_arrival(&updates_of(&mut host)), "debian");

    let rebuild = |attempt: u32, distribution: &str| {
        let mut order = order(HOST, instance(1), Step::Rebuild, 1);
        (order.attempt, order.guest_number) = (attempt, 1);
        let properties = format!(r#"{{"os_distro": "{distribution}"}}"#);
        let body = format!(r#"{{"request": {{"image": {{"properties": {properties}}}}}}}"#);
        order.spec.body = body.as_str().into();
        order
    };
    host.handle_order(1, rebuild(2, "ubuntu"), &mut actions);
    assert_eq!(distribution_of_arrival(&updates_of(&mut host)), "ubuntu");
    end_work(&mut host, 2, 1, Outcome::Done);
    // A rebuild with the same image changes only the load.
    host.handle_order(1, rebuild(3, "ubuntu"), &mut actions);
    end_work(&mut host, 3, 1, Outcome::Done);
    let updates = updates_of(&mut host);
    assert!(
        updates
            .iter()
            .all(|update| matches!(update, HostUpdate::Load(_))),
        "{updates:?}"
    );
    host.request_full_report();
    let [HostUpdate::Full(report)] = &updates_of(&mut host)[..] else {
        panic!("no full report");
    };
    assert_eq!(report.instances[0].image_properties["os_distro"], "ubuntu");
}

#[test]
fn the_load_is_reported_although_facts_are_due_at_the_same_time() {
    let mut host = host_with_session();
    let mut actions = Vec::new();
    host.handle_order(1, arrive_order(1, 1), &mut actions);
    updates_of(&mut host);
    end_work(&mut host, 1, 1, Outcome::Done);
    host.set_service_version(70);
    let updates = updates_of(&mut host);
    let [HostUpdate::Facts(facts), HostUpdate::Load(load)] = &updates[..] else {
        panic!("{updates:?}");
    };
    assert_eq!((facts.service_version, load.io_ops), (70, 0));
}
