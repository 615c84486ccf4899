//! Orders that follow from a change are sent to agents only once the change is durable. The journal holds its appends
//! back, and a test lets them through one by one.

use crate::site;

use std::sync::Arc;
use std::time::Duration;

use placewright_cell::{Cell, CellMachine, Options};
use placewright_conductor::cell_conductor::VmState;
use placewright_conductor::message::Envelope;
use placewright_conductor::{Message, Reply};
use placewright_journal::{Faults, Faulty, MemoryJournal};
use placewright_link::{CellLink as _, LinkError, ToAgent, ToCell};
use placewright_testing::world::{cell, host, instance};
use site::session::{NEVER, SOON, Session};
use site::{Site, now, options};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long a test waits for a delivery to a cell that cannot answer it, because the append of its change is held back.
const DELIVERY: Duration = Duration::from_millis(100);

/// A cell on a journal whose appends a test lets through one by one, and the session of its only host.
struct HeldCell {
    site: Site,
    cell: Arc<Cell>,
    /// Holds the appends to the cell's journal back, or lets them through.
    journal: Faults,
    session: Session,
}

impl HeldCell {
    async fn open() -> Self {
        // One cell with one host of 32 processors.
        let mut site = Site::new(1, 1, 32);
        let journal = Faults::new();
        let default = options(cell(0));
        let options = Options {
            // The host must not be marked down while it is silent.
            host_timeout: Duration::from_secs(600),
            // Even a single event that arrives while an append is held back is decided at once, not after the append.
            engine: placewright_engine::Options {
                ahead_commands_min: 1,
                ..default.engine.clone()
            },
            ..default
        };
        let placement = Arc::new(site.control.clone());
        let faulty = Faulty::new(MemoryJournal::new(), journal.clone());
        let cell_0 = Cell::open_on(faulty, options, (), placement).await.unwrap();
        site.cells.insert(cell(0), Arc::clone(&cell_0));
        let session = Session::begin(&cell_0, host(0, 0), 1).await;
        site.until("the session", |world| {
            world.cells[&cell(0)].hosts().contains_key(&host(0, 0))
        })
        .await;
        Self {
            site,
            cell: cell_0,
            journal,
            session,
        }
    }

    /// Waits until a condition holds of the state as it is, durable or not.
    async fn until(&self, holds: impl Fn(&CellMachine) -> bool) {
        let held = async {
            while !self.cell.engine().read_now(&holds) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(SOON, held).await.unwrap();
    }

    async fn until_durable_after(&self, sequence: u64) {
        self.until(|_| self.cell.engine().durable_sequence() > sequence)
            .await;
    }

    /// Requests an instance, and waits until its creation is decided. The append of this change is held back.
    async fn create_held(&mut self) {
        let appends = self.journal.appends();
        self.journal.hold();
        self.site.create(&[1]);
        for _ in 0..2 {
            // Schedules the instance, then sends it to the cell, which cannot answer.
            let _ = timeout(DELIVERY, self.site.drive()).await;
        }
        self.until(|machine| machine.state.jobs().contains_key(&instance(1)))
            .await;
        self.until(|_| self.journal.appends() > appends).await;
    }

    /// Lets one append through, and waits until it is done.
    async fn append_one(&self) {
        let durable = self.cell.engine().durable_sequence();
        self.journal.let_through(1);
        self.until_durable_after(durable).await;
    }

    /// Delivers the message that deletes the instance, without waiting for the reply.
    fn delete(&self) -> JoinHandle<Result<Vec<Reply>, LinkError>> {
        let message = Message::Delete {
            instance: instance(1),
            claim_number: 1,
        };
        let envelope = Envelope {
            sent_at: now(),
            message,
        };
        let cell = Arc::clone(&self.cell);
        tokio::spawn(async move { cell.deliver(vec![envelope]).await })
    }

    /// Checks that the agent gets no order that is too early. It waits long enough for repetitions of orders to come,
    /// too.
    async fn expect_no_order(&mut self, is_too_early: impl Fn(&ToAgent) -> bool) {
        let from_cell = &mut self.session.connection.from_cell;
        let receiving = async {
            loop {
                let order = from_cell.recv().await.unwrap();
                assert!(!is_too_early(&order), "{order:?}");
            }
        };
        assert!(timeout(NEVER, receiving).await.is_err());
    }

    /// Receives the next order of a step, and returns the number of its attempt.
    async fn next_step(&mut self) -> u32 {
        match self.session.receive().await {
            ToAgent::Step { order, .. } if order.instance == instance(1) => order.attempt,
            other => panic!("{other:?}"),
        }
    }

    /// Waits for the order to destroy the guest; steps that are repeated meanwhile do not matter.
    async fn wait_for_destruction(&mut self) {
        while !is_destruction(&self.session.receive().await) {}
    }
}

fn is_destruction(order: &ToAgent) -> bool {
    matches!(order, ToAgent::Destroy { .. })
}

/// Lets all appends through, because the shutdown of a cell waits for them.
impl Drop for HeldCell {
    fn drop(&mut self) {
        self.journal.release();
    }
}

fn is_active(machine: &CellMachine) -> bool {
    let row = machine.state.instances().get(&instance(1));
    row.is_some_and(|row| row.vm_state == VmState::Active)
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_go_out_only_once_their_changes_are_durable() {
    let mut held = HeldCell::open().await;
    held.create_held().await;
    held.expect_no_order(|_| true).await;
    held.append_one().await;
    let attempt = held.next_step().await;

    // The end of the step is decided, and durable after the next append.
    held.session
        .send(ToCell::StepEnded {
            host: host(0, 0),
            instance: instance(1),
            session: 1,
            attempt,
            failure: None,
        })
        .await;
    held.until(is_active).await;
    held.append_one().await;

    let deleted = held.delete();
    held.until(|machine| !machine.state.doomed().is_empty())
        .await;
    held.expect_no_order(is_destruction).await;
    held.append_one().await;
    held.wait_for_destruction().await;
    held.journal.release();
    timeout(SOON, deleted).await.unwrap().unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_durable_change_sends_no_order_of_a_later_one_that_is_not_durable() {
    let mut held = HeldCell::open().await;
    held.create_held().await;
    let deleted = held.delete();
    held.until(|machine| !machine.state.doomed().is_empty())
        .await;
    // The build is durable, and its deletion is not: the step of the build is not needed any more, and the guest must
    // not be destroyed before the deletion is certain.
    held.append_one().await;
    held.expect_no_order(is_destruction).await;
    held.journal.release();
    held.wait_for_destruction().await;
    timeout(SOON, deleted).await.unwrap().unwrap().unwrap();
}
