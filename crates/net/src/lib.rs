//! How Placewright's servers take connections.
//!
//! - [`ConnectionLimiter`] bounds how many connections a listener has, in total and for each peer,
//!   and knows which of them wait for their peer only. When there is no room, one of those makes
//!   room.
//! - [`Listener`] accepts connections through a limiter. Where the system has no descriptors left
//!   it waits.
//! - [`Handshakes`] carries TLS handshakes out: so many at a time, of each peer and in total, on
//!   threads of their own.
//! - [`PeerTimer`] and [`peer_timeout`] limit the time that a peer may take, and count only time in
//!   which the peer was at fault: after a pause of this process what has arrived is read first.

mod connection_limiter;
mod handshake;
mod handshake_places;
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
