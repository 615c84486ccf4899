//! Requests through the dispatcher, to a service whose requests end when a test says so.

use std::path::Path;
use std::sync::atomic::AtomicUsize;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode, Uri};
use placewright_auth::{AuthConfig, Authenticator, Policy, PolicyConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, yield_now};

use super::*;
use crate::{
    Access, Api, Body, Gateway, HttpMetrics, HttpOptions, HttpService, Reply, RequestContext,
    Routed, Running, Server, handle,
};

struct Service {
    gateway: Gateway,
    admission: AdmissionControl,
    /// Each request of the service uses up one permit before it ends, so a test ends a request by adding a permit.
    ends: Semaphore,
    /// Requests that were begun.
    begun: AtomicUsize,
}

impl Api for Service {
    type Version = ();
    const NAME: &'static str = "test";
    type Request = ();

    fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    fn required_access(&self, _: &Parts, _: &mut RequestContext) -> ApiResult<Access> {
        Ok(Access::Identified)
    }

    fn route(
        &self,
        _: &Parts,
        _: Option<&Identity>,
        context: &mut RequestContext,
    ) -> ApiResult<Routed<()>> {
        context.set_route("/work");
        Ok(Routed {
            request: (),
            body_bytes_max: None,
        })
    }

    fn is_costly(&self, (): &(), _: &[u8]) -> bool {
        false
    }

    fn run<'a>(
        self: &'a Arc<Self>,
        (): &'a (),
        _: &'a Uri,
        _: Option<&'a Identity>,
        _: &'a [u8],
    ) -> Running<'a> {
        Box::pin(async {
            self.begun.fetch_add(1, Ordering::SeqCst);
            self.ends.acquire().await.unwrap().forget();
            Ok(Reply::empty(204))
        })
    }

    fn error_body(
        &self,
        _: &Parts,
        error: &ApiError,
        _: &RequestContext,
    ) -> (Vec<u8>, Option<&'static str>) {
        let body = format!("refused: {}", error.detail());
        (body.into_bytes(), Some("text/plain"))
    }
}

/// The indexes of the priority levels in [`AdmissionControl::status`].
const OPERATORS: usize = 0;
const TENANTS: usize = 1;

/// For operators two seats. For tenants six seats for cheap requests, which all requests of this service are, and
/// two for costly ones; one project may take at most half of the six.
fn service() -> Arc<Service> {
    let options = AdmissionOptions {
        is_enabled: true,
        operator_seats: 2,
        tenant_seats: 6,
        tenant_costly_seats: 2,
        queue_max: 2,
        ..AdmissionOptions::default()
    };
    let config = PolicyConfig::default();
    let (policy, _) = Policy::from_text(&config, Path::new("policy.yaml"), "{}").unwrap();
    let mut registry = Registry::default();
    let metrics = HttpMetrics::new(&mut registry);
    let admission = AdmissionControl::new(&options);
    admission.register(&mut registry);
    let gateway = Gateway::new(
        HttpOptions {
            metrics_on_apis: true,
            ..HttpOptions::default()
        },
        Authenticator::new(&AuthConfig::default()).unwrap(),
        policy,
        metrics,
        Arc::new(registry),
    );
    Arc::new(Service {
        gateway: gateway.with_admission(admission.clone()),
        admission,
        ends: Semaphore::new(0),
        begun: AtomicUsize::new(0),
    })
}

impl Service {
    fn waiting(&self) -> usize {
        self.admission
            .status()
            .iter()
            .map(|level| level.waiting)
            .sum()
    }

    fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }
}

/// A request of a member of a project, whose token is `user:project` as `noauth2` has it, or of an administrator, whose
/// token is `admin`.
fn request(token: &str, path: &str) -> Request<Empty<Bytes>> {
    Request::get(path)
        .header("x-auth-token", token)
        .header("x-roles", if token == "admin" { "admin" } else { "member" })
        .body(Empty::new())
        .unwrap()
}

/// Sends a request and lets it go as far as it can.
async fn send(service: &Arc<Service>, token: &str) -> JoinHandle<Response<Body>> {
    let service = Arc::clone(service);
    let request = request(token, "/work");
    // There is no connection, so there is no address of the client.
    let sent = tokio::spawn(async move { handle(&service, request, None).await });
    for _ in 0..10 {
        yield_now().await;
    }
    sent
}

