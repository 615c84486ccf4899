//! The image API of an installation in memory, with a folder of its own, called without sockets.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails; each test uses another part"
)]

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{HeaderMap, Request};
use placewright_api_image::{ImageFolder, ImageOptions, ImageService, Limits};
use placewright_auth::{AuthConfig, Authenticator, Policy, PolicyConfig};
use placewright_http::{Gateway, HttpMetrics, HttpOptions};
use placewright_testing::site::{Site, Stores};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tempfile::TempDir;

pub const JSON: &str = "application/json";
pub const PATCH: &str = "application/openstack-images-v2.1-json-patch";
pub const BYTES: &str = "application/octet-stream";

/// The token of an administrator, and those of members of two different projects, as `USER:PROJECT`.
pub const ADMIN: &str = "admin";
pub const OWNER: &str = "u1:p1";
pub const OTHER: &str = "u2:p2";

pub struct Api {
    pub site: Site,
    service: Arc<ImageService>,
    folder: TempDir,
}

#[derive(Debug)]
pub struct ApiResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub bytes: Bytes,
}

impl ApiResponse {
    /// Checks the status, and returns the body.
    pub fn expect(self, status: u16) -> Value {
        let text = String::from_utf8_lossy(&self.bytes).into_owned();
        assert_eq!(self.status, status, "{text}");
        serde_json::from_str(&text).unwrap_or(Value::Null)
    }

    /// Checks the status of an error, and returns its message.
    pub fn expect_error(self, status: u16) -> String {
        let body = self.expect(status);
        body["message"].as_str().unwrap().to_owned()
    }
}

impl Api {
    pub async fn start() -> Self {
        Self::start_with(Limits::default()).await
    }

    pub async fn start_with(limits: Limits) -> Self {
        // One cell with one host.
        let site = Site::start(Stores::Memory, 1, 1, Arc::default()).await;
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
        let folder = tempfile::tempdir().unwrap();
        let service = ImageService::new(
            Arc::new(gateway),
            site.conductor.clone(),
            ImageFolder::open(folder.path()).unwrap(),
            ImageOptions {
                limits,
                public_url: None,
            },
        );
        Self {
            site,
            service: Arc::new(service),
            folder,
        }
    }

    /// The names of the files in the folder.
    pub fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Sends a request with a body of this type.
    pub async fn send(
        &self,
        token: &str,
        method: &str,
        path: &str,
        (content_type, body): (&str, impl Into<Bytes>),
    ) -> ApiResponse {
        let headers = [("content-type", content_type)];
        self.send_with(token, (method, path), &headers, body).await
    }

    /// Sends a request with these headers. Whoever has the token [`ADMIN`] is an administrator; the others are members
    /// of their projects.
    pub async fn send_with(
        &self,
        token: &str,
        (method, path): (&str, &str),
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> ApiResponse {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "cloud:9292")
            .header("x-auth-token", token)
            .header(
                "x-roles",
                if token == ADMIN {
                    "admin"
                } else {
                    "member,reader"
                },
            );
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        let response = placewright_http::handle(&self.service, request, None).await;
        let (parts, body) = response.into_parts();
        ApiResponse {
            status: parts.status.as_u16(),
            headers: parts.headers,
            bytes: body.collect().await.unwrap().to_bytes(),
        }
    }

    pub async fn get(&self, token: &str, path: &str) -> ApiResponse {
        self.send(token, "GET", path, (JSON, "")).await
    }

    pub async fn delete(&self, token: &str, path: &str) -> ApiResponse {
        self.send(token, "DELETE", path, (JSON, "")).await
    }

    pub async fn post(&self, token: &str, path: &str, body: Value) -> ApiResponse {
        self.send(token, "POST", path, (JSON, body.to_string()))
            .await
    }

    /// Sends changes of an image as a JSON patch.
    pub async fn patch(&self, token: &str, id: &str, changes: Value) -> ApiResponse {
        let path = format!("/v2/images/{id}");
        self.send(token, "PATCH", &path, (PATCH, changes.to_string()))
            .await
    }

    /// Sends the bytes of an image.
    pub async fn upload(&self, token: &str, id: &str, bytes: impl Into<Bytes>) -> ApiResponse {
        let path = format!("/v2/images/{id}/file");
        self.send(token, "PUT", &path, (BYTES, bytes)).await
    }

    /// Creates an image, and returns its id.
    pub async fn create(&self, token: &str, fields: Value) -> String {
        let created = self.post(token, "/v2/images", fields).await.expect(201);
        created["id"].as_str().unwrap().to_owned()
    }

    /// The names of the images in the list that this query gets; empty for an image without a name.
    pub async fn names(&self, token: &str, query: &str) -> Vec<String> {
        let list = self
            .get(token, &format!("/v2/images{query}"))
            .await
            .expect(200);
        let images = list["images"].as_array().unwrap().iter();
        let names = images.map(|image| image["name"].as_str().unwrap_or("").to_owned());
        names.collect()
    }
}

/// The fields of an image from which servers can be built.
pub fn raw(name: &str) -> Value {
    json!({"name": name, "disk_format": "raw", "container_format": "bare"})
}
