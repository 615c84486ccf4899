//! A collector of traces that keeps the spans which it is sent.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long a test waits for spans.
const PATIENCE: Duration = Duration::from_secs(60);

/// A collector that takes OTLP over HTTP, and keeps the spans.
pub(crate) struct Collector {
    address: SocketAddr,
    pub(crate) spans: Arc<Mutex<Vec<Value>>>,
}

impl Collector {
    pub(crate) fn start() -> Self {
        Self::start_with(Vec::new())
    }

    /// A collector that answers the first requests with these statuses, and keeps nothing of them.
    pub(crate) fn start_with(refusals: Vec<&'static str>) -> Self {
        let refusals = Arc::new(Mutex::new(VecDeque::from(refusals)));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let spans = Arc::new(Mutex::new(Vec::new()));
        let received = Arc::clone(&spans);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (received, refusals) = (Arc::clone(&received), Arc::clone(&refusals));
                thread::spawn(move || {
                    take_all(&mut BufReader::new(client.unwrap()), &received, &refusals);
                });
            }
        });
        Self { address, spans }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits until the spans of a trace fulfil a condition, and returns them by name.
    pub(crate) fn wait_for(&self, trace: &str, holds: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let start = Instant::now();
        loop {
            let spans = self.spans.lock().unwrap().clone();
            let of_trace = |span: &Value| span["traceId"] == trace;
            let spans: Vec<Value> = spans.into_iter().filter(of_trace).collect();
            if holds(&spans) {
                return spans;
            }
            assert!(start.elapsed() < PATIENCE, "{spans:#?}");
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Takes the requests of a connection.
fn take_all(
    client: &mut BufReader<TcpStream>,
    received: &Mutex<Vec<Value>>,
    refusals: &Mutex<VecDeque<&'static str>>,
) {
    loop {
        let (mut length, mut line) = (0, String::new());
        if client.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        assert_eq!(line.trim(), "POST /v1/traces HTTP/1.1");
        loop {
            line.clear();
            client.read_line(&mut line).unwrap();
            let (name, value) = line.split_once(": ").unwrap_or_default();
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        client.read_exact(&mut body).unwrap();
        if let Some(status) = refusals.lock().unwrap().pop_front() {
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
            client.get_mut().write_all(answer.as_bytes()).unwrap();
            continue;
        }
        let body: Value = serde_json::from_slice(&body).unwrap();
        for resource in body["resourceSpans"].as_array().unwrap() {
            let attributes = resource["resource"]["attributes"].to_string();
            assert!(attributes.contains("service.name"), "{attributes}");
            for scope in resource["scopeSpans"].as_array().unwrap() {
                let spans = scope["spans"].as_array().unwrap();
                received.lock().unwrap().extend(spans.iter().cloned());
            }
        }
        let answer =
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
        client.get_mut().write_all(answer.as_bytes()).unwrap();
    }
}
