//! Traces: a collector receives one connected trace for a request for servers, with the trace id of its caller.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::collector::Collector;
use crate::common::{free_address, placewright, run};
use serde_json::{Value, json};

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The trace, and the span in it, that the caller of the test names in the header `traceparent`.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";
const OTHER_TRACE: &str = "5bf92f3577b34da6a3ce929d0e0e4736";
/// What clients send, and no span may have: a name, a password, user data, metadata.
const PRIVATE: [&str; 4] = [
    "private-name",
    "private-word",
    "cHJpdmF0ZQ==",
    "private-value",
];

/// A process that is killed in the end.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    /// Sends SIGTERM, and waits until the process has ended, which must not take long.
    fn terminate(&mut self) {
        let start = Instant::now();
        let kill = Command::new("kill").arg(self.0.id().to_string()).status();
        assert!(kill.unwrap().success());
        assert!(self.0.wait().unwrap().success());
        assert!(
            start.elapsed() < Duration::from_secs(15),
            "it took {:?}",
            start.elapsed()
        );
    }

    /// Starts a command and waits for a line of its log.
    fn start(mut command: Command, ready: &str) -> Self {
        let mut child = command
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut log = String::new();
        let is_ready = lines.any(|line| {
            let line = line.unwrap();
            log = format!("{log}{line}\n");
            line.contains(ready)
        });
        assert!(is_ready, "{log}");
        thread::spawn(move || lines.for_each(drop));
        Self(child)
    }
}

/// Sends a request to the compute API.
fn ask(compute: SocketAddr, method: &str, path: &str, headers: &str, body: &Value) -> Value {
    let mut stream = TcpStream::connect(compute).unwrap();
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nX-Auth-Token: admin\r\n\
         OpenStack-API-Version: compute 2.96\r\nContent-Type: application/json\r\n{headers}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_default()
}

fn make_flavor(compute: SocketAddr) {
    let flavor =
        json!({"flavor": {"id": "small", "name": "small", "vcpus": 1, "ram": 64, "disk": 1}});
    ask(compute, "POST", "/v2.1/flavors", "", &flavor);
}

/// Asks for servers; returns the UUID of the first one.
fn make_servers(compute: SocketAddr, count: u32, traceparent: Option<&str>) -> String {
    let server = json!({"server": {"name": PRIVATE[0], "flavorRef": "small", "networks": "none",
        "adminPass": PRIVATE[1], "user_data": PRIVATE[2], "metadata": {"key": PRIVATE[3]},
        "imageRef": "70ace000-0000-4000-8000-000000000001", "min_count": count, "max_count": count}});
    let header = traceparent.map(|text| format!("traceparent: {text}\r\n"));
    let answer = ask(
        compute,
        "POST",
        "/v2.1/servers",
        &header.unwrap_or_default(),
        &server,
    );
    answer["server"]["id"]
        .as_str()
        .unwrap_or_else(|| panic!("{answer}"))
        .to_owned()
}

/// Waits until the compute API lists a host that is up. An agent is ready before its cell has told the control plane.
fn wait_for_host(compute: SocketAddr) {
    let start = Instant::now();
    let hosts = || {
        let path = "/v2.1/os-hypervisors/detail";
        ask(compute, "GET", path, "", &Value::Null)["hypervisors"].take()
    };
    while hosts()[0]["state"] != "up" {
        assert!(start.elapsed() < PATIENCE, "no host is up");
        thread::sleep(Duration::from_millis(30));
    }
}

fn wait_for_active(compute: SocketAddr, server: &str) {
    let start = Instant::now();
    while ask(
        compute,
        "GET",
        &format!("/v2.1/servers/{server}"),
        "",
        &Value::Null,
    )["server"]["status"]
        != "ACTIVE"
    {
        assert!(start.elapsed() < PATIENCE, "the server is not active");
        thread::sleep(Duration::from_millis(30));
    }
}

fn names(spans: &[Value]) -> BTreeMap<&str, usize> {
    let mut names = BTreeMap::new();
    for span in spans {
        *names.entry(name(span)).or_default() += 1;
    }
    names
}

/// The name of a span, without the prefix of the path of the API.
fn name(span: &Value) -> &str {
    match span["name"].as_str().unwrap() {
        name if name.starts_with("POST /") && name.ends_with("/servers") => "POST /servers",
        name => name,
    }
}

fn has_build(spans: &[Value], servers: usize) -> bool {
    let names = names(spans);
    ["build in the cell", "build on the host"]
        .iter()
        .all(|name| names.get(name) == Some(&servers))
}

