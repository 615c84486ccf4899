//! Accepting connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use crate::gate::{Entry, Gate, Place};
use crate::peer::Peer;

/// After a failed accept (no file descriptors left, say) the next is tried this much later, and each
/// further one after twice as long.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(1);
/// While there is no room, idle connections are looked for this often.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// What goes wrong again and again is logged no more often than this.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// A connection that was let in.
#[derive(Debug)]
pub struct Admitted {
    /// The connection.
    pub stream: TcpStream,
    /// Where it comes from.
    pub remote: SocketAddr,
    /// To be kept as long as the connection.
    pub place: Place,
}

/// Accepts connections through a gate.
#[derive(Debug)]
pub struct Door {
    listener: TcpListener,
    gate: Arc<Gate>,
    /// Whoever was accepted and waits for room.
    waiting: Option<(TcpStream, SocketAddr)>,
    retry: Duration,
    logged: Option<Instant>,
    /// What a connection is told that is refused.
    refusal: fn(&str) -> String,
}

impl Door {
    /// A door for a listening socket. `refusal` makes what a client is told out of a sentence.
    pub fn new(listener: TcpListener, gate: Arc<Gate>, refusal: fn(&str) -> String) -> Self {
        Self {
            listener,
            gate,
            waiting: None,
            retry: RETRY_MIN,
            logged: None,
            refusal,
        }
    }

    /// The next connection that there is room for. Nothing is lost when this is not waited for to its
    /// end.
    pub async fn next(&mut self) -> Admitted {
        loop {
            let Some((stream, remote)) = self.waiting.take() else {
                self.accept().await;
                continue;
            };
            match self.gate.enter(remote) {
                Entry::In(place) => {
                    return Admitted {
                        stream,
                        remote,
                        place,
                    };
                }
                Entry::PeerFull => self.refuse(&stream, remote),
                Entry::Full => {
                    self.waiting = Some((stream, remote));
                    // Who was asked to leave does so at once, or gets a request first.
                    let _ = tokio::time::timeout(LOOK_EVERY, self.gate.freed()).await;
                }
            }
        }
    }

    /// Whoever was accepted and has no place yet.
    pub fn into_waiting(self) -> Option<TcpStream> {
        self.waiting.map(|(stream, _)| stream)
    }

    async fn accept(&mut self) {
        match self.listener.accept().await {
            Ok(accepted) => {
                self.retry = RETRY_MIN;
                self.waiting = Some(accepted);
            }
            // That client only.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                self.gate.metrics().failed.inc();
                if needs_descriptors(&error) {
                    self.gate.make_room();
                }
                if self.may_log() {
                    tracing::warn!(
                        %error,
                        connections = self.gate.connections(),
                        "cannot accept a connection; trying again"
                    );
                }
                tokio::time::sleep(self.retry).await;
                self.retry = (self.retry * 2).min(RETRY_MAX);
            }
        }
    }

    fn refuse(&mut self, stream: &TcpStream, remote: SocketAddr) {
        let limits = self.gate.limits();
        let why = format!(
            "{} has {} connections here; {} allows no more",
            Peer::from(remote),
            limits.per_peer,
            limits.per_peer_option
        );
        // What does not fit into an empty buffer is not worth waiting for.
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
