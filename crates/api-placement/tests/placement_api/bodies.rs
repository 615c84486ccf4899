//! A body reserves memory before it is read, and releases it when its request is answered. Large bodies
//! of one project wait for each other; small bodies, and those of other projects, do not wait.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::Request;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use placewright_api_placement::PlacementService;
use placewright_api_testing::{Answer, call, service};
use placewright_http::HttpOptions;

const PATH: &str = "/allocations/00000000-0000-4000-8000-00000000000c";
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

fn options() -> HttpOptions {
    HttpOptions {
        // One project may hold a quarter of this, 64 KiB.
        bodies_bytes_max: 256 << 10,
        body_timeout: BODY_TIMEOUT,
        ..HttpOptions::default()
    }
}

/// A request body that announces `bytes`, sends only `sent_bytes`, and then waits.
struct StuckBody {
    bytes: u64,
    sent_bytes: usize,
}

impl HttpBody for StuckBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match std::mem::take(&mut self.sent_bytes) {
            0 => Poll::Pending,
            sent_bytes => Poll::Ready(Some(Ok(Frame::data(vec![b' '; sent_bytes].into())))),
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes)
    }
}

/// Sends a request with a stuck body, which ends with the time-out for bodies. The token is
/// `user:project`.
fn send_stuck_body(
    service: &Arc<PlacementService>,
    token: &str,
    bytes: u64,
    sent_bytes: usize,
) -> tokio::task::JoinHandle<u16> {
    let request = Request::builder()
        .method("PUT")
        .uri(PATH)
        .header("x-auth-token", token)
        .header("x-roles", "admin,service")
        .header("openstack-api-version", "placement latest")
        .header("content-type", "application/json")
        .header("content-length", bytes)
        .body(StuckBody { bytes, sent_bytes });
    let service = Arc::clone(service);
    tokio::spawn(async move {
        let request = request.expect("a request");
        // There is no connection, so there is no address of the client.
        placewright_http::handle(&service, request, None)
            .await
            .status()
            .as_u16()
    })
}

/// Sends a request with a complete body of white space, which is refused as malformed (400).
async fn send_blank(service: &Arc<PlacementService>, token: &str, bytes: usize) -> Answer {
    let call = call("PUT", PATH)
        .header("x-auth-token", token)
        .header("x-roles", "admin,service");
    call.json(" ".repeat(bytes)).send(service).await
}

#[tokio::test(start_paused = true)]
async fn a_body_without_memory_in_time_is_refused_and_other_projects_are_not() {
    let service = service(options()).await;
    let first = send_stuck_body(&service, "mallory:evil", 60 << 10, 0);
    tokio::time::sleep(BODY_TIMEOUT / 2).await;
    let second = send_stuck_body(&service, "mallory:evil", 60 << 10, 0);
    tokio::task::yield_now().await;
    let refused = send_blank(&service, "mallory:evil", 60 << 10).await;
    assert_eq!(refused.status, 503);
    let text = refused.json().to_string();
    assert!(text.contains("placement.bodies_bytes_max"), "{text}");
    // A small body is read without waiting, and is malformed.
    assert_eq!(
        send_blank(&service, "mallory:evil", 8 << 10).await.status,
        400
    );
    assert_eq!(send_blank(&service, "bob:good", 60 << 10).await.status, 400);
    assert_eq!(first.await.expect("no panic"), 408);
    assert_eq!(second.await.expect("no panic"), 408);
    // Both requests released their memory.
    assert_eq!(
        send_blank(&service, "mallory:evil", 64 << 10).await.status,
        400
    );
}

#[tokio::test(start_paused = true)]
async fn a_dropped_request_releases_its_memory() {
    let service = service(options()).await;
    let stuck = send_stuck_body(&service, "mallory:evil", 8 << 20, 0);
    tokio::task::yield_now().await;
    let waiting = {
        let service = Arc::clone(&service);
        tokio::spawn(async move { send_blank(&service, "mallory:evil", 60 << 10).await.status })
    };
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    stuck.abort();
    assert_eq!(waiting.await.expect("no panic"), 400);
}

#[tokio::test(start_paused = true)]
async fn bodies_that_are_not_sent_take_no_memory_from_other_projects() {
    let service = service(options()).await;
    let projects: Vec<String> = (0..8)
        .map(|number| format!("m{number}:evil{number}"))
        .collect();
    let stuck: Vec<_> = projects
        .iter()
        .map(|token| send_stuck_body(&service, token, 8 << 20, 0))
        .collect();
    tokio::task::yield_now().await;
    assert_eq!(send_blank(&service, "bob:good", 60 << 10).await.status, 400);
    for request in stuck {
        assert_eq!(request.await.expect("no panic"), 408);
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_of_two_projects_leave_memory_for_others() {
    let service = service(options()).await;
    let mut stopped = Vec::new();
    for token in ["m1:evil1", "m2:evil2"] {
        for _ in 0..4 {
            stopped.push(send_stuck_body(&service, token, 8 << 20, 60 << 10));
        }
    }
    tokio::task::yield_now().await;
    assert_eq!(send_blank(&service, "bob:good", 60 << 10).await.status, 400);
    for request in stopped {
        assert!(matches!(request.await.expect("no panic"), 408 | 503));
    }
}
