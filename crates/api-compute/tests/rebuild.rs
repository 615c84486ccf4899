//! Rebuilds from another image: the scheduler is asked whether the host is still feasible.

#![expect(clippy::unwrap_used, reason = "a test stops where it goes wrong")]

mod api;

use std::sync::Arc;

use api::{Api, IMAGE};
use placewright_api_compute::{ComputeOptions, Images};
use placewright_conductor::InstanceId;
use placewright_control::{now, submit_placement};
use placewright_placement::Command;
use serde_json::{Value, json};

/// An image that requires a trait.
const FAST: &str = "70ace000-0000-4000-8000-00000000000a";
/// An image for another architecture.
const FOREIGN: &str = "70ace000-0000-4000-8000-00000000000b";
/// An image that wants two NUMA cells.
const CELLS: &str = "70ace000-0000-4000-8000-00000000000c";
/// An image of which nothing is known.
const PLAIN: &str = "70ace000-0000-4000-8000-00000000000d";

const TRAIT: &str = "HW_CPU_X86_AVX2";

async fn start() -> Api {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("images.json");
    let images = json!({"images": [
        {"id": FAST, "name": "fast", format!("trait:{TRAIT}"): "required"},
        {"id": FOREIGN, "hw_architecture": "aarch64"},
        {"id": CELLS, "properties": {"hw_numa_nodes": "2"}},
    ]});
    std::fs::write(&path, images.to_string()).unwrap();
    let options = ComputeOptions {
        images: Arc::new(Images::load(path).unwrap()),
        ..ComputeOptions::default()
    };
    let api = Api::start_with(1, 1, options).await;
    api.flavor("1", 2).await;
    api
}

/// The consumer's generation, and the number of its allocations.
async fn held(api: &Api, id: &str) -> (u64, usize) {
    let consumer = InstanceId(id.parse().unwrap()).consumer();
    let read = api.site.conductor.read(move |control, _| {
        let found = control.placement.consumer(consumer).unwrap();
        (found.generation, found.allocations.len())
    });
    read.await
}

async fn last_action(api: &Api, id: &str) -> Value {
    let path = format!("/servers/{id}/os-instance-actions");
    api.get(&path).await.is(200)["instanceActions"][0].clone()
}

fn rebuild(image: &str) -> Value {
    json!({"rebuild": {"imageRef": image, "name": "renamed"}})
}

async fn allow_trait(api: &Api) {
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
    let id = api.active("a", json!({})).await;
    let before = held(&api, &id).await;
    for (image, why) in [
        (FAST, TRAIT),
        (FOREIGN, "ImagePropertiesFilter"),
        (CELLS, "NUMA"),
    ] {
        let told = api.act(&id, rebuild(image)).await.is(202);
        assert_eq!(told["server"]["image"]["id"], IMAGE, "{why}");
        let server = api.until(&id, "ACTIVE").await;
        assert_eq!(server["image"]["id"], IMAGE);
        assert_eq!(server["name"], "a");
        assert!(server["fault"].is_null(), "{server}");
        let action = last_action(&api, &id).await;
        assert_eq!(action["action"], "rebuild");
        let message = action["message"].as_str().unwrap();
        assert!(message.contains(why), "{message}");
        assert_eq!(held(&api, &id).await, before);
    }
    api.site.rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_rebuilt_where_it_is_from_an_image_that_its_host_can_run() {
    let api = start().await;
    // The only host is full, so a search with a claim would find none.
    api.flavor("2", 16).await;
    let id = api.active("a", json!({"flavorRef": "2"})).await;
    let before = held(&api, &id).await;
    allow_trait(&api).await;
    for image in [FAST, PLAIN] {
        api.act(&id, rebuild(image)).await.is(202);
        let server = api.until(&id, "ACTIVE").await;
        assert_eq!(server["image"]["id"], image);
        assert_eq!(server["name"], "renamed");
        let action = last_action(&api, &id).await;
        assert_eq!(
            (&action["action"], &action["message"]),
            (&json!("rebuild"), &Value::Null)
        );
        assert_eq!(held(&api, &id).await, before);
    }
    api.site.rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_decides_where_a_server_is_built() {
    let api = start().await;
    let created = api.create("a", json!({"imageRef": FAST})).await.is(202);
    let id = created["server"]["id"].as_str().unwrap().to_owned();
    let server = api.until(&id, "ERROR").await;
    let message = server["fault"]["message"].as_str().unwrap();
    assert!(message.contains("No valid host"), "{message}");
    allow_trait(&api).await;
    api.active("b", json!({"imageRef": FAST})).await;
    api.site.rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_that_fails_leaves_the_old_image_and_says_why() {
    let api = start().await;
    let id = api.active("a", json!({})).await;
    let before = held(&api, &id).await;
    let host = placewright_testing::site::host(0, 0);
    api.site.fleet.lock().failing.push(host);
    let told = api.act(&id, rebuild(PLAIN)).await.is(202);
    assert_eq!(told["server"]["image"]["id"], PLAIN);
    let failed = api.until(&id, "ERROR").await;
    assert_eq!(failed["image"]["id"], IMAGE);
    let fault = failed["fault"]["message"].as_str().unwrap();
    let action = last_action(&api, &id).await;
    assert_eq!(action["action"], "rebuild");
    assert_eq!(action["message"], fault);
    assert_eq!(held(&api, &id).await, before);
    // The rebuild that failed is not carried out later either.
    api.site.fleet.lock().failing.clear();
    api.act(&id, rebuild(FAST)).await.is(202);
    api.act(&id, rebuild(IMAGE)).await.is(202);
    let server = api.until(&id, "ACTIVE").await;
    assert_eq!(server["image"]["id"], IMAGE);
    assert!(server["fault"].is_null(), "{server}");
    api.act(&id, rebuild(PLAIN)).await.is(202);
    let server = api.until(&id, "ACTIVE").await;
    assert_eq!(server["image"]["id"], PLAIN);
    let read = api
        .site
        .conductor
        .read(|control, _| control.conductor.rebuilds().len());
    assert_eq!(read.await, 0);
    api.site.rest().await;
}
