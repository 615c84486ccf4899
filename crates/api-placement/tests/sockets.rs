//! The service over TCP: slow clients, malformed requests, pipelining, and connections when the server
//! stops.

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

struct RunningServer {
    address: SocketAddr,
    service: Arc<placewright_api_placement::PlacementService>,
    stop: Arc<Notify>,
    task: JoinHandle<Stopped>,
}

async fn start_server(options: HttpOptions) -> RunningServer {
    let service = service(options).await;
    let http_server = Server::new(service.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = Arc::new(Notify::new());
    let stopped = Arc::clone(&stop);
    let task = tokio::spawn(async move { http_server.serve(listener, stopped.notified()).await });
    RunningServer {
        address,
        service,
        stop,
        task,
    }
}

impl RunningServer {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes and reads until the server closes the connection.
    async fn send_and_read_to_end(&self, bytes: &[u8]) -> String {
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

/// Reads the bytes that arrive next, at least the status line of a response.
async fn read_some(stream: &mut TcpStream) -> String {
    let mut buffer = vec![0; 65_536];
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read(&mut buffer)).await;
    let length = read.expect("the server answers").unwrap();
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

const ROOT: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

#[tokio::test]
async fn connections_are_kept_alive_and_requests_may_be_pipelined() {
    let server = start_server(HttpOptions::default()).await;
    let mut stream = server.connect().await;
    for _ in 0..3 {
        stream.write_all(ROOT).await.unwrap();
        assert!(
            read_some(&mut stream)
                .await
                .starts_with("HTTP/1.1 200 OK\r\n")
        );
    }
    let pipelined = [
        ROOT,
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    ]
    .concat();
    let text = server.send_and_read_to_end(&pipelined).await;
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 2);
    let http_1_0 = server.send_and_read_to_end(b"GET / HTTP/1.0\r\n\r\n").await;
    assert!(http_1_0.starts_with("HTTP/1.0 200 OK"), "{http_1_0}");
}

#[tokio::test]
async fn after_a_refusal_the_connection_is_usable_unless_the_response_closes_it() {
    let server = start_server(HttpOptions::default()).await;
    let put = |extra: &str, length: usize| {
        format!(
            "PUT /resource_providers/x HTTP/1.1\r\nHost: x\r\nX-Auth-Token: bob\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n{extra}\r\n"
        )
    };
    // The body arrives late. It is not needed, but it must not be parsed as the next request.
    let mut stream = server.connect().await;
    for _ in 0..3 {
        stream.write_all(put("", 10).as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        stream.write_all(b"0123456789").await.unwrap();
        let answer = read_some(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
        assert!(!answer.contains("connection: close"), "{answer}");
    }
    for (extra, length) in [("", 1 << 30), ("Expect: 100-continue\r\n", 10)] {
        let answer = server
            .send_and_read_to_end(put(extra, length).as_bytes())
            .await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
        assert!(answer.contains("connection: close"), "{answer}");
    }
}

#[tokio::test]
async fn malformed_requests_get_an_error_and_are_disconnected() {
    let options = HttpOptions {
        head_bytes_max: 8192,
        ..HttpOptions::default()
    };
    let server = start_server(options).await;
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
        let text = server.send_and_read_to_end(bytes).await;
        assert!(text.starts_with(&format!("HTTP/1.1 {status}")), "{text}");
        assert!(text.contains("connection: close"), "{text}");
    }
}

#[tokio::test]
async fn slow_clients_are_disconnected_and_others_are_served() {
    let options = HttpOptions {
        first_byte_timeout: Duration::from_millis(1000),
        keep_alive_timeout: Duration::from_millis(1000),
        head_timeout: Duration::from_millis(1000),
        body_timeout: Duration::from_millis(1000),
        ..HttpOptions::default()
    };
    let server = start_server(options).await;
    let mut half_head = server.connect().await;
    half_head.write_all(b"GET / HT").await.unwrap();
    let mut half_body = server.connect().await;
    let head = "POST /resource_providers HTTP/1.1\r\nHost: x\r\nX-Auth-Token: admin\r\n\
                Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"na";
    half_body.write_all(head.as_bytes()).await.unwrap();
    let mut silent = server.connect().await;
    // Meanwhile other requests are answered.
    let mut other = server.connect().await;
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
async fn the_time_out_for_heads_starts_with_each_response_and_does_not_run_before_it() {
    let server = start_server(HttpOptions {
        keep_alive_timeout: Duration::from_millis(1000),
        head_timeout: Duration::from_millis(1000),
        ..HttpOptions::default()
    })
    .await;
    // Each pause is far shorter than the time-out, because the machine may be busy; the sum of the pauses
    // is longer.
    let pause = || tokio::time::sleep(Duration::from_millis(300));
    let mut stream = server.connect().await;
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
    let elapsed = start.elapsed();
    assert!(elapsed >= Duration::from_millis(900), "{elapsed:?}");
    assert!(elapsed < Duration::from_secs(5), "{elapsed:?}");
}

#[tokio::test]
async fn a_client_that_reads_nothing_of_a_response_is_disconnected() {
    let options = HttpOptions {
        write_timeout: Duration::from_millis(300),
        metrics_on_apis: true,
        ..HttpOptions::default()
    };
    let server = start_server(options).await;
    let service = &server.service;
    create_host(service, HOST).await;
    for number in 0..300_u32 {
        let body = format!("{{\"name\": \"{number}{}\"}}", "n".repeat(190));
        call("POST", "/resource_providers")
            .json(body)
            .send(service)
            .await;
    }
    let mut stream = server.connect().await;
    let list = b"GET /resource_providers HTTP/1.1\r\nHost: x\r\nX-Auth-Token: admin\r\n\r\n";
    // More responses than fit into the buffers of both ends.
    for _ in 0..200 {
        if stream.write_all(list).await.is_err() {
            break;
        }
    }
    let all_disconnected = async {
        while metric(&server, "placewright_http_connections ").await != "0" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), all_disconnected)
        .await
        .expect("the connection is cut");
}

async fn metric(server: &RunningServer, name: &str) -> String {
    let text = placewright_api_testing::get("/metrics")
        .send(&server.service)
        .await
        .text;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or("").to_owned()
}

#[tokio::test]
async fn a_stop_waits_for_requests_and_closes_other_connections() {
    let server = start_server(HttpOptions::default()).await;
    let mut idle = server.connect().await;
    idle.write_all(ROOT).await.unwrap();
    assert!(read_some(&mut idle).await.starts_with("HTTP/1.1 200"));
    let mut follower = server.connect().await;
    let follow = b"GET /placewright/v1/changes HTTP/1.1\r\nHost: x\r\nX-Auth-Token: admin\r\n\r\n";
    follower.write_all(follow).await.unwrap();
    assert!(read_some(&mut follower).await.starts_with("HTTP/1.1 200"));
    let mut sending_body = server.connect().await;
    let body = "{\"name\": \"late\"}";
    let head = format!(
        "POST /resource_providers HTTP/1.1\r\nHost: x\r\nX-Auth-Token: admin\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        body.len()
    );
    sending_body.write_all(head.as_bytes()).await.unwrap();
    // The service waits for the body, so this request is under way.
    assert!(
        read_some(&mut sending_body)
            .await
            .starts_with("HTTP/1.1 100")
    );

    server.stop.notify_one();
    assert_eq!(read_to_end(&mut idle).await, "");
    assert!(
        read_to_end(&mut follower).await.ends_with("0\r\n\r\n"),
        "the stream ends properly"
    );
    sending_body.write_all(body.as_bytes()).await.unwrap();
    assert!(
        read_to_end(&mut sending_body)
            .await
            .starts_with("HTTP/1.1 201")
    );
    assert_eq!(server.task.await.unwrap(), Stopped::Drained);
    assert!(
        TcpStream::connect(server.address).await.is_err(),
        "nobody listens any more"
    );
}

#[tokio::test]
async fn a_stop_waits_no_longer_than_the_drain_time_out() {
    let options = HttpOptions {
        drain_timeout: Duration::from_millis(100),
        ..HttpOptions::default()
    };
    let server = start_server(options).await;
    let mut sending_body = server.connect().await;
    let head = "POST /resource_providers HTTP/1.1\r\nHost: x\r\nX-Auth-Token: admin\r\n\
                Content-Type: application/json\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n";
    sending_body.write_all(head.as_bytes()).await.unwrap();
    assert!(
        read_some(&mut sending_body)
            .await
            .starts_with("HTTP/1.1 100")
    );
    server.stop.notify_one();
    assert_eq!(server.task.await.unwrap(), Stopped::TimedOut);
}
