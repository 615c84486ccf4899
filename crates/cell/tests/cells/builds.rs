//! Builds and deletes through real cells: whatever fails on the way, nothing is left over.

use crate::site;

use placewright_conductor::cell_conductor::VmState;
use placewright_testing::world::{World, cell, host, instance};
use site::Site;

/// The number of active instances in all cells.
fn active(world: &World) -> usize {
    let states = world.cells.values();
    let rows = states.flat_map(|state| state.instances().values());
    rows.filter(|row| row.vm_state == VmState::Active).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn builds_end_active_and_deletes_leave_nothing() {
    // Two cells, each with three hosts of 16 processors.
    let mut site = Site::new(2, 3, 16);
    site.start(2).await;
    site.create(&(1..=20).collect::<Vec<usize>>());
    let world = site.wait_until_at_rest().await;
    assert_eq!(active(&world), 20);
    for number in 1..=20 {
        site.delete(instance(number));
    }
    let world = site.wait_until_at_rest().await;
    for number in 1..=20 {
        world.check_nothing_left(instance(number));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_builds_end_on_alternates_with_no_calls_except_to_placement() {
    // The only part of control that the cells reach is a `PlacementLink`. One host of ten fails every build, and the
    // alternates are on other hosts.
    let mut site = Site::new(3, 10, 64);
    {
        let mut world = site.control.world.lock();
        world.failing = (0..3).map(|number| host(number, 4)).collect();
        world.alternates = 2;
    }
    site.start(3).await;
    site.create(&(1..=300).collect::<Vec<usize>>());
    let world = site.wait_until_at_rest().await;
    assert_eq!(active(&world), 300);
    let faults = site.control.faults.lock();
    assert!(faults.claim_requests >= 10, "{faults:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_repeats_claim_requests_until_placement_answers() {
    let mut site = Site::new(1, 6, 16);
    site.control.faults.lock().is_down = true;
    site.control.faults.lock().loses_one_in = 3;
    site.control.world.lock().fails_one_in = 3;
    site.start(1).await;
    site.create(&(1..=30).collect::<Vec<usize>>());
    site.until("claim requests that nobody answers", |world| {
        let state = &world.cells[&cell(0)];
        !state.jobs().is_empty() && active(world) > 0
    })
    .await;
    site.control.faults.lock().is_down = false;
    let world = site.wait_until_at_rest().await;
    assert!(active(&world) >= 20);
    assert!(site.cells[&cell(0)].metrics().claim_requests_failed > 0);
}
