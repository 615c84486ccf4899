//! Limits of connections, for one peer and for all; time-outs after a pause of the process; connections
//! that another server takes over.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use placewright_api_testing::service;
use placewright_http::{HttpOptions, Server, Stopped, Successor};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const ROOT: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
const DEADLINE: Duration = Duration::from_secs(20);

struct RunningServer {
    address: SocketAddr,
    stop: oneshot::Sender<Option<Arc<dyn Successor>>>,
    task: JoinHandle<Stopped>,
}

async fn start_server(options: HttpOptions) -> RunningServer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    start_server_on(listener, Vec::new(), options).await
}

async fn start_server_on(
    listener: TcpListener,
    inherited: Vec<TcpStream>,
    options: HttpOptions,
) -> RunningServer {
    let http_server = Server::new(service(options).await);
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let stopped = async { stopped.await.unwrap() };
    let task =
        tokio::spawn(async move { http_server.serve_until(listener, inherited, stopped).await });
    RunningServer {
        address,
        stop,
        task,
    }
}

impl RunningServer {
    /// A connection from the address 127.0.0.`last_octet`.
    async fn connect(&self, last_octet: u8) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket
            .bind(SocketAddr::from(([127, 0, 0, last_octet], 0)))
            .unwrap();
        socket.connect(self.address).await.unwrap()
    }

    /// An idle connection, on which one request was answered.
    async fn connect_kept_alive(&self, last_octet: u8) -> TcpStream {
        let mut stream = self.connect(last_octet).await;
        assert!(request_succeeds(&mut stream).await);
        stream
    }

    /// A connection with a request under way, which waits for its body.
    async fn connect_busy(&self, last_octet: u8) -> TcpStream {
        let mut stream = self.connect(last_octet).await;
        let head = "POST /resource_providers HTTP/1.1\r\nHost: x\r\nX-Auth-Token: admin\r\n\
                    Content-Type: application/json\r\nContent-Length: 14\r\n\
                    Expect: 100-continue\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        assert!(read_some(&mut stream).await.starts_with("HTTP/1.1 100"));
        stream
    }
}