/// The spans are one tree below the caller's span, and none begins before its parent.
fn assert_connected(spans: &[Value], servers: usize) {
    let expected = BTreeMap::from([
        ("POST /servers", 1),
        ("rank hosts", 1),
        ("claim hosts", 1),
        ("build in the cell", servers),
        ("build on the host", servers),
    ]);
    assert_eq!(names(spans), expected, "{spans:#?}");
    let id = |span: &Value, key: &str| span[key].as_str().unwrap().to_owned();
    let by_id: BTreeMap<String, &Value> = spans
        .iter()
        .map(|span| (id(span, "spanId"), span))
        .collect();
    assert_eq!(by_id.len(), spans.len());
    let time = |span: &Value, key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
    let mut parents = BTreeSet::new();
    for span in spans {
        assert!(
            time(span, "startTimeUnixNano") <= time(span, "endTimeUnixNano"),
            "{span}"
        );
        assert_eq!(span["status"], json!({}), "{span}");
        let parent = id(span, "parentSpanId");
        let Some(parent) = by_id.get(&parent) else {
            assert_eq!(parent, CALLER, "{span}");
            // 2 is the kind of a span in which a server handles a request.
            assert_eq!((name(span), &span["kind"]), ("POST /servers", &json!(2)));
            continue;
        };
        parents.insert(name(parent));
        // The times of cells are in microseconds.
        assert!(
            time(parent, "startTimeUnixNano") <= time(span, "startTimeUnixNano") + 1000,
            "{span}"
        );
        let expected = match name(span) {
            "build on the host" => "build in the cell",
            _ => "POST /servers",
        };
        assert_eq!(name(parent), expected, "{span}");
    }
    assert_eq!(
        parents,
        BTreeSet::from(["POST /servers", "build in the cell"])
    );
}

/// Starts an installation; returns also where its metrics are.
fn up(folder: &Path, compute: SocketAddr, flags: &[&str]) -> (Process, SocketAddr) {
    let mut command = placewright(&["up", "--config", "/dev/null", "--auth-strategy", "noauth2"]);
    command
        .args(["--hosts", "4", "--cells", "2", "--folder"])
        .arg(folder)
        .args(flags);
    command.arg(format!("--compute-listen={compute}"));
    for service in [
        "placement",
        "scheduler",
        "control",
        "ui",
        "image",
        "network",
    ] {
        command.arg(format!("--{service}-listen={}", free_address()));
    }
    let health = free_address();
    command.arg(format!("--health-listen={health}"));
    (Process::start(command, " up hosts="), health)
}

#[test]
fn one_trace_leads_from_the_call_to_the_running_servers() {
    let folder = tempfile::tempdir().unwrap();
    let (collector, compute) = (Collector::start(), free_address());
    let flags = [
        "--traces-otlp-url",
        &*collector.url(),
        "--traces-share",
        "0",
    ];
    let (mut up, _) = up(folder.path(), compute, &flags);
    make_flavor(compute);
    // The caller of the first request does not record its trace, so Placewright does not either. The headers of the
    // other requests are not valid, so the share of requests that are recorded applies: none of them is.
    for not_recorded in [
        &*format!("00-{TRACE}-{CALLER}-00"),
        &format!("00-{TRACE}-{CALLER}-01-more"),
        &format!("00-{TRACE}-0000000000000000-01"),
        &format!("00-{TRACE}-{CALLER}-01\r\ntraceparent: 00-{TRACE}-{CALLER}-01"),
        "00-\u{fffd}",
        &"0".repeat(4000),
    ] {
        make_servers(compute, 1, Some(not_recorded));
    }
    wait_for_active(compute, &make_servers(compute, 1, None));

    make_servers(compute, 3, Some(&format!("00-{TRACE}-{CALLER}-01")));
    let spans = collector.wait_for(TRACE, |spans| has_build(spans, 3) && spans.len() >= 9);
    assert_connected(&spans, 3);
    // Spans are sent in their order: those of the requests above would have come first.
    let all = collector.spans.lock().unwrap().len();
    assert_eq!(all, 9, "spans of requests that are not recorded");

    // A process that ends sends what it has.
    make_servers(compute, 1, Some(&format!("00-{OTHER_TRACE}-{CALLER}-01")));
    up.terminate();
    let all = json!(*collector.spans.lock().unwrap()).to_string();
    assert!(all.contains(OTHER_TRACE), "the last spans are missing");
    for private in PRIVATE {
        assert!(!all.contains(private), "{private} in {all}");
    }
}

