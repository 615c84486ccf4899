//! A server's address, with TLS or without.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use placewright_tls::rustls::ClientConfig;
use placewright_tls::rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

/// A connection with or without TLS. The state of TLS is in a box, because a stream is moved for each request.
pub(crate) type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// A server's address, with the TLS configuration of its clients if it has TLS.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    address: SocketAddr,
    tls: Option<Arc<ClientConfig>>,
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self { address, tls: None }
    }
}

impl Endpoint {
    /// An address; its clients use TLS if there is a configuration.
    pub(crate) fn new(address: SocketAddr, tls: Option<Arc<ClientConfig>>) -> Self {
        Self { address, tls }
    }

    /// Opens a connection.
    ///
    /// # Errors
    ///
    /// There is no server, or the TLS handshake fails.
    pub(crate) async fn connect(&self) -> io::Result<Stream> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let Some(tls) = &self.tls else {
            return Ok(Either::Left(stream));
        };
        let name = ServerName::from(self.address.ip());
        let connector = TlsConnector::from(Arc::clone(tls));
        let stream = connector.connect(name, stream).await?;
        Ok(Either::Right(Box::new(stream)))
    }
}
