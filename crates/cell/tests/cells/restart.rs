//! Cells and agents that are killed at any moment and come back.

use crate::site;

use std::sync::Arc;
use std::time::Duration;

use placewright_cell::{Cell, CellMachine};
use placewright_conductor::cell_conductor::VmState;
use placewright_engine::{Recovered, recover};
use placewright_journal::{Journal as _, MemoryJournal, SqliteJournal, SqliteOptions};
use placewright_link::{AgentLink as _, CellLink as _, LinkError};
use placewright_testing::world::{World, cell, host, instance};
use site::{Site, options};

/// The number of active instances in all cells.
fn active(world: &World) -> usize {
    let states = world.cells.values();
    let rows = states.flat_map(|state| state.instances().values());
    rows.filter(|row| row.vm_state == VmState::Active).count()
}

/// Opens a store that an ending cell may still hold: tries again until the store is free.
async fn reopen(site: &mut Site, directory: &std::path::Path) {
    for _ in 0..200 {
        let placement = std::sync::Arc::new(site.control.clone());
        let store = SqliteOptions::default();
        let opened = Cell::open(directory, store, options(cell(0)), (), placement).await;
        if let Ok(opened) = opened {
            site.cells.insert(cell(0), opened);
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("the store is never free");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_ends_at_any_moment_continues_from_its_store() {
    let directory = tempfile::tempdir().unwrap();
    // One cell with six hosts of 32 processors each.
    let mut site = Site::new(1, 6, 32);
    site.control.world.lock().fails_one_in = 5;
    reopen(&mut site, directory.path()).await;
    for round in 0..5 {
        site.start_agents(cell(0));
        let first = 1 + round * 12;
        site.create(&(first..first + 12).collect::<Vec<usize>>());
        if round > 0 {
            site.delete(instance(first - 3));
        }
        // A few steps are taken before the restart.
        for _ in 0..round {
            site.drive().await;
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        site.kill(cell(0)).await;
        reopen(&mut site, directory.path()).await;
    }
    site.start_agents(cell(0));
    let world = site.wait_until_at_rest().await;
    assert!(active(&world) > 40, "{}", active(&world));
    // A cell that runs may change its state at any time, also right after its start. So what its store holds is
    // compared with the state that it had at its end.
    site.stop_agents().await;
    let ended = Arc::clone(&site.cells[&cell(0)]);
    ended.shutdown().await;
    let digest = |machine: &CellMachine| placewright_records::cell::digest(&machine.state);
    let before = (
        ended.engine().durable_sequence(),
        ended.engine().read_now(digest),
    );
    let mut journal = SqliteJournal::open(directory.path(), SqliteOptions::default()).unwrap();
    let stored: Recovered<CellMachine> = recover(&mut journal, &()).unwrap();
    assert_eq!(before, (stored.sequence, digest(&stored.machine)));
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_that_connect_again_go_on_with_their_builds() {
    let mut site = Site::new(1, 6, 32);
    site.control.world.lock().fails_one_in = 5;
    site.start(1).await;
    for round in 0..6 {
        let first = 1 + round * 10;
        site.create(&(first..first + 10).collect::<Vec<usize>>());
        site.drive().await;
        tokio::time::sleep(Duration::from_millis(2)).await;
        site.stop_agents().await;
        site.drive().await;
        site.start_agents(cell(0));
    }
    let world = site.wait_until_at_rest().await;
    assert!(active(&world) > 40, "{}", active(&world));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_host_is_down_and_builds_go_elsewhere_until_it_comes_back() {
    let mut site = Site::new(1, 3, 64);
    site.open(cell(0), MemoryJournal::new()).await;
    let silent = host(0, 0);
    site.start_agents_of(cell(0), vec![silent]);
    let is_up = move |world: &World| {
        let row = world.cells[&cell(0)].hosts().get(&silent);
        row.map(|row| row.is_up)
    };
    site.until("the host is up", |world| is_up(world) == Some(true))
        .await;
    site.stop_agents().await;
    site.start_agents_of(cell(0), vec![host(0, 1), host(0, 2)]);
    site.create(&(1..=12).collect::<Vec<usize>>());
    site.until("the host is down", |world| is_up(world) == Some(false))
        .await;
    site.until("all are active elsewhere", |world| active(world) == 12)
        .await;
    site.start_agents_of(cell(0), vec![silent]);
    site.until("the host is up again", |world| is_up(world) == Some(true))
        .await;
    let world = site.wait_until_at_rest().await;
    assert!(world.agents[&silent].guests.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_engines_on_one_store_never_both_win() {
    let journal = MemoryJournal::new();
    let second = journal.try_clone().unwrap();
    let mut site = Site::new(1, 4, 32);
    let placement = std::sync::Arc::new(site.control.clone());
    let old = Cell::open_on(journal, options(cell(0)), (), placement)
        .await
        .unwrap();
    site.cells.insert(cell(0), std::sync::Arc::clone(&old));
    site.start_agents(cell(0));
    site.create(&[1, 2, 3, 4]);
    site.drive().await;
    let placement = std::sync::Arc::new(site.control.clone());
    let new = Cell::open_on(second, options(cell(0)), (), placement)
        .await
        .unwrap();
    site.create(&[5, 6, 7, 8]);
    site.drive().await;
    site.stop_agents().await;
    site.cells.insert(cell(0), new);
    drop(old);
    site.start_agents(cell(0));
    let world = site.wait_until_at_rest().await;
    assert_eq!(active(&world), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_was_shut_down_is_unreachable() {
    let mut site = Site::new(1, 1, 8);
    site.start(1).await;
    let cell = std::sync::Arc::clone(&site.cells[&cell(0)]);
    let mut events = cell.follow().await.unwrap();
    cell.shutdown().await;
    cell.shutdown().await;
    let ended = async { while events.recv().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(10), ended)
        .await
        .unwrap();
    assert!(matches!(
        cell.cell_id().await,
        Err(LinkError::Unreachable { .. })
    ));
    assert!(matches!(
        cell.deliver(Vec::new()).await,
        Err(LinkError::Unreachable { .. })
    ));
    assert!(matches!(
        cell.connect().await,
        Err(LinkError::Unreachable { .. })
    ));
}
