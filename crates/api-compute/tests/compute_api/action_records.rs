//! A client can follow each action that goes on after its answer: the answer's `Location` and request id lead to the
//! action's record.

use crate::api;

use std::sync::Arc;

use api::test_cell::{Held, TestCell};
use api::{Api, ApiResponse, IMAGE};
use placewright_conductor::super_conductor::MigrationStatus;
use serde_json::{Value, json};

fn header<'r>(response: &'r ApiResponse, name: &str) -> &'r str {
    response.headers[name].to_str().unwrap()
}

/// Runs an action, and returns the record that its answer leads to.
async fn run(api: &Api, id: &str, action: Value, status: u16) -> Value {
    let response = api.run_action(id, action).await;
    let record = record_of(api, id, &response).await;
    response.expect(status);
    record
}

/// The record that the `Location` and the request ids of an answer lead to.
async fn record_of(api: &Api, id: &str, response: &ApiResponse) -> Value {
    let request_id = header(response, "x-openstack-request-id");
    assert_eq!(header(response, "x-compute-request-id"), request_id);
    let path = format!("/servers/{id}/os-instance-actions/{request_id}");
    let location = header(response, "location");
    assert_eq!(location, format!("http://cloud:8774/v2.1{path}"));
    show(api, &path).await
}

async fn show(api: &Api, path: &str) -> Value {
    api.get(path).await.expect(200)["instanceAction"].clone()
}

