//! Many connections, of one peer and of several; pauses of the process; connections that another
//! server takes over.

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
const SOON: Duration = Duration::from_secs(20);

struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<Option<Arc<dyn Successor>>>,
    task: JoinHandle<Stopped>,
}

async fn run(options: HttpOptions) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    run_on(listener, Vec::new(), options).await
}

async fn run_on(listener: TcpListener, inherited: Vec<TcpStream>, options: HttpOptions) -> Running {
    let server = Server::new(service(options).await);
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let stopped = async { stopped.await.unwrap() };
    let task = tokio::spawn(async move { server.serve_until(listener, inherited, stopped).await });
    Running {
        address,
        stop,
        task,
    }
}

impl Running {
    /// A connection from the address 127.0.0.LAST.
    async fn connect(&self, last: u8) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket
            .bind(SocketAddr::from(([127, 0, 0, last], 0)))
            .unwrap();
        socket.connect(self.address).await.unwrap()
    }

    /// An idle connection, on which one request was answered.
    async fn kept(&self, last: u8) -> TcpStream {
        let mut stream = self.connect(last).await;
        assert!(is_answered(&mut stream).await);
        stream
    }

    /// A connection with a request under way, which waits for its body.
    async fn busy(&self, last: u8) -> TcpStream {
        let mut stream = self.connect(last).await;
        let head = "POST /resource_providers HTTP/1.1\r\nHost: x\r\nX-Auth-Token: admin\r\n\
                    Content-Type: application/json\r\nContent-Length: 14\r\n\
                    Expect: 100-continue\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        assert!(read_some(&mut stream).await.starts_with("HTTP/1.1 100"));
        stream
    }
}

/// Reads what arrives next; empty when the other side has closed or reset.
async fn read_some(stream: &mut TcpStream) -> String {
    let mut buffer = vec![0; 65_536];
    let read = tokio::time::timeout(SOON, stream.read(&mut buffer)).await;
    let length = read.expect("something happens").unwrap_or(0);
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

async fn is_answered(stream: &mut TcpStream) -> bool {
    stream.write_all(ROOT).await.is_ok()
        && read_some(stream).await.starts_with("HTTP/1.1 200 OK\r\n")
}

async fn is_open(stream: &mut TcpStream) -> bool {
    let quiet = tokio::time::timeout(Duration::from_millis(100), stream.readable()).await;
    quiet.is_err()
}

fn limits(connections_max: usize, connections_per_peer_max: usize) -> HttpOptions {
    HttpOptions {
        connections_max,
        connections_per_peer_max,
        ..HttpOptions::default()
    }
}

#[tokio::test]
async fn while_all_connections_are_in_use_further_ones_wait() {
    let running = run(limits(1, 0)).await;
    let mut first = running.busy(1).await;
    let mut second = running.connect(1).await;
    second.write_all(ROOT).await.unwrap();
    assert!(is_open(&mut second).await, "the second waits");
    first.write_all(b"{\"name\":\"one\"}").await.unwrap();
    // The first connection is idle now, and is closed to make room.
    assert!(read_some(&mut second).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_crowd_of_silent_connections_keeps_nobody_out() {
    let running = run(limits(20, 0)).await;
    let mut kept = running.kept(2).await;
    let mut crowd = Vec::new();
    for _ in 0..60 {
        crowd.push(running.connect(1).await);
        // A connection with part of a head counts as idle, too.
        if crowd.len() % 2 == 0 {
            crowd.last_mut().unwrap().write_all(b"GET /").await.unwrap();
        }
    }
    for _ in 0..5 {
        assert!(is_answered(&mut running.connect(3).await).await);
    }
    assert!(
        is_answered(&mut kept).await,
        "another peer's kept one stays"
    );
    assert!(is_open(crowd.last_mut().unwrap()).await, "the newest stay");
    assert!(!is_open(&mut crowd[0]).await, "the oldest made room");
}

#[tokio::test]
async fn one_peer_cannot_take_all() {
    let running = run(limits(10, 2)).await;
    let (_first, _second) = (running.busy(1).await, running.busy(1).await);
    let mut third = running.connect(1).await;
    let refusal = read_some(&mut third).await;
    assert!(refusal.starts_with("HTTP/1.1 503"), "{refusal}");
    assert!(
        refusal.contains("placement.connections_per_peer_max"),
        "{refusal}"
    );
    assert!(is_answered(&mut running.connect(2).await).await);
}

#[tokio::test]
async fn a_new_connection_has_less_time_than_a_kept_one_and_a_head_that_began_its_own() {
    let running = run(HttpOptions {
        first_byte_timeout: Duration::from_millis(300),
        head_timeout: Duration::from_millis(1500),
        ..HttpOptions::default()
    })
    .await;
    let mut kept = running.kept(1).await;
    let mut drips = running.connect(1).await;
    let mut silent = running.connect(1).await;
    let start = std::time::Instant::now();
    drips.write_all(b"GET / HTTP/1.1\r\nX: ").await.unwrap();
    assert_eq!(read_some(&mut silent).await, "");
    assert!(
        start.elapsed() < Duration::from_millis(1500),
        "{:?}",
        start.elapsed()
    );
    while drips.write_all(b"x").await.is_ok() && start.elapsed() < SOON {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(start.elapsed() >= Duration::from_millis(1500));
    assert!(start.elapsed() < SOON);
    assert!(is_answered(&mut kept).await);
}

#[tokio::test]
async fn a_request_has_one_host() {
    let running = run(HttpOptions::default()).await;
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
        let mut stream = running.connect(1).await;
        let request = format!("{head}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = read_some(&mut stream).await;
        assert!(answer.starts_with(status), "{head}: {answer}");
    }
}

/// What is in the sockets after a pause is read and answered: the only thread stands still for
/// longer than a client's time-out, while a client sends its request.
#[tokio::test]
async fn after_a_pause_what_has_arrived_is_read_first() {
    let time = Duration::from_millis(200);
    let running = run(HttpOptions {
        keep_alive_timeout: time,
        body_timeout: time,
        ..HttpOptions::default()
    })
    .await;
    for _ in 0..5 {
        let idle = running.kept(1).await;
        let waiting = running.busy(1).await;
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
                stream.set_read_timeout(Some(SOON)).unwrap();
                let length = stream.read(&mut buffer).unwrap_or(0);
                String::from_utf8_lossy(&buffer[..length]).into_owned()
            })
        });
        // This blocks the server's thread, too.
        std::thread::sleep(time + Duration::from_millis(100));
        let answers = tokio::task::spawn_blocking(|| client.join().unwrap());
        let [idle, waiting] = answers.await.unwrap();
        assert!(idle.starts_with("HTTP/1.1 200"), "{idle:?}");
        // The body was read in time; it is not valid.
        assert!(waiting.starts_with("HTTP/1.1 400"), "{waiting:?}");
    }
}

