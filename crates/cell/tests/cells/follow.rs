//! The events that followers receive: the initial listing, every change, and merged changes when they are slow.

use crate::site;

use std::collections::BTreeMap;
use std::time::Duration;

use placewright_cell::{Cell, Options};
use placewright_conductor::cell_conductor::VmState;
use placewright_conductor::{HostId, InstanceId};
use placewright_journal::MemoryJournal;
use placewright_link::{
    AgentConnection, AgentLink as _, CellEvent, CellLink as _, HostView, InstanceView,
    SessionStart, ToAgent, ToCell,
};
use placewright_testing::world::{cell, host, instance};
use placewright_types::host_state::{HostReport, HostUpdate, Load, NumberedUpdate, Receipt};
use site::{Site, options};
use tokio::sync::mpsc;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(15);
/// The interval of an agent's heartbeats.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(200);

/// The part of the soft state of a host that these tests check.
#[derive(Default)]
struct SoftState {
    /// The last update that was applied: incarnation and sequence.
    position: (u64, u64),
    load: Load,
}

/// The state that a follower has put together from its events.
#[derive(Default)]
struct View {
    instances: BTreeMap<InstanceId, InstanceView>,
    hosts: BTreeMap<HostId, HostView>,
    /// The soft state of hosts, as a scheduler applies it.
    states: BTreeMap<HostId, SoftState>,
    full_updates: usize,
    is_complete: bool,
    heartbeats: usize,
    /// How often hosts were reported alive, over all hosts.
    alive: usize,
}

impl View {
    fn apply(&mut self, event: CellEvent) {
        match event {
            CellEvent::Instance { instance, view } => match view {
                Some(view) => drop(self.instances.insert(instance, *view)),
                None => drop(self.instances.remove(&instance)),
            },
            CellEvent::Host { host, view } => match view {
                Some(view) => drop(self.hosts.insert(host, view)),
                None => drop(self.hosts.remove(&host)),
            },
            CellEvent::State { host, update } => {
                let state = self.states.entry(host).or_default();
                assert_eq!(
                    update.receipt_after(state.position),
                    Receipt::Applied,
                    "{update:?}"
                );
                state.position = (update.incarnation, update.sequence);
                match &update.update {
                    HostUpdate::Full(report) => {
                        self.full_updates += 1;
                        state.load = report.load;
                    }
                    HostUpdate::Load(load) => state.load = *load,
                    other => panic!("{other:?}"),
                }
            }
            CellEvent::Alive { hosts } => self.alive += hosts.len(),
            CellEvent::Complete => self.is_complete = true,
            CellEvent::Heartbeat => self.heartbeats += 1,
        }
    }

