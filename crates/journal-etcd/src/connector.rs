//! How connections to members are made, with and without TLS.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper_util::rt::TokioIo;
use placewright_tls::rustls::ClientConfig;
use placewright_tls::rustls::pki_types::ServerName;
use placewright_tls::{ClientSettings, read_authorities};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::codegen::Service;
use tonic::codegen::http::Uri;

use crate::options::EtcdTls;

/// A connection with or without TLS.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Opens connections to members.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    pub(crate) tls: Option<EtcdTls>,
}

/// The future of a connection.
type ConnectFuture = Pin<Box<dyn Future<Output = io::Result<TokioIo<Box<dyn Stream>>>> + Send>>;

impl Service<Uri> for Connector {
    type Response = TokioIo<Box<dyn Stream>>;
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
    async fn connect(&self, uri: &Uri) -> io::Result<Box<dyn Stream>> {
        let no_address = || io::Error::other("the address has no host and port");
        let host = uri.host().ok_or_else(no_address)?;
        let port = uri.port_u16().ok_or_else(no_address)?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        let Some(tls) = &self.tls else {
            return Ok(Box::new(stream));
        };
        // The files are read for each connection, because they may have been renewed.
        let config = Arc::new(client_config(tls)?);
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let stream = TlsConnector::from(config).connect(name, stream).await?;
        Ok(Box::new(stream))
    }
}

/// The configuration of TLS from its files; an error names the file.
pub(crate) fn client_config(tls: &EtcdTls) -> io::Result<ClientConfig> {
    let identity = tls.identity.as_ref().map(|files| files.read()).transpose();
    let settings = ClientSettings {
        authorities: read_authorities(&tls.authorities).map_err(io::Error::other)?,
        identity: identity.map_err(io::Error::other)?,
        protocols: vec![b"h2".to_vec()],
    };
    settings.config().map_err(io::Error::other)
}
