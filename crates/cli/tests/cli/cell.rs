//! Tests of the program `placewright cell` from outside: as operators, control and agents use it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Stdio};
use std::time::Duration;

use crate::common::{free_address, placewright, run};
use placewright_conductor::cell_conductor::VmState;
use placewright_conductor::message::{Create, Envelope};
use placewright_conductor::{CellId, HostId, InstanceId, Message, Reply, Spec};
use placewright_link::{AgentLink as _, CellEvent, CellLink as _, SessionStart, ToAgent, ToCell};
use placewright_placement::Timestamp;
use placewright_rpc::{AgentClient, CellClient, ClientOptions, Token};
use rustix::process::Signal;
use uuid::Uuid;

const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A running `placewright cell`.
struct Cell {
    child: Child,
    log: BufReader<ChildStderr>,
    address: SocketAddr,
}

impl Cell {
    fn start(store: &Path, flags: &[&str]) -> Self {
        Self::start_on(free_address(), store, flags)
    }

    fn start_on(address: SocketAddr, store: &Path, flags: &[&str]) -> Self {
        let listen = address.to_string();
        let mut child = placewright(&["cell", "--config", "/dev/null", "--cell-store-path"])
            .arg(store)
            .args(["--cell-listen", &listen])
            .args(flags)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while log.read_line(&mut line).unwrap() > 0 && !line.contains("ready") {
            line.clear();
        }
        assert!(!line.is_empty(), "the log ended before it was ready");
        Self {
            child,
            log,
            address,
        }
    }

    fn stop_with(&mut self, signal: Signal) -> (Option<i32>, String) {
        let id = rustix::process::Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        rustix::process::kill_process(id, signal).unwrap();
        let mut rest_of_log = String::new();
        self.log.read_to_string(&mut rest_of_log).unwrap();
        (self.child.wait().unwrap().code(), rest_of_log)
    }

    fn options(&self) -> ClientOptions {
        ClientOptions::new(self.address.to_string())
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.enable_all().build().unwrap()
}

fn create_message() -> Envelope {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let now = Timestamp(i64::try_from(now.as_micros()).unwrap());
    Envelope {
        sent_at: now,
        message: Message::Create(Box::new(Create {
            instance: InstanceId(Uuid::from_u128(1)),
            spec: Spec {
                name: "vm".into(),
                project: "p".into(),
                user: "u".into(),
                group: None,
                rules: Default::default(),
                body: "{}".into(),
                created_at: now,
                usage: Default::default(),
                build_secrets: Default::default(),
                secrets: Default::default(),
            },
            selection: placewright_conductor::Candidate {
                host: HostId(Uuid::from_u128(2)),
                zone: Some("nova".into()),
                amounts: Vec::new(),
                mappings: Vec::new(),
            }
            .into(),
            alternates: std::sync::Arc::default(),
            claim_number: 1,
        })),
    }
}

/// Runs an agent that carries out the cell's first order, until the instance is active.
async fn run_agent_until_active(options: ClientOptions) {
    let cell = CellClient::new(options.clone()).unwrap();
    let mut agent = AgentClient::new(options).unwrap().connect().await.unwrap();
    let host = HostId(Uuid::from_u128(2));
    let start = SessionStart {
        host,
        name: "host-2".into(),
        session: 1,
        guests: Vec::new(),
    };
    let start = ToCell::Started(Box::new(start));
    agent.to_cell.send(start).await.unwrap();
    let Some(ToAgent::Step { order, session, .. }) = agent.from_cell.recv().await else {
        panic!("no order came");
    };
    let step_ended = ToCell::StepEnded {
        host,
        instance: order.instance,
        session,
        attempt: order.attempt,
        failure: None,
    };
    agent.to_cell.send(step_ended).await.unwrap();
    let mut events = cell.follow().await.unwrap();
    while let Some(event) = events.recv().await {
        if let CellEvent::Instance {
            view: Some(view), ..
        } = event
            && view.vm_state == VmState::Active
        {
            assert_eq!(view.guest.map(|guest| guest.host), Some(host));
            return;
        }
    }
    panic!("the events ended");
}

#[test]
fn an_accepted_build_continues_after_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let runtime = runtime();
    let mut cell = Cell::start(&store, &[]);
    let options = cell.options();
    let client = runtime.block_on(async { CellClient::new(options).unwrap() });
    let id = runtime.block_on(client.cell_id()).unwrap();
    let replies = runtime
        .block_on(client.deliver(vec![create_message()]))
        .unwrap();
    assert_eq!(replies, [Reply::Accepted]);
    assert_eq!(cell.stop_with(Signal::KILL).0, None);

    let mut cell = Cell::start_on(cell.address, &store, &[]);
    assert_eq!(runtime.block_on(client.cell_id()).unwrap(), id);
    let built =
        async { tokio::time::timeout(TEST_TIMEOUT, run_agent_until_active(cell.options())).await };
    runtime.block_on(built).unwrap();
    let instance = InstanceId(Uuid::from_u128(1));
    let actions = runtime.block_on(client.actions(instance)).unwrap();
    assert_eq!(actions.len(), 1);
    assert_eq!(actions[0].attempts.len(), 1);
    let (code, log) = cell.stop_with(Signal::TERM);
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("stopped"), "{log}");
}

