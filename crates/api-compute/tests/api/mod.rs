//! The compute API of an installation in memory, called without sockets.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test uses another part of it"
)]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{HeaderMap, Request};
use placewright_api_compute::{ComputeOptions, ComputeService};
use placewright_auth::{AuthConfig, Authenticator, Policy, PolicyConfig};
use placewright_http::{Gateway, HttpMetrics, HttpOptions};
use placewright_testing::site::{Site, Stores};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

/// An image that is not looked up.
pub const IMAGE: &str = "70ace000-0000-4000-8000-000000000001";

pub struct Api {
    pub site: Site,
    service: Arc<ComputeService>,
}

/// The status, headers and body of a response.
#[derive(Debug)]
pub struct Told {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Told {
    /// The message of an error response, which must have this status and name.
    pub fn refused(&self, status: u16, name: &str) -> &str {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.body[name]["code"], status, "{self:?}");
        self.body[name]["message"].as_str().unwrap()
    }

    pub fn is(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        self.body
    }
}

impl Api {
    pub async fn start(cells: u32, hosts: u32) -> Self {
        Self::start_with(cells, hosts, ComputeOptions::default()).await
    }

    pub async fn start_with(cells: u32, hosts: u32, options: ComputeOptions) -> Self {
        let site = Site::start(Stores::Memory, cells, hosts, Arc::default()).await;
        let authenticator = Authenticator::new(&AuthConfig::default()).unwrap();
        let (policy, _) = Policy::load(&PolicyConfig::default()).unwrap();
        let mut registry = Registry::default();
        let metrics = HttpMetrics::new(&mut registry);
        let gateway = Gateway::new(
            HttpOptions::default(),
            authenticator,
            policy,
            metrics,
            Arc::new(registry),
        );
        let service = ComputeService::new(Arc::new(gateway), &site.runtime, options);
        let service = Arc::new(service);
        Self { site, service }
    }

    /// Sends a request with these headers.
    pub async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Value>,
    ) -> Told {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "cloud:8774");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let content = body.map_or_else(Bytes::new, |body| body.to_string().into());
        let request = request.body(Full::new(content)).unwrap();
        let response = self.service.handle(request, None).await;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = if bytes.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&bytes).unwrap()
        };
        Told {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
        }
    }

    /// Sends a request as the administrator, in a version.
    pub async fn at(&self, version: &str, method: &str, path: &str, body: Value) -> Told {
        let version = format!("compute {version}");
        let headers = [
            ("x-auth-token", "admin"),
            ("openstack-api-version", version.as_str()),
            ("content-type", "application/json"),
        ];
        let body = (!body.is_null()).then_some(body);
        self.ask(method, &format!("/v2.1{path}"), &headers, body)
            .await
    }

    pub async fn get(&self, path: &str) -> Told {
        self.at("2.96", "GET", path, Value::Null).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Told {
        self.at("2.96", "POST", path, body).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Told {
        self.at("2.96", "PUT", path, body).await
    }

    pub async fn delete(&self, path: &str) -> Told {
        self.at("2.96", "DELETE", path, Value::Null).await
    }

    pub async fn flavor(&self, id: &str, vcpus: u32) {
        let flavor = json!({"flavor": {
            "id": id, "name": format!("m{id}"), "ram": 512, "vcpus": vcpus, "disk": 1,
        }});
        self.post("/flavors", flavor).await.is(200);
    }

    /// Creates a server, with more fields than the required ones.
    pub async fn create(&self, name: &str, more: Value) -> Told {
        let mut server = json!({
            "name": name, "flavorRef": "1", "imageRef": IMAGE, "networks": "none",
        });
        let mut body = json!({});
        for (key, value) in more.as_object().unwrap() {
            if key.starts_with("os:") {
                body[key] = value.clone();
            } else {
                server[key] = value.clone();
            }
        }
        body["server"] = server;
        self.post("/servers", body).await
    }

    /// Creates a server and waits until it is active.
    pub async fn active(&self, name: &str, more: Value) -> String {
        let created = self.create(name, more).await.is(202);
        let id = created["server"]["id"].as_str().unwrap().to_owned();
        self.until(&id, "ACTIVE").await;
        id
    }

    /// Waits until a server has a status and no task; then returns it.
    pub async fn until(&self, id: &str, status: &str) -> Value {
        let mut last = Value::Null;
        for _ in 0..1000 {
            last = self.get(&format!("/servers/{id}")).await.is(200)["server"].clone();
            let is_quiet = last["OS-EXT-STS:task_state"].is_null();
            if last["status"] == status && is_quiet {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("never {status}: {last:#}");
    }

    pub async fn act(&self, id: &str, action: Value) -> Told {
        self.post(&format!("/servers/{id}/action"), action).await
    }

    /// Waits until a server is gone.
    pub async fn until_gone(&self, id: &str) {
        for _ in 0..1000 {
            if self.get(&format!("/servers/{id}")).await.status == 404 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{id} never goes");
    }
}