/// Reads the bytes that arrive next; empty when the server has closed or reset the connection.
async fn read_some(stream: &mut TcpStream) -> String {
    let mut buffer = vec![0; 65_536];
    let read = tokio::time::timeout(DEADLINE, stream.read(&mut buffer)).await;
    let length = read.expect("something happens").unwrap_or(0);
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

/// Sends a request, and returns whether the response has the status 200.
async fn request_succeeds(stream: &mut TcpStream) -> bool {
    stream.write_all(ROOT).await.is_ok()
        && read_some(stream).await.starts_with("HTTP/1.1 200 OK\r\n")
}

/// Whether the server keeps the connection open, and sends nothing.
async fn is_open(stream: &mut TcpStream) -> bool {
    let next_bytes = tokio::time::timeout(Duration::from_millis(100), stream.readable()).await;
    next_bytes.is_err()
}

/// The options with these limits; 0 connections of one peer stand for no limit.
fn limits(connections_max: usize, connections_per_peer_max: usize) -> HttpOptions {
    HttpOptions {
        connections_max,
        connections_per_peer_max,
        ..HttpOptions::default()
    }
}

#[tokio::test]
async fn while_all_connections_are_in_use_further_ones_wait() {
    let server = start_server(limits(1, 0)).await;
    let mut first = server.connect_busy(1).await;
    let mut second = server.connect(1).await;
    second.write_all(ROOT).await.unwrap();
    assert!(is_open(&mut second).await, "the second waits");
    first.write_all(b"{\"name\":\"one\"}").await.unwrap();
    // The first connection is idle now, so it is closed in favour of the second.
    assert!(read_some(&mut second).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn silent_connections_of_one_peer_do_not_exclude_other_peers() {
    let server = start_server(limits(20, 0)).await;
    let mut kept_alive = server.connect_kept_alive(2).await;
    let mut silent_connections = Vec::new();
    for _ in 0..60 {
        silent_connections.push(server.connect(1).await);
        // A connection with part of a head counts as idle, too.
        if silent_connections.len() % 2 == 0 {
            silent_connections
                .last_mut()
                .unwrap()
                .write_all(b"GET /")
                .await
                .unwrap();
        }
    }
    for _ in 0..5 {
        assert!(request_succeeds(&mut server.connect(3).await).await);
    }
    assert!(
        request_succeeds(&mut kept_alive).await,
        "the other peer's idle connection stays open"
    );
    assert!(
        is_open(silent_connections.last_mut().unwrap()).await,
        "the newest stay"
    );
    assert!(
        !is_open(&mut silent_connections[0]).await,
        "the oldest made room"
    );
}

#[tokio::test]
async fn one_peer_cannot_take_all_connections() {
    let server = start_server(limits(10, 2)).await;
    let (_first, _second) = (server.connect_busy(1).await, server.connect_busy(1).await);
    let mut third = server.connect(1).await;
    let refusal = read_some(&mut third).await;
    assert!(refusal.starts_with("HTTP/1.1 503"), "{refusal}");
    assert!(
        refusal.contains("placement.connections_per_peer_max"),
        "{refusal}"
    );
    assert!(request_succeeds(&mut server.connect(2).await).await);
}

#[tokio::test]
async fn new_connections_idle_ones_and_incomplete_heads_have_their_own_time_outs() {
    let server = start_server(HttpOptions {
        first_byte_timeout: Duration::from_millis(300),
        head_timeout: Duration::from_millis(1500),
        ..HttpOptions::default()
    })
    .await;
    let mut kept_alive = server.connect_kept_alive(1).await;
    let mut slow_head = server.connect(1).await;
    let mut silent = server.connect(1).await;
    let start = std::time::Instant::now();
    slow_head.write_all(b"GET / HTTP/1.1\r\nX: ").await.unwrap();
    assert_eq!(read_some(&mut silent).await, "");
    assert!(
        start.elapsed() < Duration::from_millis(1500),
        "{:?}",
        start.elapsed()
    );
    while slow_head.write_all(b"x").await.is_ok() && start.elapsed() < DEADLINE {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(start.elapsed() >= Duration::from_millis(1500));
    assert!(start.elapsed() < DEADLINE);
    assert!(request_succeeds(&mut kept_alive).await);
}

#[tokio::test]
async fn a_request_has_one_host() {
    let server = start_server(HttpOptions::default()).await;
    for (head, status) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n", "HTTP/1.1 200"),
        ("GET / HTTP/1.1\r\nHost:\r\n", "HTTP/1.1 200"),
        ("GET / HTTP/1.1\r\nHost: [::1]:8778\r\n", "HTTP/1.1 200"),
        ("GET / HTTP/1.0\r\n", "HTTP/1.0 200"),
        ("GET / HTTP/1.1\r\n", "HTTP/1.1 400"),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n", "HTTP/1.1 400"),
        ("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n", "HTTP/1.0 400"),
        ("GET / HTTP/1.1\r\nHost: a/b\r\n", "HTTP/1.1 400"),
        ("GET / HTTP/1.1\r\nHost: a, b\r\n", "HTTP/1.1 400"),
    ] {
        let mut stream = server.connect(1).await;
        let request = format!("{head}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = read_some(&mut stream).await;
        assert!(answer.starts_with(status), "{head}: {answer}");
    }
}

/// The server's only thread is blocked for longer than a client's time-out, while clients send their
/// requests. When the thread goes on, the requests in the sockets are read and answered.
#[tokio::test]
async fn after_a_pause_of_the_process_data_that_arrived_is_read_before_time_outs_apply() {
    let time_out = Duration::from_millis(200);
    let server = start_server(HttpOptions {
        keep_alive_timeout: time_out,
        body_timeout: time_out,
        ..HttpOptions::default()
    })
    .await;
    for _ in 0..5 {
        let idle = server.connect_kept_alive(1).await;
        let waiting = server.connect_busy(1).await;
        let requests: [(TcpStream, &[u8]); 2] = [(idle, ROOT), (waiting, b"{\"name\": true}")];
        let client = std::thread::spawn(move || {
            let mut streams = requests.map(|(stream, bytes)| {
                let mut stream = stream.into_std().unwrap();
                stream.set_nonblocking(false).unwrap();
                std::thread::sleep(Duration::from_millis(50));
                stream.write_all(bytes).unwrap();
                stream
            });
            streams.each_mut().map(|stream| {
                let mut buffer = [0; 1024];
                stream.set_read_timeout(Some(DEADLINE)).unwrap();
                let length = stream.read(&mut buffer).unwrap_or(0);
                String::from_utf8_lossy(&buffer[..length]).into_owned()
            })
        });
        // This blocks the thread of the server, because server and test share one.
        std::thread::sleep(time_out + Duration::from_millis(100));
        let answers = tokio::task::spawn_blocking(|| client.join().unwrap());
        let [idle, waiting] = answers.await.unwrap();
        assert!(idle.starts_with("HTTP/1.1 200"), "{idle:?}");
        // The body was read in time; it is not valid.
        assert!(waiting.starts_with("HTTP/1.1 400"), "{waiting:?}");
    }
}

#[derive(Default)]
struct CollectingSuccessor(Mutex<Vec<std::net::TcpStream>>);

impl Successor for CollectingSuccessor {
    fn take(&self, connection: std::net::TcpStream) {
        self.0.lock().push(connection);
    }
}

#[tokio::test]
async fn another_server_takes_over_idle_connections() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listener_socket = listener.into_std().unwrap();
    let listener = TcpListener::from_std(listener_socket.try_clone().unwrap()).unwrap();
    let old = start_server_on(listener, Vec::new(), HttpOptions::default()).await;
    let mut kept_alive = old.connect_kept_alive(1).await;
    let mut silent = old.connect(1).await;
    let mut busy = old.connect_busy(1).await;
    let mut other_busy = old.connect_busy(1).await;
    let mut answered_once = old.connect(1).await;
    // The response shows that the server has accepted this connection, and those before it, before the stop.
    assert!(request_succeeds(&mut answered_once).await);

    let successor = Arc::new(CollectingSuccessor::default());
    assert!(old.stop.send(Some(Arc::clone(&successor) as _)).is_ok());
    // A new request waits, and one that is under way is answered first.
    let mut new = TcpStream::connect(old.address).await.unwrap();
    new.write_all(ROOT).await.unwrap();
    busy.write_all(b"{\"name\":\"one\"}").await.unwrap();
    assert!(read_some(&mut busy).await.starts_with("HTTP/1.1 201"));
    let malformed = b"{\"name\": falsy";
    other_busy.write_all(malformed).await.unwrap();
    assert!(read_some(&mut other_busy).await.starts_with("HTTP/1.1 400"));
    kept_alive.write_all(ROOT).await.unwrap();
    assert_eq!(old.task.await.unwrap(), Stopped::Drained);
    assert!(is_open(&mut kept_alive).await && is_open(&mut silent).await);

    let streams = std::mem::take(&mut *successor.0.lock());
    // The new connection is still in the queue of the listening socket.
    assert_eq!(streams.len(), 5);
    let inherited = streams
        .into_iter()
        .map(|stream| TcpStream::from_std(stream).unwrap());
    let listener = TcpListener::from_std(listener_socket).unwrap();
    let server = start_server_on(listener, inherited.collect(), HttpOptions::default()).await;
    assert!(read_some(&mut kept_alive).await.starts_with("HTTP/1.1 200"));
    assert!(read_some(&mut new).await.starts_with("HTTP/1.1 200"));
    for stream in [&mut silent, &mut busy, &mut other_busy, &mut answered_once] {
        assert!(request_succeeds(stream).await);
    }
    drop(server.stop);
}
