//! The Placement API and the scheduler API for tests: on an engine in memory, called without sockets.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response};
use placewright_api_placement::{PlacementOptions, PlacementService};
use placewright_api_scheduler::{KeepOptions, SchedulerService};
use placewright_auth::{AuthConfig, Authenticator, Policy, PolicyConfig};
use placewright_control::{
    ClaimMetrics, ControlMachine, Placement, SchedulerHandle, submit_placement,
};
use placewright_engine::{Engine, Options};
use placewright_http::{Body, Gateway, HttpMetrics, HttpOptions};
use placewright_journal::{Journal, MemoryJournal};
use placewright_placement::{Command, Timestamp};
use placewright_scheduler::select::Scheduler;
use prometheus_client::registry::Registry;
use serde_json::Value;

/// The options of the services.
#[derive(Default)]
pub struct ServiceOptions {
    http: HttpOptions,
    placement: PlacementOptions,
}

impl From<HttpOptions> for ServiceOptions {
    fn from(http: HttpOptions) -> Self {
        Self {
            http,
            ..Self::default()
        }
    }
}

impl From<PlacementOptions> for ServiceOptions {
    fn from(placement: PlacementOptions) -> Self {
        Self {
            placement,
            ..Self::default()
        }
    }
}

/// The parts that the Placement API and the scheduler API of one process share.
pub struct ApiParts {
    gateway: Arc<Gateway>,
    placement: Placement,
    options: PlacementOptions,
}

impl ApiParts {
    /// The parts on an existing engine. `policy` is the text of a policy file; empty for the
    /// default rules.
    pub fn on_engine(
        engine: &Engine<ControlMachine>,
        options: impl Into<ServiceOptions>,
        policy: &str,
    ) -> Self {
        let ServiceOptions {
            http,
            placement: placement_options,
        } = options.into();
        let authenticator = Authenticator::new(&AuthConfig::default()).unwrap();
        let policy_text = if policy.is_empty() { "{}" } else { policy };
        let config = PolicyConfig::default();
        let (policy, _) =
            Policy::from_text(&config, Path::new("policy.yaml"), policy_text).unwrap();
        let mut registry = Registry::default();
        let metrics = HttpMetrics::new(&mut registry);
        let claims = ClaimMetrics::new(&mut registry);
        let gateway = Gateway::new(http, authenticator, policy, metrics, Arc::new(registry));
        let placement = Placement::new(engine.clone(), claims);
        let ready = placement.clone();
        let confirmed = placement.clone();
        let gateway = gateway
            .with_readiness(move || ready.why_not_ready())
            .with_confirmation(move || confirmed.confirming());
        Self {
            gateway: Arc::new(gateway),
            placement,
            options: placement_options,
        }
    }

    /// The parts on a new engine with this journal, whose events `()` ignores. The standard resource classes and traits
    /// exist. `policy` is as in [`Self::on_engine`].
    pub async fn on_journal(
        journal: impl Journal + 'static,
        options: impl Into<ServiceOptions>,
        engine_options: Options,
        policy: &str,
    ) -> Self {
        let engine: Engine<ControlMachine> = Engine::open(journal, engine_options, ()).unwrap();
        let now = Timestamp::from_seconds(1_790_000_000);
        submit_placement(&engine, Command::SyncStandardNames { at: now })
            .await
            .unwrap()
            .unwrap();
        Self::on_engine(&engine, options, policy)
    }

    /// The parts on a journal in memory, with the default options.
    pub async fn new() -> Self {
        let options = HttpOptions::default();
        Self::on_journal(MemoryJournal::new(), options, Options::default(), "").await
    }

    /// Creates the service of the Placement API.
    pub fn service(&self) -> Arc<PlacementService> {
        let gateway = Arc::clone(&self.gateway);
        let service = PlacementService::new(gateway, self.placement.clone(), self.options.clone());
        Arc::new(service)
    }

    /// Creates the service of the scheduler API.
    pub fn scheduler(
        &self,
        scheduler: Scheduler,
        keep_options: KeepOptions,
    ) -> Arc<SchedulerService> {
        let gateway = Arc::clone(&self.gateway);
        let scheduler_handle = SchedulerHandle::new(self.placement.engine().clone(), scheduler);
        let service = SchedulerService::new(
            gateway,
            self.placement.clone(),
            scheduler_handle,
            keep_options,
        );
        Arc::new(service)
    }
}

/// The Placement API on a new engine.
pub async fn service(options: impl Into<ServiceOptions>) -> Arc<PlacementService> {
    service_with(options, Options::default(), "").await
}

/// The Placement API on a new engine with these options. `policy` is as in [`ApiParts::on_engine`].
pub async fn service_with(
    options: impl Into<ServiceOptions>,
    engine_options: Options,
    policy: &str,
) -> Arc<PlacementService> {
    service_on(MemoryJournal::new(), options, engine_options, policy).await
}

/// The Placement API on a new engine with this journal. `policy` is as in [`ApiParts::on_engine`].
pub async fn service_on(
    journal: impl Journal + 'static,
    options: impl Into<ServiceOptions>,
    engine_options: Options,
    policy: &str,
) -> Arc<PlacementService> {
    let parts = ApiParts::on_journal(journal, options, engine_options, policy);
    parts.await.service()
}

