//! Bodies hold room from before they are read until their requests are answered: those of one project
//! wait for each other, small ones and those of others for nobody.

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
const TIME: Duration = Duration::from_secs(10);

fn options() -> HttpOptions {
    HttpOptions {
        bodies_bytes_max: 256 << 10,
        body_timeout: TIME,
        ..HttpOptions::default()
    }
}

/// A body of so many bytes, of which some come, and no more.
struct Stuck {
    bytes: u64,
    come: usize,
}

impl HttpBody for Stuck {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match std::mem::take(&mut self.come) {
            0 => Poll::Pending,
            come => Poll::Ready(Some(Ok(Frame::data(vec![b' '; come].into())))),
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes)
    }
}

/// A request of a project whose body stops after so many bytes; it ends with its time.
fn stuck(
    service: &Arc<PlacementService>,
    token: &str,
    bytes: u64,
    come: usize,
) -> tokio::task::JoinHandle<u16> {
    let request = Request::builder()
        .method("PUT")
        .uri(PATH)
        .header("x-auth-token", token)
        .header("x-roles", "admin,service")
        .header("openstack-api-version", "placement latest")
        .header("content-type", "application/json")
        .header("content-length", bytes)
        .body(Stuck { bytes, come });
    let service = Arc::clone(service);
    tokio::spawn(async move {
        let request = request.expect("a request");
        service.handle(request, None).await.status().as_u16()
    })
}

/// A body that is there, and says nothing useful.
async fn send(service: &Arc<PlacementService>, token: &str, bytes: usize) -> Answer {
    let call = call("PUT", PATH)
        .header("x-auth-token", token)
        .header("x-roles", "admin,service");
    call.json(" ".repeat(bytes)).send(service).await
}

#[tokio::test(start_paused = true)]
async fn who_finds_no_room_in_time_is_refused_and_others_are_not() {
    let service = service(options()).await;
    let first = stuck(&service, "mallory:evil", 60 << 10, 0);
    tokio::time::sleep(TIME / 2).await;
    let second = stuck(&service, "mallory:evil", 60 << 10, 0);
    tokio::task::yield_now().await;
    let refused = send(&service, "mallory:evil", 60 << 10).await;
    assert_eq!(refused.status, 503);
    let text = refused.json().to_string();
    assert!(text.contains("placement.bodies_bytes_max"), "{text}");
    // Malformed, but read.
    assert_eq!(send(&service, "mallory:evil", 8 << 10).await.status, 400);
    assert_eq!(send(&service, "bob:good", 60 << 10).await.status, 400);
    assert_eq!(first.await.expect("no panic"), 408);
    assert_eq!(second.await.expect("no panic"), 408);
    // Both gave back what they held.
    assert_eq!(send(&service, "mallory:evil", 64 << 10).await.status, 400);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_given_up_makes_room() {
    let service = service(options()).await;
    let stuck = stuck(&service, "mallory:evil", 8 << 20, 0);
    tokio::task::yield_now().await;
    let waits = {
        let service = Arc::clone(&service);
        tokio::spawn(async move { send(&service, "mallory:evil", 60 << 10).await.status })
    };
    tokio::task::yield_now().await;
    assert!(!waits.is_finished());
    stuck.abort();
    assert_eq!(waits.await.expect("no panic"), 400);
}

#[tokio::test(start_paused = true)]
async fn bodies_that_do_not_come_take_nothing_from_others() {
    let service = service(options()).await;
    let projects: Vec<String> = (0..8)
        .map(|number| format!("m{number}:evil{number}"))
        .collect();
    let stuck: Vec<_> = projects
        .iter()
        .map(|token| stuck(&service, token, 8 << 20, 0))
        .collect();
    tokio::task::yield_now().await;
    assert_eq!(send(&service, "bob:good", 60 << 10).await.status, 400);
    for request in stuck {
        assert_eq!(request.await.expect("no panic"), 408);
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_of_two_projects_leave_room_for_others() {
    let service = service(options()).await;
    let mut stopped = Vec::new();
    for token in ["m1:evil1", "m2:evil2"] {
        for _ in 0..4 {
            stopped.push(stuck(&service, token, 8 << 20, 60 << 10));
        }
    }
    tokio::task::yield_now().await;
    assert_eq!(send(&service, "bob:good", 60 << 10).await.status, 400);
    for request in stopped {
        assert!(matches!(request.await.expect("no panic"), 408 | 503));
    }
}
