//! Accepts connections through a [`ConnectionLimiter`].

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use crate::connection_limiter::{Admission, ConnectionLimiter, ConnectionPermit};
use crate::peer::Peer;

/// The delay after a failed accept (no file descriptors left, for example); it doubles with each
/// further failure.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(1);
/// The interval at which further connections are evicted while the total limit is reached.
const EVICTION_INTERVAL: Duration = Duration::from_millis(20);
/// The minimum interval between log lines about recurring failures.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// An accepted connection with its permit.
#[derive(Debug)]
pub struct AcceptedConnection {
    /// The socket of the connection.
    pub stream: TcpStream,
    /// The address of the client.
    pub remote: SocketAddr,
    /// Counts the connection as open until it is dropped.
    pub permit: ConnectionPermit,
}

/// Accepts connections through a [`ConnectionLimiter`].
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    limiter: Arc<ConnectionLimiter>,
    /// An accepted connection that waits until the limiter admits it.
    waiting: Option<(TcpStream, SocketAddr)>,
    /// The delay after the next failed accept.
    retry_delay: Duration,
    /// When the last log line was written; `None` before the first.
    last_log_line: Option<Instant>,
    /// Formats the response to a refused connection.
    refusal: fn(&str) -> String,
}

impl Listener {
    /// A listener for a listening socket. `refusal` formats a sentence as the response to a refused
    /// client.
    pub fn new(
        listener: TcpListener,
        limiter: Arc<ConnectionLimiter>,
        refusal: fn(&str) -> String,
    ) -> Self {
        Self {
            listener,
            limiter,
            waiting: None,
            retry_delay: RETRY_MIN,
            last_log_line: None,
            refusal,
        }
    }

    /// Waits for the next connection that the limiter admits. Cancel safe.
    pub async fn next(&mut self) -> AcceptedConnection {
        loop {
            let Some((stream, remote)) = self.waiting.take() else {
                self.accept().await;
                continue;
            };
            match self.limiter.admit(remote) {
                Admission::Admitted(permit) => {
                    return AcceptedConnection {
                        stream,
                        remote,
                        permit,
                    };
                }
                Admission::PeerLimitReached => self.refuse(&stream, remote),
                Admission::LimitReached => {
                    self.waiting = Some((stream, remote));
                    // An evicted connection closes at once, unless a request arrives on it first.
                    let closed = self.limiter.wait_until_closed();
                    let _ = tokio::time::timeout(EVICTION_INTERVAL, closed).await;
                }
            }
        }
    }

    /// The accepted connection that was not admitted yet, if there is one.
    pub fn into_waiting(self) -> Option<TcpStream> {
        self.waiting.map(|(stream, _)| stream)
    }

    async fn accept(&mut self) {
        match self.listener.accept().await {
            Ok(accepted) => {
                self.retry_delay = RETRY_MIN;
                self.waiting = Some(accepted);
            }
            // Only the client of that connection is affected.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                self.limiter.metrics().failed.inc();
                if is_out_of_resources(&error) {
                    self.limiter.evict();
                }
                if self.permit_log_line() {
                    tracing::warn!(
                        %error,
                        connections = self.limiter.connections(),
                        "cannot accept a connection; trying again"
                    );
                }
                tokio::time::sleep(self.retry_delay).await;
                self.retry_delay = (self.retry_delay * 2).min(RETRY_MAX);
            }
        }
    }

    fn refuse(&mut self, stream: &TcpStream, remote: SocketAddr) {
        let limits = self.limiter.limits();
        let why = format!(
            "{} has {} connections here; {} allows no more",
            Peer::from(remote),
            limits.per_peer,
            limits.per_peer_option
        );
        // The send buffer of a new connection has space for the whole response. If it has not, waiting
        // for it is not worthwhile.
        let _ = stream.try_write((self.refusal)(&why).as_bytes());
        if self.permit_log_line() {
            tracing::warn!("{why}: further ones are refused");
        }
    }

    /// Permits one log line in each [`LOG_INTERVAL`]: true if the caller has to write it now.
    fn permit_log_line(&mut self) -> bool {
        let now = Instant::now();
        let is_due = self
            .last_log_line
            .is_none_or(|last| now.duration_since(last) >= LOG_INTERVAL);
        if is_due {
            self.last_log_line = Some(now);
        }
        is_due
    }
}

/// Whether the system is out of file descriptors or memory.
fn is_out_of_resources(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM]
        .into_iter()
        .any(|exhausted| Some(exhausted) == errno)
}
