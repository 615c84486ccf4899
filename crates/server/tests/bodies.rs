//! Bodies hold room from before they are read until their requests are answered: those of one project
//! wait for each other, small ones and those of others for nobody.

mod support;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::Request;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use placewright_server::{ServerOptions, Service};
use support::{Answer, call, service};

const PATH: &str = "/allocations/00000000-0000-4000-8000-00000000000c";
const TIME: Duration = Duration::from_secs(10);

fn options() -> ServerOptions {
    ServerOptions {
        bodies_bytes_max: 128 << 10,
        body_timeout: TIME,
        ..ServerOptions::default()
    }
}

/// A body of so many bytes, of which none comes.
struct Never(u64);

impl HttpBody for Never {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0)
    }
}

/// A request of a project whose body does not come; it ends with its time.
fn stuck(service: &Arc<Service>, bytes: u64) -> tokio::task::JoinHandle<u16> {
    let request = Request::builder()
        .method("PUT")
        .uri(PATH)
        .header("x-auth-token", "mallory:evil")
        .header("x-roles", "admin,service")
        .header("openstack-api-version", "placement latest")
        .header("content-type", "application/json")
        .header("content-length", bytes)
        .body(Never(bytes));
    let service = Arc::clone(service);
    tokio::spawn(async move {
        let request = request.expect("a request");
        service.handle(request, None).await.status().as_u16()
    })
}

/// A body that is there, and says nothing useful.
async fn send(service: &Arc<Service>, token: &str, bytes: usize) -> Answer {
    let call = call("PUT", PATH)
        .header("x-auth-token", token)
        .header("x-roles", "admin,service");
    call.json(" ".repeat(bytes)).send(service).await
}

#[tokio::test(start_paused = true)]
async fn who_finds_no_room_in_time_is_refused_and_others_are_not() {
    let service = service(options()).await;
    let first = stuck(&service, 60 << 10);
    tokio::time::sleep(TIME / 2).await;
    let second = stuck(&service, 60 << 10);
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
    let stuck = stuck(&service, 8 << 20);
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
