//! The part of Keystone v3 that validating tokens needs.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// A running Keystone; it ends with the test's runtime.
pub struct FakeKeystone {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    held: watch::Sender<bool>,
    arrived: watch::Sender<usize>,
}

struct State {
    tokens: HashMap<String, Value>,
    password: String,
    own_tokens: HashSet<String>,
    own_lifetime: Duration,
    logins: usize,
    validations: usize,
    last_query: String,
    last_login: Value,
    answer: Option<u16>,
    takes: Duration,
    lists: HashMap<String, Value>,
}

/// A token's body with some members replaced.
pub fn token(changes: Value) -> Value {
    let mut token = json!({
        "methods": ["password"],
        "user": {"id": "u1", "name": "somebody", "domain": {"id": "d1", "name": "Default"}},
        "roles": [{"id": "r1", "name": "admin"}, {"id": "r2", "name": "member"}],
        "issued_at": "2020-01-01T00:00:00.000000Z",
        "expires_at": "2099-01-01T00:00:00.000000Z",
    });
    for (name, value) in changes.as_object().unwrap() {
        token[name] = value.clone();
    }
    json!({"token": token})
}

/// An address on loopback without a listener.
pub async fn closed_url() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

impl FakeKeystone {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                tokens: HashMap::new(),
                password: "sesame".to_owned(),
                own_tokens: HashSet::new(),
                own_lifetime: Duration::from_secs(3600),
                logins: 0,
                validations: 0,
                last_query: String::new(),
                last_login: Value::Null,
                answer: None,
                takes: Duration::ZERO,
                lists: HashMap::new(),
            }),
            held: watch::Sender::new(false),
            arrived: watch::Sender::new(0),
        });
        let serving = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&serving);
                let service = service_fn(move |request| answer(Arc::clone(&shared), request));
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        Self { address, shared }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn know(&self, name: &str, body: Value) {
        self.shared
            .state
            .lock()
            .tokens
            .insert(name.to_owned(), body);
    }

    /// Answers a path below `/v3` with this list, whatever the query is.
    pub fn list(&self, path: &str, body: Value) {
        let path = format!("/v3{path}");
        self.shared.state.lock().lists.insert(path, body);
    }

    pub fn forget(&self, name: &str) {
        self.shared.state.lock().tokens.remove(name);
    }

    pub fn set_password(&self, password: &str) {
        password.clone_into(&mut self.shared.state.lock().password);
    }

    pub fn revoke_logins(&self) {
        self.shared.state.lock().own_tokens.clear();
    }

    pub fn logins_last(&self, lifetime: Duration) {
        self.shared.state.lock().own_lifetime = lifetime;
    }

    pub fn answer_questions_with(&self, status: Option<u16>) {
        self.shared.state.lock().answer = status;
    }

    /// Delays each answer by this time.
    pub fn take(&self, time: Duration) {
        self.shared.state.lock().takes = time;
    }

    /// Delays all answers until they are released.
    pub fn hold(&self) {
        self.shared.held.send_replace(true);
    }

    /// Releases the delayed answers, once a request is waiting.
    pub async fn release_after_waiting(&self) {
        self.shared
            .arrived
            .subscribe()
            .wait_for(|&arrived| arrived > 0)
            .await
            .unwrap();
        self.shared.held.send_replace(false);
    }

    pub fn logins(&self) -> usize {
        self.shared.state.lock().logins
    }

    pub fn validations(&self) -> usize {
        self.shared.state.lock().validations
    }

    pub fn last_query(&self) -> String {
        self.shared.state.lock().last_query.clone()
    }

    pub fn last_login(&self) -> Value {
        self.shared.state.lock().last_login.clone()
    }
}

async fn answer(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    shared.arrived.send_modify(|arrived| *arrived += 1);
    shared
        .held
        .subscribe()
        .wait_for(|&held| !held)
        .await
        .unwrap();
    let takes = shared.state.lock().takes;
    if !takes.is_zero() {
        tokio::time::sleep(takes).await;
    }
    let mut state = shared.state.lock();
    let reply = |status: u16, body: String| {
        Response::builder()
            .status(status)
            .body(Full::from(body))
            .unwrap()
    };
    if parts.method == Method::POST {
        state.logins += 1;
        state.last_login = serde_json::from_slice(&body).unwrap();
        let user = &state.last_login["auth"]["identity"]["password"]["user"];
        if user["password"] != state.password.as_str() {
            return Ok(reply(401, String::new()));
        }
        let own = format!("own-{}", state.logins);
        state.own_tokens.insert(own.clone());
        let end = jiff::Timestamp::try_from(SystemTime::now() + state.own_lifetime).unwrap();
        let body = json!({"token": {"expires_at": end.to_string()}}).to_string();
        let mut answer = reply(201, body);
        answer
            .headers_mut()
            .insert("x-subject-token", own.parse().unwrap());
        return Ok(answer);
    }
    let header = |name: &str| {
        parts
            .headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    };
    state.validations += 1;
    state.last_query = parts.uri.query().unwrap_or_default().to_owned();
    if let Some(status) = state.answer {
        return Ok(reply(status, String::new()));
    }
    if !state.own_tokens.contains(header("x-auth-token")) {
        return Ok(reply(401, String::new()));
    }
    if path != "/v3/auth/tokens" {
        return Ok(match state.lists.get(&path) {
            Some(list) => reply(200, list.to_string()),
            None => reply(404, String::new()),
        });
    }
    Ok(match state.tokens.get(header("x-subject-token")) {
        Some(body) => reply(200, body.to_string()),
        None => reply(404, String::new()),
    })
}