#[test]
fn a_stop_ends_streams_and_exits_with_0() {
    let directory = tempfile::tempdir().unwrap();
    let metrics = free_address().to_string();
    let flags = ["--cell-metrics-listen", &metrics];
    let mut cell = Cell::start(&directory.path().join("store"), &flags);
    let runtime = runtime();
    let options = cell.options();
    let (mut events, mut agent) = runtime.block_on(async {
        let events = CellClient::new(options.clone())
            .unwrap()
            .follow()
            .await
            .unwrap();
        let agent = AgentClient::new(options).unwrap().connect().await.unwrap();
        (events, agent)
    });
    let mut stream = TcpStream::connect(&metrics).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    assert!(page.contains("placewright_cell_followers 1\n"), "{page}");
    assert!(page.contains("placewright_journal_"), "{page}");
    let (code, log) = cell.stop_with(Signal::TERM);
    assert_eq!(code, Some(0), "{log}");
    runtime.block_on(async {
        while events.recv().await.is_some() {}
        assert!(agent.from_cell.recv().await.is_none());
    });
}

#[test]
fn a_token_protects_a_cell_on_loopback_and_is_not_enough_elsewhere() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    std::fs::write(&file, "0123456789abcdef-secret\n").unwrap();
    let store = directory.path().join("store");
    let flags = ["--cell-token-file", file.to_str().unwrap()];
    let cell = Cell::start(&store, &flags);
    let runtime = runtime();
    runtime.block_on(async {
        let options = ClientOptions::new(format!("127.0.0.1:{}", cell.address.port()));
        let without_token = CellClient::new(options.clone()).unwrap();
        let error = without_token.cell_id().await.unwrap_err();
        assert!(error.to_string().contains("token"), "{error}");
        let token = Some(Token::new("0123456789abcdef-secret").unwrap());
        let with_token = CellClient::new(ClientOptions { token, ..options }).unwrap();
        with_token.cell_id().await.unwrap();
    });
    drop(cell);
    let listening_everywhere = [
        "cell",
        "--config",
        "/dev/null",
        "--cell-listen",
        "0.0.0.0:0",
    ];
    let (code, _, log) = run(&[&listening_everywhere[..], &flags].concat());
    assert_eq!(code, 2, "{log}");
    for text in ["for loopback only", "placewright pki", "cell.identity_path"] {
        assert!(log.contains(text), "{log}");
    }
}

#[test]
fn a_store_belongs_to_one_cell() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let uuid = "ce110000-0000-4000-8000-000000000001";
    let mut cell = Cell::start(&store, &["--cell-uuid", uuid]);
    cell.stop_with(Signal::TERM);
    let cell = Cell::start(&store, &[]);
    let runtime = runtime();
    let id = runtime.block_on(async { CellClient::new(cell.options()).unwrap().cell_id().await });
    assert_eq!(id.unwrap(), CellId(Uuid::try_parse(uuid).unwrap()));
    drop(cell);
    let other = "ce110000-0000-4000-8000-000000000002";
    let (code, log) = run_failing_start(&store, &["--cell-uuid", other]);
    assert_eq!(code, 2, "{log}");
    assert!(log.contains("belongs to cell"), "{log}");
}

/// Runs a start that fails; returns its exit code and its log.
fn run_failing_start(store: &Path, flags: &[&str]) -> (i32, String) {
    let mut arguments = vec!["cell", "--config", "/dev/null", "--cell-store-path"];
    arguments.push(store.to_str().unwrap());
    let listen = free_address().to_string();
    arguments.extend(["--cell-listen", &listen]);
    arguments.extend(flags);
    let (code, _, log) = run(&arguments);
    (code, log)
}

#[test]
fn a_start_that_cannot_succeed_says_why_and_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let short_token = directory.path().join("short");
    std::fs::write(&short_token, "secret").unwrap();
    let short_token = short_token.to_str().unwrap();
    let nil = Uuid::nil().to_string();
    let address_in_use = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address_in_use = address_in_use.local_addr().unwrap().to_string();
    let cases: [(&[&str], i32, &str); 8] = [
        (&["--cell-uuid", "five"], 2, "cell.uuid"),
        (&["--cell-uuid", &nil], 2, "cell.uuid"),
        (&["--cell-placement", "https://x:1"], 2, "cell.placement"),
        (&["--cell-placement", "nowhere"], 2, "host:port"),
        (
            &["--cell-token-file", "/nowhere/token"],
            2,
            "cell.token_file",
        ),
        (&["--cell-token-file", short_token], 2, "16"),
        (
            &["--cell-host-timeout-ms", "soon"],
            2,
            "cell.host_timeout_ms",
        ),
        (&["--cell-metrics-listen", &address_in_use], 1, "is in use"),
    ];
    for (flags, code, text) in cases {
        let (actual_code, log) = run_failing_start(&store, flags);
        assert_eq!(actual_code, code, "{flags:?}: {log}");
        assert!(log.contains(text), "{flags:?}: {log}");
    }
    let arguments = [
        "cell",
        "--config",
        "/dev/null",
        "--cell-listen",
        "0.0.0.0:0",
    ];
    let (code, _, log) = run(&arguments);
    assert_eq!(code, 2, "{log}");
    assert!(log.contains("--i-know-this-is-open"), "{log}");
    assert!(!store.exists(), "a start that fails makes no store");
}
