//! Servers from their creation to their deletion: requests that create, show, list, change and
//! delete them, and those that are refused.

use crate::api;

use api::{Api, IMAGE};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_find_the_api_and_agree_on_a_version() {
    // One cell with one host.
    let api = Api::start(1, 1).await;
    let root = api.send("GET", "/", &[], None).await;
    assert_eq!(root.status, 300);
    let version = &root.body["versions"][0];
    assert_eq!(version["id"], "v2.1");
    assert_eq!(
        (&version["min_version"], &version["version"]),
        (&json!("2.1"), &json!("2.96"))
    );
    let details = api.send("GET", "/v2.1/", &[], None).await.expect(200);
    assert_eq!(
        details["version"]["links"][0]["href"],
        "http://cloud:8774/v2.1/"
    );

    let response = api.send("GET", "/v2.1/servers", &[], None).await;
    assert_eq!(
        (response.status, &response.body["error"]["code"]),
        (401, &json!(401))
    );
    api.send_in_version("2.97", "GET", "/servers", Value::Null)
        .await
        .expect_error(406, "computeFault");
    api.send_in_version("x", "GET", "/servers", Value::Null)
        .await
        .expect_error(400, "badRequest");
    let response = api.get("/servers").await;
    assert_eq!(response.headers["openstack-api-version"], "compute 2.96");
    assert_eq!(response.headers["x-openstack-nova-api-version"], "2.96");
    assert!(response.headers.contains_key("x-openstack-request-id"));
    api.get("/nothing").await.expect_error(404, "itemNotFound");
    api.send_in_version("2.1", "PUT", "/servers", json!({}))
        .await
        .expect_error(405, "badMethod");
    api.send_in_version("2.1", "GET", "/servers/x/tags", Value::Null)
        .await
        .expect_error(404, "itemNotFound");
    api.get("/admin/servers").await.expect(200);
    api.get("/other/servers")
        .await
        .expect_error(400, "badRequest");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_becomes_active_is_shown_and_is_deleted() {
    let api = Api::start(2, 2).await;
    // The flavor `1`, with two CPUs.
    api.create_flavor("1", 2).await;
    let extra_fields = json!({
        "metadata": {"a": "b"}, "tags": ["x"], "description": "d", "key_name": null,
        "user_data": "aGk=", "security_groups": [{"name": "web"}], "config_drive": true,
    });
    let created = api.create_server("My server", extra_fields).await;
    let location = created.headers["location"].to_str().unwrap().to_owned();
    let body = created.expect(202);
    let id = body["server"]["id"].as_str().unwrap();
    assert_eq!(location, format!("http://cloud:8774/v2.1/servers/{id}"));
    let server = api.wait_for_status(id, "ACTIVE").await;
    for (key, value) in [
        ("name", json!("My server")),
        ("metadata", json!({"a": "b"})),
        ("tags", json!(["x"])),
        ("description", json!("d")),
        ("config_drive", json!("True")),
        ("locked", json!(false)),
        ("tenant_id", json!("admin")),
        ("OS-EXT-STS:vm_state", json!("active")),
        ("OS-EXT-STS:power_state", json!(1)),
        ("OS-EXT-AZ:availability_zone", json!("nova")),
        ("OS-EXT-SRV-ATTR:hostname", json!("my-server")),
        ("host_status", json!("UP")),
        ("server_groups", json!([])),
        ("security_groups", json!([{"name": "web"}])),
    ] {
        assert_eq!(server[key], value, "{key}");
    }
    assert_eq!(server["image"]["id"], IMAGE);
    assert_eq!(
        (
            &server["flavor"]["vcpus"],
            &server["flavor"]["original_name"]
        ),
        (&json!(2), &json!("m1"))
    );
    let in_old_version = api
        .send_in_version("2.1", "GET", &format!("/servers/{id}"), Value::Null)
        .await
        .expect(200);
    assert_eq!(in_old_version["server"]["flavor"]["id"], "1");
    assert!(in_old_version["server"].get("tags").is_none());

    api.delete(&format!("/servers/{id}")).await.expect(204);
    api.wait_until_deleted(id).await;
    api.site.wait_until_at_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labels_of_a_server_can_be_changed() {
    let api = Api::start(1, 1).await;
    api.create_flavor("1", 1).await;
    let id = api
        .create_active_server("a", json!({"metadata": {"a": "b"}, "tags": ["x"]}))
        .await;
    let path = format!("/servers/{id}");
    let changes = json!({"server": {"name": "new", "description": null, "accessIPv4": "10.0.0.1"}});
    let updated = api.put(&path, changes).await.expect(200);
    assert_eq!(
        (
            &updated["server"]["name"],
            &updated["server"]["description"]
        ),
        (&json!("new"), &Value::Null)
    );
    assert_eq!(updated["server"]["accessIPv4"], "10.0.0.1");
    api.post(&format!("{path}/metadata"), json!({"metadata": {"c": "d"}}))
        .await
        .expect(200);
    api.delete(&format!("{path}/metadata/a")).await.expect(204);
    let metadata = api.get(&format!("{path}/metadata")).await.expect(200);
    assert_eq!(metadata, json!({"metadata": {"c": "d"}}));
    api.put(&format!("{path}/tags/y"), Value::Null)
        .await
        .expect(201);
    api.put(&format!("{path}/tags/y"), Value::Null)
        .await
        .expect(204);
    assert_eq!(
        api.get(&format!("{path}/tags")).await.expect(200),
        json!({"tags": ["x", "y"]})
    );
    api.delete(&format!("{path}/tags/z"))
        .await
        .expect_error(404, "itemNotFound");
}

/// An installation with six servers of one request and one more, whose id is returned.
async fn start_with_seven_servers() -> (Api, String) {
    let api = Api::start(2, 2).await;
    api.create_flavor("1", 1).await;
    let body = api
        .create_server("many", json!({"min_count": 2, "max_count": 6}))
        .await
        .expect(202);
    assert!(body["server"]["id"].is_string());
    let lone_id = api
        .create_active_server("lone", json!({"tags": ["t"]}))
        .await;
    for _ in 0..500 {
        let list = api.get("/servers?status=ACTIVE").await.expect(200);
        if list["servers"].as_array().unwrap().len() == 7 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    (api, lone_id)
}

fn names(list: &Value) -> Vec<String> {
    let servers = list["servers"].as_array().unwrap().iter();
    let names = servers.map(|server| server["name"].as_str().unwrap().to_owned());
    names.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_are_filtered_sorted_and_paginated_over_all_cells() {
    let (api, lone_id) = start_with_seven_servers().await;
    let mut path = "/servers?sort_key=display_name&sort_dir=asc&limit=3".to_owned();
    let mut listed = Vec::new();
    for _ in 0..9 {
        let list = api.get(&path).await.expect(200);
        listed.extend(names(&list));
        let Some(next) = list["servers_links"][0]["href"].as_str() else {
            break;
        };
        path = next
            .strip_prefix("http://cloud:8774/v2.1")
            .unwrap()
            .to_owned();
    }
    assert_eq!(
        listed,
        [
            "lone", "many-1", "many-2", "many-3", "many-4", "many-5", "many-6"
        ]
    );
    let first_page = api.get("/servers?limit=1").await.expect(200);
    assert_eq!(
        first_page["servers"][0]["id"],
        lone_id.as_str(),
        "the youngest comes first"
    );
    for (query, count) in [
        ("name=^many-[12]$", 2),
        ("tags=t", 1),
        ("not-tags=t", 6),
        ("flavor=1", 7),
        ("flavor=2", 0),
        ("status=error", 0),
        ("all_tenants=1&project_id=other", 0),
        ("deleted=true", 0),
        ("changes-since=2099-01-01T00:00:00Z", 0),
    ] {
        let list = api
            .get(&format!("/servers/detail?{query}"))
            .await
            .expect(200);
        assert_eq!(names(&list).len(), count, "{query}");
    }
    for query in [
        "status=x",
        "marker=x",
        "sort_key=x",
        "limit=-1",
        "nothing=1",
        "name=[",
    ] {
        api.get(&format!("/servers?{query}"))
            .await
            .expect_error(400, "badRequest");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_servers_of_a_cell_that_is_down_stay_in_lists() {
    let (mut api, _) = start_with_seven_servers().await;
    let stopped_cell = api.site.cells.keys().next().copied().unwrap();
    let cell = api.site.cells.remove(&stopped_cell).unwrap();
    api.site.stop_agents(0).await;
    cell.shutdown().await;
    drop(cell);
    let mut unknown = 0;
    for _ in 0..1000 {
        let list = api.get("/servers/detail?limit=1000").await.expect(200);
        let servers = list["servers"].as_array().unwrap().clone();
        assert_eq!(servers.len(), 7);
        unknown = servers
            .iter()
            .filter(|server| server["status"] == "UNKNOWN")
            .count();
        if unknown > 0 {
            let server = servers
                .iter()
                .find(|server| server["status"] == "UNKNOWN")
                .unwrap();
            let mut keys: Vec<_> = server.as_object().unwrap().keys().cloned().collect();
            keys.sort();
            assert_eq!(keys, ["created", "id", "links", "status", "tenant_id"]);
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(unknown > 0);
    let list = api.get("/servers?status=UNKNOWN").await.expect(200);
    assert_eq!(list["servers"].as_array().unwrap().len(), unknown);
    // While the cell is down, these actions are refused as docs/compute-api.md says.
    let id = list["servers"][0]["id"].as_str().unwrap();
    let rebuild = api.run_action(id, json!({"rebuild": {"imageRef": IMAGE}}));
    rebuild.await.expect_error(409, "conflictingRequest");
    let shelve = api.run_action(id, json!({"shelve": null}));
    shelve.await.expect_error(503, "serviceUnavailable");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_requests_are_refused_by_their_field() {
    let api = Api::start(1, 1).await;
    api.create_flavor("1", 1).await;
    for (extra_fields, field) in [
        (json!({"name": ""}), "server.name"),
        (json!({"name": 7}), "server.name"),
        (json!({"flavorRef": "9"}), "server.flavorRef"),
        (json!({"imageRef": "x"}), "server.imageRef"),
        (json!({"imageRef": ""}), "server.imageRef"),
        (json!({"networks": "x"}), "server.networks"),
        (
            json!({"networks": [{"uuid": "x"}]}),
            "server.networks[0].uuid",
        ),
        (json!({"metadata": {"a": 1}}), "server.metadata[\"a\"]"),
        (json!({"tags": ["a,b"]}), "server.tags[0]"),
        (json!({"key_name": "k"}), "server.key_name"),
        (json!({"user_data": "!"}), "server.user_data"),
        (json!({"min_count": 3, "max_count": 2}), "server.min_count"),
        (json!({"max_count": 0}), "server.max_count"),
        (
            json!({"availability_zone": "z"}),
            "server.availability_zone",
        ),
        (
            json!({"availability_zone": "nova:h"}),
            "server.availability_zone",
        ),
        (json!({"host": "h"}), "server.host"),
        (json!({"nothing": 1}), "server.nothing"),
        (
            json!({"os:scheduler_hints": {"group": "g"}}),
            "os:scheduler_hints.group",
        ),
        (
            json!({"os:scheduler_hints": {"group": IMAGE}}),
            "os:scheduler_hints.group",
        ),
        (json!({"os:nothing": {}}), "os:nothing"),
    ] {
        let response = api.create_server("n", extra_fields.clone()).await;
        let message = response.expect_error(400, "badRequest");
        assert!(
            message.starts_with(&format!("{field}: ")),
            "{extra_fields}: {message}"
        );
    }
    let headers = [("x-auth-token", "admin"), ("content-type", "text/plain")];
    let response = api
        .send("POST", "/v2.1/servers", &headers, Some(json!({})))
        .await;
    response.expect_error(415, "badMediaType");
    let list = api.get("/servers").await.expect(200);
    assert_eq!(list, json!({"servers": []}), "nothing was changed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_a_host_has_a_fault() {
    let api = Api::start(1, 1).await;
    api.create_flavor("1", 1).await;
    api.create_flavor("huge", 64).await;
    let created = api
        .create_server("n", json!({"flavorRef": "huge"}))
        .await
        .expect(202);
    let id = created["server"]["id"].as_str().unwrap();
    let server = api.wait_for_status(id, "ERROR").await;
    assert_eq!(server["fault"]["code"], 500);
    assert!(!server["fault"]["message"].as_str().unwrap().is_empty());
    let actions = api
        .get(&format!("/servers/{id}/os-instance-actions"))
        .await
        .expect(200);
    assert_eq!(actions["instanceActions"][0]["action"], "create");
    let request_id = actions["instanceActions"][0]["request_id"]
        .as_str()
        .unwrap();
    let path = format!("/servers/{id}/os-instance-actions/{request_id}");
    let action = api.get(&path).await.expect(200);
    assert_eq!(action["instanceAction"]["events"][0]["result"], "Error");
    api.delete(&format!("/servers/{id}")).await.expect(204);
    api.wait_until_deleted(id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_see_and_change_only_servers_of_their_project() {
    let api = Api::start(1, 2).await;
    api.create_flavor("1", 1).await;
    let id = api.create_active_server("mine", json!({})).await;
    let headers = |roles: &'static str| {
        [
            ("x-auth-token", "bob:p2"),
            ("x-roles", roles),
            ("openstack-api-version", "compute latest"),
            ("content-type", "application/json"),
        ]
    };
    let member = headers("member,reader");
    let path = format!("/v2.1/servers/{id}");
    let response = api.send("GET", &path, &member, None).await;
    response.expect_error(404, "itemNotFound");
    let response = api.send("DELETE", &path, &member, None).await;
    response.expect_error(404, "itemNotFound");
    let list = api
        .send("GET", "/v2.1/servers", &member, None)
        .await
        .expect(200);
    assert_eq!(list, json!({"servers": []}));
    let response = api
        .send("GET", "/v2.1/servers?all_tenants=1", &member, None)
        .await;
    response.expect_error(403, "forbidden");
    let body = json!({"server": {
        "name": "his", "flavorRef": "1", "imageRef": IMAGE, "networks": "none",
    }});
    let reader = headers("reader");
    let response = api
        .send("POST", "/v2.1/servers", &reader, Some(body.clone()))
        .await;
    response.expect_error(403, "forbidden");
    let created = api
        .send("POST", "/v2.1/servers", &member, Some(body))
        .await
        .expect(202);
    let member_server_id = created["server"]["id"].as_str().unwrap();
    let path = format!("/v2.1/servers/{member_server_id}");
    let server = api.send("GET", &path, &member, None).await.expect(200);
    assert!(server["server"].get("OS-EXT-SRV-ATTR:host").is_none());

    api.run_action(member_server_id, json!({"lock": {"locked_reason": "r"}}))
        .await
        .expect(202);
    let response = api.send("DELETE", &path, &member, None).await;
    response.expect_error(409, "conflictingRequest");
    let unlock = Some(json!({"unlock": null}));
    let response = api
        .send("POST", &format!("{path}/action"), &member, unlock)
        .await;
    response.expect_error(403, "forbidden");
    // An owner who locks it once more changes nothing.
    let lock = Some(json!({"lock": {"locked_reason": "mine"}}));
    api.send("POST", &format!("{path}/action"), &member, lock)
        .await
        .expect(202);
    let server = api.send("GET", &path, &member, None).await.expect(200);
    assert_eq!(server["server"]["locked_reason"], "r");
    api.run_action(member_server_id, json!({"unlock": null}))
        .await
        .expect(202);
    api.send("DELETE", &path, &member, None).await.expect(204);
    api.wait_until_deleted(member_server_id).await;
}

/// The ids of a complete listing, read page by page.
async fn list_ids(api: &Api, query: &str) -> Vec<String> {
    let mut path = format!("/servers?limit=700&{query}");
    let mut ids = Vec::new();
    loop {
        let list = api.get(&path).await.expect(200);
        let page = list["servers"].as_array().unwrap().iter();
        ids.extend(page.map(|server| server["id"].as_str().unwrap().to_owned()));
        let Some(next) = list["servers_links"][0]["href"].as_str() else {
            return ids;
        };
        path = next
            .strip_prefix("http://cloud:8774/v2.1")
            .unwrap()
            .to_owned();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listings_that_exceed_the_rows_of_an_index_scan_are_complete() {
    let api = Api::start(1, 0).await;
    api.create_flavor("1", 1).await;
    // These are more servers than the rows that a listing reads from the index before it scans all servers.
    for name in ["a", "b1", "b2", "b3", "b4", "b5", "b6", "b7", "b8", "c"] {
        api.create_server(name, json!({"min_count": 1000}))
            .await
            .expect(202);
    }
    let reading = api.site.conductor.read(|control, _| {
        let mappings = control.conductor.mappings().iter();
        let mut ids_by_age: Vec<_> = mappings.map(|(id, row)| (row.created_at, *id)).collect();
        ids_by_age.sort_unstable();
        let ids = ids_by_age.iter().map(|(_, id)| id.to_string());
        ids.collect::<Vec<_>>()
    });
    let oldest_first = reading.await;
    assert_eq!(oldest_first.len(), 10_000);
    assert_eq!(list_ids(&api, "sort_dir=asc").await, oldest_first);
    let youngest_first: Vec<String> = oldest_first.into_iter().rev().collect();
    assert_eq!(list_ids(&api, "").await, youngest_first);
    // The filter matches the 1,000 oldest servers only: the 9,000 younger ones are skipped.
    let list = api.get("/servers?name=^a-&limit=1").await.expect(200);
    assert_eq!(list["servers"][0]["id"], youngest_first[9000].as_str());
    let mut by_name = list_ids(&api, "sort_key=display_name&name=^(b8|c)-").await;
    assert_eq!(by_name.len(), 2000);
    let mut youngest = youngest_first[..2000].to_vec();
    by_name.sort_unstable();
    youngest.sort_unstable();
    assert_eq!(by_name, youngest);
    assert_eq!(
        list_ids(&api, "project_id=other&all_tenants=1").await.len(),
        0
    );
}
