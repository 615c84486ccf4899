//! A cell reports a server as active before control has received the cell's reply to the build message.

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

/// A cell whose replies to messages are delayed until the test allows them.
struct DelayedCell {
    cell: Arc<Cell>,
    may_answer: watch::Receiver<bool>,
}

impl CellLink for DelayedCell {
    fn cell_id(&self) -> LinkFuture<'_, CellId> {
        self.cell.cell_id()
    }

    fn deliver(&self, messages: Vec<Envelope>) -> LinkFuture<'_, Vec<Reply>> {
        let mut may_answer = self.may_answer.clone();
        Box::pin(async move {
            let replies = self.cell.deliver(messages).await;
            may_answer.wait_for(|is_allowed| *is_allowed).await.unwrap();
            replies
        })
    }

    fn perform(&self, operation: CellOperation) -> LinkFuture<'_, Reply> {
        self.cell.perform(operation)
    }

    fn actions(&self, instance: InstanceId) -> LinkFuture<'_, Vec<Action>> {
        self.cell.actions(instance)
    }

    fn follow(&self) -> LinkFuture<'_, mpsc::Receiver<CellEvent>> {
        self.cell.follow()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_shown_as_active_only_when_it_can_be_moved() {
    let mut api = Api::start(1, 2).await;
    api.create_flavor("1", 1).await;
    let (allow_answer, may_answer) = watch::channel(false);
    let delayed_cell = DelayedCell {
        cell: Arc::clone(&api.site.cells[&cell(0)]),
        may_answer,
    };
    api.site.add_cell(0, Arc::new(delayed_cell)).await;
    let created = api.create_server("a", json!({})).await.expect(202);
    let id = created["server"]["id"].as_str().unwrap();
    let instance = InstanceId(id.parse().unwrap());
    api.site
        .until("the cell reports the server as active", |_, views| {
            let view = views.instance(cell(0), instance);
            view.is_some_and(|view| view.vm_state == VmState::Active && view.job.is_none())
        })
        .await;
    let server = api.get(&format!("/servers/{id}")).await.expect(200)["server"].clone();
    assert_eq!(server["status"], "BUILD");
    assert_eq!(server["OS-EXT-STS:task_state"], "spawning");
    let migrate = json!({"migrate": null});
    let refused = api.run_action(id, migrate.clone()).await;
    refused.expect_error(409, "conflictingRequest");

    allow_answer.send(true).unwrap();
    api.wait_for_status(id, "ACTIVE").await;
    api.run_action(id, migrate).await.expect(202);
    api.wait_for_status(id, "VERIFY_RESIZE").await;
    api.site.shutdown().await;
}
