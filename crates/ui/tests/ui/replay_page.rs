//! The page that a replay serves: the page's files, what the replay tells of itself, and who is kept out.

use std::net::SocketAddr;

use crate::common::{Answer, parse};
use bytes::Bytes;
use placewright_ui::ReplayPageService;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The page of a replay on a port of this machine.
struct Page {
    address: SocketAddr,
    progress: watch::Sender<Bytes>,
}

impl Page {
    async fn start() -> Self {
        let (progress, receiver) = watch::channel(Bytes::from_static(b"{\"state\":\"waiting\"}"));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = ReplayPageService::new(address, receiver).into_server();
        tokio::spawn(async move { server.serve(listener, std::future::pending()).await });
        Self { address, progress }
    }

    /// Sends a request with this line and these headers, each of which ends with a line break.
    async fn send(&self, line: &str, headers: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let head = format!("{line}\r\nConnection: close\r\n{headers}\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        parse(&bytes)
    }

    async fn get(&self, path: &str, headers: &str) -> Answer {
        let headers = format!("Host: {}\r\n{headers}", self.address);
        self.send(&format!("GET {path} HTTP/1.1"), &headers).await
    }
}

#[tokio::test]
async fn the_files_are_those_of_the_page_with_its_protection() {
    let page = Page::start().await;
    for path in [
        "/ui/",
        "/ui/main.js",
        "/ui/style.css",
        "/ui/pages/trace.js",
        "/ui/api/installation",
        "/ui/api/replay",
        "/ui/nothing",
    ] {
        let answer = page.get(path, "").await;
        let policy = answer.header("content-security-policy");
        assert!(policy.contains("trusted-types 'none'"), "{path}: {policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{path}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("cross-origin-resource-policy"), "same-origin");
    }
    let first = page.get("/ui/main.js", "").await;
    assert_eq!(
        (first.status, first.header("cache-control")),
        (200, "no-cache")
    );
    let known = format!("If-None-Match: {}\r\n", first.header("etag"));
    assert_eq!(page.get("/ui/main.js", &known).await.status, 304);
    for path in ["/", "/ui"] {
        let answer = page.get(path, "").await;
        assert_eq!((answer.status, answer.header("location")), (302, "/ui/"));
    }
}

#[tokio::test]
async fn the_page_learns_that_this_is_a_replay_and_how_far_it_is() {
    let page = Page::start().await;
    let installation = page.get("/ui/api/installation", "").await.json();
    assert_eq!(installation["replay"], true);
    let answer = page.get("/ui/api/replay", "").await;
    assert_eq!(answer.header("cache-control"), "no-store");
    assert_eq!(answer.json()["state"], "waiting");
    page.progress
        .send(Bytes::from_static(b"{\"state\":\"ended\"}"))
        .unwrap();
    let answer = page.get("/ui/api/replay", "").await;
    assert_eq!(answer.json()["state"], "ended");
}

#[tokio::test]
async fn there_is_nothing_else_and_nothing_to_change() {
    let page = Page::start().await;
    for path in [
        "/ui/api/session",
        "/ui/api/fleet",
        "/ui/api/metrics",
        "/ui/api/compute/v2.1/servers",
        "/ui/api/replay/",
        "/ui/../Cargo.toml",
        "/metrics",
        "/healthz",
    ] {
        assert_eq!(page.get(path, "").await.status, 404, "{path}");
    }
    let host = format!("Host: {}\r\n", page.address);
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let line = format!("{method} /ui/api/replay HTTP/1.1");
        let answer = page.send(&line, &host).await;
        let allowed = answer.header("allow").to_owned();
        assert_eq!((answer.status, &*allowed), (405, "GET, HEAD"), "{method}");
    }
    let head = page.send("HEAD /ui/api/replay HTTP/1.1", &host).await;
    assert_eq!((head.status, head.body.len()), (200, 0));
}

#[tokio::test]
async fn only_the_own_names_of_the_listener_are_served() {
    let page = Page::start().await;
    let port = page.address.port();
    for host in [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!("LocalHost:{port}"),
    ] {
        let headers = format!("Host: {host}\r\n");
        let answer = page.send("GET /ui/api/replay HTTP/1.1", &headers).await;
        assert_eq!(answer.status, 200, "{host}");
    }
    for host in [
        format!("evil.example:{port}"),
        "evil.example".to_owned(),
        "127.0.0.1".to_owned(),
        "localhost".to_owned(),
        format!("127.0.0.2:{port}"),
        format!("127.0.0.1:{}", port.wrapping_add(1)),
        format!("127.0.0.1:{port}.evil.example"),
        String::new(),
    ] {
        for path in ["/ui/", "/ui/main.js", "/ui/api/replay", "/"] {
            let headers = format!("Host: {host}\r\n");
            let answer = page.send(&format!("GET {path} HTTP/1.1"), &headers).await;
            assert_eq!(answer.status, 403, "{host:?} {path}");
            assert!(!String::from_utf8_lossy(&answer.body).contains("waiting"));
        }
    }
    // A request of HTTP/1.0 may name no host, and one to a proxy names another host before the path.
    let without = page.send("GET /ui/api/replay HTTP/1.0", "").await;
    assert_eq!(without.status, 403);
    let line = "GET http://evil.example/ui/api/replay HTTP/1.1";
    let headers = format!("Host: 127.0.0.1:{port}\r\n");
    assert_eq!(page.send(line, &headers).await.status, 403);
}

#[tokio::test]
async fn requests_that_other_pages_cause_are_refused() {
    let page = Page::start().await;
    let port = page.address.port();
    for origin in [
        "null".to_owned(),
        "http://evil.example".to_owned(),
        format!("https://127.0.0.1:{port}"),
        format!("http://127.0.0.1:{}", port.wrapping_add(1)),
    ] {
        let headers = format!("Origin: {origin}\r\n");
        let answer = page.get("/ui/api/replay", &headers).await;
        assert_eq!(answer.status, 403, "{origin}");
        assert_eq!(answer.header("access-control-allow-origin"), "");
    }
    for site in ["cross-site", "same-site", "none"] {
        let headers = format!("Sec-Fetch-Site: {site}\r\n");
        assert_eq!(page.get("/ui/api/replay", &headers).await.status, 403);
        // The page itself is served: its address may be typed, or a link of another page may lead here.
        assert_eq!(page.get("/ui/", &headers).await.status, 200);
    }
    let own = format!("Origin: http://127.0.0.1:{port}\r\nSec-Fetch-Site: same-origin\r\n");
    assert_eq!(page.get("/ui/api/replay", &own).await.status, 200);
}
