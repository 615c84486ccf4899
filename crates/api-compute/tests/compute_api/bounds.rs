//! Limits of requests, users and projects; objects of other projects, which look as if they did not
//! exist.

use crate::api;

use std::time::Duration;

use api::{Api, ApiResponse, IMAGE};
use placewright_api_compute::{ComputeOptions, Limits};
use serde_json::{Value, json};

const PUBLIC_KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl x@y";

/// Sends a request as a member of a project. The token has the form `user:project`.
async fn send_as_member(
    api: &Api,
    token: &str,
    method: &str,
    path: &str,
    body: Value,
) -> ApiResponse {
    let headers = [
        ("x-auth-token", token),
        ("x-roles", "member,reader"),
        ("openstack-api-version", "compute 2.96"),
        ("content-type", "application/json"),
    ];
    let body = (!body.is_null()).then_some(body);
    api.send(method, &format!("/v2.1{path}"), &headers, body)
        .await
}

fn small_limits() -> ComputeOptions {
    ComputeOptions {
        limits: Limits {
            server_body_bytes_max: 20_000,
            body_bytes_max: 2_000,
            reservation_bytes_max: 100_000,
            hint_bytes_max: 100,
            page_bytes_max: 20_000,
            keypairs_max: 2,
            server_groups_max: 2,
            server_group_members_max: 3,
            ..Limits::default()
        },
        ..ComputeOptions::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_and_their_parts_are_limited_in_size() {
    // One cell with one host.
    let api = Api::start_with(1, 1, small_limits()).await;
    // The flavor `1`, with one CPU.
    api.create_flavor("1", 1).await;
    let long_text = "x".repeat(30_000);
    let response = api
        .create_server("a", json!({"description": long_text}))
        .await;
    let message = response.expect_error(413, "overLimit");
    assert!(
        message.contains("compute.server_body_bytes_max allows 20000"),
        "{message}"
    );
    let response = api
        .put("/servers/x", json!({"server": {"name": long_text}}))
        .await;
    let message = response.expect_error(413, "overLimit");
    assert!(message.contains("compute.body_bytes_max"), "{message}");
    let response = api
        .create_server(
            "a",
            json!({"os:scheduler_hints": {"unknown": &long_text[..200]}}),
        )
        .await;
    let message = response.expect_error(400, "badRequest");
    assert!(message.contains("compute.hint_bytes_max"), "{message}");
    let extra_fields = json!({"user_data": "aGlo".repeat(3000), "min_count": 10});
    let response = api.create_server("a", extra_fields).await;
    let message = response.expect_error(413, "overLimit");
    assert!(
        message.contains("compute.reservation_bytes_max"),
        "{message}"
    );
    let boot_device =
        json!({"boot_index": 0, "source_type": "volume", "destination_type": "volume"});
    let device_with = |key: &str, value: Value| {
        let mut device = boot_device.clone();
        device[key] = value;
        json!({"block_device_mapping_v2": [device]})
    };
    for extra_fields in [
        device_with("uuid", json!("x".repeat(256))),
        device_with("uuid", json!(["x"])),
        device_with("uuid", json!({"a": 1})),
        device_with(&"k".repeat(65), json!(1)),
        json!({"block_device_mapping_v2": vec![boot_device.clone(); 129]}),
        json!({"networks": vec![json!({"uuid": IMAGE}); 129]}),
        json!({"security_groups": vec![json!({"name": "g"}); 129]}),
        json!({"trusted_image_certificates": vec!["c"; 51]}),
        json!({"trusted_image_certificates": ["c".repeat(256)]}),
        json!({"tags": vec!["t"; 51]}),
        json!({"flavorRef": "1".repeat(256)}),
        json!({"os:scheduler_hints": {"same_host": vec![""; 101]}}),
    ] {
        let response = api.create_server("a", extra_fields.clone()).await;
        assert_eq!(response.status, 400, "{extra_fields}: {response:?}");
    }
    api.create_active_server("a", device_with("uuid", json!("x".repeat(255))))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_of_one_request_share_the_common_part_of_their_records() {
    let api = Api::start(1, 2).await;
    api.create_flavor("1", 1).await;
    let extra_fields = json!({"min_count": 3, "user_data": "aGk=", "return_reservation_id": true});
    api.create_server("many", extra_fields).await.expect(202);
    let list = api.get("/servers?sort_key=launch_index&sort_dir=asc").await;
    let list = list.expect(200);
    let ids: Vec<&str> = list["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| server["id"].as_str().unwrap())
        .collect();
    for (index, id) in ids.iter().enumerate() {
        let server = api.wait_for_status(id, "ACTIVE").await;
        assert_eq!(server["OS-EXT-SRV-ATTR:launch_index"], index);
        let name = format!("many-{}", index + 1);
        assert_eq!(server["OS-EXT-SRV-ATTR:hostname"], name);
        assert_eq!(server["OS-EXT-SRV-ATTR:user_data"], "aGk=");
    }
    let share_prefix = api.site.conductor.read(|control, _| {
        let specs: Vec<_> = control.conductor.specs().values().cloned().collect();
        specs
            .windows(2)
            .all(|pair| pair[0].body.shares_prefix(&pair[1].body))
    });
    assert!(share_prefix.await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn key_pairs_server_groups_and_members_are_limited_in_number() {
    let api = Api::start_with(1, 1, small_limits()).await;
    api.create_flavor("1", 1).await;
    let key = |name: &str| json!({"keypair": {"name": name, "public_key": PUBLIC_KEY}});
    for name in ["a", "b"] {
        api.post("/os-keypairs", key(name)).await.expect(201);
    }
    let response = api.post("/os-keypairs", key("c")).await;
    let message = response.expect_error(403, "forbidden");
    assert!(message.contains("compute.keypairs_max"), "{message}");
    let by_other_user = send_as_member(&api, "bob:good", "POST", "/os-keypairs", key("c")).await;
    by_other_user.expect(201);
    let group = |name: &str| json!({"server_group": {"name": name, "policy": "soft-affinity"}});
    let mut created = Value::Null;
    for name in ["a", "b"] {
        created = api.post("/os-server-groups", group(name)).await.expect(200);
    }
    let response = api.post("/os-server-groups", group("c")).await;
    let message = response.expect_error(403, "forbidden");
    assert!(message.contains("compute.server_groups_max"), "{message}");
    let id = created["server_group"]["id"].as_str().unwrap();
    api.delete(&format!("/os-server-groups/{id}"))
        .await
        .expect(204);
    let created = api.post("/os-server-groups", group("c")).await.expect(200);
    let hint = json!({"group": created["server_group"]["id"]});
    let servers_in_group = |count: u32| json!({"min_count": count, "os:scheduler_hints": hint});
    api.create_server("a", servers_in_group(2))
        .await
        .expect(202);
    let response = api.create_server("b", servers_in_group(2)).await;
    let message = response.expect_error(403, "forbidden");
    assert!(
        message.contains("compute.server_group_members_max"),
        "{message}"
    );
    api.create_server("c", servers_in_group(1))
        .await
        .expect(202);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listings_are_limited_in_work_and_in_page_size() {
    let api = Api::start_with(1, 2, small_limits()).await;
    api.create_flavor("1", 1).await;
    let extra_fields =
        json!({"min_count": 8, "metadata": {"a": "b".repeat(255), "c": "d".repeat(255)}});
    api.create_server("vm", extra_fields.clone())
        .await
        .expect(202);
    let extra_fields = json!({"min_count": 8, "user_data": "aGk="});
    api.create_server("other", extra_fields).await.expect(202);
    for query in [
        "name=a&name=b",
        "flavor=1&flavor=1",
        "name=%28",
        "name=((a{100}){100}){100}",
        &format!("name={}", "a".repeat(256)),
        &"name=a&".repeat(65),
    ] {
        let response = api.get(&format!("/servers?{query}")).await;
        response.expect_error(400, "badRequest");
    }
    let response = api
        .get("/servers?name=VM-[0-9]%24&sort_key=display_name")
        .await;
    assert_eq!(response.expect(200)["servers"].as_array().unwrap().len(), 8);
    let response = api
        .get("/servers?status=ACTIVE&status=BUILD&status=ERROR")
        .await;
    assert_eq!(
        response.expect(200)["servers"].as_array().unwrap().len(),
        16
    );
    // Pages that were cut by their size continue through their links.
    let (mut path, mut listed, mut pages) = ("/servers/detail".to_owned(), 0, 0);
    loop {
        let page = api.get(&path).await.expect(200);
        pages += 1;
        listed += page["servers"].as_array().unwrap().len();
        let Some(link) = page["servers_links"][0]["href"].as_str() else {
            break;
        };
        path = link.split_once("/v2.1").unwrap().1.to_owned();
    }
    assert_eq!(listed, 16);
    assert!(pages > 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_whose_expressions_take_too_long_is_refused() {
    let options = ComputeOptions {
        limits: Limits {
            match_time_max: Duration::ZERO,
            ..Limits::default()
        },
        ..ComputeOptions::default()
    };
    let api = Api::start_with(1, 1, options).await;
    api.create_flavor("1", 1).await;
    api.create_server("vm", json!({"min_count": 3}))
        .await
        .expect(202);
    let response = api.get("/servers?name=vm").await;
    let message = response.expect_error(400, "badRequest");
    assert!(message.contains("compute.match_ms_max"), "{message}");
    api.get("/servers").await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_of_other_projects_look_as_if_they_did_not_exist() {
    let api = Api::start(1, 2).await;
    api.create_flavor("1", 1).await;
    let (alice, mallory) = ("alice:good", "mallory:evil");
    let server = |hints: Value| {
        json!({"server": {"name": "s", "flavorRef": "1", "imageRef": IMAGE, "networks": "none"},
            "os:scheduler_hints": hints})
    };
    let created = send_as_member(&api, alice, "POST", "/servers", server(json!({}))).await;
    let id = created.expect(202)["server"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    api.wait_for_status(&id, "ACTIVE").await;
    let unknown = "00000000-1111-4222-8333-444444444444";
    for path in [
        "/servers?marker=ID",
        "/servers?marker=ID&sort_key=display_name",
        "/servers/detail?marker=ID&sort_key=display_name&sort_dir=asc",
        "/servers/ID",
        "/servers/ID/os-instance-actions",
    ] {
        let get = |id: &str| {
            let path = path.replace("ID", id);
            let api = &api;
            async move { send_as_member(api, mallory, "GET", &path, Value::Null).await }
        };
        let (foreign, missing) = (get(&id).await, get(unknown).await);
        assert!(missing.status >= 400, "{path}");
        assert_eq!(foreign.status, missing.status, "{path}");
        let text = foreign.body.to_string().replace(&id, unknown);
        assert_eq!(text, missing.body.to_string(), "{path}");
    }
    let response =
        send_as_member(&api, mallory, "GET", "/servers?sort_key=host", Value::Null).await;
    let message = response.expect_error(403, "forbidden");
    assert_eq!(message, "Only administrators can sort servers by host.");
    api.get("/servers?sort_key=host").await.expect(200);
    // In a hint, another project's server counts as missing: the filters ignore it.
    for hint in ["same_host", "different_host"] {
        for hinted in [id.clone(), id.replace('-', ""), unknown.to_owned()] {
            for _ in 0..3 {
                let body = server(json!({hint: [&hinted]}));
                let created = send_as_member(&api, mallory, "POST", "/servers", body).await;
                let created = created.expect(202)["server"]["id"]
                    .as_str()
                    .unwrap()
                    .to_owned();
                api.wait_for_status(&created, "ACTIVE").await;
            }
        }
    }
    let body = server(json!({"same_host": [&id]}));
    let beside = send_as_member(&api, alice, "POST", "/servers", body)
        .await
        .expect(202);
    api.wait_for_status(beside["server"]["id"].as_str().unwrap(), "ACTIVE")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_administrators_see_complete_faults() {
    let api = Api::start(1, 2).await;
    api.create_flavor("1", 4000).await;
    let server = json!({"server":
        {"name": "s", "flavorRef": "1", "imageRef": IMAGE, "networks": "none"}});
    let mallory = "mallory:evil";
    let created = send_as_member(&api, mallory, "POST", "/servers", server).await;
    let id = created.expect(202)["server"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let for_administrator = api.wait_for_status(&id, "ERROR").await;
    assert!(
        for_administrator["fault"]["message"]
            .as_str()
            .unwrap()
            .contains("0 of 2 hosts")
    );
    assert!(
        for_administrator["fault"]["details"]
            .as_str()
            .unwrap()
            .contains("hosts")
    );
    let expected = "No valid host was found. No host does for its flavor.";
    let path = format!("/servers/{id}");
    let for_owner = send_as_member(&api, mallory, "GET", &path, Value::Null)
        .await
        .expect(200);
    assert_eq!(for_owner["server"]["fault"]["message"], expected);
    assert_eq!(for_owner["server"]["fault"]["details"], Value::Null);
    let path = format!("{path}/os-instance-actions");
    let for_owner = send_as_member(&api, mallory, "GET", &path, Value::Null)
        .await
        .expect(200);
    let action = &for_owner["instanceActions"][0];
    assert_eq!(action["message"], expected);
    let path = format!("{path}/{}", action["request_id"].as_str().unwrap());
    let for_owner = send_as_member(&api, mallory, "GET", &path, Value::Null)
        .await
        .expect(200);
    let text = for_owner.to_string();
    assert!(!text.contains("hosts have room"), "{text}");
}
