//! The network API of an installation without networks, called without sockets.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use placewright_api_network::NetworkService;
use placewright_auth::{AuthConfig, Authenticator, Policy, PolicyConfig};
use placewright_http::{Gateway, HttpMetrics, HttpOptions};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

fn service() -> Arc<NetworkService> {
    let authenticator = Authenticator::new(&AuthConfig::default()).unwrap();
    let (policy, _) = Policy::load(&PolicyConfig::default()).unwrap();
    let mut registry = Registry::default();
    let metrics = HttpMetrics::new(&mut registry);
    let options = HttpOptions::default();
    let gateway = Gateway::new(options, authenticator, policy, metrics, Arc::new(registry));
    // `None`: links begin with the address that the client sent its request to.
    Arc::new(NetworkService::new(Arc::new(gateway), None))
}

/// Sends a request, and returns the status and the body of the response. The tests' token `u:p` is that of the user `u`
/// in the project `p`.
async fn send(method: &str, path: &str, token: Option<&str>) -> (u16, Value) {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "cloud:9696");
    if let Some(token) = token {
        request = request.header("x-auth-token", token);
    }
    let request = request.body(Full::new(Bytes::new())).unwrap();
    let response = placewright_http::handle(&service(), request, None).await;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn every_list_is_empty() {
    for (path, key) in [
        ("networks", "networks"),
        ("networks.json", "networks"),
        ("security-groups?name=default", "security_groups"),
        ("ports?device_id=x", "ports"),
        ("extensions", "extensions"),
    ] {
        let (status, body) = send("GET", &format!("/v2.0/{path}"), Some("u:p")).await;
        assert_eq!((status, body), (200, json!({key: []})), "{path}");
    }
    let (_, quotas) = send("GET", "/v2.0/quotas/p", Some("u:p")).await;
    assert_eq!(quotas["quota"]["network"], 0);
    let (_, quotas) = send("GET", "/v2.0/quotas/p/details.json", Some("u:p")).await;
    assert_eq!(quotas["quota"]["port"]["used"], 0);
    let (_, index) = send("GET", "/v2.0/", Some("u:p")).await;
    assert_eq!(
        index["resources"][0]["links"][0]["href"],
        "http://cloud:9696/v2.0/networks"
    );
}

#[tokio::test]
async fn nothing_has_an_id_and_nothing_can_be_made() {
    for (method, path, status) in [
        ("GET", "/v2.0/networks/x", 404),
        ("GET", "/v2.0/extensions/trunk", 404),
        ("GET", "/v2.0/nothing", 404),
        ("GET", "/v2.0/networks/x/y/z", 404),
        ("POST", "/v2.0/networks", 501),
        ("PUT", "/v2.0/ports/x", 501),
        ("DELETE", "/v2.0/routers/x", 501),
        ("PATCH", "/v2.0/networks", 405),
    ] {
        let (found, body) = send(method, path, Some("u:p")).await;
        assert_eq!(found, status, "{method} {path}");
        assert!(body["NeutronError"]["message"].is_string(), "{body}");
    }
}

#[tokio::test]
async fn the_root_says_what_the_service_can_do_and_clients_may_keep_it() {
    let show = async |tag: &str| {
        let request = Request::get("/")
            .header("host", "cloud:9696")
            .header("if-none-match", tag)
            .body(Full::new(Bytes::new()))
            .unwrap();
        let (parts, body) = placewright_http::handle(&service(), request, None)
            .await
            .into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        (parts.status.as_u16(), parts.headers, bytes)
    };
    let (status, headers, body) = show("\"x\"").await;
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(status, 200);
    assert_eq!(body["capabilities"]["networks"], false);
    let (status, _, body) = show(headers["etag"].to_str().unwrap()).await;
    assert_eq!((status, body.len()), (304, 0));
}

#[tokio::test]
async fn only_the_versions_are_for_everybody() {
    let (status, body) = send("GET", "/", None).await;
    assert_eq!(status, 200);
    assert_eq!(
        body["versions"][0]["links"][0]["href"],
        "http://cloud:9696/v2.0/"
    );
    let (status, body) = send("GET", "/v2.0/networks", None).await;
    assert_eq!((status, &body["error"]["code"]), (401, &json!(401)));
}
