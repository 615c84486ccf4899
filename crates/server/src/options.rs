//! What can be chosen about the HTTP service.

use std::time::Duration;

use crate::http::cors::Cors;

/// How the HTTP service behaves.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Most connections at the same time. For further ones idle connections make room, or they wait
    /// in the system's queue.
    pub connections_max: usize,
    /// Most connections of one peer (an IPv4 address, or a /64 of IPv6); 0: no limit of its own.
    pub connections_per_peer_max: usize,
    /// Largest body of a request, in bytes; a larger one gets 413.
    pub body_bytes_max: usize,
    /// Most memory that all bodies of more than 16 KiB hold, in bytes, from before they are read until
    /// their requests are answered. One project has half of it.
    pub bodies_bytes_max: usize,
    /// Largest head of a request (its line and headers), in bytes; at least 8192.
    pub head_bytes_max: usize,
    /// Time that a client has for the first byte of a new connection.
    pub first_byte_timeout: Duration,
    /// Time for which a connection is kept without a further request.
    pub keep_alive_timeout: Duration,
    /// Time that a client has for the head of a request, counted from its first byte.
    pub head_timeout: Duration,
    /// Time that a client has for the body of a request; a slower one gets 408.
    pub body_timeout: Duration,
    /// Time for which a client may take nothing of an answer before it is disconnected.
    pub write_timeout: Duration,
    /// Time that requests under way have to end after the signal to stop.
    pub drain_timeout: Duration,
    /// Time that they have when another process waits to take this one's place.
    pub hand_over_timeout: Duration,
    /// Whether `/metrics` is shown on the ports of the APIs, to everybody who reaches them.
    pub metrics_on_apis: bool,
    /// Most readers of the change stream at the same time; a further one gets 503.
    pub followers_max: usize,
    /// Which pages of other origins may call; none at all when absent.
    pub cors: Option<Cors>,
    /// Project of consumers that were written without one (microversions below 1.8).
    pub incomplete_consumer_project_id: String,
    /// User of consumers that were written without one (microversions below 1.8).
    pub incomplete_consumer_user_id: String,
    /// How `GET /allocation_candidates` chooses.
    pub candidates: CandidateOptions,
    /// Most entries of one request that changes something: amounts of allocations, inventories,
    /// traits, aggregates.
    pub entries_max: usize,
    /// Most request groups of one query for candidates.
    pub groups_max: usize,
    /// Largest answer, in bytes.
    pub answer_bytes_max: usize,
    /// Most memory that all large answers on their way to clients hold, in bytes.
    pub answers_bytes_max: usize,
}

/// How `GET /allocation_candidates` chooses among the candidates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CandidateOptions {
    /// Whether an answer that `limit` cuts is a random sample.
    pub randomize: bool,
    /// Most candidates that one request makes; all of them when absent.
    pub candidates_max: Option<u64>,
    /// Whether the search takes one candidate of each root in turn instead of all of one root first.
    pub breadth_first: bool,
}

impl Default for ServerOptions {
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
            followers_max: 256,
            cors: None,
            incomplete_consumer_project_id: Self::NOBODY.to_owned(),
            incomplete_consumer_user_id: Self::NOBODY.to_owned(),
            candidates: CandidateOptions::default(),
            entries_max: 10_000,
            groups_max: 128,
            answer_bytes_max: 128 << 20,
            answers_bytes_max: 128 << 20,
        }
    }
}

impl ServerOptions {
    /// Project and user of consumers of which neither is known.
    pub const NOBODY: &'static str = "00000000-0000-0000-0000-000000000000";
}
