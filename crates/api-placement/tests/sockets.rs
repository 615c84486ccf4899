//! The service over TCP: clients that are slow, broken, many, or connected when the server stops.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use placewright_api_testing::{HOST, call, create_host, service};
use placewright_http::{HttpOptions, Server, Stopped};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

struct Running {
    address: SocketAddr,
    service: Arc<placewright_api_placement::PlacementService>,
    stop: Arc<Notify>,
    task: JoinHandle<Stopped>,
}

async fn run(options: HttpOptions) -> Running {
    let service = service(options).await;
    let server = Server::new(service.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop);
    let task = tokio::spawn(async move { server.serve(listener, stopped.notified()).await });
    Running {
        address,
        service,
        stop,
        task,
    }
}

impl Running {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes and reads until the server closes the connection.
    async fn talk(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes).await.unwrap();
        read_to_end(&mut stream).await
    }
}

async fn read_to_end(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut text)).await;
    end.expect("the server closes").unwrap();
    String::from_utf8_lossy(&text).into_owned()
}

/// Reads one response; its body does not matter.
async fn read_some(stream: &mut TcpStream) -> String {
    let mut buffer = vec![0; 65_536];
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read(&mut buffer)).await;
    let length = read.expect("the server answers").unwrap();
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

const ROOT: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

#[tokio::test]
async fn connections_are_kept_and_requests_may_follow_each_other_at_once() {
    let running = run(HttpOptions::default()).await;
    let mut stream = running.connect().await;
    for _ in 0..3 {
        stream.write_all(ROOT).await.unwrap();
        assert!(
            read_some(&mut stream)
                .await
                .starts_with("HTTP/1.1 200 OK\r\n")
        );
    }
    let two = [
        ROOT,
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    ]
    .concat();
    let text = running.talk(&two).await;
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 2);
    let old = running.talk(b"GET / HTTP/1.0\r\n\r\n").await;
    assert!(old.starts_with("HTTP/1.0 200 OK"), "{old}");
}

