//! An upgrade of agents: what the new release brings is used in a cell once its last agent is new, and `placewright
//! status` says for which hosts it waits.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Control, free_address, placewright, run};
use placewright_conductor::HostId;
use placewright_link::{AgentConnection, AgentLink as _, CellLink as _, SessionStart, ToCell};
use placewright_rpc::{AgentClient, CellClient, ClientOptions};
use placewright_scheduler::host_state::{HostFacts, HostReport, HostUpdate, NumberedUpdate};
use serde_json::{Value, json};
use uuid::Uuid;

const OLD_HOST: Uuid = Uuid::from_u128(0x4000_0001);
const CARD: Uuid = Uuid::from_u128(0x4100_0001);

/// A process of the program; killed when dropped.
struct Process(Child);

impl Process {
    /// Starts a role and waits until its log has this text.
    fn start(arguments: &[&str], text: &str) -> Self {
        let mut child = placewright(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while log.read_line(&mut line).unwrap() > 0 && !line.contains(text) {
            line.clear();
        }
        assert!(!line.is_empty(), "the log ended before {text:?}");
        // Nothing may wait for a reader of the log.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Self(child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An agent of the release before this one, which says no version, with one host.
struct OldAgent {
    connection: AgentConnection,
    sequence: u64,
}

impl OldAgent {
    async fn join(cell: SocketAddr) -> Self {
        let client = AgentClient::new(ClientOptions::new(cell.to_string())).unwrap();
        let start = SessionStart {
            host: HostId(OLD_HOST),
            name: "old-1".into(),
            session: 1,
            guests: Vec::new(),
        };
        let mut agent = Self {
            connection: client.connect().await.unwrap(),
            sequence: 0,
        };
        let start = ToCell::Started(Box::new(start));
        agent.connection.to_cell.send(start).await.unwrap();
        let report = HostReport {
            facts: facts(0),
            ..HostReport::default()
        };
        agent.say(HostUpdate::Full(Box::new(report))).await;
        agent
    }

    async fn say(&mut self, update: HostUpdate) {
        self.sequence += 1;
        let update = NumberedUpdate {
            incarnation: 1,
            sequence: self.sequence,
            update,
        };
        let message = ToCell::State {
            host: HostId(OLD_HOST),
            update: Box::new(update),
        };
        self.connection.to_cell.send(message).await.unwrap();
    }
}

/// What the old host's agent says of the host. Version 0 stands for an agent that says none.
fn facts(service_version: u32) -> HostFacts {
    let mut facts = HostFacts {
        service_version,
        ..HostFacts::default()
    };
    facts.names.service_host = "old-1".into();
    facts.names.node = "old-1".into();
    facts
}

/// Sends a request with a JSON body, and returns the JSON of the response.
fn send(address: SocketAddr, head: &str, body: &Value) -> Value {
    let mut stream = TcpStream::connect(address).unwrap();
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    write!(
        stream,
        "{head} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nX-Auth-Token: admin\r\n\
         OpenStack-API-Version: placement 1.39\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 2"), "{response}");
    serde_json::from_str(body).unwrap_or(Value::Null)
}

/// Adds the provider of the old host, with a network card that has no trait.
fn add_old_host(placement: SocketAddr) {
    let class = json!({"name": "CUSTOM_CARD"});
    send(placement, "POST /resource_classes", &class);
    for (provider, name, parent, inventories) in [
        (
            OLD_HOST,
            "old-1",
            None,
            json!({"VCPU": {"total": 4}, "MEMORY_MB": {"total": 8192}, "DISK_GB": {"total": 100}}),
        ),
        (
            CARD,
            "card-1",
            Some(OLD_HOST),
            json!({"CUSTOM_CARD": {"total": 1}}),
        ),
    ] {
        let body = json!({"uuid": provider, "name": name, "parent_provider_uuid": parent});
        send(placement, "POST /resource_providers", &body);
        let body = json!({"resource_provider_generation": 0, "inventories": inventories});
        let head = format!("PUT /resource_providers/{provider}/inventories");
        send(placement, &head, &body);
    }
}

/// How many instances with a network card fit now.
fn fitting(scheduler: SocketAddr) -> Value {
    let request = json!({
        "flavor": {"vcpus": 1, "memory_mb": 512, "root_gb": 1},
        "pci_requests": [{
            "request_id": "card", "count": 1, "numa_policy": "preferred",
            "spec": [{"resource_class": "CUSTOM_CARD"}],
        }],
    });
    send(scheduler, "POST /v1/capacity", &json!({"request": request}))["count"].clone()
}

/// Waits until `placewright status` has these lines, and returns all that it says.
fn wait_for_status(placement: SocketAddr, lines: &[&str]) -> String {
    let url = format!("http://{placement}");
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let (code, output, error) = run(&["status", "--url", &url]);
        assert_eq!(code, 0, "{output}{error}");
        let has_line = |line: &&str| output.lines().any(|found| found.trim() == *line);
        if lines.iter().all(has_line) {
            return output;
        }
        assert!(Instant::now() < end, "no {lines:?} in\n{output}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn start_agent(state: &Path, placement: SocketAddr, cell: SocketAddr) -> Process {
    let (url, cell) = (format!("http://{placement}"), cell.to_string());
    let state = state.to_str().unwrap();
    let head = ["agent", "--config", "/dev/null", "--agent-hosts", "1"];
    let addresses = ["--agent-placement-url", &url, "--agent-cell", &cell];
    let arguments = [&head[..], &addresses, &["--agent-state-path", state]].concat();
    Process::start(&arguments, "connected to the cell")
}

#[test]
fn a_new_behaviour_waits_for_the_last_old_agent_of_a_cell_and_for_no_restart() {
    let directory = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (cell_address, scheduler) = (free_address(), free_address());
    let (store, listen) = (directory.path().join("cell"), cell_address.to_string());
    let store = ["--cell-store-path", store.to_str().unwrap()];
    let arguments = ["cell", "--config", "/dev/null", "--cell-listen", &listen];
    let _cell = Process::start(&[&arguments[..], &store].concat(), "ready");
    let cell = runtime.block_on(async {
        let client = CellClient::new(ClientOptions::new(listen.clone())).unwrap();
        client.cell_id().await.unwrap()
    });
    let (cells, scheduler_listen) = (format!("one={cell}@{listen}"), scheduler.to_string());
    let control = Control::start(
        &directory.path().join("control"),
        &[
            "--control-cells",
            &cells,
            "--scheduler-listen",
            &scheduler_listen,
        ],
    );
    add_old_host(control.address);
    let mut old_agent = runtime.block_on(OldAgent::join(cell_address));
    let agent_state = directory.path().join("agent");
    let _new_agent = start_agent(&agent_state, control.address, cell_address);

    // The new agent says its version; the old one, which says none, holds the cell back.
    let lines = [
        "cell      one: 2 hosts, compute services of version 0 at least",
        "what version 73 brings waits for old-1 (says none)",
    ];
    wait_for_status(control.address, &lines);
    assert_eq!(fitting(scheduler), 1, "any card is used");

    // The last agent of the cell is new: it marks the host as its own, and then says so.
    let head = format!("PUT /resource_providers/{OLD_HOST}/traits");
    let known = format!("GET /resource_providers/{OLD_HOST}");
    let generation = &send(control.address, &known, &Value::Null)["generation"];
    let body = json!({"resource_provider_generation": generation, "traits": ["OWNER_NOVA"]});
    send(control.address, &head, &body);
    runtime.block_on(old_agent.say(HostUpdate::Facts(Box::new(facts(73)))));
    let line = "cell      one: 2 hosts, compute services of version 73 at least";
    let status = wait_for_status(control.address, &[line]);
    assert!(!status.contains("waits for"), "{status}");
    assert_eq!(fitting(scheduler), 0, "the card belongs to another service");
}
