//! Moves: accepted, carried out, confirmed or reverted, and shown afterwards.

use crate::api;

use std::time::Duration;

use api::Api;
use serde_json::{Value, json};

fn host_of(server: &Value) -> String {
    server["OS-EXT-SRV-ATTR:host"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resize_is_confirmed_or_reverted() {
    // One cell with three hosts.
    let api = Api::start(1, 3).await;
    // The flavor `1`, with one CPU.
    api.create_flavor("1", 1).await;
    api.create_flavor("2", 2).await;
    let id = api.create_active_server("a", json!({})).await;
    let resize = json!({"resize": {"flavorRef": "2"}});
    let refused = api
        .run_action(&id, json!({"resize": {"flavorRef": "1"}}))
        .await;
    assert!(
        refused
            .expect_error(400, "badRequest")
            .starts_with("resize.flavorRef: ")
    );
    api.run_action(&id, json!({"confirmResize": null}))
        .await
        .expect_error(409, "conflictingRequest");

    api.run_action(&id, resize.clone()).await.expect(202);
    let resized = api.wait_for_status(&id, "VERIFY_RESIZE").await;
    assert_eq!(resized["flavor"]["vcpus"], 2);
    api.run_action(&id, json!({"revertResize": null}))
        .await
        .expect(202);
    let reverted = api.wait_for_status(&id, "ACTIVE").await;
    assert_eq!(reverted["flavor"]["vcpus"], 1);

    api.run_action(&id, resize).await.expect(202);
    api.wait_for_status(&id, "VERIFY_RESIZE").await;
    api.run_action(&id, json!({"confirmResize": null}))
        .await
        .expect(204);
    let confirmed = api.wait_for_status(&id, "ACTIVE").await;
    assert_eq!(confirmed["flavor"]["vcpus"], 2);

    let migrations = api.get("/os-migrations").await.expect(200)["migrations"].clone();
    let statuses: Vec<_> = migrations
        .as_array()
        .unwrap()
        .iter()
        .map(|migration| &migration["status"])
        .collect();
    assert_eq!(statuses, ["confirmed", "reverted"]);
    assert_eq!(migrations[0]["migration_type"], "resize");
    let actions = api
        .get(&format!("/servers/{id}/os-instance-actions"))
        .await
        .expect(200);
    let actions = actions["instanceActions"].as_array().unwrap();
    assert_eq!(actions.last().unwrap()["action"], "create");
    assert!(actions.iter().any(|action| action["action"] == "resize"));
    api.delete(&format!("/servers/{id}")).await.expect(204);
    api.wait_until_deleted(&id).await;
    api.site.wait_until_at_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_migrate_cold_or_live_to_any_host_or_a_requested_one() {
    let api = Api::start(1, 3).await;
    api.create_flavor("1", 1).await;
    let id = api.create_active_server("a", json!({})).await;
    let first_host = host_of(&api.wait_for_status(&id, "ACTIVE").await);
    let hypervisors = api.get("/os-hypervisors").await.expect(200)["hypervisors"].clone();
    let other_hosts: Vec<String> = hypervisors
        .as_array()
        .unwrap()
        .iter()
        .map(|hypervisor| {
            hypervisor["hypervisor_hostname"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .filter(|name| *name != first_host)
        .collect();
    assert_eq!(other_hosts.len(), 2);

    let live_migrate_to =
        |host: &str| json!({"os-migrateLive": {"host": host, "block_migration": "auto"}});
    let response = api.run_action(&id, live_migrate_to("nowhere")).await;
    assert!(
        response
            .expect_error(400, "badRequest")
            .starts_with("os-migrateLive.host: ")
    );
    api.run_action(&id, live_migrate_to(&first_host))
        .await
        .expect_error(400, "badRequest");
    api.run_action(&id, live_migrate_to(&other_hosts[0]))
        .await
        .expect(202);
    wait_until_on_host(&api, &id, &other_hosts[0]).await;

    api.run_action(&id, json!({"migrate": {"host": other_hosts[1]}}))
        .await
        .expect(202);
    let moved = api.wait_for_status(&id, "VERIFY_RESIZE").await;
    assert_eq!(host_of(&moved), other_hosts[1]);
    api.run_action(&id, json!({"confirmResize": null}))
        .await
        .expect(204);
    api.wait_for_status(&id, "ACTIVE").await;

    // The requested host does not restrict the next move.
    api.run_action(&id, json!({"migrate": null}))
        .await
        .expect(202);
    let moved = api.wait_for_status(&id, "VERIFY_RESIZE").await;
    assert_ne!(host_of(&moved), other_hosts[1]);
    api.run_action(&id, json!({"confirmResize": null}))
        .await
        .expect(204);
    api.wait_for_status(&id, "ACTIVE").await;
    let migrations = api
        .get("/os-migrations?migration_type=live-migration")
        .await
        .expect(200);
    assert_eq!(migrations["migrations"][0]["status"], "completed");
    assert_eq!(
        migrations["migrations"][0]["dest_compute"],
        other_hosts[0].as_str()
    );
    api.site.wait_until_at_rest().await;
}

async fn wait_until_on_host(api: &Api, id: &str, name: &str) {
    for _ in 0..1000 {
        let server = api.wait_for_status(id, "ACTIVE").await;
        if host_of(&server) == name {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never on {name}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_are_shelved_unshelved_and_rebuilt() {
    let api = Api::start(1, 2).await;
    api.create_flavor("1", 1).await;
    let id = api.create_active_server("a", json!({})).await;
    let image = "70ace000-0000-4000-8000-000000000002";
    let rebuild = json!({"rebuild": {"imageRef": image, "name": "b", "metadata": {"k": "v"}}});
    let response = api.run_action(&id, rebuild).await.expect(202);
    assert_eq!(response["server"]["image"]["id"], image);
    let rebuilt = api.wait_for_status(&id, "ACTIVE").await;
    assert_eq!(
        (&rebuilt["name"], &rebuilt["metadata"]),
        (&json!("b"), &json!({"k": "v"}))
    );

    api.run_action(&id, json!({"unshelve": null}))
        .await
        .expect_error(409, "conflictingRequest");
    api.run_action(&id, json!({"shelve": null}))
        .await
        .expect(202);
    let shelved = api.wait_for_status(&id, "SHELVED_OFFLOADED").await;
    assert_eq!(shelved["OS-EXT-SRV-ATTR:host"], Value::Null);
    api.run_action(&id, json!({"unshelve": null}))
        .await
        .expect(202);
    api.wait_for_status(&id, "ACTIVE").await;
    api.run_action(&id, json!({"os-stop": null}))
        .await
        .expect_error(501, "notImplemented");
    for (method, path) in [
        ("POST", "remote-consoles"),
        ("POST", "os-interface"),
        ("POST", "os-volume_attachments"),
        ("GET", "diagnostics"),
        ("GET", "os-server-password"),
    ] {
        let body = if method == "POST" {
            json!({})
        } else {
            Value::Null
        };
        let path = format!("/servers/{id}/{path}");
        let response = api.send_in_version("2.96", method, &path, body).await;
        response.expect_error(501, "notImplemented");
    }
    let unknown = "/servers/70ace000-0000-4000-8000-00000000dead/diagnostics";
    api.get(unknown).await.expect_error(404, "itemNotFound");
    api.get("/os-simple-tenant-usage")
        .await
        .expect_error(501, "notImplemented");
    api.run_action(&id, json!({"dance": null}))
        .await
        .expect_error(400, "badRequest");
    api.run_action(&id, json!({"forceDelete": null}))
        .await
        .expect(202);
    api.wait_until_deleted(&id).await;
    api.site.wait_until_at_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_are_evacuated_from_hosts_that_are_down() {
    let mut api = Api::start(1, 1).await;
    api.create_flavor("1", 1).await;
    let id = api.create_active_server("a", json!({})).await;
    let response = api.run_action(&id, json!({"evacuate": {}})).await;
    response.expect_error(400, "badRequest");
    api.site.stop_agents(0).await;
    for _ in 0..1000 {
        let services = api.get("/os-services").await.expect(200);
        if services["services"][0]["state"] == "down" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    api.run_action(&id, json!({"evacuate": {}}))
        .await
        .expect(200);
    // There is no other host, so the server stays where it is, and its migration fails.
    for _ in 0..1000 {
        let migrations = api.get("/os-migrations").await.expect(200);
        if migrations["migrations"][0]["status"] == "error" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the evacuation never ends");
}
