//! Rebuilds from another image: the scheduler is asked whether the host is still feasible.

use crate::api;

use std::sync::Arc;

use api::{Api, IMAGE};
use placewright_api_compute::{ComputeOptions, Images};
use placewright_conductor::InstanceId;
use placewright_control::{now, submit_placement};
use placewright_placement::Command;
use serde_json::{Value, json};

/// An image that requires a trait.
const REQUIRES_TRAIT: &str = "70ace000-0000-4000-8000-00000000000a";
/// An image for another architecture.
const OTHER_ARCHITECTURE: &str = "70ace000-0000-4000-8000-00000000000b";
/// An image that requires two NUMA nodes.
const TWO_NUMA_NODES: &str = "70ace000-0000-4000-8000-00000000000c";
/// An image that the file of images does not have, so that nothing is known of its properties.
const WITHOUT_PROPERTIES: &str = "70ace000-0000-4000-8000-00000000000d";

const TRAIT: &str = "HW_CPU_X86_AVX2";

async fn start() -> Api {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("images.json");
    let images = json!({"images": [
        {"id": REQUIRES_TRAIT, "name": "fast", format!("trait:{TRAIT}"): "required"},
        {"id": OTHER_ARCHITECTURE, "hw_architecture": "aarch64"},
        {"id": TWO_NUMA_NODES, "properties": {"hw_numa_nodes": "2"}},
    ]});
    std::fs::write(&path, images.to_string()).unwrap();
    let options = ComputeOptions {
        images: Arc::new(Images::load(path).unwrap()),
        ..ComputeOptions::default()
    };
    // One cell with one host.
    let api = Api::start_with(1, 1, options).await;
    // The flavor `1`, with two CPUs.
    api.create_flavor("1", 2).await;
    api
}

/// The consumer's generation, and the number of its allocations.
async fn holdings(api: &Api, id: &str) -> (u64, usize) {
    let consumer_uuid = InstanceId(id.parse().unwrap()).consumer();
    let reading = api.site.conductor.read(move |control, _| {
        let consumer = control.placement.consumer(consumer_uuid).unwrap();
        (consumer.generation, consumer.allocations.len())
    });
    reading.await
}

async fn last_action(api: &Api, id: &str) -> Value {
    let path = format!("/servers/{id}/os-instance-actions");
    api.get(&path).await.expect(200)["instanceActions"][0].clone()
}

fn rebuild(image: &str) -> Value {
    json!({"rebuild": {"imageRef": image, "name": "renamed"}})
}

/// Gives the only host the trait that [`REQUIRES_TRAIT`] requires.
async fn set_host_trait(api: &Api) {
    let engine = api.site.conductor.engine();
    let host = placewright_testing::site::host(0, 0).0;
    let set = Command::SetTraits {
        provider: host,
        generation: None,
        traits: vec![TRAIT.to_owned()],
        at: now(),
    };
    submit_placement(engine, set).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_not_rebuilt_from_an_image_that_its_host_cannot_run() {
    let api = start().await;
    let id = api.create_active_server("a", json!({})).await;
    let before = holdings(&api, &id).await;
    for (image, reason) in [
        (REQUIRES_TRAIT, TRAIT),
        (OTHER_ARCHITECTURE, "ImagePropertiesFilter"),
        (TWO_NUMA_NODES, "NUMA"),
    ] {
        let response = api.run_action(&id, rebuild(image)).await.expect(202);
        assert_eq!(response["server"]["image"]["id"], IMAGE, "{reason}");
        let server = api.wait_for_status(&id, "ACTIVE").await;
        assert_eq!(server["image"]["id"], IMAGE);
        assert_eq!(server["name"], "a");
        assert!(server["fault"].is_null(), "{server}");
        let action = last_action(&api, &id).await;
        assert_eq!(action["action"], "rebuild");
        let message = action["message"].as_str().unwrap();
        assert!(message.contains(reason), "{message}");
        assert_eq!(holdings(&api, &id).await, before);
    }
    api.site.wait_until_at_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_rebuilt_where_it_is_from_an_image_that_its_host_can_run() {
    let api = start().await;
    // The only host is full, so a search with a claim would find none.
    api.create_flavor("2", 16).await;
    let id = api
        .create_active_server("a", json!({"flavorRef": "2"}))
        .await;
    let before = holdings(&api, &id).await;
    set_host_trait(&api).await;
    for image in [REQUIRES_TRAIT, WITHOUT_PROPERTIES] {
        api.run_action(&id, rebuild(image)).await.expect(202);
        let server = api.wait_for_status(&id, "ACTIVE").await;
        assert_eq!(server["image"]["id"], image);
        assert_eq!(server["name"], "renamed");
        let action = last_action(&api, &id).await;
        assert_eq!(
            (&action["action"], &action["message"]),
            (&json!("rebuild"), &Value::Null)
        );
        assert_eq!(holdings(&api, &id).await, before);
    }
    api.site.wait_until_at_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_decides_where_a_server_is_built() {
    let api = start().await;
    let created = api
        .create_server("a", json!({"imageRef": REQUIRES_TRAIT}))
        .await
        .expect(202);
    let id = created["server"]["id"].as_str().unwrap().to_owned();
    let server = api.wait_for_status(&id, "ERROR").await;
    let message = server["fault"]["message"].as_str().unwrap();
    assert!(message.contains("No valid host"), "{message}");
    set_host_trait(&api).await;
    api.create_active_server("b", json!({"imageRef": REQUIRES_TRAIT}))
        .await;
    api.site.wait_until_at_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_that_fails_leaves_the_old_image_and_says_why() {
    let api = start().await;
    let id = api.create_active_server("a", json!({})).await;
    let before = holdings(&api, &id).await;
    let host = placewright_testing::site::host(0, 0);
    api.site.fleet.lock().failing.push(host);
    let response = api
        .run_action(&id, rebuild(WITHOUT_PROPERTIES))
        .await
        .expect(202);
    assert_eq!(response["server"]["image"]["id"], WITHOUT_PROPERTIES);
    let failed = api.wait_for_status(&id, "ERROR").await;
    assert_eq!(failed["image"]["id"], IMAGE);
    let fault = failed["fault"]["message"].as_str().unwrap();
    let action = last_action(&api, &id).await;
    assert_eq!(action["action"], "rebuild");
    assert_eq!(action["message"], fault);
    assert_eq!(holdings(&api, &id).await, before);
    // The rebuild failed, and is not carried out later.
    api.site.fleet.lock().failing.clear();
    api.run_action(&id, rebuild(REQUIRES_TRAIT))
        .await
        .expect(202);
    api.run_action(&id, rebuild(IMAGE)).await.expect(202);
    let server = api.wait_for_status(&id, "ACTIVE").await;
    assert_eq!(server["image"]["id"], IMAGE);
    assert!(server["fault"].is_null(), "{server}");
    api.run_action(&id, rebuild(WITHOUT_PROPERTIES))
        .await
        .expect(202);
    let server = api.wait_for_status(&id, "ACTIVE").await;
    assert_eq!(server["image"]["id"], WITHOUT_PROPERTIES);
    let reading = api
        .site
        .conductor
        .read(|control, _| control.conductor.rebuilds().len());
    assert_eq!(reading.await, 0);
    api.site.wait_until_at_rest().await;
}
