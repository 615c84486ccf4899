//! How connections to servers are made, with and without TLS.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use placewright_tls::rustls::ClientConfig;
use placewright_tls::rustls::pki_types::ServerName;
use placewright_tls::{ClientSettings, read_authorities};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client;

use crate::options::PostgresqlTls;

/// The host and the port of an address.
pub(crate) fn split(address: &str) -> io::Result<(&str, u16)> {
    let no_port = || io::Error::other("the address has no port");
    let (host, port) = address.rsplit_once(':').ok_or_else(no_port)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Ok((host, port.parse().map_err(io::Error::other)?))
}

/// Opens a TCP connection.
pub(crate) async fn connect(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(split(address)?).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// The configuration of TLS from its files; an error names the file.
pub(crate) fn client_config(tls: &PostgresqlTls) -> io::Result<ClientConfig> {
    let identity = tls.identity.as_ref().map(|files| files.read()).transpose();
    let settings = ClientSettings {
        authorities: read_authorities(&tls.authorities).map_err(io::Error::other)?,
        identity: identity.map_err(io::Error::other)?,
        protocols: Vec::new(),
    };
    settings.config().map_err(io::Error::other)
}

/// The handshake with one server.
pub(crate) struct Handshake {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Handshake {
    /// The handshake with the server at an address, whose certificate has to be for its host. The files are read
    /// for each connection, because they may have been renewed.
    pub(crate) fn new(tls: &PostgresqlTls, address: &str) -> io::Result<Self> {
        let (host, _) = split(address)?;
        Ok(Self {
            config: Arc::new(client_config(tls)?),
            name: ServerName::try_from(host.to_owned()).map_err(io::Error::other)?,
        })
    }
}

/// The future of a handshake.
type HandshakeFuture = Pin<Box<dyn Future<Output = io::Result<Encrypted>> + Send>>;

impl TlsConnect<TcpStream> for Handshake {
    type Stream = Encrypted;
    type Error = io::Error;
    type Future = HandshakeFuture;

    fn connect(self, stream: TcpStream) -> HandshakeFuture {
        Box::pin(async move {
            let connector = TlsConnector::from(self.config);
            connector.connect(self.name, stream).await.map(Encrypted)
        })
    }
}

/// A connection with TLS.
pub(crate) struct Encrypted(client::TlsStream<TcpStream>);

impl TlsStream for Encrypted {
    fn channel_binding(&self) -> ChannelBinding {
        // Channel binding is left out: the verified certificate keeps others from standing in between.
        ChannelBinding::none()
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
