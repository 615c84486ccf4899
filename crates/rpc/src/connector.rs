//! How a client connects to a server with TLS and checks the server's identity.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use placewright_identity::{Identity, Role};
use placewright_pki::{CertificateFacts, Credentials};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::codegen::Service;
use tonic::codegen::http::Uri;

/// The role that a server must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerRole {
    /// Control of the same installation.
    Control,
    /// The cell of this name.
    Cell(String),
}

impl ServerRole {
    fn expected_role(&self) -> Role {
        match self {
            Self::Control => Role::Control,
            Self::Cell(name) => Role::Cell(name.clone()),
        }
    }

    /// The server name that the client sends in the handshake. It matters only to servers with several
    /// certificates.
    fn dns_name(&self) -> &'static str {
        match self {
            Self::Control => "control.placewright.internal",
            Self::Cell(_) => "cell.placewright.internal",
        }
    }
}

/// The identity of a client, and the role that its server must have.
#[derive(Clone, Debug)]
pub struct ClientIdentity {
    /// The client's certificate and key.
    pub credentials: Arc<Credentials>,
    /// The role that the server must have.
    pub server: ServerRole,
}

/// The future of a connection.
type ConnectFuture =
    Pin<Box<dyn Future<Output = io::Result<TokioIo<TlsStream<TcpStream>>>> + Send>>;

/// Opens connections with TLS.
#[derive(Clone, Debug)]
pub(crate) enum Connector {
    /// With a certificate, to a role of the same installation.
    Enrolled {
        identity: ClientIdentity,
        /// The serial number of the certificate that the server showed last.
        server_serial: Arc<Mutex<Vec<u8>>>,
    },
    /// Without a certificate, to any control or cell whose authority the TLS configuration trusts.
    Unenrolled(Arc<ClientConfig>),
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = io::Error;
    type Future = ConnectFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> ConnectFuture {
        let connector = self.clone();
        Box::pin(async move { connector.connect(&uri).await.map(TokioIo::new) })
    }
}

impl Connector {
    pub(crate) fn of(identity: ClientIdentity) -> Self {
        Self::Enrolled {
            identity,
            server_serial: Arc::default(),
        }
    }

    /// Waits until the client has to reconnect: its certificate was renewed, or the server's was
    /// revoked.
    pub(crate) async fn until_must_reconnect(&self) {
        let Self::Enrolled {
            identity,
            server_serial,
        } = self
        else {
            return std::future::pending().await;
        };
        let mut changes = identity.credentials.changes();
        let credentials_before = identity.credentials.current();
        loop {
            // `changed` fails only after its sender was dropped, and `identity` keeps the credentials, which
            // have the sender.
            let _ = changes.changed().await;
            let current = identity.credentials.current();
            let is_renewed = current.facts.serial != credentials_before.facts.serial;
            if is_renewed || current.is_revoked(&server_serial.lock()) {
                return;
            }
        }
    }

    async fn connect(&self, uri: &Uri) -> io::Result<TlsStream<TcpStream>> {
        let no_address = || io::Error::other("the address has no host and port");
        let host = uri.host().ok_or_else(no_address)?;
        let port = uri.port_u16().ok_or_else(no_address)?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        // The current certificate may have been renewed since the last connection.
        let (config, name) = match self {
            Self::Enrolled { identity, .. } => {
                let config = Arc::clone(&identity.credentials.current().client);
                (config, identity.server.dns_name())
            }
            // Before its enrolment the client does not know whether the server is control or a cell.
            Self::Unenrolled(config) => (Arc::clone(config), "new.placewright.internal"),
        };
        let name = ServerName::try_from(name).map_err(io::Error::other)?;
        let stream = TlsConnector::from(config).connect(name, stream).await?;
        let (_, session) = stream.get_ref();
        let server_chain = session.peer_certificates();
        let certificate = server_chain.and_then(|chain| chain.first());
        let certificate = certificate.ok_or_else(|| io::Error::other("it has no certificate"))?;
        let facts = CertificateFacts::read(certificate).map_err(io::Error::other)?;
        self.check_server(&facts.identity)?;
        if let Self::Enrolled { server_serial, .. } = self {
            *server_serial.lock() = facts.serial;
        }
        Ok(stream)
    }

    /// Checks that the server has the expected role. It is called before any call is sent.
    fn check_server(&self, server: &Identity) -> io::Result<()> {
        match self {
            Self::Enrolled { identity, .. } => {
                let current = identity.credentials.current();
                let own_identity = current.identity();
                let expected =
                    Identity::new(own_identity.installation(), identity.server.expected_role());
                let expected = expected.map_err(io::Error::other)?;
                server.check_expected(&expected).map_err(io::Error::other)
            }
            Self::Unenrolled(_) => match server.role() {
                Role::Control | Role::Cell(_) => Ok(()),
                Role::Agent(_) => Err(io::Error::other(format!(
                    "{server} answers, which is neither control nor a cell"
                ))),
            },
        }
    }
}
