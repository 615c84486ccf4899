//! TLS handshakes: limits, a time-out, threads of their own, and counters.
//!
//! The signatures of a handshake take up to a millisecond of a processor. They are computed on the
//! threads of [`HandshakeLimits`]' executor, so that connections which are past their handshake wait
//! for none of it.

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

use crate::handshake_places::HandshakePlaces;
use crate::peer_timer::peer_timeout;

/// The first byte of every TLS connection: the type of a record with a handshake's message. No
/// request of HTTP begins with it.
pub const TLS_RECORD: u8 = 0x16;

/// The limits of handshakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandshakeLimits {
    /// The most handshakes under way at a time.
    pub total: usize,
    /// The most handshakes of one peer under way at a time.
    pub per_peer: usize,
    /// The longest time of a handshake, with the time that it waits for its place.
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

/// Why there is no connection.
#[derive(Debug, Error)]
pub enum HandshakeError {
    /// The client did not finish in time.
    #[error("the handshake was not finished in time")]
    TimedOut,
    /// The client made no progress, and others needed the place.
    #[error("the handshake made no progress, and others needed its place")]
    Displaced,
    /// The client went away, or the connection broke.
    #[error("the connection broke: {0}")]
    Broken(#[source] io::Error),
    /// One side refused the other.
    #[error("{0}")]
    Refused(#[source] rustls::Error),
}

impl HandshakeError {
    /// The reason as one of a few words, for a metric.
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
            // Clients of versions before 1.2 have no such extension.
            | PeerIncompatible::SignatureAlgorithmsExtensionRequired,
        ) => "version",
        rustls::Error::PeerIncompatible(_) => "no_common_cipher",
        rustls::Error::NoApplicationProtocol => "no_common_protocol",
        rustls::Error::AlertReceived(_) => "alert",
        rustls::Error::InvalidMessage(_) | rustls::Error::PeerMisbehaved(_) => "malformed",
        _ => "other",
    }
}

/// Carries handshakes out.
#[derive(Clone)]
pub struct Handshakes {
    places: Arc<HandshakePlaces>,
    timeout: Duration,
    /// The threads that compute; those of the caller if there are none.
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
    /// Handshakes within these limits, computed on the threads of `executor`, a runtime of its own.
    pub fn new(limits: HandshakeLimits, executor: Option<Handle>) -> Self {
        Self {
            places: HandshakePlaces::new(limits.total, limits.per_peer),
            timeout: limits.timeout,
            executor,
        }
    }

    /// Shakes hands with a client. Cancel safe as far as a connection can be: it is closed.
    ///
    /// # Errors
    ///
    /// There is no connection, and why.
    pub async fn accept<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        stream: S,
        remote: SocketAddr,
        config: Arc<ServerConfig>,
    ) -> Result<TlsStream<S>, HandshakeError> {
        let handshake = async {
            let place = self.places.enter(remote).await;
            let place = place.ok_or(HandshakeError::Displaced)?;
            let accept = TlsAcceptor::from(config).accept(stream);
            tokio::select! {
                accepted = self.run(accept) => accepted.map_err(of_io),
                () = place.must_go() => Err(HandshakeError::Displaced),
            }
        };
        let finished = peer_timeout(self.timeout, handshake).await;
        finished.unwrap_or(Err(HandshakeError::TimedOut))
    }

    /// Runs a handshake on its threads. The socket belongs to the caller's runtime all the time,
    /// which wakes whoever waits for it.
    async fn run<T: Send + 'static>(
        &self,
        accept: impl Future<Output = io::Result<T>> + Send + 'static,
    ) -> io::Result<T> {
        match &self.executor {
            None => accept.await,
            Some(executor) => match Aborted(executor.spawn(accept)).await {
                Ok(accepted) => accepted,
                Err(error) => Err(io::Error::other(error)),
            },
        }
    }
}

/// A task that ends when nobody waits for it any more.
struct Aborted<T>(JoinHandle<T>);

impl<T> Future for Aborted<T> {
    type Output = Result<T, tokio::task::JoinError>;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        std::pin::Pin::new(&mut self.0).poll(context)
    }
}

impl<T> Drop for Aborted<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// rustls' errors come in errors of I/O.
fn of_io(error: io::Error) -> HandshakeError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    match inner.cloned() {
        Some(error) => HandshakeError::Refused(error),
        None => HandshakeError::Broken(error),
    }
}
