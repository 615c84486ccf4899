//! A server that is built before its cell's reply to the message arrives.

#![expect(clippy::unwrap_used, reason = "a test stops where it goes wrong")]

mod api;

use std::sync::Arc;

use api::Api;
use placewright_cell::Cell;
use placewright_conductor::cell_conductor::VmState;
use placewright_conductor::message::Envelope;
use placewright_conductor::{Action, CellId, InstanceId, Reply};
use placewright_link::{CellEvent, CellLink, CellOperation, LinkFuture};
use placewright_testing::site::cell;
use serde_json::json;
use tokio::sync::{mpsc, watch};

/// A cell whose replies to messages are delayed.
struct Held {
    cell: Arc<Cell>,
    may_answer: watch::Receiver<bool>,
}

impl CellLink for Held {
    fn cell(&self) -> LinkFuture<'_, CellId> {
        self.cell.cell()
    }

    fn deliver(&self, messages: Vec<Envelope>) -> LinkFuture<'_, Vec<Reply>> {
        let mut may_answer = self.may_answer.clone();
        Box::pin(async move {
            let replies = self.cell.deliver(messages).await;
            may_answer.wait_for(|is_allowed| *is_allowed).await.unwrap();
            replies
        })
    }

    fn act(&self, act: CellOperation) -> LinkFuture<'_, Reply> {
        self.cell.act(act)
    }

    fn actions(&self, instance: InstanceId) -> LinkFuture<'_, Vec<Action>> {
        self.cell.actions(instance)
    }

    fn follow(&self) -> LinkFuture<'_, mpsc::Receiver<CellEvent>> {
        self.cell.follow()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_shown_as_active_can_be_moved() {
    let mut api = Api::start(1, 2).await;
    api.flavor("1", 1).await;
    let (answer, may_answer) = watch::channel(false);
    let held = Held {
        cell: Arc::clone(&api.site.cells[&cell(0)]),
        may_answer,
    };
    api.site.add_cell(0, Arc::new(held)).await;
    let created = api.create("a", json!({})).await.is(202);
    let id = created["server"]["id"].as_str().unwrap();
    let instance = InstanceId(id.parse().unwrap());
    api.site
        .until("its cell tells that it is active", |_, views| {
            let view = views.instance(cell(0), instance);
            view.is_some_and(|view| view.vm_state == VmState::Active && view.job.is_none())
        })
        .await;
    let shown = api.get(&format!("/servers/{id}")).await.is(200)["server"].clone();
    assert_eq!(shown["status"], "BUILD");
    assert_eq!(shown["OS-EXT-STS:task_state"], "spawning");
    let migrate = json!({"migrate": null});
    let early = api.act(id, migrate.clone()).await;
    early.refused(409, "conflictingRequest");

    answer.send(true).unwrap();
    api.until(id, "ACTIVE").await;
    api.act(id, migrate).await.is(202);
    api.until(id, "VERIFY_RESIZE").await;
    api.site.shutdown().await;
}
