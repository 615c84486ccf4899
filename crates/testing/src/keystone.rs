//! A fake Keystone v3, which has the calls with which roles log in, validate tokens and read lists.

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

/// A fake Keystone, which runs until the test's runtime ends.
pub struct FakeKeystone {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// While true, no request is answered.
    holds_answers: watch::Sender<bool>,
    /// The number of requests so far, answered or not.
    arrived_requests: watch::Sender<usize>,
}

struct State {
    /// The tokens that are valid, each with the response to its validation.
    tokens: HashMap<String, Value>,
    password: String,
    /// The tokens that were issued to logins.
    login_tokens: HashSet<String>,
    login_lifetime: Duration,
    /// How many logins were tried.
    logins: usize,
    /// How many requests were not logins: validations of tokens, and requests for lists.
    validations: usize,
    last_query: String,
    last_login: Value,
    /// The status of all responses except those to logins; `None` while requests are answered as usual.
    error_status: Option<u16>,
    answer_delay: Duration,
    /// The responses to requests for lists, by path.
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
                login_tokens: HashSet::new(),
                login_lifetime: Duration::from_secs(3600),
                logins: 0,
                validations: 0,
                last_query: String::new(),
                last_login: Value::Null,
                error_status: None,
                answer_delay: Duration::ZERO,
                lists: HashMap::new(),
            }),
            holds_answers: watch::Sender::new(false),
            arrived_requests: watch::Sender::new(0),
        });
        let serving = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&serving);
                let service = service_fn(move |request| respond(Arc::clone(&shared), request));
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

    /// Accepts this token from now on. `body` is the response to its validation.
    pub fn add_token(&self, name: &str, body: Value) {
        self.shared
            .state
            .lock()
            .tokens
            .insert(name.to_owned(), body);
    }

    /// Answers requests of a path below `/v3` with this list, whatever their query is.
    pub fn set_list(&self, path: &str, body: Value) {
        let path = format!("/v3{path}");
        self.shared.state.lock().lists.insert(path, body);
    }

    /// Does not validate this token any more.
    pub fn remove_token(&self, name: &str) {
        self.shared.state.lock().tokens.remove(name);
    }

    /// Accepts logins with this password only.
    pub fn set_password(&self, password: &str) {
        password.clone_into(&mut self.shared.state.lock().password);
    }

    /// Makes all tokens from logins invalid.
    pub fn revoke_logins(&self) {
        self.shared.state.lock().login_tokens.clear();
    }

    /// Sets for how long a token from a login is valid.
    pub fn set_login_lifetime(&self, lifetime: Duration) {
        self.shared.state.lock().login_lifetime = lifetime;
    }

    /// Answers all requests except logins with this status and an empty body; `None` answers them as usual.
    pub fn set_error_status(&self, status: Option<u16>) {
        self.shared.state.lock().error_status = status;
    }

    /// Delays each answer by this time.
    pub fn set_answer_delay(&self, time: Duration) {
        self.shared.state.lock().answer_delay = time;
    }

    /// Holds all answers back until [`Self::release_answers_after_a_request`].
    pub fn hold_answers(&self) {
        self.shared.holds_answers.send_replace(true);
    }

    /// Waits until a request has arrived, then releases the answers that are held back.
    pub async fn release_answers_after_a_request(&self) {
        self.shared
            .arrived_requests
            .subscribe()
            .wait_for(|&count| count > 0)
            .await
            .unwrap();
        self.shared.holds_answers.send_replace(false);
    }

    pub fn logins(&self) -> usize {
        self.shared.state.lock().logins
    }

    /// The number of requests that are not logins.
    pub fn validations(&self) -> usize {
        self.shared.state.lock().validations
    }

    /// The query of the latest request that is not a login, without the question mark.
    pub fn last_query(&self) -> String {
        self.shared.state.lock().last_query.clone()
    }

    /// The body of the latest login.
    pub fn last_login(&self) -> Value {
        self.shared.state.lock().last_login.clone()
    }
}

async fn respond(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    shared.arrived_requests.send_modify(|count| *count += 1);
    shared
        .holds_answers
        .subscribe()
        .wait_for(|&holds| !holds)
        .await
        .unwrap();
    let answer_delay = shared.state.lock().answer_delay;
    if !answer_delay.is_zero() {
        tokio::time::sleep(answer_delay).await;
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
        let login_token = format!("own-{}", state.logins);
        state.login_tokens.insert(login_token.clone());
        let expires_at =
            jiff::Timestamp::try_from(SystemTime::now() + state.login_lifetime).unwrap();
        let body = json!({"token": {"expires_at": expires_at.to_string()}}).to_string();
        let mut response = reply(201, body);
        response
            .headers_mut()
            .insert("x-subject-token", login_token.parse().unwrap());
        return Ok(response);
    }
    let header = |name: &str| {
        parts
            .headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    };
    state.validations += 1;
    state.last_query = parts.uri.query().unwrap_or_default().to_owned();
    if let Some(status) = state.error_status {
        return Ok(reply(status, String::new()));
    }
    if !state.login_tokens.contains(header("x-auth-token")) {
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