/// A request that a test builds and sends.
pub struct RequestBuilder<'a> {
    method: &'a str,
    path: &'a str,
    headers: Vec<(&'a str, &'a str)>,
    body: Option<String>,
}

/// A request by an administrator, in the newest microversion.
pub fn call<'a>(method: &'a str, path: &'a str) -> RequestBuilder<'a> {
    let headers = vec![
        ("x-auth-token", "admin"),
        ("openstack-api-version", "placement latest"),
    ];
    RequestBuilder {
        method,
        path,
        headers,
        body: None,
    }
}

/// A `GET` request by an administrator, in the newest microversion.
pub fn get(path: &str) -> RequestBuilder<'_> {
    call("GET", path)
}

impl<'a> RequestBuilder<'a> {
    /// Sets a header; an empty value removes it.
    pub fn header(mut self, name: &'a str, value: &'a str) -> Self {
        self.headers.retain(|(other_name, _)| *other_name != name);
        if !value.is_empty() {
            self.headers.push((name, value));
        }
        self
    }

    /// Sets the microversion header.
    pub fn version(self, version: &'a str) -> Self {
        self.header("openstack-api-version", version)
    }

    /// Sets a JSON body with its content type.
    pub fn json(mut self, body: impl Into<String>) -> Self {
        self.body = Some(body.into());
        self.header("content-type", "application/json")
    }

    /// Sets a body without a content type.
    pub fn body(mut self, body: impl Into<String>) -> Self {
        self.body = Some(body.into());
        self
    }

    fn into_request(self) -> Request<Full<Bytes>> {
        let mut request = Request::builder().method(self.method).uri(self.path);
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        let body = self.body.unwrap_or_default();
        if !body.is_empty() {
            request = request.header("content-length", body.len());
        }
        request.body(Full::new(Bytes::from(body))).unwrap()
    }

    /// Sends the request to the Placement API, as from no network address, and returns the response before its body is
    /// read.
    pub async fn send_unread(self, service: &Arc<PlacementService>) -> Response<Body> {
        placewright_http::handle(service, self.into_request(), None).await
    }

    /// Sends the request to the Placement API.
    pub async fn send(self, service: &Arc<PlacementService>) -> Answer {
        Answer::read(self.send_unread(service).await).await
    }

    /// Sends the request to the scheduler API.
    pub async fn send_to_scheduler(self, scheduler: &Arc<SchedulerService>) -> Answer {
        Answer::read(placewright_http::handle(scheduler, self.into_request(), None).await).await
    }
}

/// A response that was read to its end.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status code.
    pub status: u16,
    /// The headers by their names in lower case; of a header that occurs twice, the last value.
    pub headers: HashMap<String, String>,
    /// The body as text; empty if there is none.
    pub text: String,
}

impl Answer {
    async fn read(response: Response<Body>) -> Self {
        let status = response.status().as_u16();
        let headers = response.headers().iter();
        let headers = headers
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect();
        let text = response.into_body().collect().await.unwrap().to_bytes();
        Answer {
            status,
            headers,
            text: String::from_utf8(text.to_vec()).unwrap(),
        }
    }

    /// The value of a header; empty if there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// The body, which has to be JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// The detail of an error response without the title and explanation that precede it.
    pub fn detail(&self) -> String {
        let json = self.json();
        let detail = json["errors"][0]["detail"]
            .as_str()
            .unwrap_or("")
            .to_owned();
        detail
            .split("\n\n ")
            .last()
            .unwrap_or("")
            .trim_end()
            .to_owned()
    }

    /// The code of an error response.
    pub fn code(&self) -> String {
        self.json()["errors"][0]["code"]
            .as_str()
            .unwrap_or("")
            .to_owned()
    }
}

/// The UUID of the host that most tests create.
pub const HOST: &str = "11111111-1111-1111-1111-111111111111";
/// The UUID of another host.
pub const OTHER: &str = "22222222-2222-2222-2222-222222222222";
/// The UUID of a consumer.
pub const CONSUMER: &str = "33333333-3333-3333-3333-333333333333";

/// Creates a resource provider with 8 VCPU, whose generation is 1 then.
pub async fn create_host(service: &Arc<PlacementService>, uuid: &str) {
    let body = format!(r#"{{"name": "host-{uuid}", "uuid": "{uuid}"}}"#);
    assert_eq!(
        call("POST", "/resource_providers")
            .json(body)
            .send(service)
            .await
            .status,
        200
    );
    let path = format!("/resource_providers/{uuid}/inventories");
    let body = r#"{"resource_class": "VCPU", "total": 8}"#;
    assert_eq!(
        call("POST", &path).json(body).send(service).await.status,
        201
    );
}

/// The body of `PUT /allocations/{consumer}` that claims VCPUs of a provider. `consumer_generation` is `None` for a new
/// consumer.
pub fn claim(provider: &str, amount: u32, consumer_generation: Option<u64>) -> String {
    let consumer_generation =
        consumer_generation.map_or("null".to_owned(), |generation| generation.to_string());
    format!(
        r#"{{"allocations": {{"{provider}": {{"resources": {{"VCPU": {amount}}}}}}},
            "project_id": "p", "user_id": "u", "consumer_type": "INSTANCE",
            "consumer_generation": {consumer_generation}}}"#
    )
}
