//! The options of the HTTP server of the REST services.

use std::time::Duration;

use crate::cors::Cors;

/// The options of the HTTP server that every REST service has: limits, time-outs, and the metrics page and CORS
/// headers.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// The most connections. For a further one an idle connection is closed; if none is idle, the new connection
    /// waits in the operating system's queue.
    pub connections_max: usize,
    /// The most connections of one peer (an IPv4 address, or a /64 of IPv6); 0 for no limit.
    pub connections_per_peer_max: usize,
    /// The largest body of a request, in bytes; a larger one gets 413.
    pub body_bytes_max: usize,
    /// The most memory that all request bodies of more than 16 KiB may occupy together, in bytes. A
    /// body counts as it is received, and until its request is answered. One project may use a
    /// quarter of it.
    pub bodies_bytes_max: usize,
    /// The largest head of a request (its line and headers), in bytes; at least 8192.
    pub head_bytes_max: usize,
    /// Time-out for the first byte of a new connection.
    pub first_byte_timeout: Duration,
    /// How long an idle connection is kept between two requests.
    pub keep_alive_timeout: Duration,
    /// Time-out for the head of a request, counted from its first byte.
    pub head_timeout: Duration,
    /// Time-out for the body of a request; a slower one gets 408.
    pub body_timeout: Duration,
    /// A client that takes nothing of a response for this long is disconnected.
    pub write_timeout: Duration,
    /// After the signal to stop: how long requests under way may take to end.
    pub drain_timeout: Duration,
    /// In place of `drain_timeout` when another process waits to take over the work of this process.
    pub hand_over_timeout: Duration,
    /// Whether the ports of the APIs serve `/metrics`, without authentication.
    pub metrics_on_apis: bool,
    /// The origins whose pages may call the service (CORS). Without it, no page of another origin may.
    pub cors: Option<Cors>,
    /// The largest single response, in bytes.
    pub answer_bytes_max: usize,
    /// The most memory of all large responses together that are being sent, in bytes.
    pub answers_bytes_max: usize,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            connections_max: 4096,
            connections_per_peer_max: 2048,
            body_bytes_max: 8 << 20,
            bodies_bytes_max: 64 << 20,
            head_bytes_max: 64 << 10,
            first_byte_timeout: Duration::from_secs(10),
            keep_alive_timeout: Duration::from_secs(75),
            head_timeout: Duration::from_secs(20),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(30),
            hand_over_timeout: Duration::from_secs(5),
            metrics_on_apis: false,
            cors: None,
            answer_bytes_max: 128 << 20,
            answers_bytes_max: 128 << 20,
        }
    }
}
