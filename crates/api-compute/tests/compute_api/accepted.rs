//! A cell reports a server as active before control has received the cell's reply to the build message.

use crate::api;

use std::sync::Arc;

use api::Api;
use api::test_cell::{Held, TestCell};
use placewright_conductor::InstanceId;
use placewright_conductor::cell_conductor::VmState;
use placewright_testing::site::cell;
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_shown_as_active_only_when_it_can_be_moved() {
    // One cell with two hosts.
    let mut api = Api::start(1, 2).await;
    // The flavor `1`, with one CPU.
    api.create_flavor("1", 1).await;
    let (test_cell, allow) = TestCell::of(&api, Held::Replies);
    api.site.add_cell(0, Arc::new(test_cell)).await;
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

    allow.send(true).unwrap();
    api.wait_for_status(id, "ACTIVE").await;
    api.run_action(id, migrate).await.expect(202);
    api.wait_for_status(id, "VERIFY_RESIZE").await;
    api.site.shutdown().await;
}
