//! Which calls and messages a certificate allows, with certificates on both sides.

use crate::peers;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use peers::{FakeCell, TestServer, client_options, listen};
use placewright_conductor::{HostId, InstanceId};
use placewright_identity::{AgentNames, HostPattern, Identity, Role};
use placewright_link::{
    AgentConnection, AgentLink as _, CellLink as _, PlacementLink as _, SessionStart, ToCell,
};
use placewright_net::{HandshakeLimits, Handshakes};
use placewright_pki::{Authority, Credentials, Grant, KeyRequest, holder};
use placewright_rpc::{
    AgentClient, CellClient, ClientIdentity, ClientOptions, PlacementClient, ServeOptions,
    ServerRole, Token,
};
use placewright_types::host_name::uuid_of_name;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use uuid::Uuid;

const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// The certificate authority of an installation, and a server of a fake cell with a certificate from it.
struct Installation {
    folder: TempDir,
    authority: Authority,
    fake_cell: Arc<FakeCell>,
    server: TestServer,
    cell_credentials: Arc<Credentials>,
}

fn agent_of(cell: &str, host: &str) -> Role {
    Role::Agent(AgentNames {
        cell: cell.into(),
        hosts: BTreeSet::from([HostPattern::from_argument(host).unwrap()]),
        services: BTreeSet::new(),
    })
}

fn issue_and_load(authority: &Authority, folder: &Path, role: Role) -> Arc<Credentials> {
    let identity = Identity::new("test", role).unwrap();
    let request = KeyRequest::new().unwrap();
    let issued = authority.issue(&Grant::new(identity), &request.request, "issue");
    holder::write(folder, &request, &issued.unwrap()).unwrap();
    Credentials::load(folder, Some(&authority.revocation_list_path())).unwrap()
}

impl Installation {
    /// If a token is given, callers over loopback that have it need no TLS.
    async fn new(token: Option<Token>) -> Self {
        Self::with(ServeOptions {
            token,
            ..ServeOptions::default()
        })
        .await
    }

    async fn with(options: ServeOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::create(&folder.path().join("pki"), "test").unwrap();
        let cell_credentials = issue_and_load(
            &authority,
            &folder.path().join("cell"),
            Role::Cell("c1".into()),
        );
        let fake_cell = FakeCell::new();
        let options = ServeOptions {
            credentials: Some(Arc::clone(&cell_credentials)),
            ..options
        };
        let server = TestServer::start_with(listen().await, &fake_cell, options);
        Self {
            folder,
            authority,
            fake_cell,
            server,
            cell_credentials,
        }
    }

    fn issue_and_load(&self, name: &str, role: Role) -> Arc<Credentials> {
        issue_and_load(&self.authority, &self.folder.path().join(name), role)
    }

    /// The options of a client with this certificate that expects this role.
    fn options(&self, credentials: &Arc<Credentials>, server: ServerRole) -> ClientOptions {
        ClientOptions {
            identity: Some(ClientIdentity {
                credentials: Arc::clone(credentials),
                server,
            }),
            ..client_options(self.server.address)
        }
    }

    /// The options of a client of the cell.
    fn options_to_cell(&self, credentials: &Arc<Credentials>) -> ClientOptions {
        self.options(credentials, ServerRole::Cell("c1".into()))
    }

    /// The next message that the cell receives; `None` when the connection has ended.
    async fn next_message(&self) -> Option<ToCell> {
        let mut received = self.fake_cell.received.lock().await;
        timeout(TEST_TIMEOUT, received.recv())
            .await
            .unwrap()
            .unwrap()
    }
}

fn start(host: Uuid, name: &str) -> ToCell {
    ToCell::Started(Box::new(SessionStart {
        host: HostId(host),
        name: name.into(),
        session: 7,
        guests: Vec::new(),
    }))
}

