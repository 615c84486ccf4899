//! Moves: accepted, carried out, confirmed or reverted, and shown afterwards.

#![expect(clippy::unwrap_used, reason = "a test stops where it goes wrong")]

mod api;

use std::time::Duration;

use api::Api;
use serde_json::{Value, json};

fn host(server: &Value) -> String {
    server["OS-EXT-SRV-ATTR:host"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resize_is_confirmed_or_reverted() {
    let api = Api::start(1, 3).await;
    api.flavor("1", 1).await;
    api.flavor("2", 2).await;
    let id = api.active("a", json!({})).await;
    let resize = json!({"resize": {"flavorRef": "2"}});
    let same = api.act(&id, json!({"resize": {"flavorRef": "1"}})).await;
    assert!(
        same.refused(400, "badRequest")
            .starts_with("resize.flavorRef: ")
    );
    api.act(&id, json!({"confirmResize": null}))
        .await
        .refused(409, "conflictingRequest");

    api.act(&id, resize.clone()).await.is(202);
    let resized = api.until(&id, "VERIFY_RESIZE").await;
    assert_eq!(resized["flavor"]["vcpus"], 2);
    api.act(&id, json!({"revertResize": null})).await.is(202);
    let reverted = api.until(&id, "ACTIVE").await;
    assert_eq!(reverted["flavor"]["vcpus"], 1);

    api.act(&id, resize).await.is(202);
    api.until(&id, "VERIFY_RESIZE").await;
    api.act(&id, json!({"confirmResize": null})).await.is(204);
    let confirmed = api.until(&id, "ACTIVE").await;
    assert_eq!(confirmed["flavor"]["vcpus"], 2);

    let migrations = api.get("/os-migrations").await.is(200)["migrations"].clone();
    let statuses: Vec<_> = migrations
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["status"])
        .collect();
    assert_eq!(statuses, ["confirmed", "reverted"]);
    assert_eq!(migrations[0]["migration_type"], "resize");
    let actions = api
        .get(&format!("/servers/{id}/os-instance-actions"))
        .await
        .is(200);
    let actions = actions["instanceActions"].as_array().unwrap();
    assert_eq!(actions.last().unwrap()["action"], "create");
    assert!(actions.iter().any(|one| one["action"] == "resize"));
    api.delete(&format!("/servers/{id}")).await.is(204);
    api.until_gone(&id).await;
    api.site.rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_migrate_live_or_not_also_to_hosts_of_choice() {
    let api = Api::start(1, 3).await;
    api.flavor("1", 1).await;
    let id = api.active("a", json!({})).await;
    let first = host(&api.until(&id, "ACTIVE").await);
    let all = api.get("/os-hypervisors").await.is(200)["hypervisors"].clone();
    let others: Vec<String> = all
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["hypervisor_hostname"].as_str().unwrap().to_owned())
        .filter(|name| *name != first)
        .collect();
    assert_eq!(others.len(), 2);

    let to = |host: &str| json!({"os-migrateLive": {"host": host, "block_migration": "auto"}});
    let told = api.act(&id, to("nowhere")).await;
    assert!(
        told.refused(400, "badRequest")
            .starts_with("os-migrateLive.host: ")
    );
    api.act(&id, to(&first)).await.refused(400, "badRequest");
    api.act(&id, to(&others[0])).await.is(202);
    until_on(&api, &id, &others[0]).await;

    api.act(&id, json!({"migrate": {"host": others[1]}}))
        .await
        .is(202);
    let moved = api.until(&id, "VERIFY_RESIZE").await;
    assert_eq!(host(&moved), others[1]);
    api.act(&id, json!({"confirmResize": null})).await.is(204);
    api.until(&id, "ACTIVE").await;

    // The requested host does not restrict the next move.
    api.act(&id, json!({"migrate": null})).await.is(202);
    let moved = api.until(&id, "VERIFY_RESIZE").await;
    assert_ne!(host(&moved), others[1]);
    api.act(&id, json!({"confirmResize": null})).await.is(204);
    api.until(&id, "ACTIVE").await;
    let live = api
        .get("/os-migrations?migration_type=live-migration")
        .await
        .is(200);
    assert_eq!(live["migrations"][0]["status"], "completed");
    assert_eq!(live["migrations"][0]["dest_compute"], others[0].as_str());
    api.site.rest().await;
}

async fn until_on(api: &Api, id: &str, name: &str) {
    for _ in 0..1000 {
        let server = api.until(id, "ACTIVE").await;
        if host(&server) == name {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never on {name}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_are_shelved_unshelved_and_rebuilt() {
    let api = Api::start(1, 2).await;
    api.flavor("1", 1).await;
    let id = api.active("a", json!({})).await;
    let image = "70ace000-0000-4000-8000-000000000002";
    let rebuild = json!({"rebuild": {"imageRef": image, "name": "b", "metadata": {"k": "v"}}});
    let told = api.act(&id, rebuild).await.is(202);
    assert_eq!(told["server"]["image"]["id"], image);
    let rebuilt = api.until(&id, "ACTIVE").await;
    assert_eq!(
        (&rebuilt["name"], &rebuilt["metadata"]),
        (&json!("b"), &json!({"k": "v"}))
    );

    api.act(&id, json!({"unshelve": null}))
        .await
        .refused(409, "conflictingRequest");
    api.act(&id, json!({"shelve": null})).await.is(202);
    let shelved = api.until(&id, "SHELVED_OFFLOADED").await;
    assert_eq!(shelved["OS-EXT-SRV-ATTR:host"], Value::Null);
    api.act(&id, json!({"unshelve": null})).await.is(202);
    api.until(&id, "ACTIVE").await;
    api.act(&id, json!({"os-stop": null}))
        .await
        .refused(501, "notImplemented");
    api.act(&id, json!({"dance": null}))
        .await
        .refused(400, "badRequest");
    api.act(&id, json!({"forceDelete": null})).await.is(202);
    api.until_gone(&id).await;
    api.site.rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_are_evacuated_from_hosts_that_are_down() {
    let mut api = Api::start(1, 1).await;
    api.flavor("1", 1).await;
    let id = api.active("a", json!({})).await;
    let told = api.act(&id, json!({"evacuate": {}})).await;
    told.refused(400, "badRequest");
    api.site.stop_agents(0).await;
    for _ in 0..1000 {
        let services = api.get("/os-services").await.is(200);
        if services["services"][0]["state"] == "down" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    api.act(&id, json!({"evacuate": {}})).await.is(200);
    // There is no other host: the server stays, and its migration fails.
    for _ in 0..1000 {
        let all = api.get("/os-migrations").await.is(200);
        if all["migrations"][0]["status"] == "error" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the evacuation never ends");
}
