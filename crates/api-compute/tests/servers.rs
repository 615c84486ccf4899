//! Servers from their creation to their deletion: shown, listed, labelled and refused.

#![expect(clippy::unwrap_used, reason = "a test stops where it goes wrong")]

mod api;

use api::{Api, IMAGE};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_find_the_api_and_agree_on_a_version() {
    let api = Api::start(1, 1).await;
    let root = api.ask("GET", "/", &[], None).await;
    assert_eq!(root.status, 300);
    let version = &root.body["versions"][0];
    assert_eq!(version["id"], "v2.1");
    assert_eq!(
        (&version["min_version"], &version["version"]),
        (&json!("2.1"), &json!("2.96"))
    );
    let one = api.ask("GET", "/v2.1/", &[], None).await.is(200);
    assert_eq!(
        one["version"]["links"][0]["href"],
        "http://cloud:8774/v2.1/"
    );

    let told = api.ask("GET", "/v2.1/servers", &[], None).await;
    assert_eq!(
        (told.status, &told.body["error"]["code"]),
        (401, &json!(401))
    );
    api.at("2.97", "GET", "/servers", Value::Null)
        .await
        .refused(406, "computeFault");
    api.at("x", "GET", "/servers", Value::Null)
        .await
        .refused(400, "badRequest");
    let told = api.get("/servers").await;
    assert_eq!(told.headers["openstack-api-version"], "compute 2.96");
    assert_eq!(told.headers["x-openstack-nova-api-version"], "2.96");
    assert!(told.headers.contains_key("x-openstack-request-id"));
    api.get("/nothing").await.refused(404, "itemNotFound");
    api.at("2.1", "PUT", "/servers", json!({}))
        .await
        .refused(405, "badMethod");
    api.at("2.1", "GET", "/servers/x/tags", Value::Null)
        .await
        .refused(404, "itemNotFound");
    api.get("/admin/servers").await.is(200);
    api.get("/other/servers").await.refused(400, "badRequest");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_becomes_active_is_shown_changed_and_goes() {
    let api = Api::start(2, 2).await;
    api.flavor("1", 2).await;
    let more = json!({
        "metadata": {"a": "b"}, "tags": ["x"], "description": "d", "key_name": null,
        "user_data": "aGk=", "security_groups": [{"name": "web"}], "config_drive": true,
    });
    let created = api.create("My server", more).await;
    let location = created.headers["location"].to_str().unwrap().to_owned();
    let body = created.is(202);
    let id = body["server"]["id"].as_str().unwrap();
    assert_eq!(location, format!("http://cloud:8774/v2.1/servers/{id}"));
    let shown = api.until(id, "ACTIVE").await;
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
        assert_eq!(shown[key], value, "{key}");
    }
    assert_eq!(shown["image"]["id"], IMAGE);
    assert_eq!(
        (&shown["flavor"]["vcpus"], &shown["flavor"]["original_name"]),
        (&json!(2), &json!("m1"))
    );
    let old = api
        .at("2.1", "GET", &format!("/servers/{id}"), Value::Null)
        .await
        .is(200);
    assert_eq!(old["server"]["flavor"]["id"], "1");
    assert!(old["server"].get("tags").is_none());

    api.delete(&format!("/servers/{id}")).await.is(204);
    api.until_gone(id).await;
    api.site.rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_on_a_server_can_be_changed() {
    let api = Api::start(1, 1).await;
    api.flavor("1", 1).await;
    let id = api
        .active("a", json!({"metadata": {"a": "b"}, "tags": ["x"]}))
        .await;
    let path = format!("/servers/{id}");
    let wish = json!({"server": {"name": "new", "description": null, "accessIPv4": "10.0.0.1"}});
    let updated = api.put(&path, wish).await.is(200);
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
        .is(200);
    api.delete(&format!("{path}/metadata/a")).await.is(204);
    let metadata = api.get(&format!("{path}/metadata")).await.is(200);
    assert_eq!(metadata, json!({"metadata": {"c": "d"}}));
    api.put(&format!("{path}/tags/y"), Value::Null)
        .await
        .is(201);
    api.put(&format!("{path}/tags/y"), Value::Null)
        .await
        .is(204);
    assert_eq!(
        api.get(&format!("{path}/tags")).await.is(200),
        json!({"tags": ["x", "y"]})
    );
    api.delete(&format!("{path}/tags/z"))
        .await
        .refused(404, "itemNotFound");
}

/// Six servers of one request, and one more.
async fn seven() -> (Api, String) {
    let api = Api::start(2, 2).await;
    api.flavor("1", 1).await;
    let body = api
        .create("many", json!({"min_count": 2, "max_count": 6}))
        .await
        .is(202);
    assert!(body["server"]["id"].is_string());
    let one = api.active("lone", json!({"tags": ["t"]})).await;
    for _ in 0..500 {
        let list = api.get("/servers?status=ACTIVE").await.is(200);
        if list["servers"].as_array().unwrap().len() == 7 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    (api, one)
}

fn names(list: &Value) -> Vec<String> {
    let servers = list["servers"].as_array().unwrap().iter();
    let names = servers.map(|one| one["name"].as_str().unwrap().to_owned());
    names.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_are_filtered_sorted_and_cut_over_all_cells() {
    let (api, one) = seven().await;
    let mut path = "/servers?sort_key=display_name&sort_dir=asc&limit=3".to_owned();
    let mut all = Vec::new();
    for _ in 0..9 {
        let list = api.get(&path).await.is(200);
        all.extend(names(&list));
        let Some(next) = list["servers_links"][0]["href"].as_str() else {
            break;
        };
        path = next
            .strip_prefix("http://cloud:8774/v2.1")
            .unwrap()
            .to_owned();
    }
    assert_eq!(
        all,
        [
            "lone", "many-1", "many-2", "many-3", "many-4", "many-5", "many-6"
        ]
    );
    let first = api.get("/servers?limit=1").await.is(200);
    assert_eq!(
        first["servers"][0]["id"],
        one.as_str(),
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
        let list = api.get(&format!("/servers/detail?{query}")).await.is(200);
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
            .refused(400, "badRequest");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_servers_of_a_cell_that_is_away_stay_in_lists() {
    let (mut api, _) = seven().await;
    let gone = api.site.cells.keys().next().copied().unwrap();
    let cell = api.site.cells.remove(&gone).unwrap();
    api.site.stop_agents(0).await;
    cell.shutdown().await;
    drop(cell);
    let mut unknown = 0;
    for _ in 0..1000 {
        let list = api.get("/servers/detail?limit=1000").await.is(200);
        let servers = list["servers"].as_array().unwrap().clone();
        assert_eq!(servers.len(), 7);
        unknown = servers
            .iter()
            .filter(|one| one["status"] == "UNKNOWN")
            .count();
        if unknown > 0 {
            let one = servers
                .iter()
                .find(|one| one["status"] == "UNKNOWN")
                .unwrap();
            let mut keys: Vec<_> = one.as_object().unwrap().keys().cloned().collect();
            keys.sort();
            assert_eq!(keys, ["created", "id", "links", "status", "tenant_id"]);
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(unknown > 0);
    let list = api.get("/servers?status=UNKNOWN").await.is(200);
    assert_eq!(list["servers"].as_array().unwrap().len(), unknown);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_a_request_is_told_by_its_field() {
    let api = Api::start(1, 1).await;
    api.flavor("1", 1).await;
    for (more, field) in [
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
        let told = api.create("n", more.clone()).await;
        let message = told.refused(400, "badRequest");
        assert!(
            message.starts_with(&format!("{field}: ")),
            "{more}: {message}"
        );
    }
    let headers = [("x-auth-token", "admin"), ("content-type", "text/plain")];
    let told = api
        .ask("POST", "/v2.1/servers", &headers, Some(json!({})))
        .await;
    told.refused(415, "badMediaType");
    let list = api.get("/servers").await.is(200);
    assert_eq!(list, json!({"servers": []}), "nothing was changed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_a_place_says_why() {
    let api = Api::start(1, 1).await;
    api.flavor("1", 1).await;
    api.flavor("huge", 64).await;
    let created = api.create("n", json!({"flavorRef": "huge"})).await.is(202);
    let id = created["server"]["id"].as_str().unwrap();
    let shown = api.until(id, "ERROR").await;
    assert_eq!(shown["fault"]["code"], 500);
    assert!(!shown["fault"]["message"].as_str().unwrap().is_empty());
    let actions = api
        .get(&format!("/servers/{id}/os-instance-actions"))
        .await
        .is(200);
    assert_eq!(actions["instanceActions"][0]["action"], "create");
    let request = actions["instanceActions"][0]["request_id"]
        .as_str()
        .unwrap();
    let path = format!("/servers/{id}/os-instance-actions/{request}");
    let action = api.get(&path).await.is(200);
    assert_eq!(action["instanceAction"]["events"][0]["result"], "Error");
    api.delete(&format!("/servers/{id}")).await.is(204);
    api.until_gone(id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_see_and_touch_only_what_is_theirs() {
    let api = Api::start(1, 2).await;
    api.flavor("1", 1).await;
    let id = api.active("mine", json!({})).await;
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
    let told = api.ask("GET", &path, &member, None).await;
    told.refused(404, "itemNotFound");
    let told = api.ask("DELETE", &path, &member, None).await;
    told.refused(404, "itemNotFound");
    let list = api.ask("GET", "/v2.1/servers", &member, None).await.is(200);
    assert_eq!(list, json!({"servers": []}));
    let told = api
        .ask("GET", "/v2.1/servers?all_tenants=1", &member, None)
        .await;
    told.refused(403, "forbidden");
    let body = json!({"server": {
        "name": "his", "flavorRef": "1", "imageRef": IMAGE, "networks": "none",
    }});
    let reader = headers("reader");
    let told = api
        .ask("POST", "/v2.1/servers", &reader, Some(body.clone()))
        .await;
    told.refused(403, "forbidden");
    let created = api
        .ask("POST", "/v2.1/servers", &member, Some(body))
        .await
        .is(202);
    let his = created["server"]["id"].as_str().unwrap();
    let shown = api
        .ask("GET", &format!("/v2.1/servers/{his}"), &member, None)
        .await
        .is(200);
    assert!(shown["server"].get("OS-EXT-SRV-ATTR:host").is_none());

    api.act(his, json!({"lock": {"locked_reason": "r"}}))
        .await
        .is(202);
    let path = format!("/v2.1/servers/{his}");
    let told = api.ask("DELETE", &path, &member, None).await;
    told.refused(409, "conflictingRequest");
    let unlock = Some(json!({"unlock": null}));
    let told = api
        .ask("POST", &format!("{path}/action"), &member, unlock)
        .await;
    told.refused(403, "forbidden");
    api.act(his, json!({"unlock": null})).await.is(202);
    api.ask("DELETE", &path, &member, None).await.is(204);
    api.until_gone(his).await;
}

/// The ids of a whole listing, page by page.
async fn paged(api: &Api, query: &str) -> Vec<String> {
    let mut path = format!("/servers?limit=700&{query}");
    let mut ids = Vec::new();
    loop {
        let list = api.get(&path).await.is(200);
        let page = list["servers"].as_array().unwrap().iter();
        ids.extend(page.map(|one| one["id"].as_str().unwrap().to_owned()));
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
async fn lists_of_more_servers_than_are_looked_at_at_once_are_whole() {
    let api = Api::start(1, 0).await;
    api.flavor("1", 1).await;
    // More servers than are read along the index before all are scanned.
    for name in ["a", "b1", "b2", "b3", "b4", "b5", "b6", "b7", "b8", "c"] {
        api.create(name, json!({"min_count": 1000})).await.is(202);
    }
    let of_mappings = api.site.conductor.read(|control, _| {
        let mappings = control.conductor.mappings().iter();
        let mut places: Vec<_> = mappings.map(|(id, row)| (row.created_at, *id)).collect();
        places.sort_unstable();
        let ids = places.iter().map(|(_, id)| id.to_string());
        ids.collect::<Vec<_>>()
    });
    let mut oldest_first = of_mappings.await;
    assert_eq!(oldest_first.len(), 10_000);
    assert_eq!(paged(&api, "sort_dir=asc").await, oldest_first);
    oldest_first.reverse();
    assert_eq!(paged(&api, "").await, oldest_first);
    // The filter matches the oldest server: all others are skipped.
    let list = api.get("/servers?name=^a-&limit=1").await.is(200);
    assert_eq!(list["servers"][0]["id"], oldest_first[9000].as_str());
    let mut by_name = paged(&api, "sort_key=display_name&name=^(b8|c)-").await;
    assert_eq!(by_name.len(), 2000);
    let mut of_two = oldest_first[..2000].to_vec();
    by_name.sort_unstable();
    of_two.sort_unstable();
    assert_eq!(by_name, of_two);
    assert_eq!(paged(&api, "project_id=other&all_tenants=1").await.len(), 0);
}