#[derive(Default)]
struct Next(Mutex<Vec<std::net::TcpStream>>);

impl Successor for Next {
    fn take(&self, connection: std::net::TcpStream) {
        self.0.lock().push(connection);
    }
}

#[tokio::test]
async fn another_server_goes_on_with_kept_connections() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let same = listener.into_std().unwrap();
    let listener = TcpListener::from_std(same.try_clone().unwrap()).unwrap();
    let old = run_on(listener, Vec::new(), HttpOptions::default()).await;
    let mut kept = old.kept(1).await;
    let mut silent = old.connect(1).await;
    let mut busy = old.busy(1).await;
    let mut last = old.busy(1).await;
    let mut once = old.connect(1).await;
    // Waits until the connection is accepted, before the stop.
    while once.peer_addr().is_err() {}
    assert!(is_answered(&mut once).await);

    let next = Arc::new(Next::default());
    assert!(old.stop.send(Some(Arc::clone(&next) as _)).is_ok());
    // A new request waits, and one that is under way is answered first.
    let mut new = TcpStream::connect(old.address).await.unwrap();
    new.write_all(ROOT).await.unwrap();
    busy.write_all(b"{\"name\":\"one\"}").await.unwrap();
    assert!(read_some(&mut busy).await.starts_with("HTTP/1.1 201"));
    let refused = b"{\"name\": falsy";
    last.write_all(refused).await.unwrap();
    assert!(read_some(&mut last).await.starts_with("HTTP/1.1 400"));
    kept.write_all(ROOT).await.unwrap();
    assert_eq!(old.task.await.unwrap(), Stopped::Drained);
    assert!(is_open(&mut kept).await && is_open(&mut silent).await);

    let streams = std::mem::take(&mut *next.0.lock());
    assert_eq!(streams.len(), 5);
    let inherited = streams
        .into_iter()
        .map(|stream| TcpStream::from_std(stream).unwrap());
    let listener = TcpListener::from_std(same).unwrap();
    let running = run_on(listener, inherited.collect(), HttpOptions::default()).await;
    assert!(read_some(&mut kept).await.starts_with("HTTP/1.1 200"));
    assert!(read_some(&mut new).await.starts_with("HTTP/1.1 200"));
    for stream in [&mut silent, &mut busy, &mut last, &mut once] {
        assert!(is_answered(stream).await);
    }
    drop(running.stop);
}
