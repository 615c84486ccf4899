//! TLS handshakes: limits, a time-out, threads of their own, and counters.
//!
//! The signatures of a handshake take up to a millisecond of processor time. They are computed on a
//! separate executor, so that they do not delay established connections.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use placewright_tls::rustls::{self, CertificateError, PeerIncompatible, ServerConfig};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::handshake_limiter::HandshakeLimiter;
use crate::peer_timer::peer_timeout;

/// The first byte of every TLS connection: the content type of a handshake record. No HTTP request
/// begins with it.
pub const TLS_RECORD: u8 = 0x16;

/// The limits of handshakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandshakeLimits {
    /// The maximum number of handshakes under way.
    pub total: usize,
    /// The maximum number of handshakes under way of one peer.
    pub per_peer: usize,
    /// The time-out of a handshake, including the time that it waits for a permit.
    pub timeout: Duration,
}

impl Default for HandshakeLimits {
    fn default() -> Self {
        Self {
            total: 1024,
            per_peer: 128,
            timeout: Duration::from_secs(10),
        }
    }
}

/// Why a handshake failed.
#[derive(Debug, Error)]
pub enum HandshakeError {
    /// The client did not finish in time.
    #[error("the handshake was not finished in time")]
    TimedOut,
    /// The client made no progress, and its permit was needed for another handshake.
    #[error("the handshake made no progress, and others needed its place")]
    Displaced,
    /// The client closed the connection, or the connection failed.
    #[error("the connection broke: {0}")]
    Broken(#[source] io::Error),
    /// The client or the server rejected the handshake.
    #[error("{0}")]
    Refused(#[source] rustls::Error),
}

impl HandshakeError {
    /// The reason as the label value of a metric. There are few different reasons.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::TimedOut => "timeout",
            Self::Displaced => "displaced",
            Self::Broken(_) => "broken",
            Self::Refused(error) => reason(error),
        }
    }
}

fn reason(error: &rustls::Error) -> &'static str {
    match error {
        rustls::Error::NoCertificatesPresented => "no_client_certificate",
        rustls::Error::InvalidCertificate(error) => match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "client_certificate_expired"
            }
            CertificateError::Revoked => "client_certificate_revoked",
            CertificateError::UnknownIssuer => "client_certificate_unknown_issuer",
            _ => "client_certificate_invalid",
        },
        rustls::Error::PeerIncompatible(
            PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled
            | PeerIncompatible::Tls13RequiredForQuic
            | PeerIncompatible::SupportedVersionsExtensionRequired
            // Clients of versions before 1.2 do not send this extension.
            | PeerIncompatible::SignatureAlgorithmsExtensionRequired,
        ) => "version",
        rustls::Error::PeerIncompatible(_) => "no_common_cipher",
        rustls::Error::NoApplicationProtocol => "no_common_protocol",
        rustls::Error::AlertReceived(_) => "alert",
        rustls::Error::InvalidMessage(_) | rustls::Error::PeerMisbehaved(_) => "malformed",
        _ => "other",
    }
}

/// Carries out TLS handshakes within limits.
#[derive(Clone)]
pub struct Handshakes {
    limiter: Arc<HandshakeLimiter>,
    timeout: Duration,
    /// The runtime on whose threads handshakes are computed; if none, the caller's.
    executor: Option<Handle>,
}

impl fmt::Debug for Handshakes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Handshakes")
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl Handshakes {
    /// Creates an acceptor of handshakes with these limits. The handshakes are computed on the threads of `executor`,
    /// or on the caller's if there is none.
    pub fn new(limits: HandshakeLimits, executor: Option<Handle>) -> Self {
        Self {
            limiter: HandshakeLimiter::new(limits.total, limits.per_peer),
            timeout: limits.timeout,
            executor,
        }
    }

    /// Carries out the handshake with a client. If the future is dropped, the connection is closed.
    ///
    /// # Errors
    ///
    /// [`HandshakeError`]; the connection is closed.
    pub async fn accept<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        stream: S,
        remote: SocketAddr,
        config: Arc<ServerConfig>,
    ) -> Result<TlsStream<S>, HandshakeError> {
        let handshake = async {
            let permit = self.limiter.acquire(remote).await;
            let permit = permit.ok_or(HandshakeError::Displaced)?;
            let accept = TlsAcceptor::from(config).accept(stream);
            tokio::select! {
                accepted = self.run(accept) => accepted.map_err(from_io),
                () = permit.wait_until_displaced() => Err(HandshakeError::Displaced),
            }
        };
        let finished = peer_timeout(self.timeout, handshake).await;
        finished.unwrap_or(Err(HandshakeError::TimedOut))
    }

    /// Runs a handshake on the executor. The socket stays registered with the caller's runtime.
    async fn run<T: Send + 'static>(
        &self,
        accept: impl Future<Output = io::Result<T>> + Send + 'static,
    ) -> io::Result<T> {
        match &self.executor {
            None => accept.await,
            Some(executor) => match AbortOnDrop(executor.spawn(accept)).await {
                Ok(accepted) => accepted,
                Err(error) => Err(io::Error::other(error)),
            },
        }
    }
}

/// A task that is aborted when its handle is dropped.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Future for AbortOnDrop<T> {
    type Output = Result<T, tokio::task::JoinError>;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        std::pin::Pin::new(&mut self.0).poll(context)
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The error of a handshake, which may be an error of rustls inside an I/O error.
fn from_io(error: io::Error) -> HandshakeError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    match inner.cloned() {
        Some(error) => HandshakeError::Refused(error),
        None => HandshakeError::Broken(error),
    }
}