#[test]
fn roles_in_processes_of_their_own_make_one_trace() {
    let folder = tempfile::tempdir().unwrap();
    let collector = Collector::start();
    let url = collector.url();
    let [placement, compute, control, cell] = [(); 4].map(|()| free_address());
    let cell_uuid = "c0000000-0000-4000-8000-000000000001";
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let start = |arguments: &[&str]| {
        let mut command = placewright(&arguments[..1]);
        command
            .args(["--config", "/dev/null", "--traces-otlp-url", &url])
            .args(&arguments[1..]);
        Process::start(command, "ready")
    };
    let _cell = start(&[
        "cell",
        "--cell-store-path",
        &path("cell"),
        "--cell-uuid",
        cell_uuid,
        "--cell-listen",
        &cell.to_string(),
        "--cell-placement",
        &control.to_string(),
    ]);
    let _control = start(&[
        "control",
        "--store-path",
        &path("control"),
        "--auth-strategy",
        "noauth2",
        "--placement-listen",
        &placement.to_string(),
        "--compute-listen",
        &compute.to_string(),
        "--control-listen",
        &control.to_string(),
        "--control-cells",
        &format!("one={cell_uuid}@{cell}"),
    ]);
    let _agent = start(&[
        "agent",
        "--agent-driver",
        "simulated",
        "--agent-cell",
        &cell.to_string(),
        "--agent-placement-url",
        &format!("http://{placement}"),
        "--agent-state-path",
        &path("agent"),
    ]);
    make_flavor(compute);
    wait_for_host(compute);
    make_servers(compute, 2, Some(&format!("00-{TRACE}-{CALLER}-01")));
    let spans = collector.wait_for(TRACE, |spans| has_build(spans, 2) && spans.len() >= 7);
    assert_connected(&spans, 2);
}

#[test]
fn a_collector_that_is_away_holds_up_nothing_and_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let compute = free_address();
    let url = format!("http://{}", free_address());
    let (mut up, health) = up(folder.path(), compute, &["--traces-otlp-url", &url]);
    make_flavor(compute);
    for _ in 0..5 {
        wait_for_active(compute, &make_servers(compute, 1, None));
    }
    wait_for_count(health, "dropped", |dropped| dropped > 0);
    assert_eq!(counted(health, "sent"), 0);
    up.terminate();
}

#[test]
fn spans_are_sent_again_after_an_answer_that_allows_it_and_dropped_after_another() {
    let folder = tempfile::tempdir().unwrap();
    let compute = free_address();
    let collector = Collector::start_with(vec!["400 Bad Request", "503 Service Unavailable"]);
    let (mut up, health) = up(
        folder.path(),
        compute,
        &["--traces-otlp-url", &collector.url()],
    );
    make_flavor(compute);
    wait_for_active(compute, &make_servers(compute, 1, None));
    wait_for_count(health, "dropped", |dropped| dropped > 0);
    let refused = counted(health, "dropped");
    make_servers(compute, 1, Some(&format!("00-{TRACE}-{CALLER}-01")));
    collector.wait_for(TRACE, |spans| has_build(spans, 1));
    assert_eq!(counted(health, "dropped"), refused);
    up.terminate();
}

#[test]
fn a_collector_that_never_answers_holds_up_neither_servers_nor_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let compute = free_address();
    // The kernel accepts connections, and nobody reads from them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let (mut up, _) = up(folder.path(), compute, &["--traces-otlp-url", &url]);
    make_flavor(compute);
    for _ in 0..5 {
        wait_for_active(compute, &make_servers(compute, 1, None));
    }
    up.terminate();
}

#[test]
fn wrong_options_are_named_at_the_start() {
    for (flag, value, field) in [
        ("--traces-otlp-url", "otel:4318", "traces.otlp_url"),
        ("--traces-otlp-url", "http://a:99999", "traces.otlp_url"),
        ("--traces-otlp-url", "http://user:word@a", "traces.otlp_url"),
        ("--traces-share", "2", "traces.share"),
    ] {
        let (code, _, log) = run(&["up", "--config", "/dev/null", flag, value]);
        assert_eq!(code, 2, "{log}");
        assert!(log.contains(field), "{log}");
    }
}

fn wait_for_count(health: SocketAddr, what: &str, holds: impl Fn(u64) -> bool) {
    let start = Instant::now();
    while !holds(counted(health, what)) {
        assert!(start.elapsed() < PATIENCE, "{what} spans never came");
        thread::sleep(Duration::from_millis(100));
    }
}

/// How many spans were sent or dropped, by the metrics.
fn counted(health: SocketAddr, what: &str) -> u64 {
    let mut stream = TcpStream::connect(health).unwrap();
    write!(
        stream,
        "GET /metrics HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let name = format!("placewright_trace_spans_{what}_total ");
    let value = answer.lines().find_map(|line| line.strip_prefix(&name));
    value
        .unwrap_or_else(|| panic!("{answer}"))
        .trim()
        .parse()
        .unwrap()
}
