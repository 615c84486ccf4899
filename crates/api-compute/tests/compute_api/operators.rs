//! Flavors, server groups, aggregates, services and hypervisors, and the key pairs of users.

use crate::api;

use std::collections::BTreeSet;

use api::Api;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flavors_are_created_once_and_described() {
    // One cell with one host.
    let api = Api::start(1, 1).await;
    // The flavor `1`, with one CPU.
    api.create_flavor("1", 1).await;
    let duplicate = json!({"flavor": {"id": "1", "name": "x", "ram": 1, "vcpus": 1, "disk": 0}});
    api.post("/flavors", duplicate)
        .await
        .expect_error(409, "conflictingRequest");
    let duplicate = json!({"flavor": {"id": "2", "name": "m1", "ram": 1, "vcpus": 1, "disk": 0}});
    api.post("/flavors", duplicate)
        .await
        .expect_error(409, "conflictingRequest");
    let wrong = json!({"flavor": {"name": "x", "ram": 0, "vcpus": 1, "disk": 0}});
    let response = api.post("/flavors", wrong).await;
    assert!(
        response
            .expect_error(400, "badRequest")
            .starts_with("flavor.ram: ")
    );

    let specs = json!({"extra_specs": {"hw:numa_nodes": "2", "resources:VGPU": 1}});
    api.post("/flavors/1/os-extra_specs", specs)
        .await
        .expect(200);
    let wrong = json!({"extra_specs": {"resources:VGPU": "many"}});
    let response = api.post("/flavors/1/os-extra_specs", wrong).await;
    assert!(
        response
            .expect_error(400, "badRequest")
            .starts_with("extra_specs[\"resources:VGPU\"]: ")
    );
    api.delete("/flavors/1/os-extra_specs/resources:VGPU")
        .await
        .expect(200);
    api.put("/flavors/1", json!({"flavor": {"description": "d"}}))
        .await
        .expect(200);
    let flavor = api.get("/flavors/1").await.expect(200)["flavor"].clone();
    assert_eq!(flavor["extra_specs"], json!({"hw:numa_nodes": "2"}));
    assert_eq!(
        (&flavor["description"], &flavor["swap"]),
        (&json!("d"), &json!(0))
    );
    let in_old_version = api
        .send_in_version("2.1", "GET", "/flavors/1", Value::Null)
        .await
        .expect(200);
    assert_eq!(in_old_version["flavor"]["swap"], "");
    assert!(in_old_version["flavor"].get("extra_specs").is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn private_flavors_are_limited_to_projects() {
    let api = Api::start(1, 1).await;
    api.create_flavor("1", 1).await;
    let private = json!({"flavor": {
        "id": "p", "name": "p", "ram": 1, "vcpus": 1, "disk": 0, "os-flavor-access:is_public": false,
    }});
    api.post("/flavors", private).await.expect(200);
    let access = api.get("/flavors/p/os-flavor-access").await.expect(200);
    assert_eq!(access["flavor_access"], json!([]));
    let bob = [("x-auth-token", "bob:p2"), ("x-roles", "member,reader")];
    let hidden = api.send("GET", "/v2.1/flavors/p", &bob, None).await;
    hidden.expect_error(404, "itemNotFound");
    api.post(
        "/flavors/p/action",
        json!({"addTenantAccess": {"tenant": "p2"}}),
    )
    .await
    .expect(200);
    api.send("GET", "/v2.1/flavors/p", &bob, None)
        .await
        .expect(200);
    let list = api.get("/flavors?is_public=None").await.expect(200);
    assert_eq!(list["flavors"].as_array().unwrap().len(), 2);
    for key in ["rxtx_factor", "vcpu_weight"] {
        let path = format!("/flavors?is_public=None&sort_dir=desc&sort_key={key}");
        let sorted = api.get(&path).await.expect(200);
        assert_eq!(sorted["flavors"][0]["id"], "p", "{key}");
    }
    api.get("/flavors?sort_key=color")
        .await
        .expect_error(400, "badRequest");
    api.delete("/flavors/p").await.expect(202);
    api.delete("/flavors/p")
        .await
        .expect_error(404, "itemNotFound");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_of_groups_are_on_different_hosts_or_on_the_same() {
    let api = Api::start(1, 3).await;
    api.create_flavor("1", 1).await;
    let body = json!({"server_group": {
        "name": "g", "policy": "anti-affinity", "rules": {"max_server_per_host": 1},
    }});
    let group = api.post("/os-server-groups", body).await.expect(200)["server_group"].clone();
    let hint = json!({"os:scheduler_hints": {"group": group["id"]}});
    let mut hosts = BTreeSet::new();
    let mut ids = Vec::new();
    for name in ["a", "b", "c"] {
        let id = api.create_active_server(name, hint.clone()).await;
        let server = api.wait_for_status(&id, "ACTIVE").await;
        assert_eq!(server["server_groups"], json!([group["id"]]));
        hosts.insert(server["OS-EXT-SRV-ATTR:host"].to_string());
        ids.push(id);
    }
    assert_eq!(hosts.len(), 3);
    let fourth = api.create_server("d", hint).await.expect(202);
    api.wait_for_status(fourth["server"]["id"].as_str().unwrap(), "ERROR")
        .await;
    let same_host = json!({"os:scheduler_hints": {"same_host": ids[0]}});
    let server_beside = api.create_active_server("e", same_host).await;
    let (first, beside) = (
        api.wait_for_status(&ids[0], "ACTIVE").await,
        api.wait_for_status(&server_beside, "ACTIVE").await,
    );
    assert_eq!(first["hostId"], beside["hostId"]);
    let path = format!("/os-server-groups/{}", group["id"].as_str().unwrap());
    let shown_group = api.get(&path).await.expect(200)["server_group"].clone();
    assert_eq!(shown_group["members"].as_array().unwrap().len(), 4);
    let in_old_version = api
        .send_in_version("2.1", "GET", &path, Value::Null)
        .await
        .expect(200)["server_group"]
        .clone();
    assert_eq!(in_old_version["policies"], json!(["anti-affinity"]));
    let wrong = json!({"server_group": {"name": "g", "policy": "chaos"}});
    api.post("/os-server-groups", wrong)
        .await
        .expect_error(400, "badRequest");
    api.delete(&path).await.expect(204);
    api.get(&path).await.expect_error(404, "itemNotFound");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aggregates_define_zones_and_servers_are_placed_in_them() {
    let api = Api::start(1, 2).await;
    api.create_flavor("1", 1).await;
    let hosts = api.get("/os-hypervisors").await.expect(200)["hypervisors"].clone();
    let host_name = hosts[0]["hypervisor_hostname"].as_str().unwrap();
    let body = json!({"aggregate": {"name": "a", "availability_zone": "north"}});
    let aggregate = api.post("/os-aggregates", body.clone()).await.expect(200)["aggregate"].clone();
    api.post("/os-aggregates", body)
        .await
        .expect_error(409, "conflictingRequest");
    let path = format!("/os-aggregates/{}", aggregate["id"]);
    let action = format!("{path}/action");
    api.post(&action, json!({"add_host": {"host": "none"}}))
        .await
        .expect_error(404, "itemNotFound");
    api.post(&action, json!({"add_host": {"host": host_name}}))
        .await
        .expect(200);
    api.post(&action, json!({"add_host": {"host": host_name}}))
        .await
        .expect_error(409, "conflictingRequest");
    let metadata = json!({"set_metadata": {"metadata": {"ssd": "true"}}});
    let aggregate = api.post(&action, metadata).await.expect(200)["aggregate"].clone();
    assert_eq!(
        aggregate["metadata"],
        json!({"availability_zone": "north", "ssd": "true"})
    );
    assert_eq!(aggregate["hosts"], json!([host_name]));
    let zones = api.get("/os-availability-zone/detail").await.expect(200);
    let zones = zones["availabilityZoneInfo"].as_array().unwrap().clone();
    let names: Vec<_> = zones.iter().map(|zone| &zone["zoneName"]).collect();
    assert_eq!(names, ["north", "nova"]);

    let id = api
        .create_active_server("s", json!({"availability_zone": "north"}))
        .await;
    let server = api.wait_for_status(&id, "ACTIVE").await;
    assert_eq!(server["OS-EXT-SRV-ATTR:host"], host_name);
    assert_eq!(server["OS-EXT-AZ:availability_zone"], "north");
    let other_host = hosts[1]["hypervisor_hostname"].as_str().unwrap();
    let forced = json!({"availability_zone": format!("nova:{other_host}")});
    let id = api.create_active_server("f", forced).await;
    assert_eq!(
        api.wait_for_status(&id, "ACTIVE").await["OS-EXT-SRV-ATTR:host"],
        other_host
    );
    let id = api
        .create_active_server("w", json!({"host": host_name}))
        .await;
    assert_eq!(
        api.wait_for_status(&id, "ACTIVE").await["OS-EXT-SRV-ATTR:host"],
        host_name
    );

    api.delete(&path)
        .await
        .expect_error(409, "conflictingRequest");
    api.post(&action, json!({"remove_host": {"host": host_name}}))
        .await
        .expect(200);
    api.delete(&path).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aggregate_is_not_deleted_while_a_host_is_added() {
    let api = Api::start(1, 1).await;
    let hosts = api.get("/os-hypervisors").await.expect(200)["hypervisors"].clone();
    let host_name = hosts[0]["hypervisor_hostname"].as_str().unwrap();
    for _ in 0..100 {
        let body = json!({"aggregate": {"name": "a"}});
        let aggregate = api.post("/os-aggregates", body).await.expect(200)["aggregate"].clone();
        let path = format!("/os-aggregates/{}", aggregate["id"]);
        let action = format!("{path}/action");
        let (added, deleted) = tokio::join!(
            api.post(&action, json!({"add_host": {"host": host_name}})),
            api.delete(&path)
        );
        match added.status {
            200 => {
                deleted.expect_error(409, "conflictingRequest");
                api.post(&action, json!({"remove_host": {"host": host_name}}))
                    .await
                    .expect(200);
                api.delete(&path).await.expect(200);
            }
            _ => {
                added.expect_error(404, "itemNotFound");
                deleted.expect(200);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_requests_at_once_one_gets_the_name_of_an_aggregate_or_the_zone_of_a_host() {
    let api = Api::start(1, 1).await;
    let hosts = api.get("/os-hypervisors").await.expect(200)["hypervisors"].clone();
    let host_name = hosts[0]["hypervisor_hostname"].as_str().unwrap();
    for round in 0..50 {
        let name = format!("name {round}");
        let create = |zone| json!({"aggregate": {"name": name, "availability_zone": zone}});
        let both = tokio::join!(
            api.post("/os-aggregates", create("north")),
            api.post("/os-aggregates", create("south"))
        );
        let refused = match (both.0.status, both.1.status) {
            (200, _) => both.1,
            _ => both.0,
        };
        refused.expect_error(409, "conflictingRequest");
    }
    let mut actions = Vec::new();
    for zone in ["north", "south"] {
        let body = json!({"aggregate": {"name": zone, "availability_zone": zone}});
        let aggregate = api.post("/os-aggregates", body).await.expect(200)["aggregate"].clone();
        actions.push(format!("/os-aggregates/{}/action", aggregate["id"]));
    }
    for _ in 0..50 {
        let add = || json!({"add_host": {"host": host_name}});
        let both = tokio::join!(api.post(&actions[0], add()), api.post(&actions[1], add()));
        let (added, refused, action) = match (both.0.status, both.1.status) {
            (200, _) => (both.0, both.1, &actions[0]),
            _ => (both.1, both.0, &actions[1]),
        };
        added.expect(200);
        refused.expect_error(409, "conflictingRequest");
        let remove = json!({"remove_host": {"host": host_name}});
        api.post(action, remove).await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_are_disabled_and_hypervisors_show_their_usage() {
    let api = Api::start(1, 2).await;
    api.create_flavor("1", 3).await;
    let services = api.get("/os-services").await.expect(200)["services"].clone();
    assert_eq!(services.as_array().unwrap().len(), 2);
    let id = services[0]["id"].as_str().unwrap();
    let path = format!("/os-services/{id}");
    let disable = json!({"status": "disabled", "disabled_reason": "paint"});
    let service = api.put(&path, disable).await.expect(200)["service"].clone();
    assert_eq!(
        (&service["status"], &service["disabled_reason"]),
        (&json!("disabled"), &json!("paint"))
    );
    api.put(&path, json!({"status": "x"}))
        .await
        .expect_error(400, "badRequest");
    api.put(&path, json!({}))
        .await
        .expect_error(400, "badRequest");
    api.delete(&path)
        .await
        .expect_error(409, "conflictingRequest");
    for name in ["a", "b"] {
        let server = api.create_active_server(name, json!({})).await;
        let server = api.wait_for_status(&server, "ACTIVE").await;
        assert_ne!(server["OS-EXT-SRV-ATTR:host"], service["host"]);
    }
    let in_old_version = api
        .send_in_version("2.1", "GET", "/os-services", Value::Null)
        .await
        .expect(200);
    assert!(in_old_version["services"][0]["id"].is_u64());
    let enable = json!({"host": service["host"], "binary": "nova-compute"});
    api.send_in_version("2.1", "PUT", "/os-services/enable", enable)
        .await
        .expect(200);
    let down = api
        .put(&path, json!({"forced_down": true}))
        .await
        .expect(200);
    assert_eq!(
        (&down["service"]["state"], &down["service"]["status"]),
        (&json!("down"), &json!("enabled"))
    );
    api.put(&path, json!({"forced_down": false}))
        .await
        .expect(200);

    let other_service = services
        .as_array()
        .unwrap()
        .iter()
        .find(|service| service["id"] != id);
    check_busy_host(&api, other_service.unwrap()["id"].as_str().unwrap()).await;
}

/// Checks how a host with two servers is shown, while the other host has none.
async fn check_busy_host(api: &Api, id: &str) {
    let hypervisors = api
        .send_in_version(
            "2.87",
            "GET",
            "/os-hypervisors/detail?with_servers=true",
            Value::Null,
        )
        .await;
    let hypervisors = hypervisors.expect(200)["hypervisors"].clone();
    let hypervisor = hypervisors
        .as_array()
        .unwrap()
        .iter()
        .find(|hypervisor| hypervisor["id"] == id)
        .unwrap()
        .clone();
    for (key, value) in [
        ("vcpus", 16),
        ("vcpus_used", 6),
        ("memory_mb_used", 1024),
        ("running_vms", 2),
    ] {
        assert_eq!(hypervisor[key], value, "{key}");
    }
    assert_eq!(hypervisor["servers"].as_array().unwrap().len(), 2);
    let path = format!("/os-hypervisors/{}", hypervisor["id"].as_str().unwrap());
    let newest = api.get(&path).await.expect(200)["hypervisor"].clone();
    assert!(newest.get("vcpus").is_none() && newest["uptime"].is_null());
    let statistics = api
        .send_in_version("2.87", "GET", "/os-hypervisors/statistics", Value::Null)
        .await
        .expect(200);
    assert_eq!(statistics["hypervisor_statistics"]["vcpus"], 32);
    api.get("/os-hypervisors/7")
        .await
        .expect_error(400, "badRequest");
    let limits = api.get("/limits").await.expect(200);
    assert_eq!(limits["limits"]["absolute"]["totalInstancesUsed"], 2);
    assert_eq!(limits["limits"]["absolute"]["totalCoresUsed"], 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_imported_and_servers_have_them() {
    let api = Api::start(1, 1).await;
    api.create_flavor("1", 1).await;
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";
    let body = json!({"keypair": {"name": "k", "public_key": key}});
    let created = api.post("/os-keypairs", body.clone()).await.expect(201);
    assert_eq!(created["keypair"]["type"], "ssh");
    api.post("/os-keypairs", body)
        .await
        .expect_error(409, "conflictingRequest");
    for wrong in [
        json!({"name": "l"}),
        json!({"name": "l", "public_key": "x"}),
    ] {
        let response = api.post("/os-keypairs", json!({"keypair": wrong})).await;
        assert!(
            response
                .expect_error(400, "badRequest")
                .starts_with("keypair.public_key: ")
        );
    }
    let id = api
        .create_active_server("s", json!({"key_name": "k"}))
        .await;
    assert_eq!(api.wait_for_status(&id, "ACTIVE").await["key_name"], "k");
    let list = api.get("/os-keypairs").await.expect(200);
    assert_eq!(list["keypairs"][0]["keypair"]["name"], "k");
    api.delete("/os-keypairs/k").await.expect(204);
    api.get("/os-keypairs/k")
        .await
        .expect_error(404, "itemNotFound");
}
