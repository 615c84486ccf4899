//! Accepts connections through a [`ConnectionLimiter`].

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use crate::connection_limiter::{ConnectionLimiter, ConnectionPermit, Entry};
use crate::peer::Peer;

/// The delay after a failed accept (no file descriptors left, for example); it doubles with each
/// further failure.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(1);
/// The interval of looking for idle connections to evict while there is no room.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The minimum interval between log lines about recurring failures.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// An accepted connection with its place.
#[derive(Debug)]
pub struct AcceptedConnection {
    /// The socket of the connection.
    pub stream: TcpStream,
    /// The address of the client.
    pub remote: SocketAddr,
    /// Counts the connection as open until it is dropped.
    pub place: ConnectionPermit,
}

/// Accepts connections through a [`ConnectionLimiter`].
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    limiter: Arc<ConnectionLimiter>,
    /// An accepted connection that waits for room.
    waiting: Option<(TcpStream, SocketAddr)>,
    retry: Duration,
    logged: Option<Instant>,
    /// Formats the answer to a refused connection.
    refusal: fn(&str) -> String,
}

impl Listener {
    /// A listener for a listening socket. `refusal` formats a sentence as the answer to a refused
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
            retry: RETRY_MIN,
            logged: None,
            refusal,
        }
    }

    /// Waits for the next connection that there is room for. Cancel safe.
    pub async fn next(&mut self) -> AcceptedConnection {
        loop {
            let Some((stream, remote)) = self.waiting.take() else {
                self.accept().await;
                continue;
            };
            match self.limiter.enter(remote) {
                Entry::In(place) => {
                    return AcceptedConnection {
                        stream,
                        remote,
                        place,
                    };
                }
                Entry::PeerFull => self.refuse(&stream, remote),
                Entry::Full => {
                    self.waiting = Some((stream, remote));
                    // Connections that were asked to leave do so at once, or get a request first.
                    let _ = tokio::time::timeout(LOOK_EVERY, self.limiter.freed()).await;
                }
            }
        }
    }

    /// The accepted connection that has no place yet, if there is one.
    pub fn into_waiting(self) -> Option<TcpStream> {
        self.waiting.map(|(stream, _)| stream)
    }

    async fn accept(&mut self) {
        match self.listener.accept().await {
            Ok(accepted) => {
                self.retry = RETRY_MIN;
                self.waiting = Some(accepted);
            }
            // The failure concerns that client only.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                self.limiter.metrics().failed.inc();
                if needs_descriptors(&error) {
                    self.limiter.make_room();
                }
                if self.may_log() {
                    tracing::warn!(
                        %error,
                        connections = self.limiter.connections(),
                        "cannot accept a connection; trying again"
                    );
                }
                tokio::time::sleep(self.retry).await;
                self.retry = (self.retry * 2).min(RETRY_MAX);
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
        // A fresh send buffer takes the whole answer; otherwise it is not worth waiting for.
        let _ = stream.try_write((self.refusal)(&why).as_bytes());
        if self.may_log() {
            tracing::warn!("{why}: further ones are refused");
        }
    }

    fn may_log(&mut self) -> bool {
        let now = Instant::now();
        let may = self
            .logged
            .is_none_or(|logged| now.duration_since(logged) >= LOG_EVERY);
        if may {
            self.logged = Some(now);
        }
        may
    }
}

fn needs_descriptors(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM]
        .into_iter()
        .any(|one| Some(one) == errno)
}