async fn text(response: Response<Body>) -> String {
    let body = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn more_requests_than_may_wait_get_429_in_the_form_of_their_service() {
    let service = service();
    let mut sent = Vec::new();
    for _ in 0..5 {
        sent.push(send(&service, "ann:one").await);
    }
    assert_eq!((service.begun(), service.waiting()), (3, 2));
    let refused = send(&service, "ann:one").await.await.unwrap();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(refused.headers()["content-type"], "text/plain");
    assert_eq!(
        text(refused).await,
        "refused: Try again later: 2 requests of this project wait already, and no more may wait \
         (admission.queue_max)."
    );
    // Another project still has a seat.
    let other = send(&service, "bob:two").await;
    assert_eq!(service.begun(), 4);
    service.ends.add_permits(6);
    for sent in sent.into_iter().chain([other]) {
        assert_eq!(sent.await.unwrap().status(), StatusCode::NO_CONTENT);
    }
    assert_eq!((service.begun(), service.waiting()), (6, 0));
}

#[tokio::test(start_paused = true)]
async fn operators_and_health_are_served_while_the_seats_of_tenants_are_taken() {
    let service = service();
    let mut sent = Vec::new();
    for token in [
        "a:one", "a:one", "a:one", "b:two", "b:two", "b:two", "b:two", "c:three",
    ] {
        sent.push(send(&service, token).await);
    }
    assert_eq!((service.begun(), service.waiting()), (6, 2));
    let operator = send(&service, "admin").await;
    assert_eq!(service.begun(), 7);
    let health = handle(&service, request("a:one", "/healthz"), None).await;
    assert_eq!(health.status(), StatusCode::OK);
    let metrics = text(handle(&service, request("a:one", "/metrics"), None).await).await;
    for line in [
        "placewright_admission_seats{level=\"operators\"} 2",
        "placewright_admission_seats_taken{level=\"operators\"} 1",
        "placewright_admission_seats_taken{level=\"tenants\"} 6",
        "placewright_admission_waiting{level=\"tenants\"} 2",
        "placewright_admission_refused_total{level=\"tenants-costly\"} 0",
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    service.ends.add_permits(9);
    for sent in sent.into_iter().chain([operator]) {
        assert_eq!(sent.await.unwrap().status(), StatusCode::NO_CONTENT);
    }
}

#[tokio::test(start_paused = true)]
async fn operators_wait_for_each_other_in_the_order_in_which_they_came() {
    let service = service();
    let mut sent = Vec::new();
    for _ in 0..4 {
        sent.push(send(&service, "admin").await);
    }
    assert_eq!((service.begun(), service.waiting()), (2, 2));
    // A request whose client has gone away is passed over.
    sent.remove(2).abort();
    for _ in 0..10 {
        yield_now().await;
    }
    assert_eq!(service.waiting(), 1);
    service.ends.add_permits(3);
    for sent in sent {
        assert_eq!(sent.await.unwrap().status(), StatusCode::NO_CONTENT);
    }
    assert_eq!(service.begun(), 3);
    let status = service.admission.status()[OPERATORS];
    assert_eq!((status.taken, status.waiting), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_for_too_long_is_refused_and_not_begun() {
    let service = service();
    let mut sent = Vec::new();
    for _ in 0..3 {
        sent.push(send(&service, "admin").await);
    }
    // No task can run meanwhile, so tokio's paused clock advances to the time-out at once.
    let refused = sent.pop().unwrap().await.unwrap();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    let why = text(refused).await;
    assert!(
        why.contains("within 2000 ms (admission.queue_time_ms)"),
        "{why}"
    );
    assert_eq!((service.begun(), service.waiting()), (2, 0));
    assert_eq!(service.admission.status()[OPERATORS].timed_out, 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_client_has_gone_leaves_its_queue_and_is_not_begun() {
    let service = service();
    let mut sent = Vec::new();
    for _ in 0..5 {
        sent.push(send(&service, "ann:one").await);
    }
    sent.remove(3).abort();
    for _ in 0..10 {
        yield_now().await;
    }
    assert_eq!((service.begun(), service.waiting()), (3, 1));
    // When a running request is dropped, the next one runs.
    sent.remove(0).abort();
    for _ in 0..10 {
        yield_now().await;
    }
    assert_eq!((service.begun(), service.waiting()), (4, 0));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_runs_for_long_gives_its_seat_to_the_next_one() {
    let service = service();
    let mut sent = Vec::new();
    for _ in 0..4 {
        sent.push(send(&service, "ann:one").await);
    }
    assert_eq!((service.begun(), service.waiting()), (3, 1));
    tokio::time::sleep(SEAT_TIME_MAX * 2).await;
    assert_eq!((service.begun(), service.waiting()), (4, 0));
    tokio::time::sleep(SEAT_TIME_MAX * 2).await;
    assert_eq!(service.admission.status()[TENANTS].taken, 0);
    service.ends.add_permits(4);
    for sent in sent {
        assert_eq!(sent.await.unwrap().status(), StatusCode::NO_CONTENT);
    }
    assert_eq!(service.admission.status()[TENANTS].taken, 0);
}

#[tokio::test]
async fn a_request_whose_connection_is_closed_leaves_its_queue() {
    let service = service();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::new(Arc::clone(&service) as Arc<dyn HttpService>);
    tokio::spawn(async move { server.serve(listener, std::future::pending()).await });
    let mut connections = Vec::new();
    for number in 0..5 {
        let mut connection = TcpStream::connect(address).await.unwrap();
        let head =
            "GET /work HTTP/1.1\r\nHost: a\r\nX-Auth-Token: ann:one\r\nX-Roles: member\r\n\r\n";
        connection.write_all(head.as_bytes()).await.unwrap();
        connections.push(connection);
        while service.begun() + service.waiting() <= number {
            yield_now().await;
        }
    }
    assert_eq!((service.begun(), service.waiting()), (3, 2));
    drop(connections.remove(4));
    while service.waiting() > 1 {
        yield_now().await;
    }
    // A client that has closed only its sending direction counts as gone, too, but can still be told that its
    // request was not carried out.
    let mut half_closed = connections.remove(3);
    half_closed.shutdown().await.unwrap();
    let mut response = [0; 12];
    half_closed.read_exact(&mut response).await.unwrap();
    assert_eq!(&response, b"HTTP/1.1 429");
    assert_eq!((service.begun(), service.waiting()), (3, 0));
}
