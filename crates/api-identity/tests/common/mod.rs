//! The Identity API on an engine in memory, called without sockets.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails; each test uses another part"
)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{HeaderMap, Request};
use placewright_api_identity::{
    Catalog, CatalogEntry, IdentityOptions, IdentityService, OwnTokenCheck,
};
use placewright_auth::{
    AuthConfig, Authenticator, LimitsConfig, PasswordConfig, Passwords, Policy, PolicyConfig,
    Secret, Strategy,
};
use placewright_conductor::accounts::HiddenText;
use placewright_control::accounts::{Accounts, FirstPasswords};
use placewright_control::{Clock, ControlHandle, ControlMachine, Options};
use placewright_engine::Engine;
use placewright_http::{Gateway, HttpMetrics, HttpOptions};
use placewright_journal::MemoryJournal;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

pub const TOKEN_LIFETIME_S: u64 = 3600;

/// An installation with the first accounts, whose passwords are `of admin` and `of demo`.
pub struct Site {
    pub service: Arc<IdentityService>,
    pub accounts: Accounts,
    /// The clock of control, which the test can move.
    pub clock: Clock,
    pub control: ControlHandle,
}

/// A response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Answer {
    /// The token in the response's header.
    pub fn token(&self) -> String {
        assert_eq!(self.status, 201, "{}", self.body);
        self.headers["x-subject-token"].to_str().unwrap().to_owned()
    }
}

fn service(accounts: &Accounts) -> Arc<IdentityService> {
    let config = AuthConfig {
        strategy: Strategy::Identity,
        ..AuthConfig::default()
    };
    let authenticator = Authenticator::new(&config).unwrap();
    // `None`: there is no token with which the processes of the installation are administrators.
    authenticator.set_token_check(Arc::new(OwnTokenCheck::new(accounts.clone(), None)));
    let (policy, _) = Policy::load(&PolicyConfig::default()).unwrap();
    let mut registry = Registry::default();
    let metrics = HttpMetrics::new(&mut registry);
    let options = HttpOptions::default();
    let gateway = Gateway::new(options, authenticator, policy, metrics, Arc::new(registry));
    let options = IdentityOptions {
        passwords: passwords(),
        catalog: Catalog {
            region: "RegionOne".into(),
            entries: vec![CatalogEntry {
                service_type: "compute",
                name: "placewright-compute",
                scheme: "http",
                port: 8774,
                path: "/v2.1",
                public_url: None,
            }],
        },
        public_url: None,
    };
    Arc::new(IdentityService::new(
        Arc::new(gateway),
        accounts.clone(),
        options,
    ))
}

fn passwords() -> Passwords {
    Passwords::new(&PasswordConfig::default(), &LimitsConfig::default()).unwrap()
}

impl Site {
    /// A site with the first accounts.
    pub async fn new() -> Self {
        let engine: Engine<ControlMachine> = Engine::open(
            MemoryJournal::new(),
            placewright_engine::Options::default(),
            (),
        )
        .unwrap();
        let clock = Clock::movable();
        let control = ControlHandle::with_clock(engine, Options::default(), clock.clone());
        let accounts = Accounts::new(control.clone(), Duration::from_secs(TOKEN_LIFETIME_S));
        let hash =
            async |text: &str| HiddenText(passwords().hash(&Secret::new(text)).await.unwrap());
        let first = FirstPasswords {
            admin: hash("of admin").await,
            demo: hash("of demo").await,
        };
        // The accounts are made once: the second call finds them.
        assert_eq!(accounts.begin(first.clone()).await, Ok(true));
        assert_eq!(accounts.begin(first).await, Ok(false));
        Self {
            service: service(&accounts),
            accounts,
            clock,
            control,
        }
    }

    /// Another service on the same state, as that of another replica.
    pub fn other_service(&self) -> Arc<IdentityService> {
        let lifetime = Duration::from_secs(TOKEN_LIFETIME_S);
        service(&Accounts::new(self.control.clone(), lifetime))
    }

    /// Sends a request with these headers.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Value>,
    ) -> Answer {
        send(
            &self.service,
            ("192.0.2.1:1000", method, path),
            headers,
            body,
        )
        .await
    }

    /// Sends a request with a token.
    pub async fn call(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: impl Into<Option<Value>>,
    ) -> Answer {
        self.send(method, path, &[("x-auth-token", token)], body.into())
            .await
    }

    /// Signs in with a password.
    pub async fn sign_in(&self, name: &str, password: &str, scope: Value) -> Answer {
        let body = sign_in_body(name, password, scope);
        self.send("POST", "/v3/auth/tokens", &[], Some(body)).await
    }

    /// The token of the administrator in its project.
    pub async fn admin(&self) -> String {
        self.sign_in("admin", "of admin", project("admin"))
            .await
            .token()
    }

    /// The token of the demo user in its project.
    pub async fn demo(&self) -> String {
        self.sign_in("demo", "of demo", project("demo"))
            .await
            .token()
    }

    /// The status of an administrator's request to check a token: 200 if it is valid, otherwise 404.
    pub async fn status_of(&self, token: &str) -> u16 {
        let admin = self.admin().await;
        let headers = [("x-auth-token", admin.as_str()), ("x-subject-token", token)];
        self.send("GET", "/v3/auth/tokens", &headers, None)
            .await
            .status
    }

    /// The id of the object of a kind, such as `users`, with this name.
    pub async fn id(&self, kind: &str, name: &str) -> String {
        let path = format!("/v3/{kind}?name={name}");
        let answer = self.call(&self.admin().await, "GET", &path, None).await;
        answer.body[kind][0]["id"].as_str().unwrap().to_owned()
    }
}

/// Sends a request to a service from an address.
pub async fn send(
    service: &Arc<IdentityService>,
    (address, method, path): (&str, &str, &str),
    headers: &[(&str, &str)],
    body: Option<Value>,
) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    request = request.header("host", "192.0.2.7:5000");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
    let request = request.body(Full::new(body)).unwrap();
    let address: SocketAddr = address.parse().unwrap();
    let response = placewright_http::handle(service, request, Some(address)).await;
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    Answer {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body: serde_json::from_slice(&bytes).unwrap_or_default(),
    }
}

/// The body that signs in with a password. The scope may be `null`: the body then names none.
pub fn sign_in_body(name: &str, password: &str, scope: Value) -> Value {
    let user = json!({"name": name, "domain": {"id": "default"}, "password": password});
    let identity = json!({"methods": ["password"], "password": {"user": user}});
    json!({"auth": {"identity": identity, "scope": scope}})
}

/// The scope of a project.
pub fn project(name: &str) -> Value {
    json!({"project": {"name": name, "domain": {"name": "Default"}}})
}