    async fn until(
        &mut self,
        events: &mut mpsc::Receiver<CellEvent>,
        holds: impl Fn(&Self) -> bool,
    ) {
        let receiving = async {
            while !holds(self) {
                self.apply(events.recv().await.unwrap());
            }
        };
        timeout(SOON, receiving).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn followers_receive_a_listing_and_then_every_change() {
    // One cell with three hosts of 32 processors each.
    let mut site = Site::new(1, 3, 32);
    site.start(1).await;
    site.create(&(1..=10).collect::<Vec<usize>>());
    site.wait_until_at_rest().await;
    let link = &site.cells[&cell(0)];
    let mut events = link.follow().await.unwrap();
    let mut view = View::default();
    view.until(&mut events, |view| view.is_complete).await;
    assert_eq!(view.instances.len(), 10);
    let active = |view: &InstanceView| view.vm_state == VmState::Active && view.guest.is_some();
    assert!(view.instances.values().all(active));
    assert_eq!(view.hosts.len(), 3);
    assert!(
        view.hosts
            .values()
            .all(|host| host.is_up && host.name.is_some())
    );
    // The changes are followed by a second follower, too, which connects in the middle of them.
    site.create(&(11..=30).collect::<Vec<usize>>());
    site.delete(instance(1));
    site.drive().await;
    let mut late = link.follow().await.unwrap();
    let mut late_view = View::default();
    site.wait_until_at_rest().await;
    let is_done = |view: &View| {
        view.instances.len() == 29
            && view
                .instances
                .values()
                .all(|one| one.job.is_none() && active(one))
    };
    view.until(&mut events, is_done).await;
    late_view
        .until(&mut late, |view| view.is_complete && is_done(view))
        .await;
    assert!(!view.instances.contains_key(&instance(1)));
    assert_eq!(view.instances, late_view.instances);
    view.until(&mut events, |view| view.heartbeats >= 2 && view.alive > 3)
        .await;
}

/// Connects as the agent of the first host, and begins a session with this number.
async fn connect(site: &Site, session: u64) -> AgentConnection {
    let connection = site.cells[&cell(0)].connect().await.unwrap();
    let start = SessionStart {
        host: host(0, 0),
        name: "host".into(),
        session,
        guests: Vec::new(),
    };
    connection
        .to_cell
        .send(ToCell::Started(Box::new(start)))
        .await
        .unwrap();
    connection
}

/// An update with the whole soft state of the host, whose load has this number of I/O operations.
fn full(sequence: u64, io_ops: u32) -> ToCell {
    let load = Load {
        io_ops,
        ..Load::default()
    };
    let report = HostReport {
        load,
        ..HostReport::default()
    };
    state(sequence, HostUpdate::Full(Box::new(report)))
}

/// An update of the host's load. Its number of I/O operations is the sequence number, so that each update is different.
fn load(sequence: u64) -> ToCell {
    let io_ops = u32::try_from(sequence).unwrap();
    let load = Load {
        io_ops,
        ..Load::default()
    };
    state(sequence, HostUpdate::Load(load))
}

fn state(sequence: u64, update: HostUpdate) -> ToCell {
    ToCell::State {
        host: host(0, 0),
        update: Box::new(NumberedUpdate {
            incarnation: 1,
            sequence,
            update,
        }),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_follower_gets_the_newest_state_and_not_the_backlog() {
    let mut site = Site::new(1, 1, 8);
    site.open(cell(0), MemoryJournal::new()).await;
    let link = &site.cells[&cell(0)];
    let mut slow = link.follow().await.unwrap();
    let connection = connect(&site, 1).await;
    connection.to_cell.send(full(1, 1)).await.unwrap();
    let mut view = View::default();
    let has_first = |view: &View| view.states.contains_key(&host(0, 0));
    view.until(&mut slow, has_first).await;
    let last = 20_000;
    for sequence in 2..=last {
        connection.to_cell.send(load(sequence)).await.unwrap();
    }
    // Another follower reads its events at once, until it has the last update.
    let mut quick = link.follow().await.unwrap();
    let has_last = |view: &View| {
        let state = view.states.get(&host(0, 0));
        state.is_some_and(|state| state.position == (1, last))
    };
    View::default().until(&mut quick, has_last).await;
    let mut count = 0;
    let receiving = async {
        while !has_last(&view) {
            view.apply(slow.recv().await.unwrap());
            count += 1;
        }
    };
    timeout(SOON, receiving).await.unwrap();
    // Far fewer events than updates. Beside the first full update there is one that stands for merged updates.
    assert!(count < 12_000, "{count}");
    assert!(view.full_updates >= 2);
    let state = &view.states[&host(0, 0)];
    assert_eq!(u64::from(state.load.io_ops), last);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_report_is_requested_when_a_gap_does_not_close() {
    let mut site = Site::new(1, 1, 8);
    // The report is requested after a second or two; the host must not be marked down meanwhile.
    let options = Options {
        host_timeout: Duration::from_secs(600),
        ..options(cell(0))
    };
    let placement = std::sync::Arc::new(site.control.clone());
    let opened = Cell::open_on(MemoryJournal::new(), options, (), placement).await;
    site.cells.insert(cell(0), opened.unwrap());
    let mut connection = connect(&site, 1).await;
    let mut events = site.cells[&cell(0)].follow().await.unwrap();
    for message in [full(1, 1), load(2), load(4), load(5)] {
        connection.to_cell.send(message).await.unwrap();
    }
    let message = timeout(SOON, connection.from_cell.recv()).await.unwrap();
    assert_eq!(message, Some(ToAgent::SendState { host: host(0, 0) }));
    connection.to_cell.send(full(6, 77)).await.unwrap();
    connection.to_cell.send(load(7)).await.unwrap();
    let has = |view: &View| {
        let state = view.states.get(&host(0, 0));
        state.is_some_and(|state| state.position == (1, 7))
    };
    View::default().until(&mut events, has).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_without_a_valid_session_have_to_begin_a_new_one() {
    let mut site = Site::new(1, 1, 8);
    site.open(cell(0), MemoryJournal::new()).await;
    let start_again = |after| ToAgent::StartAgain {
        host: host(0, 0),
        after,
    };
    let alive = || ToCell::Alive {
        hosts: vec![host(0, 0)],
    };
    // A connection without any session.
    let link = &site.cells[&cell(0)];
    let mut without_session = link.connect().await.unwrap();
    without_session.to_cell.send(alive()).await.unwrap();
    assert_eq!(
        timeout(SOON, without_session.from_cell.recv())
            .await
            .unwrap(),
        Some(start_again(0))
    );
    // A host taken over by a later session on another connection.
    let mut first = connect(&site, 4).await;
    let second = connect(&site, 5).await;
    site.until("the session", |world| {
        let row = world.cells[&cell(0)].hosts().get(&host(0, 0));
        row.is_some_and(|row| row.session == 5)
    })
    .await;
    first.to_cell.send(alive()).await.unwrap();
    assert_eq!(
        timeout(SOON, first.from_cell.recv()).await.unwrap(),
        Some(start_again(5))
    );
    // A session number that was used before.
    let mut third = connect(&site, 5).await;
    assert_eq!(
        timeout(SOON, third.from_cell.recv()).await.unwrap(),
        Some(start_again(5))
    );
    // A host that was silent for so long that it was marked down.
    let mut second = second;
    site.until("the host is down", |world| {
        !world.cells[&cell(0)].hosts()[&host(0, 0)].is_up
    })
    .await;
    // A connection treats the session as ended only a moment after the state has changed, so the agent
    // sends more heartbeats.
    let reply = async {
        loop {
            second.to_cell.send(alive()).await.unwrap();
            if let Ok(reply) = timeout(HEARTBEAT_INTERVAL, second.from_cell.recv()).await {
                return reply;
            }
        }
    };
    assert_eq!(timeout(SOON, reply).await.unwrap(), Some(start_again(5)));
}
