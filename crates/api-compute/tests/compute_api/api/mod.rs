//! The compute API of an installation in memory, called without sockets.

#![allow(unreachable_pub, reason = "only this test program uses it")]

pub mod racks;
pub mod test_cell;

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

/// An image of which no properties are known.
pub const IMAGE: &str = "70ace000-0000-4000-8000-000000000001";

/// The compute API of an installation in memory.
pub struct Api {
    pub site: Site,
    service: Arc<ComputeService>,
}

/// The status, headers and body of a response.
#[derive(Debug)]
pub struct ApiResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

impl ApiResponse {
    /// Checks that this is an error response with this status and error key, and returns its message.
    pub fn expect_error(&self, status: u16, error_key: &str) -> &str {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.body[error_key]["code"], status, "{self:?}");
        self.body[error_key]["message"].as_str().unwrap()
    }

    /// Checks the status, and returns the body.
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        self.body
    }
}

impl Api {
    /// Starts an installation with `hosts_per_cell` hosts in each cell.
    pub async fn start(cells: u32, hosts_per_cell: u32) -> Self {
        Self::start_with(cells, hosts_per_cell, ComputeOptions::default()).await
    }

    pub async fn start_with(cells: u32, hosts_per_cell: u32, options: ComputeOptions) -> Self {
        let site = Site::start(Stores::Memory, cells, hosts_per_cell, Arc::default()).await;
        Self::on_site(site, options)
    }

    /// The compute API of a site.
    pub fn on_site(site: Site, options: ComputeOptions) -> Self {
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
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Value>,
    ) -> ApiResponse {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "cloud:8774");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body_bytes = body.map_or_else(Bytes::new, |body| body.to_string().into());
        let request = request.body(Full::new(body_bytes)).unwrap();
        let response = placewright_http::handle(&self.service, request, None).await;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = if bytes.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&bytes).unwrap()
        };
        ApiResponse {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
        }
    }

    /// Sends a request as the administrator, with this version. The authentication strategy is `noauth2`: the token
    /// `admin` stands for an administrator in the project `admin`. Any other token has the form `user:project`.
    pub async fn send_in_version(
        &self,
        version: &str,
        method: &str,
        path: &str,
        body: Value,
    ) -> ApiResponse {
        let version = format!("compute {version}");
        let headers = [
            ("x-auth-token", "admin"),
            ("openstack-api-version", version.as_str()),
            ("content-type", "application/json"),
        ];
        let body = (!body.is_null()).then_some(body);
        self.send(method, &format!("/v2.1{path}"), &headers, body)
            .await
    }

    pub async fn get(&self, path: &str) -> ApiResponse {
        self.send_in_version("2.96", "GET", path, Value::Null).await
    }

    pub async fn post(&self, path: &str, body: Value) -> ApiResponse {
        self.send_in_version("2.96", "POST", path, body).await
    }

    pub async fn put(&self, path: &str, body: Value) -> ApiResponse {
        self.send_in_version("2.96", "PUT", path, body).await
    }

    pub async fn delete(&self, path: &str) -> ApiResponse {
        self.send_in_version("2.96", "DELETE", path, Value::Null)
            .await
    }

    pub async fn create_flavor(&self, id: &str, vcpus: u32) {
        let flavor = json!({"flavor": {
            "id": id, "name": format!("m{id}"), "ram": 512, "vcpus": vcpus, "disk": 1,
        }});
        self.post("/flavors", flavor).await.expect(200);
    }

    /// Creates a server. Extra fields whose keys begin with `os:` are put beside the server's object.
    pub async fn create_server(&self, name: &str, extra_fields: Value) -> ApiResponse {
        let mut server = json!({
            "name": name, "flavorRef": "1", "imageRef": IMAGE, "networks": "none",
        });
        let mut body = json!({});
        for (key, value) in extra_fields.as_object().unwrap() {
            if key.starts_with("os:") {
                body[key] = value.clone();
            } else {
                server[key] = value.clone();
            }
        }
        body["server"] = server;
        self.post("/servers", body).await
    }

    /// Creates a server, waits until it is active, and returns its id.
    pub async fn create_active_server(&self, name: &str, extra_fields: Value) -> String {
        let created = self.create_server(name, extra_fields).await.expect(202);
        let id = created["server"]["id"].as_str().unwrap().to_owned();
        self.wait_for_status(&id, "ACTIVE").await;
        id
    }

    /// Waits until a server has this status and no task, and returns the server.
    pub async fn wait_for_status(&self, id: &str, status: &str) -> Value {
        let mut server = Value::Null;
        for _ in 0..1000 {
            server = self.get(&format!("/servers/{id}")).await.expect(200)["server"].clone();
            let has_no_task = server["OS-EXT-STS:task_state"].is_null();
            if server["status"] == status && has_no_task {
                return server;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("never {status}: {server:#}");
    }

    pub async fn run_action(&self, id: &str, action: Value) -> ApiResponse {
        self.post(&format!("/servers/{id}/action"), action).await
    }

    /// Waits until a server does not exist any more.
    pub async fn wait_until_deleted(&self, id: &str) {
        for _ in 0..1000 {
            if self.get(&format!("/servers/{id}")).await.status == 404 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{id} never goes");
    }
}