/// Waits until the cell has ended a connection.
async fn wait_until_ended(mut connection: AgentConnection) {
    let read_to_end = async { while connection.from_cell.recv().await.is_some() {} };
    timeout(TEST_TIMEOUT, read_to_end).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_handshake_gives_way_to_others() {
    let limits = HandshakeLimits {
        total: 1,
        ..HandshakeLimits::default()
    };
    let installation = Installation::with(ServeOptions {
        handshakes: Handshakes::new(limits, None),
        ..ServeOptions::default()
    })
    .await;
    let control = installation.issue_and_load("control", Role::Control);
    let mut abandoned = TcpStream::connect(installation.server.address)
        .await
        .unwrap();
    // The first three bytes of a TLS handshake: a record with a handshake message, of version 3.1.
    abandoned.write_all(&[0x16, 3, 1]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let client = CellClient::new(installation.options_to_cell(&control)).unwrap();
    timeout(TEST_TIMEOUT, client.cell_id())
        .await
        .unwrap()
        .unwrap();
    // The abandoned connection is closed long before the time-out for its first call.
    let mut buffer = [0; 256];
    let end = async { while matches!(abandoned.read(&mut buffer).await, Ok(1..)) {} };
    timeout(Duration::from_secs(5), end).await.unwrap();
}

fn error_text<T: std::fmt::Debug>(refused: Result<T, placewright_link::LinkError>) -> String {
    refused.unwrap_err().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_is_conducted_by_control_only() {
    let installation = Installation::new(None).await;
    let control = installation.issue_and_load("control", Role::Control);
    let client = CellClient::new(installation.options_to_cell(&control)).unwrap();
    assert_eq!(client.cell_id().await.unwrap(), installation.fake_cell.id);
    for (name, role) in [
        ("agent", agent_of("c1", "*")),
        ("self", Role::Cell("c1".into())),
        ("other", Role::Cell("c2".into())),
    ] {
        let wrong_caller = installation.issue_and_load(name, role);
        let client = CellClient::new(installation.options_to_cell(&wrong_caller)).unwrap();
        let instance = InstanceId(Uuid::nil());
        for refused in [
            error_text(client.cell_id().await),
            error_text(client.deliver(Vec::new()).await),
            error_text(client.actions(instance).await),
            error_text(client.follow().await),
        ] {
            assert!(refused.contains("only control may"), "{name}: {refused}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_speaks_for_its_own_hosts_only() {
    let installation = Installation::new(None).await;
    let agent = installation.issue_and_load("agent", agent_of("c1", "h1"));
    let client = AgentClient::new(installation.options_to_cell(&agent)).unwrap();
    let (own_host, other) = (uuid_of_name("h1"), uuid_of_name("h2"));
    let alive = |host| ToCell::Alive {
        hosts: vec![HostId(host)],
    };
    let connection = client.connect().await.unwrap();
    connection
        .to_cell
        .send(start(own_host, "h1"))
        .await
        .unwrap();
    connection.to_cell.send(alive(own_host)).await.unwrap();
    assert_eq!(
        installation.next_message().await,
        Some(start(own_host, "h1"))
    );
    assert_eq!(installation.next_message().await, Some(alive(own_host)));
    drop(connection);
    assert_eq!(installation.next_message().await, None);
    // No session is started before these messages: each is the first one on its connection.
    for message in [
        start(other, "h2"),
        start(other, "h1"),
        start(own_host, "h2"),
        alive(other),
        alive(own_host),
        ToCell::Destroyed {
            host: HostId(other),
            instance: InstanceId(Uuid::nil()),
            number: 1,
        },
    ] {
        let connection = client.connect().await.unwrap();
        connection.to_cell.send(message.clone()).await.unwrap();
        wait_until_ended(connection).await;
        // The cell received nothing before the connection ended.
        assert_eq!(installation.next_message().await, None, "{message:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn others_do_not_join_a_cell() {
    let installation = Installation::new(None).await;
    for (name, role) in [
        ("foreign", agent_of("c2", "*")),
        ("cell", Role::Cell("c1".into())),
        ("control", Role::Control),
    ] {
        let wrong_caller = installation.issue_and_load(name, role);
        let client = AgentClient::new(installation.options_to_cell(&wrong_caller)).unwrap();
        let refused = error_text(client.connect().await.map(drop));
        assert!(refused.contains("does not allow it to join"), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn placement_accepts_claim_requests_of_cells_only() {
    let installation = Installation::new(None).await;
    for (name, role, text) in [
        ("agent", agent_of("c1", "*"), "only a cell may"),
        ("control", Role::Control, "only a cell may"),
        // A cell may make the call, but the fake placement knows no cell.
        ("c2", Role::Cell("c2".into()), "there is no cell"),
    ] {
        let holder = installation.issue_and_load(name, role);
        let client = PlacementClient::new(installation.options_to_cell(&holder)).unwrap();
        let refused = error_text(client.request_claims(peers::claim_requests(2)).await);
        assert!(refused.contains(text), "{name}: {refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_checks_the_role_of_its_server() {
    let installation = Installation::new(None).await;
    let agent = installation.issue_and_load("agent", agent_of("c2", "*"));
    let wrong_role = installation.options(&agent, ServerRole::Cell("c2".into()));
    let refused = error_text(
        AgentClient::new(wrong_role)
            .unwrap()
            .connect()
            .await
            .map(drop),
    );
    assert!(
        refused.contains("does not allow it to answer as"),
        "{refused}"
    );
    let cell = installation.issue_and_load("c2", Role::Cell("c2".into()));
    let wrong_role = installation.options(&cell, ServerRole::Control);
    let refused = error_text(
        PlacementClient::new(wrong_role)
            .unwrap()
            .request_claims(Vec::new())
            .await,
    );
    assert!(
        refused.contains("does not allow it to answer as"),
        "{refused}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_certificate_nobody_is_let_in_but_by_the_token_on_loopback() {
    let token = Token::new("0123456789abcdef").unwrap();
    // A server without a token needs a certificate of every caller, whatever token the caller sends.
    let installation = Installation::new(None).await;
    let without_tls = ClientOptions {
        token: Some(token.clone()),
        ..client_options(installation.server.address)
    };
    assert!(
        CellClient::new(without_tls)
            .unwrap()
            .cell_id()
            .await
            .is_err()
    );
    let installation = Installation::new(Some(token.clone())).await;
    let without_tls = |token| ClientOptions {
        token,
        ..client_options(installation.server.address)
    };
    let with_token = CellClient::new(without_tls(Some(token))).unwrap();
    assert_eq!(
        with_token.cell_id().await.unwrap(),
        installation.fake_cell.id
    );
    let refused = error_text(CellClient::new(without_tls(None)).unwrap().cell_id().await);
    assert!(refused.contains("token"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_certificate_ends_its_streams() {
    let installation = Installation::new(None).await;
    let agent = installation.issue_and_load("agent", agent_of("c1", "h1"));
    let client = AgentClient::new(installation.options_to_cell(&agent)).unwrap();
    let connection = client.connect().await.unwrap();
    let own_host = start(uuid_of_name("h1"), "h1");
    connection.to_cell.send(own_host.clone()).await.unwrap();
    assert_eq!(installation.next_message().await, Some(own_host));
    let serial = agent.current().facts.serial_text();
    let revoked = installation
        .authority
        .revoke(|entry| entry.serial == serial);
    assert_eq!(revoked.unwrap().len(), 1);
    assert!(installation.cell_credentials.reload_if_changed().unwrap());
    wait_until_ended(connection).await;
    assert!(client.connect().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_certificate_is_used_for_later_calls() {
    let installation = Installation::new(None).await;
    let control = installation.issue_and_load("control", Role::Control);
    let client = CellClient::new(installation.options_to_cell(&control)).unwrap();
    let mut events = client.follow().await.unwrap();
    assert!(
        timeout(TEST_TIMEOUT, events.recv())
            .await
            .unwrap()
            .is_some()
    );
    let request = KeyRequest::new().unwrap();
    let present = control.current().certificate.clone();
    let issued = installation
        .authority
        .renew(&present, &request.request)
        .unwrap();
    holder::write(control.directory(), &request, &issued).unwrap();
    assert!(control.reload_if_changed().unwrap());
    // The stream ends, so that its caller opens it anew, with the new certificate.
    let read_to_end = async { while events.recv().await.is_some() {} };
    timeout(TEST_TIMEOUT, read_to_end).await.unwrap();
    let serial = |credentials: &Credentials| credentials.current().facts.serial_text();
    let entries = installation.authority.entries().unwrap();
    // The last entry is that of the renewed certificate, the one before it that of the first certificate.
    let (first_entry, _) = entries.iter().rev().nth(1).unwrap();
    let first_serial = first_entry.serial.clone();
    assert_ne!(first_serial, serial(&control));
    installation
        .authority
        .revoke(|entry| entry.serial == first_serial)
        .unwrap();
    assert!(installation.cell_credentials.reload_if_changed().unwrap());
    assert_eq!(client.cell_id().await.unwrap(), installation.fake_cell.id);
    assert!(client.follow().await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_several_addresses_has_to_show_the_same_identity() {
    let installation = Installation::new(None).await;
    let other_cell = installation.issue_and_load("other", Role::Cell("c2".into()));
    let other = FakeCell::with_id(2);
    let options = ServeOptions {
        credentials: Some(other_cell),
        ..ServeOptions::default()
    };
    let other_server = TestServer::start_with(listen().await, &other, options);
    let control = installation.issue_and_load("control", Role::Control);
    let agent = installation.issue_and_load("agent", agent_of("c1", "h1"));
    let addresses = format!("{},{}", other_server.address, installation.server.address);
    let with_both = |credentials| ClientOptions {
        address: addresses.clone(),
        ..installation.options_to_cell(credentials)
    };
    // The other cell would answer, and is not called.
    let client = CellClient::new(with_both(&control)).unwrap();
    let id = timeout(TEST_TIMEOUT, client.cell_id()).await.unwrap();
    assert_eq!(id.unwrap(), installation.fake_cell.id);
    let client = AgentClient::new(with_both(&agent)).unwrap();
    let connection = timeout(TEST_TIMEOUT, client.connect()).await.unwrap();
    drop(connection.unwrap());
    assert_eq!(installation.next_message().await, None);
}