#[tokio::test]
async fn a_refused_request_leaves_the_connection_usable_unless_it_says_otherwise() {
    let running = run(HttpOptions::default()).await;
    let put = |extra: &str, length: usize| {
        format!(
            "PUT /resource_providers/x HTTP/1.1\r\nHost: x\r\nX-Auth-Token: bob\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n{extra}\r\n"
        )
    };
    // The body arrives late: it is not needed, but it must not be taken for the next request.
    let mut stream = running.connect().await;
    for _ in 0..3 {
        stream.write_all(put("", 10).as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        stream.write_all(b"0123456789").await.unwrap();
        let answer = read_some(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
        assert!(!answer.contains("connection: close"), "{answer}");
    }
    for (extra, length) in [("", 1 << 30), ("Expect: 100-continue\r\n", 10)] {
        let answer = running.talk(put(extra, length).as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
        assert!(answer.contains("connection: close"), "{answer}");
    }
}

#[tokio::test]
async fn broken_requests_are_told_so_and_cut() {
    let options = HttpOptions {
        head_bytes_max: 8192,
        ..HttpOptions::default()
    };
    let running = run(options).await;
    let long = format!(
        "GET / HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n",
        "x".repeat(1 << 20)
    );
    for (bytes, status) in [
        (&b"GARBAGE\r\n\r\n"[..], "400"),
        (
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: hi mom\r\n\r\n{\"a\": 1}",
            "400",
        ),
        (
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
            "400",
        ),
        (long.as_bytes(), "431"),
    ] {
        let text = running.talk(bytes).await;
        assert!(text.starts_with(&format!("HTTP/1.1 {status}")), "{text}");
        assert!(text.contains("connection: close"), "{text}");
    }
}

#[tokio::test]
async fn slow_clients_are_cut_and_harm_nobody() {
    let options = HttpOptions {
        first_byte_timeout: Duration::from_millis(1000),
        keep_alive_timeout: Duration::from_millis(1000),
        head_timeout: Duration::from_millis(1000),
        body_timeout: Duration::from_millis(1000),
        ..HttpOptions::default()
    };
    let running = run(options).await;
    let mut half_head = running.connect().await;
    half_head.write_all(b"GET / HT").await.unwrap();
    let mut half_body = running.connect().await;
    let head = "POST /resource_providers HTTP/1.1\r\nHost: x\r\nX-Auth-Token: admin\r\n\
                Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"na";
    half_body.write_all(head.as_bytes()).await.unwrap();
    let mut silent = running.connect().await;
    // Meanwhile other requests are answered.
    let mut other = running.connect().await;
    other.write_all(ROOT).await.unwrap();
    assert!(read_some(&mut other).await.starts_with("HTTP/1.1 200"));
    assert!(
        read_to_end(&mut half_body)
            .await
            .starts_with("HTTP/1.1 408")
    );
    read_to_end(&mut half_head).await;
    read_to_end(&mut silent).await;
    // An idle connection is closed, too.
    read_to_end(&mut other).await;
}

#[tokio::test]
async fn the_time_for_a_head_starts_anew_with_each_answer_and_stands_still_before_it() {
    let running = run(HttpOptions {
        keep_alive_timeout: Duration::from_millis(1000),
        head_timeout: Duration::from_millis(1000),
        ..HttpOptions::default()
    })
    .await;
    // Each pause is far shorter than the limit, for a machine that is busy; together they are
    // longer.
    let pause = || tokio::time::sleep(Duration::from_millis(300));
    let mut stream = running.connect().await;
    for _ in 0..4 {
        pause().await;
        stream.write_all(ROOT).await.unwrap();
        assert!(read_some(&mut stream).await.starts_with("HTTP/1.1 200"));
    }
    let body = b"{\"name\": \"late\"}";
    let head = format!(
        "POST /resource_providers HTTP/1.1\r\nHost: x\r\nX-Auth-Token: admin\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    for _ in 0..4 {
        pause().await;
    }
    stream.write_all(body).await.unwrap();
    assert!(read_some(&mut stream).await.starts_with("HTTP/1.1 201"));
    // A head that arrives byte by byte has the same time-out as one that does not arrive.
    let start = std::time::Instant::now();
    while stream.write_all(b"G").await.is_ok() && start.elapsed() < Duration::from_secs(10) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(900), "{took:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[tokio::test]
async fn a_client_that_takes_nothing_of_an_answer_is_cut() {
    let options = HttpOptions {
        write_timeout: Duration::from_millis(300),
        metrics_on_apis: true,
        ..HttpOptions::default()
    };
    let running = run(options).await;
    let service = &running.service;
    create_host(service, HOST).await;
    for number in 0..300_u32 {
        let body = format!("{{\"name\": \"{number}{}\"}}", "n".repeat(190));
        call("POST", "/resource_providers")
            .json(body)
            .send(service)
            .await;
    }
    let mut stream = running.connect().await;
    let list = b"GET /resource_providers HTTP/1.1\r\nHost: x\r\nX-Auth-Token: admin\r\n\r\n";
    // More responses than fit into the buffers of both ends.
    for _ in 0..200 {
        if stream.write_all(list).await.is_err() {
            break;
        }
    }
    let cut = async {
        while metric(&running, "placewright_http_connections ").await != "0" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), cut)
        .await
        .expect("the connection is cut");
}

async fn metric(running: &Running, name: &str) -> String {
    let text = placewright_api_testing::get("/metrics")
        .send(&running.service)
        .await
        .text;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or("").to_owned()
}

#[tokio::test]
async fn a_stop_lets_requests_end_and_closes_the_rest() {
    let running = run(HttpOptions::default()).await;
    let mut idle = running.connect().await;
    idle.write_all(ROOT).await.unwrap();
    assert!(read_some(&mut idle).await.starts_with("HTTP/1.1 200"));
    let mut following = running.connect().await;
    let follow = b"GET /placewright/v1/changes HTTP/1.1\r\nHost: x\r\nX-Auth-Token: admin\r\n\r\n";
    following.write_all(follow).await.unwrap();
    assert!(read_some(&mut following).await.starts_with("HTTP/1.1 200"));
    let mut sending = running.connect().await;
    let body = "{\"name\": \"late\"}";
    let head = format!(
        "POST /resource_providers HTTP/1.1\r\nHost: x\r\nX-Auth-Token: admin\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        body.len()
    );
    sending.write_all(head.as_bytes()).await.unwrap();
    // The service waits for the body, so this request is under way.
    assert!(read_some(&mut sending).await.starts_with("HTTP/1.1 100"));

    running.stop.notify_one();
    assert_eq!(read_to_end(&mut idle).await, "");
    assert!(
        read_to_end(&mut following).await.ends_with("0\r\n\r\n"),
        "the stream ends properly"
    );
    sending.write_all(body.as_bytes()).await.unwrap();
    assert!(read_to_end(&mut sending).await.starts_with("HTTP/1.1 201"));
    assert_eq!(running.task.await.unwrap(), Stopped::Drained);
    assert!(
        TcpStream::connect(running.address).await.is_err(),
        "nobody listens any more"
    );
}

#[tokio::test]
async fn a_stop_does_not_wait_for_ever() {
    let options = HttpOptions {
        drain_timeout: Duration::from_millis(100),
        ..HttpOptions::default()
    };
    let running = run(options).await;
    let mut sending = running.connect().await;
    let head = "POST /resource_providers HTTP/1.1\r\nHost: x\r\nX-Auth-Token: admin\r\n\
                Content-Type: application/json\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n";
    sending.write_all(head.as_bytes()).await.unwrap();
    assert!(read_some(&mut sending).await.starts_with("HTTP/1.1 100"));
    running.stop.notify_one();
    assert_eq!(running.task.await.unwrap(), Stopped::TimedOut);
}
