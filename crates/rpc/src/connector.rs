//! How a client reaches a server with TLS, and makes sure that it is the right one.

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

/// Which role a client means to reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerRole {
    /// Control.
    Control,
    /// The cell of this name.
    Cell(String),
}

impl ServerRole {
    fn wanted(&self) -> Role {
        match self {
            Self::Control => Role::Control,
            Self::Cell(name) => Role::Cell(name.clone()),
        }
    }

    /// The name that the handshake asks for. It only serves servers that have several certificates.
    fn dns_name(&self) -> &'static str {
        match self {
            Self::Control => "control.placewright.internal",
            Self::Cell(_) => "cell.placewright.internal",
        }
    }
}

/// Who a client is, and which role it means to reach.
#[derive(Clone, Debug)]
pub struct ClientIdentity {
    /// Its certificate.
    pub credentials: Arc<Credentials>,
    /// The server.
    pub server: ServerRole,
}

/// What connects.
type Connecting = Pin<Box<dyn Future<Output = io::Result<TokioIo<TlsStream<TcpStream>>>> + Send>>;

/// Connects with TLS.
#[derive(Clone, Debug)]
pub(crate) enum Connector {
    /// With a certificate, to a role of the own installation; and the serial number of the
    /// certificate that the server showed last.
    Holder(ClientIdentity, Arc<Mutex<Vec<u8>>>),
    /// Without one, to any control or cell whose authority the configuration trusts.
    New(Arc<ClientConfig>),
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = io::Error;
    type Future = Connecting;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Connecting {
        let connector = self.clone();
        Box::pin(async move { connector.connect(&uri).await.map(TokioIo::new) })
    }
}

impl Connector {
    pub(crate) fn of(identity: ClientIdentity) -> Self {
        Self::Holder(identity, Arc::default())
    }

    /// Waits until there is a reason to connect anew: the own certificate is another one, or that of
    /// the server was revoked.
    pub(crate) async fn until_changed(&self) {
        let Self::Holder(identity, server) = self else {
            return std::future::pending().await;
        };
        let mut changes = identity.credentials.changes();
        let before = identity.credentials.current();
        loop {
            // The identity keeps the credentials, so there is a sender.
            let _ = changes.changed().await;
            let now = identity.credentials.current();
            if now.facts.serial != before.facts.serial || now.is_revoked(&server.lock()) {
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
        // The certificate of the moment, which may have been renewed since the last connection.
        let (config, name) = match self {
            Self::Holder(identity, _) => {
                let config = Arc::clone(&identity.credentials.current().client);
                (config, identity.server.dns_name())
            }
            Self::New(config) => (Arc::clone(config), "new.placewright.internal"),
        };
        let name = ServerName::try_from(name).map_err(io::Error::other)?;
        let stream = TlsConnector::from(config).connect(name, stream).await?;
        let shown = stream.get_ref().1.peer_certificates();
        let certificate = shown.and_then(|chain| chain.first());
        let certificate = certificate.ok_or_else(|| io::Error::other("it has no certificate"))?;
        let facts = CertificateFacts::read(certificate).map_err(io::Error::other)?;
        self.check(&facts.identity)?;
        if let Self::Holder(_, server) = self {
            *server.lock() = facts.serial;
        }
        Ok(stream)
    }

    /// Whether the server is the role that was meant. Nothing was said to it before.
    fn check(&self, server: &Identity) -> io::Result<()> {
        match self {
            Self::Holder(identity, _) => {
                let current = identity.credentials.current();
                let own = current.identity();
                let wanted = Identity::new(own.installation(), identity.server.wanted());
                let wanted = wanted.map_err(io::Error::other)?;
                server.check_is(&wanted).map_err(io::Error::other)
            }
            Self::New(_) => match server.role() {
                Role::Control | Role::Cell(_) => Ok(()),
                Role::Agent(_) => Err(io::Error::other(format!(
                    "{server} answers, which is neither control nor a cell"
                ))),
            },
        }
    }
}