/// The names of the server's actions, the latest first.
async fn names(api: &Api, id: &str) -> Vec<String> {
    let path = format!("/servers/{id}/os-instance-actions");
    let list = api.get(&path).await.expect(200);
    let actions = list["instanceActions"].as_array().unwrap().iter();
    actions
        .map(|action| action["action"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answer_to_each_action_leads_to_its_record() {
    // One cell with three hosts.
    let api = Api::start(1, 3).await;
    // The flavor `1`, with one CPU.
    api.create_flavor("1", 1).await;
    api.create_flavor("2", 2).await;
    let created = api.create_server("a", json!({})).await;
    let create_id = header(&created, "x-openstack-request-id").to_owned();
    let id = created.expect(202)["server"]["id"].clone();
    let id = id.as_str().unwrap();
    let create_path = format!("/servers/{id}/os-instance-actions/{create_id}");
    assert_eq!(show(&api, &create_path).await["action"], "create");
    api.wait_for_status(id, "ACTIVE").await;
    let create = show(&api, &create_path).await;
    assert_eq!(create["events"][0]["result"], "Success");

    let resize = json!({"resize": {"flavorRef": "2"}});
    assert_eq!(run(&api, id, resize.clone(), 202).await["action"], "resize");
    api.wait_for_status(id, "VERIFY_RESIZE").await;
    let revert = run(&api, id, json!({"revertResize": null}), 202).await;
    assert_eq!(revert["action"], "revertResize");
    api.wait_for_status(id, "ACTIVE").await;
    run(&api, id, resize, 202).await;
    api.wait_for_status(id, "VERIFY_RESIZE").await;
    let confirm = run(&api, id, json!({"confirmResize": null}), 204).await;
    assert_eq!(confirm["action"], "confirmResize");
    api.wait_for_status(id, "ACTIVE").await;

    let live = json!({"os-migrateLive": {"host": null, "block_migration": "auto"}});
    let live = run(&api, id, live, 202).await;
    assert_eq!(live["action"], "live-migration");
    api.wait_for_status(id, "ACTIVE").await;
    let migrate = run(&api, id, json!({"migrate": null}), 202).await;
    assert_eq!(migrate["action"], "migrate");
    api.wait_for_status(id, "VERIFY_RESIZE").await;
    run(&api, id, json!({"confirmResize": null}), 204).await;
    api.wait_for_status(id, "ACTIVE").await;
    let rebuild = run(&api, id, json!({"rebuild": {"imageRef": IMAGE}}), 202).await;
    assert_eq!(rebuild["action"], "rebuild");
    api.wait_for_status(id, "ACTIVE").await;
    let shelve = run(&api, id, json!({"shelve": null}), 202).await;
    assert_eq!(shelve["action"], "shelve");
    api.wait_for_status(id, "SHELVED_OFFLOADED").await;
    let unshelve = run(&api, id, json!({"unshelve": null}), 202).await;
    assert_eq!(unshelve["action"], "unshelve");
    api.wait_for_status(id, "ACTIVE").await;

    // Each action is there once.
    let mut expected = vec![
        "create",
        "resize",
        "revertResize",
        "resize",
        "confirmResize",
        "live-migration",
        "migrate",
        "confirmResize",
        "rebuild",
        "shelve",
        "unshelve",
    ];
    expected.reverse();
    assert_eq!(names(&api, id).await, expected);
    api.site.wait_until_at_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resize_is_over_when_it_waits_for_its_confirmation() {
    let api = Api::start(1, 2).await;
    api.create_flavor("1", 1).await;
    api.create_flavor("2", 2).await;
    let id = api.create_active_server("a", json!({})).await;
    let response = api
        .run_action(&id, json!({"resize": {"flavorRef": "2"}}))
        .await;
    api.wait_for_status(&id, "VERIFY_RESIZE").await;
    let resized = record_of(&api, &id, &response).await;
    assert_eq!(resized["events"][0]["result"], "Success");
    let response = api.run_action(&id, json!({"confirmResize": null})).await;
    api.wait_for_status(&id, "ACTIVE").await;
    assert_eq!(
        record_of(&api, &id, &response).await["action"],
        "confirmResize"
    );
    let confirmed = record_of(&api, &id, &response).await;
    assert_eq!(confirmed["events"][0]["event"], "conductor_confirmResize");
    assert_eq!(confirmed["events"][0]["result"], "Success");
    // The confirmation does not change the record of the resize.
    let path = format!(
        "/servers/{id}/os-instance-actions/{}",
        resized["request_id"].as_str().unwrap()
    );
    assert_eq!(show(&api, &path).await, resized);
    api.site.wait_until_at_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_without_a_host_says_so_in_its_record() {
    let api = Api::start(1, 1).await;
    api.create_flavor("1", 1).await;
    let id = api.create_active_server("a", json!({})).await;
    let response = api.run_action(&id, json!({"migrate": null})).await;
    api.site
        .until("the move is over", |control, _| {
            control.conductor.moves().is_empty()
        })
        .await;
    let record = record_of(&api, &id, &response).await;
    assert_eq!(record["action"], "migrate");
    assert!(record["message"].is_string(), "{record:#}");
    assert_eq!(record["events"][0]["result"], "Error");
    assert_eq!(names(&api, &id).await, ["migrate", "create"]);
    api.site.wait_until_at_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_cell_has_not_heard_of_yet_has_a_record() {
    let mut api = Api::start(1, 2).await;
    api.create_flavor("1", 1).await;
    let (test_cell, allow) = TestCell::of(&api, Held::Moves);
    api.site.add_cell(0, Arc::new(test_cell)).await;
    let id = api.create_active_server("a", json!({})).await;
    let migrate = run(&api, &id, json!({"migrate": null}), 202).await;
    assert_eq!(migrate["events"][0]["result"], Value::Null);
    allow.send(true).unwrap();
    api.wait_for_status(&id, "VERIFY_RESIZE").await;
    allow.send(false).unwrap();
    let response = api.run_action(&id, json!({"confirmResize": null})).await;
    let confirm = record_of(&api, &id, &response).await;
    assert_eq!(confirm["action"], "confirmResize");
    assert_eq!(confirm["events"][0]["result"], Value::Null);
    // A client that got no answer repeats its request. The repeated request leads to the record of the first one.
    let repeated = api.run_action(&id, json!({"confirmResize": null})).await;
    assert_eq!(repeated.status, 204);
    assert_eq!(header(&repeated, "location"), header(&response, "location"));
    allow.send(true).unwrap();
    api.wait_for_status(&id, "ACTIVE").await;
    assert_eq!(
        names(&api, &id).await,
        ["confirmResize", "migrate", "create"]
    );
    api.site.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_records_of_a_cell_of_an_older_release_are_found_under_the_ids_of_the_answers() {
    let mut api = Api::start(1, 2).await;
    api.create_flavor("1", 1).await;
    api.create_flavor("99", 99).await;
    let (mut test_cell, _allow) = TestCell::of(&api, Held::Nothing);
    test_cell.forgets_requests = true;
    api.site.add_cell(0, Arc::new(test_cell)).await;
    let id = api.create_active_server("a", json!({})).await;
    let mut answers = Vec::new();
    for (action, end) in [
        (json!({"migrate": null}), "VERIFY_RESIZE"),
        (json!({"resize": {"flavorRef": "99"}}), "ACTIVE"),
        (json!({"migrate": null}), "VERIFY_RESIZE"),
    ] {
        let name = action.as_object().unwrap().keys().next().unwrap().clone();
        let answer = api.run_action(&id, action).await;
        api.site
            .until("no move waits for a host any more", |control, _| {
                let mut moves = control.conductor.migrations().values();
                moves.all(|found| found.status != MigrationStatus::Accepted)
            })
            .await;
        api.wait_for_status(&id, end).await;
        answers.push((name, answer));
        if end == "VERIFY_RESIZE" {
            api.run_action(&id, json!({"confirmResize": null}))
                .await
                .expect(204);
            api.wait_for_status(&id, "ACTIVE").await;
        }
    }
    for (name, answer) in &answers {
        assert_eq!(record_of(&api, &id, answer).await["action"], name.as_str());
    }
    let mut names = names(&api, &id).await;
    // A cell of an older release records no confirmations.
    names.retain(|name| name != "confirmResize");
    assert_eq!(names, ["migrate", "resize", "migrate", "create"]);
    api.site.shutdown().await;
}
