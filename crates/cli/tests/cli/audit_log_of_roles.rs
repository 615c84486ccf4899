//! The audit log of `placewright cell`: a line for each caller, call and connection that it refuses.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{free_address, placewright};
use placewright_identity::{AgentNames, HostPattern, Identity, Role};
use placewright_link::{AgentLink as _, CellLink as _};
use placewright_pki::{Authority, Credentials, Grant, KeyRequest, holder};
use placewright_rpc::{AgentClient, CellClient, ClientIdentity, ClientOptions, ServerRole, Token};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A cell with an audit log.
struct Cell {
    child: Child,
    address: SocketAddr,
    store: PathBuf,
}

impl Cell {
    fn start(folder: &Path, flags: &[&str]) -> Self {
        let (address, store) = (free_address(), folder.join("store"));
        let mut child = placewright(&["cell", "--config=/dev/null", "--audit-destination=file"])
            .arg("--cell-store-path")
            .arg(&store)
            .arg(format!("--cell-listen={address}"))
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
        // If nobody read the rest of its log, the cell would wait once the pipe is full.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Self {
            child,
            address,
            store,
        }
    }

    /// Waits for a line with this text in the audit log. A peer can notice that its connection was refused before the
    /// line is written.
    fn wait_for_line(&self, text: &str) {
        let began = Instant::now();
        while !std::fs::read_to_string(self.store.join("audit.log"))
            .is_ok_and(|log| log.contains(text))
        {
            assert!(
                began.elapsed() < TEST_TIMEOUT,
                "there is no line with {text:?}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Stops the cell as an operator does; returns the lines of its audit log.
    fn stop(&mut self) -> Vec<Value> {
        let id = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(id, Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
        let text = std::fs::read_to_string(self.store.join("audit.log")).unwrap();
        let lines = text.lines().map(serde_json::from_str);
        lines.collect::<Result<_, _>>().unwrap()
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

/// Issues a certificate for a role into a folder.
fn issue_to(authority: &Authority, folder: &Path, role: Role) -> Arc<Credentials> {
    let identity = Identity::new("test", role).unwrap();
    let key_request = KeyRequest::new().unwrap();
    let issued = authority.issue(&Grant::new(identity), &key_request.request, "issue");
    holder::write(folder, &key_request, &issued.unwrap()).unwrap();
    Credentials::load(folder, Some(&authority.revocation_list_path())).unwrap()
}

fn agent_of(cell: &str) -> Role {
    Role::Agent(AgentNames {
        cell: cell.into(),
        hosts: BTreeSet::from([HostPattern::from_argument("host-*").unwrap()]),
        services: BTreeSet::new(),
    })
}

/// Checks the fields that all lines of refusals have in common. Returns the action, the reason and the certificate of
/// each.
fn refusals(lines: &[Value]) -> Vec<(&str, &str, Option<&str>)> {
    let refusals = lines.iter().map(|line| {
        assert_eq!(line["outcome"], "failure", "{line}");
        assert_eq!(line["observer"]["typeURI"], "service/roles", "{line}");
        assert_eq!(line["reason"]["reasonType"], "gRPC", "{line}");
        let host = line["initiator"]["host"]["address"].as_str().unwrap();
        assert!(host.starts_with("127.0.0.1:"), "{line}");
        (
            line["action"].as_str().unwrap(),
            line["reason"]["reasonCode"].as_str().unwrap(),
            line["initiator"]["credential"]["certificate"].as_str(),
        )
    });
    refusals.collect()
}

#[test]
fn calls_without_the_right_certificate_have_lines() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let authority = Authority::create(&at("pki"), "test").unwrap();
    let other_authority = Authority::create(&at("other"), "test").unwrap();
    issue_to(&authority, &at("cell"), Role::Cell("c1".into()));
    let own_agent = issue_to(&authority, &at("own"), agent_of("c1"));
    let foreign_agent = issue_to(&authority, &at("foreign"), agent_of("c2"));
    let agent_of_other_authority = issue_to(&other_authority, &at("made-up"), agent_of("c1"));
    let identity = format!("--cell-identity-path={}", at("cell").display());
    let mut cell = Cell::start(directory.path(), &[&identity]);
    let options = |credentials: &Arc<Credentials>| ClientOptions {
        identity: Some(ClientIdentity {
            credentials: Arc::clone(credentials),
            server: ServerRole::Cell("c1".into()),
        }),
        ..cell.options()
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        // An agent's certificate does not permit control's calls, even to the agent's own cell.
        CellClient::new(options(&own_agent))
            .unwrap()
            .cell_id()
            .await
            .unwrap_err();
        // Nor does it permit an agent's calls to another cell.
        let agent = AgentClient::new(options(&foreign_agent)).unwrap();
        agent.connect().await.map(drop).unwrap_err();
        let client = CellClient::new(options(&agent_of_other_authority)).unwrap();
        client.cell_id().await.unwrap_err();
    });
    // Without TLS.
    let mut plain = TcpStream::connect(cell.address).unwrap();
    plain
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .unwrap();
    let _ = plain.read(&mut [0; 64]);
    cell.wait_for_line("only TLS with a certificate is taken here");

    let lines = cell.stop();
    let mut refusals = refusals(&lines);
    refusals.sort_unstable();
    refusals.dedup();
    assert_eq!(
        refusals,
        [
            ("authenticate", "UNAUTHENTICATED", None),
            (
                "evaluate",
                "PERMISSION_DENIED",
                Some("placewright://test/cell/c1/host/host-*")
            ),
            (
                "evaluate",
                "PERMISSION_DENIED",
                Some("placewright://test/cell/c2/host/host-*")
            ),
        ],
        "{lines:#?}"
    );
}

#[test]
fn calls_with_a_wrong_token_have_lines_that_do_not_contain_the_token() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    std::fs::write(&file, "0123456789abcdef-right\n").unwrap();
    let flag = format!("--cell-token-file={}", file.display());
    let mut cell = Cell::start(directory.path(), &[&flag]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        for token in ["0123456789abcdef-wrong", "0123456789abcdef-right"] {
            let token = Some(Token::new(token).unwrap());
            let options = ClientOptions {
                token,
                ..cell.options()
            };
            // Whether the call is refused shows in the audit log.
            let _ = CellClient::new(options).unwrap().cell_id().await;
        }
    });
    let lines = cell.stop();
    assert_eq!(
        refusals(&lines),
        [("authenticate", "UNAUTHENTICATED", None)]
    );
    assert!(
        !serde_json::to_string(&lines)
            .unwrap()
            .contains("0123456789abcdef")
    );
}
