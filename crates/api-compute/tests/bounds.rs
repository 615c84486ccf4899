//! Bounds of requests, users and projects; and objects of others, which look as if they did not
//! exist.

#![expect(clippy::unwrap_used, reason = "a test stops where it goes wrong")]

mod api;

use std::time::Duration;

use api::{Api, IMAGE, Told};
use placewright_api_compute::{ComputeOptions, Limits};
use serde_json::{Value, json};

const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl x@y";

/// Sends a request as a member of a project.
async fn member(api: &Api, who: &str, method: &str, path: &str, body: Value) -> Told {
    let headers = [
        ("x-auth-token", who),
        ("x-roles", "member,reader"),
        ("openstack-api-version", "compute 2.96"),
        ("content-type", "application/json"),
    ];
    let body = (!body.is_null()).then_some(body);
    api.ask(method, &format!("/v2.1{path}"), &headers, body)
        .await
}

fn small() -> ComputeOptions {
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
async fn bodies_and_their_parts_have_a_size() {
    let api = Api::start_with(1, 1, small()).await;
    api.flavor("1", 1).await;
    let long = "x".repeat(30_000);
    let told = api.create("a", json!({"description": long})).await;
    let message = told.refused(413, "overLimit");
    assert!(
        message.contains("compute.server_body_bytes_max allows 20000"),
        "{message}"
    );
    let told = api
        .put("/servers/x", json!({"server": {"name": long}}))
        .await;
    let message = told.refused(413, "overLimit");
    assert!(message.contains("compute.body_bytes_max"), "{message}");
    let told = api
        .create(
            "a",
            json!({"os:scheduler_hints": {"unknown": &long[..200]}}),
        )
        .await;
    let message = told.refused(400, "badRequest");
    assert!(message.contains("compute.hint_bytes_max"), "{message}");
    let data = json!({"user_data": "aGlo".repeat(3000), "min_count": 10});
    let told = api.create("a", data).await;
    let message = told.refused(413, "overLimit");
    assert!(
        message.contains("compute.reservation_bytes_max"),
        "{message}"
    );
    let boot = json!({"boot_index": 0, "source_type": "volume", "destination_type": "volume"});
    let with = |key: &str, value: Value| {
        let mut device = boot.clone();
        device[key] = value;
        json!({"block_device_mapping_v2": [device]})
    };
    for more in [
        with("uuid", json!("x".repeat(256))),
        with("uuid", json!(["x"])),
        with("uuid", json!({"a": 1})),
        with(&"k".repeat(65), json!(1)),
        json!({"block_device_mapping_v2": vec![boot.clone(); 129]}),
        json!({"networks": vec![json!({"uuid": IMAGE}); 129]}),
        json!({"security_groups": vec![json!({"name": "g"}); 129]}),
        json!({"trusted_image_certificates": vec!["c"; 51]}),
        json!({"trusted_image_certificates": ["c".repeat(256)]}),
        json!({"tags": vec!["t"; 51]}),
        json!({"flavorRef": "1".repeat(256)}),
        json!({"os:scheduler_hints": {"same_host": vec![""; 101]}}),
    ] {
        let told = api.create("a", more.clone()).await;
        assert_eq!(told.status, 400, "{more}: {told:?}");
    }
    api.active("a", with("uuid", json!("x".repeat(255)))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_of_one_request_have_their_record_in_common() {
    let api = Api::start(1, 2).await;
    api.flavor("1", 1).await;
    let more = json!({"min_count": 3, "user_data": "aGk=", "return_reservation_id": true});
    api.create("many", more).await.is(202);
    let list = api.get("/servers?sort_key=launch_index&sort_dir=asc").await;
    let list = list.is(200);
    let ids: Vec<&str> = list["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| server["id"].as_str().unwrap())
        .collect();
    for (index, id) in ids.iter().enumerate() {
        let shown = api.until(id, "ACTIVE").await;
        assert_eq!(shown["OS-EXT-SRV-ATTR:launch_index"], index);
        let name = format!("many-{}", index + 1);
        assert_eq!(shown["OS-EXT-SRV-ATTR:hostname"], name);
        assert_eq!(shown["OS-EXT-SRV-ATTR:user_data"], "aGk=");
    }
    let are_one = api.site.conductor.read(|control, _| {
        let specs: Vec<_> = control.conductor.specs().values().cloned().collect();
        specs
            .windows(2)
            .all(|pair| pair[0].body.shares_prefix(&pair[1].body))
    });
    assert!(are_one.await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_costs_nothing_but_memory_comes_to_an_end() {
    let api = Api::start_with(1, 1, small()).await;
    api.flavor("1", 1).await;
    let key = |name: &str| json!({"keypair": {"name": name, "public_key": KEY}});
    for name in ["a", "b"] {
        api.post("/os-keypairs", key(name)).await.is(201);
    }
    let told = api.post("/os-keypairs", key("c")).await;
    let message = told.refused(403, "forbidden");
    assert!(message.contains("compute.keypairs_max"), "{message}");
    let other = member(&api, "bob:good", "POST", "/os-keypairs", key("c")).await;
    other.is(201);
    let group = |name: &str| json!({"server_group": {"name": name, "policy": "soft-affinity"}});
    let mut last = Value::Null;
    for name in ["a", "b"] {
        last = api.post("/os-server-groups", group(name)).await.is(200);
    }
    let told = api.post("/os-server-groups", group("c")).await;
    let message = told.refused(403, "forbidden");
    assert!(message.contains("compute.server_groups_max"), "{message}");
    let id = last["server_group"]["id"].as_str().unwrap();
    api.delete(&format!("/os-server-groups/{id}")).await.is(204);
    let last = api.post("/os-server-groups", group("c")).await.is(200);
    let hint = json!({"group": last["server_group"]["id"]});
    let more = |count: u32| json!({"min_count": count, "os:scheduler_hints": hint});
    api.create("a", more(2)).await.is(202);
    let told = api.create("b", more(2)).await;
    let message = told.refused(403, "forbidden");
    assert!(
        message.contains("compute.server_group_members_max"),
        "{message}"
    );
    api.create("c", more(1)).await.is(202);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_have_a_cost_and_an_end() {
    let api = Api::start_with(1, 2, small()).await;
    api.flavor("1", 1).await;
    let more = json!({"min_count": 8, "metadata": {"a": "b".repeat(255), "c": "d".repeat(255)}});
    api.create("vm", more.clone()).await.is(202);
    let more = json!({"min_count": 8, "user_data": "aGk="});
    api.create("other", more).await.is(202);
    for query in [
        "name=a&name=b",
        "flavor=1&flavor=1",
        "name=%28",
        "name=((a{100}){100}){100}",
        &format!("name={}", "a".repeat(256)),
        &"name=a&".repeat(65),
    ] {
        let told = api.get(&format!("/servers?{query}")).await;
        told.refused(400, "badRequest");
    }
    let told = api
        .get("/servers?name=VM-[0-9]%24&sort_key=display_name")
        .await;
    assert_eq!(told.is(200)["servers"].as_array().unwrap().len(), 8);
    let told = api
        .get("/servers?status=ACTIVE&status=BUILD&status=ERROR")
        .await;
    assert_eq!(told.is(200)["servers"].as_array().unwrap().len(), 16);
    // Pages that were cut by their size continue through their links.
    let (mut path, mut found, mut pages) = ("/servers/detail".to_owned(), 0, 0);
    loop {
        let page = api.get(&path).await.is(200);
        pages += 1;
        found += page["servers"].as_array().unwrap().len();
        let Some(link) = page["servers_links"][0]["href"].as_str() else {
            break;
        };
        path = link.split_once("/v2.1").unwrap().1.to_owned();
    }
    assert_eq!(found, 16);
    assert!(pages > 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_matches_too_long_is_refused_by_name() {
    let options = ComputeOptions {
        limits: Limits {
            match_time_max: Duration::ZERO,
            ..Limits::default()
        },
        ..ComputeOptions::default()
    };
    let api = Api::start_with(1, 1, options).await;
    api.flavor("1", 1).await;
    api.create("vm", json!({"min_count": 3})).await.is(202);
    let told = api.get("/servers?name=vm").await;
    let message = told.refused(400, "badRequest");
    assert!(message.contains("compute.match_ms_max"), "{message}");
    api.get("/servers").await.is(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_have_looks_as_if_it_were_not_there() {
    let api = Api::start(1, 2).await;
    api.flavor("1", 1).await;
    let (alice, mallory) = ("alice:good", "mallory:evil");
    let server = |hints: Value| {
        json!({"server": {"name": "s", "flavorRef": "1", "imageRef": IMAGE, "networks": "none"},
            "os:scheduler_hints": hints})
    };
    let made = member(&api, alice, "POST", "/servers", server(json!({}))).await;
    let id = made.is(202)["server"]["id"].as_str().unwrap().to_owned();
    api.until(&id, "ACTIVE").await;
    let unknown = "00000000-1111-4222-8333-444444444444";
    for path in [
        "/servers?marker=ID",
        "/servers?marker=ID&sort_key=display_name",
        "/servers/detail?marker=ID&sort_key=display_name&sort_dir=asc",
        "/servers/ID",
        "/servers/ID/os-instance-actions",
    ] {
        let ask = |id: &str| {
            let path = path.replace("ID", id);
            let api = &api;
            async move { member(api, mallory, "GET", &path, Value::Null).await }
        };
        let (foreign, missing) = (ask(&id).await, ask(unknown).await);
        assert!(missing.status >= 400, "{path}");
        assert_eq!(foreign.status, missing.status, "{path}");
        let text = foreign.body.to_string().replace(&id, unknown);
        assert_eq!(text, missing.body.to_string(), "{path}");
    }
    let told = member(&api, mallory, "GET", "/servers?sort_key=host", Value::Null).await;
    let message = told.refused(403, "forbidden");
    assert_eq!(message, "Only administrators can sort servers by host.");
    api.get("/servers?sort_key=host").await.is(200);
    // Another project's server counts as missing: without the filter it is ignored.
    for hint in ["same_host", "different_host"] {
        for other in [id.clone(), id.replace('-', ""), unknown.to_owned()] {
            for _ in 0..3 {
                let body = server(json!({hint: [&other]}));
                let made = member(&api, mallory, "POST", "/servers", body).await;
                let made = made.is(202)["server"]["id"].as_str().unwrap().to_owned();
                api.until(&made, "ACTIVE").await;
            }
        }
    }
    let body = server(json!({"same_host": [&id]}));
    let near = member(&api, alice, "POST", "/servers", body).await.is(202);
    api.until(near["server"]["id"].as_str().unwrap(), "ACTIVE")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_are_told_in_full_to_administrators_alone() {
    let api = Api::start(1, 2).await;
    api.flavor("1", 4000).await;
    let server = json!({"server":
        {"name": "s", "flavorRef": "1", "imageRef": IMAGE, "networks": "none"}});
    let mallory = "mallory:evil";
    let made = member(&api, mallory, "POST", "/servers", server).await;
    let id = made.is(202)["server"]["id"].as_str().unwrap().to_owned();
    let seen = api.until(&id, "ERROR").await;
    assert!(
        seen["fault"]["message"]
            .as_str()
            .unwrap()
            .contains("0 of 2 hosts")
    );
    assert!(seen["fault"]["details"].as_str().unwrap().contains("hosts"));
    let expected = "No valid host was found. No host does for its flavor.";
    let path = format!("/servers/{id}");
    let shown = member(&api, mallory, "GET", &path, Value::Null)
        .await
        .is(200);
    assert_eq!(shown["server"]["fault"]["message"], expected);
    assert_eq!(shown["server"]["fault"]["details"], Value::Null);
    let path = format!("{path}/os-instance-actions");
    let shown = member(&api, mallory, "GET", &path, Value::Null)
        .await
        .is(200);
    let action = &shown["instanceActions"][0];
    assert_eq!(action["message"], expected);
    let path = format!("{path}/{}", action["request_id"].as_str().unwrap());
    let shown = member(&api, mallory, "GET", &path, Value::Null)
        .await
        .is(200);
    let text = shown.to_string();
    assert!(!text.contains("hosts have room"), "{text}");
}
