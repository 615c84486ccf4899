//! Passwords and user data: in no state in the clear, forgotten in time, shown to administrators.

#![expect(clippy::unwrap_used, reason = "a test stops where it goes wrong")]

mod api;

use api::{Api, IMAGE};
use placewright_conductor::{InstanceId, Spec};
use placewright_testing::site::cell;
use serde_json::{Value, json};

const PASSWORD: &str = "hush-hush-hush";
/// "password: hush" in base 64.
const DATA: &str = "cGFzc3dvcmQ6IGh1c2g=";

fn id_of(created: &Value) -> String {
    created["server"]["id"].as_str().unwrap().to_owned()
}

/// The specifications that control and the cell have of a server.
async fn specs(api: &Api, id: &str) -> (Spec, Option<Spec>) {
    let id = InstanceId(id.parse().unwrap());
    let of_control = api
        .site
        .conductor
        .read(move |control, _| control.conductor.specs()[&id].clone());
    let of_cell = api.site.cells[&cell(0)]
        .engine()
        .read(move |machine| machine.0.specs().get(&id).cloned());
    (of_control.await, of_cell.await)
}

/// What control's state and the cell's say when they are printed.
async fn printed(api: &Api) -> String {
    let of_control = api
        .site
        .conductor
        .read(|control, _| format!("{:?}", control.conductor));
    let of_cell = api.site.cells[&cell(0)]
        .engine()
        .read(|machine| format!("{:?}", machine.0));
    of_control.await + &of_cell.await
}

fn secrets() -> Value {
    json!({"adminPass": PASSWORD, "user_data": DATA})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passwords_are_forgotten_once_the_guest_exists_and_user_data_is_kept_sealed() {
    let api = Api::start(1, 1).await;
    api.flavor("1", 1).await;
    let created = api.create("a", secrets()).await.is(202);
    assert_eq!(created["server"]["adminPass"], PASSWORD);
    let id = id_of(&created);
    assert!(!printed(&api).await.contains(DATA));
    let shown = api.until(&id, "ACTIVE").await;
    assert_eq!(shown["OS-EXT-SRV-ATTR:user_data"], DATA);
    let (of_control, of_cell) = specs(&api, &id).await;
    let of_cell = of_cell.unwrap();
    for spec in [&of_control, &of_cell] {
        assert!(spec.build_secrets.is_empty());
        assert!(!spec.secrets.is_empty());
    }
    // Each has a key of its own, and both know that it is the same server.
    assert_ne!(of_control.secrets, of_cell.secrets);
    assert_eq!(of_control.digest(), of_cell.digest());
    let all = printed(&api).await;
    assert!(!all.contains(DATA) && !all.contains(PASSWORD));
    api.delete(&format!("/servers/{id}")).await;
    api.until_gone(&id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_build_without_a_host_forgets_the_password() {
    let api = Api::start(1, 1).await;
    api.flavor("1", 1000).await;
    let id = id_of(&api.create("a", secrets()).await.is(202));
    api.until(&id, "ERROR").await;
    let (of_control, of_cell) = specs(&api, &id).await;
    assert!(of_control.build_secrets.is_empty() && of_cell.is_none());
    let shown = api.get(&format!("/servers/{id}")).await.is(200);
    assert_eq!(shown["server"]["OS-EXT-SRV-ATTR:user_data"], DATA);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_replaces_what_it_gives_and_keeps_the_rest() {
    let api = Api::start(1, 1).await;
    api.flavor("1", 1).await;
    let id = api.active("a", secrets()).await;
    let user_data = |shown: &Value| shown["OS-EXT-SRV-ATTR:user_data"].clone();
    let rebuild = |more: Value| {
        let mut rebuild = json!({"imageRef": IMAGE});
        rebuild
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({"rebuild": rebuild})
    };
    for (more, expected) in [
        (json!({}), json!(DATA)),
        (json!({"adminPass": PASSWORD}), json!(DATA)),
        (
            json!({"user_data": "aGk=", "adminPass": PASSWORD}),
            json!("aGk="),
        ),
        (json!({"user_data": null}), Value::Null),
    ] {
        let told = api.act(&id, rebuild(more)).await.is(202);
        assert_eq!(told["server"]["user_data"], expected);
        // It is over when control has what the cell has.
        for _ in 0..1000 {
            let (of_control, of_cell) = specs(&api, &id).await;
            let is_same = of_cell.is_some_and(|spec| spec.digest() == of_control.digest());
            if is_same && user_data(&api.until(&id, "ACTIVE").await) == expected {
                break;
            }
        }
        assert_eq!(user_data(&api.until(&id, "ACTIVE").await), expected);
    }
    let (of_control, of_cell) = specs(&api, &id).await;
    assert!(!of_control.has_secrets() && !of_cell.unwrap().has_secrets());
    assert!(!printed(&api).await.contains(PASSWORD));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_earlier_release_left_in_the_clear_is_sealed() {
    let api = Api::start(1, 1).await;
    let body = json!({
        "request": {"flavor": {"vcpus": 1000, "memory_mb": 512, "root_gb": 1}},
        "server": {
            "flavor_id": "1", "reservation_id": "r", "disk_config": "AUTO", "hostname": "a",
            "user_data": DATA, "admin_pass": PASSWORD,
        },
    });
    api.site.create_with(1..2, &body.to_string()).await;
    assert_eq!(api.site.runtime.seal_open_secrets().await, 1);
    assert!(!printed(&api).await.contains(DATA));
    assert!(!printed(&api).await.contains(PASSWORD));
    let held = api.site.conductor.sealer().held();
    assert!(held.current > 0 && held.older == 0 && held.unknown == 0);
    assert_eq!(api.site.runtime.seal_open_secrets().await, 0);
}
