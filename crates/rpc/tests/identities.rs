//! Who may say what over the network, with certificates on both sides.

#![expect(clippy::unwrap_used, reason = "a test stops where it goes wrong")]

#[allow(dead_code, reason = "other tests use the rest of it")]
mod peers;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use peers::{Fake, Running, client_options, listen};
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

const SOON: Duration = Duration::from_secs(20);

/// An installation's authority, and a cell with its certificate.
struct Site {
    folder: TempDir,
    authority: Authority,
    fake: Arc<Fake>,
    running: Running,
    cell: Arc<Credentials>,
}

fn agent_of(cell: &str, host: &str) -> Role {
    Role::Agent(AgentNames {
        cell: cell.into(),
        hosts: BTreeSet::from([HostPattern::read(host).unwrap()]),
        services: BTreeSet::new(),
    })
}

fn hold(authority: &Authority, folder: &Path, role: Role) -> Arc<Credentials> {
    let identity = Identity::new("test", role).unwrap();
    let request = KeyRequest::new().unwrap();
    let issued = authority.issue(&Grant::new(identity), &request.request, "issue");
    holder::write(folder, &request, &issued.unwrap()).unwrap();
    Credentials::load(folder, Some(&authority.list_path())).unwrap()
}

impl Site {
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
        let cell = hold(
            &authority,
            &folder.path().join("cell"),
            Role::Cell("c1".into()),
        );
        let fake = Fake::new();
        let options = ServeOptions {
            credentials: Some(Arc::clone(&cell)),
            ..options
        };
        let running = Running::start_with(listen().await, &fake, options);
        Self {
            folder,
            authority,
            fake,
            running,
            cell,
        }
    }

    fn hold(&self, name: &str, role: Role) -> Arc<Credentials> {
        hold(&self.authority, &self.folder.path().join(name), role)
    }

    /// How somebody with a certificate calls what it takes for a role.
    fn options(&self, credentials: &Arc<Credentials>, server: ServerRole) -> ClientOptions {
        ClientOptions {
            identity: Some(ClientIdentity {
                credentials: Arc::clone(credentials),
                server,
            }),
            ..client_options(self.running.address)
        }
    }

    fn to_cell(&self, credentials: &Arc<Credentials>) -> ClientOptions {
        self.options(credentials, ServerRole::Cell("c1".into()))
    }

    /// What the cell hears next; none when the connection has ended.
    async fn heard(&self) -> Option<ToCell> {
        let mut heard = self.fake.heard.lock().await;
        timeout(SOON, heard.recv()).await.unwrap().unwrap()
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

/// Waits until the cell has ended a connection, whatever it says before.
async fn ended(mut connection: AgentConnection) {
    let end = async { while connection.from_cell.recv().await.is_some() {} };
    timeout(SOON, end).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handshake_that_is_left_there_gives_way_to_others() {
    let limits = HandshakeLimits {
        total: 1,
        ..HandshakeLimits::default()
    };
    let site = Site::with(ServeOptions {
        handshakes: Handshakes::new(limits, None),
        ..ServeOptions::default()
    })
    .await;
    let control = site.hold("control", Role::Control);
    let mut left = TcpStream::connect(site.running.address).await.unwrap();
    // The beginning of a client's greeting, and nothing more of it.
    left.write_all(&[0x16, 3, 1]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let client = CellClient::new(site.to_cell(&control)).unwrap();
    timeout(SOON, client.cell()).await.unwrap().unwrap();
    // Long before the time of its first call is over.
    let mut buffer = [0; 256];
    let end = async { while matches!(left.read(&mut buffer).await, Ok(1..)) {} };
    timeout(Duration::from_secs(5), end).await.unwrap();
}

fn why<T: std::fmt::Debug>(refused: Result<T, placewright_link::LinkError>) -> String {
    refused.unwrap_err().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_is_conducted_by_control_only() {
    let site = Site::new(None).await;
    let control = site.hold("control", Role::Control);
    let client = CellClient::new(site.to_cell(&control)).unwrap();
    assert_eq!(client.cell().await.unwrap(), site.fake.id);
    for (name, role) in [
        ("agent", agent_of("c1", "*")),
        ("self", Role::Cell("c1".into())),
        ("other", Role::Cell("c2".into())),
    ] {
        let thief = site.hold(name, role);
        let client = CellClient::new(site.to_cell(&thief)).unwrap();
        let instance = InstanceId(Uuid::nil());
        for refused in [
            why(client.cell().await),
            why(client.deliver(Vec::new()).await),
            why(client.actions(instance).await),
            why(client.follow().await),
        ] {
            assert!(refused.contains("only control may"), "{name}: {refused}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_speaks_for_its_own_hosts_only() {
    let site = Site::new(None).await;
    let agent = site.hold("agent", agent_of("c1", "h1"));
    let client = AgentClient::new(site.to_cell(&agent)).unwrap();
    let (own, other) = (uuid_of_name("h1"), uuid_of_name("h2"));
    let alive = |host| ToCell::Alive {
        hosts: vec![HostId(host)],
    };
    let connection = client.connect().await.unwrap();
    connection.to_cell.send(start(own, "h1")).await.unwrap();
    connection.to_cell.send(alive(own)).await.unwrap();
    assert_eq!(site.heard().await, Some(start(own, "h1")));
    assert_eq!(site.heard().await, Some(alive(own)));
    drop(connection);
    assert_eq!(site.heard().await, None);
    for said in [
        start(other, "h2"),
        start(other, "h1"),
        start(own, "h2"),
        alive(other),
        alive(own),
        ToCell::Destroyed {
            host: HostId(other),
            instance: InstanceId(Uuid::nil()),
            number: 1,
        },
    ] {
        let connection = client.connect().await.unwrap();
        connection.to_cell.send(said.clone()).await.unwrap();
        ended(connection).await;
        // Nothing was heard before the connection ended.
        assert_eq!(site.heard().await, None, "{said:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn others_do_not_join_a_cell() {
    let site = Site::new(None).await;
    for (name, role) in [
        ("foreign", agent_of("c2", "*")),
        ("cell", Role::Cell("c1".into())),
        ("control", Role::Control),
    ] {
        let thief = site.hold(name, role);
        let client = AgentClient::new(site.to_cell(&thief)).unwrap();
        let refused = why(client.connect().await.map(drop));
        assert!(refused.contains("does not allow it to join"), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn placement_is_asked_by_cells_only() {
    let site = Site::new(None).await;
    for (name, role, text) in [
        ("agent", agent_of("c1", "*"), "only a cell may"),
        ("control", Role::Control, "only a cell may"),
        // A cell gets as far as what it asks for, which the fake knows nothing of.
        ("c2", Role::Cell("c2".into()), "there is no cell"),
    ] {
        let holder = site.hold(name, role);
        let client = PlacementClient::new(site.to_cell(&holder)).unwrap();
        let refused = why(client.ask(peers::asks(2)).await);
        assert!(refused.contains(text), "{name}: {refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_looks_which_role_answers() {
    let site = Site::new(None).await;
    let agent = site.hold("agent", agent_of("c2", "*"));
    let misled = site.options(&agent, ServerRole::Cell("c2".into()));
    let refused = why(AgentClient::new(misled).unwrap().connect().await.map(drop));
    assert!(
        refused.contains("does not allow it to answer as"),
        "{refused}"
    );
    let cell = site.hold("c2", Role::Cell("c2".into()));
    let misled = site.options(&cell, ServerRole::Control);
    let refused = why(PlacementClient::new(misled).unwrap().ask(Vec::new()).await);
    assert!(
        refused.contains("does not allow it to answer as"),
        "{refused}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_certificate_nobody_is_let_in_but_by_the_token_on_loopback() {
    let token = Token::new("0123456789abcdef").unwrap();
    let site = Site::new(None).await;
    let plain = ClientOptions {
        token: Some(token.clone()),
        ..client_options(site.running.address)
    };
    assert!(CellClient::new(plain).unwrap().cell().await.is_err());
    let site = Site::new(Some(token.clone())).await;
    let plain = |token| ClientOptions {
        token,
        ..client_options(site.running.address)
    };
    let with = CellClient::new(plain(Some(token))).unwrap();
    assert_eq!(with.cell().await.unwrap(), site.fake.id);
    let refused = why(CellClient::new(plain(None)).unwrap().cell().await);
    assert!(refused.contains("token"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_certificate_ends_its_streams() {
    let site = Site::new(None).await;
    let agent = site.hold("agent", agent_of("c1", "h1"));
    let client = AgentClient::new(site.to_cell(&agent)).unwrap();
    let connection = client.connect().await.unwrap();
    let own = start(uuid_of_name("h1"), "h1");
    connection.to_cell.send(own.clone()).await.unwrap();
    assert_eq!(site.heard().await, Some(own));
    let serial = agent.current().facts.serial_text();
    let revoked = site.authority.revoke(|entry| entry.serial == serial);
    assert_eq!(revoked.unwrap().len(), 1);
    assert!(site.cell.reload_if_changed().unwrap());
    ended(connection).await;
    assert!(client.connect().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_certificate_is_used_for_what_comes_then() {
    let site = Site::new(None).await;
    let control = site.hold("control", Role::Control);
    let client = CellClient::new(site.to_cell(&control)).unwrap();
    let mut news = client.follow().await.unwrap();
    assert!(timeout(SOON, news.recv()).await.unwrap().is_some());
    let request = KeyRequest::new().unwrap();
    let present = control.current().certificate.clone();
    let issued = site.authority.renew(&present, &request.request).unwrap();
    holder::write(control.directory(), &request, &issued).unwrap();
    assert!(control.reload_if_changed().unwrap());
    // The stream ends, so that its caller opens it anew, with the new certificate.
    let end = async { while news.recv().await.is_some() {} };
    timeout(SOON, end).await.unwrap();
    let serial = |credentials: &Credentials| credentials.current().facts.serial_text();
    let before = site.authority.entries().unwrap();
    let first = &before.iter().rev().nth(1).unwrap().0.serial;
    assert_ne!(*first, serial(&control));
    let first = first.clone();
    site.authority
        .revoke(|entry| entry.serial == first)
        .unwrap();
    assert!(site.cell.reload_if_changed().unwrap());
    assert_eq!(client.cell().await.unwrap(), site.fake.id);
    assert!(client.follow().await.is_ok());
}
