//! What the API says of itself to everybody.

use crate::api;

use api::Api;
use placewright_api_compute::ComputeOptions;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_root_says_what_the_installation_can_do() {
    // One cell with one host.
    let api = Api::start(1, 1).await;
    let root = api.send("GET", "/", &[], None).await;
    assert_eq!(root.status, 300);
    let capabilities = &root.body["capabilities"];
    assert_eq!(capabilities["release"], env!("CARGO_PKG_VERSION"));
    assert_eq!(capabilities["own_images"], false);
    assert_eq!(capabilities["networks"], true);
    for policy in capabilities["server_group_policies"].as_array().unwrap() {
        let group = json!({"server_group": {"name": "g", "policy": policy}});
        api.post("/os-server-groups", group).await.expect(200);
    }
    // An offered action is answered with 404 if the server does not exist, but an unknown action with 400.
    let unknown = "11111111-0000-4000-8000-000000000001";
    for action in capabilities["actions"].as_array().unwrap() {
        let arguments = match action.as_str().unwrap() {
            "resize" => json!({"flavorRef": "1"}),
            "rebuild" => json!({"imageRef": api::IMAGE}),
            "os-migrateLive" => json!({"host": null, "block_migration": "auto"}),
            "evacuate" => json!({}),
            _ => Value::Null,
        };
        let body = json!({action.as_str().unwrap(): arguments});
        let response = api.run_action(unknown, body).await;
        response.expect_error(404, "itemNotFound");
    }
    let followed = capabilities["followed_actions"].as_array().unwrap();
    let actions = capabilities["actions"].as_array().unwrap();
    assert!(followed.iter().all(|action| actions.contains(action)));
    let options = ComputeOptions {
        serves_images: true,
        serves_network_api: true,
        ..ComputeOptions::default()
    };
    let api = Api::start_with(1, 1, options).await;
    let root = api.send("GET", "/", &[], None).await.body;
    assert_eq!(root["capabilities"]["own_images"], true);
    assert_eq!(root["capabilities"]["networks"], false);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_has_a_document_gets_304() {
    let api = Api::start(1, 1).await;
    for (path, status) in [("/", 300), ("/v2.1", 200)] {
        let first = api.send("GET", path, &[], None).await;
        assert_eq!(first.status, status);
        assert!(
            first.headers["cache-control"]
                .to_str()
                .unwrap()
                .contains("max-age")
        );
        let tag = first.headers["etag"].to_str().unwrap();
        let again = api.send("GET", path, &[("if-none-match", tag)], None).await;
        assert_eq!((again.status, &again.body), (304, &Value::Null));
        assert_eq!(again.headers["etag"], tag);
        let other = api
            .send("GET", path, &[("if-none-match", "\"x\"")], None)
            .await;
        assert_eq!(other.status, status);
    }
}
