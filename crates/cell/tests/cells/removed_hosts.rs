//! Hosts that an operator removes from their cell.

use crate::site;

use std::sync::Arc;
use std::time::Duration;

use placewright_cell::Cell;
use placewright_conductor::Reply;
use placewright_journal::MemoryJournal;
use placewright_link::{CellLink as _, CellOperation, ToAgent};
use placewright_testing::world::{cell, host};
use site::Site;
use site::session::{SOON, Session};
use tokio::time::timeout;

async fn open() -> (Site, Arc<Cell>) {
    // One cell with two hosts of 8 processors each.
    let mut site = Site::new(1, 2, 8);
    site.open(cell(0), MemoryJournal::new()).await;
    let cell = Arc::clone(&site.cells[&cell(0)]);
    (site, cell)
}

async fn wait_for_hosts(cell: &Cell, count: u64) {
    let counted = async {
        while cell.metrics().hosts != count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let hosts = timeout(SOON, counted).await.map_err(|_| cell.metrics());
    assert_eq!(hosts, Ok(()));
}

async fn remove(cell: &Cell, number: u32) {
    let removal = CellOperation::RemoveHost {
        host: host(0, number),
    };
    assert_eq!(cell.perform(removal).await.unwrap(), Reply::Accepted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_host_is_not_counted_any_more() {
    let (_site, cell) = open().await;
    let gone = Session::begin(&cell, host(0, 0), 1).await;
    let connected = Session::begin(&cell, host(0, 1), 1).await;
    wait_for_hosts(&cell, 2).await;
    drop(gone);
    remove(&cell, 0).await;
    wait_for_hosts(&cell, 1).await;
    remove(&cell, 1).await;
    wait_for_hosts(&cell, 0).await;
    assert_eq!(cell.metrics().hosts_up, 0);
    drop(connected);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_of_a_removed_host_has_to_begin_a_session_after_its_last_one() {
    let (_site, cell) = open().await;
    let mut session = Session::begin(&cell, host(0, 0), 7).await;
    wait_for_hosts(&cell, 1).await;
    remove(&cell, 0).await;
    wait_for_hosts(&cell, 0).await;
    session.say_alive().await;
    let order = ToAgent::StartAgain {
        host: host(0, 0),
        after: 7,
    };
    assert_eq!(session.receive().await, order);
    session.begin_again(8).await;
    wait_for_hosts(&cell, 1).await;
    session.say_alive().await;
    session.receives_nothing().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_hosts_leave_room_for_as_many_others() {
    let site = Site::new(1, 0, 8);
    let options = placewright_cell::Options {
        hosts_max: 1,
        ..site::options(cell(0))
    };
    let placement = Arc::new(site.control.clone());
    let opened = Cell::open_on(MemoryJournal::new(), options, (), placement).await;
    let cell = opened.unwrap();
    let first = Session::begin(&cell, host(0, 0), 1).await;
    wait_for_hosts(&cell, 1).await;
    remove(&cell, 0).await;
    wait_for_hosts(&cell, 0).await;
    drop(first);
    let other_is_taken = async {
        loop {
            // A host that does not fit is ignored, and its agent may try again.
            let other = Session::begin(&cell, host(0, 1), 1).await;
            let counted = timeout(Duration::from_millis(200), wait_for_hosts(&cell, 1)).await;
            if counted.is_ok() {
                return other;
            }
        }
    };
    timeout(SOON, other_is_taken).await.unwrap();
}
