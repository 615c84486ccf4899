//! Passwords and user data: stored in no state in the clear, dropped when they are not needed any
//! more, shown to administrators.

use crate::api;

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
    let control_spec = api
        .site
        .conductor
        .read(move |control, _| control.conductor.specs()[&id].clone());
    let cell_spec = api.site.cells[&cell(0)]
        .engine()
        .read(move |machine| machine.state.specs().get(&id).cloned());
    (control_spec.await, cell_spec.await)
}

/// The debug output of control's state and of the cell's.
async fn debug_output(api: &Api) -> String {
    let control_output = api
        .site
        .conductor
        .read(|control, _| format!("{:?}", control.conductor));
    let cell_output = api.site.cells[&cell(0)]
        .engine()
        .read(|machine| format!("{:?}", machine.state));
    control_output.await + &cell_output.await
}

fn secrets() -> Value {
    json!({"adminPass": PASSWORD, "user_data": DATA})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passwords_are_forgotten_once_the_guest_exists_and_user_data_is_kept_sealed() {
    // One cell with one host.
    let api = Api::start(1, 1).await;
    // The flavor `1`, with one CPU.
    api.create_flavor("1", 1).await;
    let created = api.create_server("a", secrets()).await.expect(202);
    assert_eq!(created["server"]["adminPass"], PASSWORD);
    let id = id_of(&created);
    assert!(!debug_output(&api).await.contains(DATA));
    let server = api.wait_for_status(&id, "ACTIVE").await;
    assert_eq!(server["OS-EXT-SRV-ATTR:user_data"], DATA);
    let (control_spec, cell_spec) = specs(&api, &id).await;
    let cell_spec = cell_spec.unwrap();
    for spec in [&control_spec, &cell_spec] {
        assert!(spec.build_secrets.is_empty());
        assert!(!spec.secrets.is_empty());
    }
    // Control and the cell have different keys, but the digests of the specifications are equal.
    assert_ne!(control_spec.secrets, cell_spec.secrets);
    assert_eq!(control_spec.digest(), cell_spec.digest());
    let output = debug_output(&api).await;
    assert!(!output.contains(DATA) && !output.contains(PASSWORD));
    api.delete(&format!("/servers/{id}")).await;
    api.wait_until_deleted(&id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_build_without_a_host_forgets_the_password() {
    let api = Api::start(1, 1).await;
    api.create_flavor("1", 1000).await;
    let id = id_of(&api.create_server("a", secrets()).await.expect(202));
    api.wait_for_status(&id, "ERROR").await;
    let (control_spec, cell_spec) = specs(&api, &id).await;
    assert!(control_spec.build_secrets.is_empty() && cell_spec.is_none());
    let server = api.get(&format!("/servers/{id}")).await.expect(200);
    assert_eq!(server["server"]["OS-EXT-SRV-ATTR:user_data"], DATA);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_replaces_only_the_secrets_that_it_names() {
    let api = Api::start(1, 1).await;
    api.create_flavor("1", 1).await;
    let id = api.create_active_server("a", secrets()).await;
    let user_data = |server: &Value| server["OS-EXT-SRV-ATTR:user_data"].clone();
    let rebuild = |extra_fields: Value| {
        let mut rebuild = json!({"imageRef": IMAGE});
        rebuild
            .as_object_mut()
            .unwrap()
            .extend(extra_fields.as_object().unwrap().clone());
        json!({"rebuild": rebuild})
    };
    for (extra_fields, expected) in [
        (json!({}), json!(DATA)),
        (json!({"adminPass": PASSWORD}), json!(DATA)),
        (
            json!({"user_data": "aGk=", "adminPass": PASSWORD}),
            json!("aGk="),
        ),
        (json!({"user_data": null}), Value::Null),
    ] {
        let response = api.run_action(&id, rebuild(extra_fields)).await.expect(202);
        assert_eq!(response["server"]["user_data"], expected);
        // The rebuild is complete when control and the cell have the same specification.
        for _ in 0..1000 {
            let (control_spec, cell_spec) = specs(&api, &id).await;
            let is_same = cell_spec.is_some_and(|spec| spec.digest() == control_spec.digest());
            if is_same && user_data(&api.wait_for_status(&id, "ACTIVE").await) == expected {
                break;
            }
        }
        assert_eq!(
            user_data(&api.wait_for_status(&id, "ACTIVE").await),
            expected
        );
    }
    let (control_spec, cell_spec) = specs(&api, &id).await;
    assert!(!control_spec.has_secrets() && !cell_spec.unwrap().has_secrets());
    assert!(!debug_output(&api).await.contains(PASSWORD));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_that_an_earlier_release_stored_in_the_clear_are_sealed() {
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
    assert!(!debug_output(&api).await.contains(DATA));
    assert!(!debug_output(&api).await.contains(PASSWORD));
    let key_usage = api.site.conductor.sealer().secret_counts();
    assert!(key_usage.current > 0 && key_usage.older == 0 && key_usage.unknown == 0);
    assert_eq!(api.site.runtime.seal_open_secrets().await, 0);
}
