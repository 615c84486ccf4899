//! How Placewright's servers accept connections.
//!
//! - [`ConnectionLimiter`] limits the number of connections of a listener, in total and for each
//!   peer. At a limit it evicts connections that are idle, because they only wait for their peer.
//! - [`Listener`] accepts connections through a limiter. When the system has no file descriptors
//!   left, it retries after a delay.
//! - [`Handshakes`] carries out TLS handshakes on threads of their own, with limits on the number
//!   under way, in total and for each peer.
//! - [`PeerTimer`] and [`peer_timeout`] are time-outs for peers that do not count time in which this
//!   process was suspended: data that has arrived meanwhile is read first.

mod connection_limiter;
mod handshake;
mod handshake_limiter;
mod listener;
mod peer;
mod peer_timer;

pub use connection_limiter::{
    ConnectionLimiter, ConnectionMetrics, ConnectionPermit, ConnectionState, Limits,
};
pub use handshake::{HandshakeError, HandshakeLimits, Handshakes, TLS_RECORD};
pub use listener::{AcceptedConnection, Listener};
pub use peer::Peer;
pub use peer_timer::{PeerTimer, TimerState, peer_timeout};
pub use tokio_rustls::server::TlsStream;
