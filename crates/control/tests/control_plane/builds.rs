//! From a request to a running instance: with cells and agents, restarts, and cells that go away.

use std::collections::BTreeSet;
use std::time::Duration;

use placewright_conductor::cell_conductor::VmState;
use placewright_conductor::super_conductor::Command;
use placewright_conductor::{CellId, ControlState, HostId, MoveKind};
use placewright_control::Views;
use placewright_testing::site::{Fleet, Site, Stores, cell, host, instance};
use placewright_testing::world::migration;

/// How many of the first `count` instances are active.
fn active_count(control: &ControlState, views: &Views, count: usize) -> usize {
    let is_active = |number: &usize| {
        let mapping = control.conductor.mappings().get(&instance(*number));
        let cell = mapping.and_then(|mapping| mapping.cell);
        let view = cell.and_then(|cell| views.instance(cell, instance(*number)));
        view.is_some_and(|view| view.vm_state == VmState::Active && view.job.is_none())
    };
    (0..count).filter(is_active).count()
}

/// Three cells with four hosts of 16 CPUs each.
async fn small_site() -> Site {
    Site::start(Stores::Memory, 3, 4, std::sync::Arc::default()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_become_active_and_are_deleted_completely() {
    let mut site = small_site().await;
    // Twenty instances of one CPU each.
    site.create(0..20, 1).await;
    site.until("20 active", |control, views| {
        active_count(control, views, 20) == 20
    })
    .await;
    let world = site.wait_until_at_rest().await;
    let hosts: BTreeSet<HostId> = world
        .cells
        .values()
        .flat_map(|state| state.instances().values())
        .filter_map(|row| row.guest.map(|guest| guest.host))
        .collect();
    assert!(
        hosts.len() >= 8,
        "instances of one request pile up: {hosts:?}"
    );
    for number in 0..20 {
        let command = Command::Delete {
            instance: instance(number),
        };
        site.conductor.submit(command).await.unwrap().unwrap();
    }
    site.until("all gone", |control, views| {
        control.conductor.mappings().is_empty()
            && control.placement.consumer_count() == 0
            && views.cells.values().all(|view| view.instances.is_empty())
    })
    .await;
    site.wait_until_at_rest().await;
    site.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn builds_that_fail_go_to_alternates_of_the_same_cell() {
    let mut site = small_site().await;
    {
        let mut fleet = site.fleet.lock();
        fleet.failing = (0..3).map(|cell| host(cell, 0)).collect();
    }
    site.create(0..30, 1).await;
    site.until("30 active", |control, views| {
        active_count(control, views, 30) == 30
    })
    .await;
    let world = site.wait_until_at_rest().await;
    for failing in &site.fleet.lock().failing {
        let guest_count = world.agents[failing].guests.len();
        assert_eq!(guest_count, 0, "{failing} has guests");
    }
    let actions = site.conductor.actions(instance(0)).await.unwrap();
    assert_eq!(actions[0].name, "create");
    site.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_whose_builds_all_failed_counts_on_no_host() {
    let mut site = small_site().await;
    site.fleet.lock().failing = (0..3)
        .flat_map(|cell| (0..4).map(move |number| host(cell, number)))
        .collect();
    site.create(0..1, 1).await;
    site.until("failed", |control, views| {
        let mapping = control.conductor.mappings().get(&instance(0));
        let cell = mapping.and_then(|mapping| mapping.cell);
        let view = cell.and_then(|cell| views.instance(cell, instance(0)));
        view.is_some_and(|view| view.vm_state == VmState::Error && view.job.is_none())
    })
    .await;
    site.wait_until_at_rest().await;
    let scheduler = site.runtime.scheduler();
    let hosts =
        || scheduler.with_state(|scheduler, _| scheduler.hosts().hosts_of(instance(0).0).len());
    for _ in 0..200 {
        if hosts() == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(hosts(), 0, "weighers would still count it");
    site.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_without_a_host_is_buried_with_the_explanation() {
    let mut site = small_site().await;
    site.create(0..1, 17).await;
    // 12 hosts of 16 CPUs have room for 12 of these instances. Of a request for 13 none is built.
    site.create(1..14, 9).await;
    site.create_with(14..15, r#"{"server": {}}"#).await;
    site.until("15 buried", |control, _| {
        control.conductor.buried().len() == 14 + 1
    })
    .await;
    site.wait_until_at_rest().await;
    let faults = site.conductor.read(|control, _| {
        let fault = |number| control.conductor.buried()[&instance(number)].fault.clone();
        [fault(0), fault(1), fault(14)]
    });
    let [big, many, unreadable] = faults.await;
    assert!(
        big.message
            .starts_with("No valid host was found. 0 of 12 hosts have room"),
        "{big:?}"
    );
    assert!(big.details.contains("VCPU"), "{big:?}");
    assert!(
        many.message.starts_with("No valid host was found."),
        "{many:?}"
    );
    assert!(unreadable.message.contains("request"), "{unreadable:?}");
    // If the request says that fewer instances are enough, as many are built as fit.
    let body = r#"{"min_count": 3,
        "request": {"flavor": {"vcpus": 9, "memory_mb": 512, "root_gb": 1}}}"#;
    site.create_with(20..33, body).await;
    site.until("12 of 13", |control, views| {
        let mapped = |number: &usize| control.conductor.mappings().get(&instance(*number));
        let of_cell = |number: &usize| mapped(number).and_then(|row| row.cell);
        let is_active = |number: &usize| {
            let view = of_cell(number).and_then(|cell| views.instance(cell, instance(*number)));
            view.is_some_and(|view| view.vm_state == VmState::Active)
        };
        let buried = (20..33).filter(|number| of_cell(number) == Some(CellId::CELL0));
        (20..33).filter(is_active).count() == 12 && buried.count() == 1
    })
    .await;
    site.wait_until_at_rest().await;
    site.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cell_that_is_down_keeps_its_instances_and_gets_no_new_ones() {
    let directory = tempfile::tempdir().unwrap();
    let stores = Stores::In(directory.path());
    let mut site = Site::start(stores, 3, 4, std::sync::Arc::default()).await;
    site.create(0..12, 1).await;
    site.until("12 active", |control, views| {
        active_count(control, views, 12) == 12
    })
    .await;
    let before = site
        .conductor
        .read(|_, views| views.cells[&cell(1)].instances.len())
        .await;
    assert!(before > 0);
    site.stop_agents(1).await;
    site.cells[&cell(1)].shutdown().await;
    site.until("cell 1 is down", |control, views| {
        control.conductor.cells()[&cell(1)].down_since.is_some() && !views.is_up(cell(1))
    })
    .await;
    // A deletion waits for the cell that is down; new instances go to the other cells.
    let deleted = site
        .conductor
        .read(|_, views| *views.cells[&cell(1)].instances.keys().next().unwrap());
    let deleted = deleted.await;
    let command = Command::Delete { instance: deleted };
    site.conductor.submit(command).await.unwrap().unwrap();
    site.create(12..24, 1).await;
    site.until("12 more active", |control, views| {
        active_count(control, views, 24) == 24 && views.cells[&cell(1)].instances.len() == before
    })
    .await;
    let is_any_in_cell = site.conductor.read(|control, _| {
        let mappings = control.conductor.mappings();
        (12..24).any(|number| mappings[&instance(number)].cell == Some(cell(1)))
    });
    assert!(!is_any_in_cell.await);
    site.cells.remove(&cell(1));
    // The cell is back with the same store, and its link is replaced.
    site.open_cell(stores, 1).await;
    site.start_agents(1, 4);
    site.until("cell 1 is back without the deleted", |control, views| {
        control.conductor.cells()[&cell(1)].down_since.is_none()
            && views.is_up(cell(1))
            && !control.conductor.mappings().contains_key(&deleted)
    })
    .await;
    site.wait_until_at_rest().await;
    site.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_under_way_continues_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let stores = Stores::In(directory.path());
    let fleet: std::sync::Arc<parking_lot::Mutex<Fleet>> = std::sync::Arc::default();
    for round in 0..4 {
        let mut site = Site::start(stores, 2, 4, fleet.clone()).await;
        site.create(round * 20..round * 20 + 20, 1).await;
        for number in (0..round * 20).step_by(3) {
            let command = Command::Delete {
                instance: instance(number),
            };
            // The instances of earlier rounds are gone.
            let _ = site.conductor.submit(command).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(7 * round as u64)).await;
        site.shutdown().await;
    }
    let mut site = Site::start(stores, 2, 4, fleet).await;
    site.until("nothing waits", |control, _| {
        control.conductor.builds().is_empty()
    })
    .await;
    let world = site.wait_until_at_rest().await;
    let last = (60..80).filter(|number| {
        let mapping = &world.control.conductor.mappings()[&instance(*number)];
        mapping.cell.is_some_and(|cell| cell != CellId::CELL0)
    });
    assert_eq!(last.count(), 20);
    site.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn moves_find_a_host_in_the_cell_of_their_instance() {
    let mut site = small_site().await;
    site.create(0..6, 1).await;
    site.until("6 active", |control, views| {
        active_count(control, views, 6) == 6
    })
    .await;
    let kinds = [
        MoveKind::ColdMigrate,
        MoveKind::LiveMigrate,
        MoveKind::Resize,
    ];
    for (number, kind) in kinds.into_iter().enumerate() {
        let command = Command::StartMove {
            migration: migration(number),
            instance: instance(number),
            kind,
            spec: None,
        };
        site.conductor.submit(command).await.unwrap().unwrap();
    }
    site.until("the moves are in their cells, or done", |control, views| {
        // The live migration is over; the other two moves wait for the owner's decision.
        let moves = control.conductor.moves();
        moves.len() == 2
            && views
                .vm_state_of(control, 0)
                .is_some_and(|state| state == VmState::Resized)
            && views
                .vm_state_of(control, 2)
                .is_some_and(|state| state == VmState::Resized)
    })
    .await;
    for (number, decision) in [
        (0, placewright_conductor::MoveDecision::Confirm),
        (2, placewright_conductor::MoveDecision::Revert),
    ] {
        let command = Command::ConfirmOrRevert {
            migration: migration(number),
            decision,
            request: None,
        };
        site.conductor.submit(command).await.unwrap().unwrap();
    }
    site.until("all moves are over", |control, views| {
        control.conductor.moves().is_empty() && active_count(control, views, 6) == 6
    })
    .await;
    site.wait_until_at_rest().await;
    // The resize may have stayed on its host.
    let rows = site.conductor.read(|control, _| {
        let rows = control.conductor.migrations();
        [0, 1].map(|number| rows[&migration(number)].clone())
    });
    for row in rows.await {
        assert_ne!(row.source, row.target);
    }
    site.shutdown().await;
}

/// Reads the VM states that the cells report.
trait VmStates {
    fn vm_state_of(&self, control: &ControlState, number: usize) -> Option<VmState>;
}

impl VmStates for Views {
    fn vm_state_of(&self, control: &ControlState, number: usize) -> Option<VmState> {
        let mapping = control.conductor.mappings().get(&instance(number))?;
        Some(self.instance(mapping.cell?, instance(number))?.vm_state)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_for_more_servers_than_one_command_places_fills_the_hosts() {
    let mut site = small_site().await;
    // The 12 hosts have room for 192 of these instances, and one command places 256 at most.
    let body =
        r#"{"request": {"flavor": {"vcpus": 1, "memory_mb": 512, "root_gb": 1}}, "min_count": 1}"#;
    site.create_with(0..600, body).await;
    site.until("all ended", |control, _| {
        control.conductor.buried().len() == 600 - 192
    })
    .await;
    site.until("192 active", |control, views| {
        active_count(control, views, 600) == 192
    })
    .await;
    site.wait_until_at_rest().await;
    site.shutdown().await;
}
