//! What can be chosen about the HTTP service.

use std::time::Duration;

use crate::http::cors::Cors;

/// How the HTTP service behaves.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Most connections at the same time; further ones wait in the system's queue.
    pub connections_max: usize,
    /// Largest body of a request, in bytes; a larger one gets 413.
    pub body_bytes_max: usize,
    /// Largest head of a request (its line and headers), in bytes; at least 8192.
    pub head_bytes_max: usize,
    /// Time that a client has for the head of a request, counted from the last answer.
    pub head_timeout: Duration,
    /// Time that a client has for the body of a request; a slower one gets 408.
    pub body_timeout: Duration,
    /// Time for which a client may take nothing of an answer before it is disconnected.
    pub write_timeout: Duration,
    /// Time that requests under way have to end after the signal to stop.
    pub drain_timeout: Duration,
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
            body_bytes_max: 32 << 20,
            head_bytes_max: 64 << 10,
            head_timeout: Duration::from_secs(75),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(30),
            followers_max: 256,
            cors: None,
            incomplete_consumer_project_id: Self::NOBODY.to_owned(),
            incomplete_consumer_user_id: Self::NOBODY.to_owned(),
            candidates: CandidateOptions::default(),
        }
    }
}

impl ServerOptions {
    /// Project and user of consumers of which neither is known.
    pub const NOBODY: &'static str = "00000000-0000-0000-0000-000000000000";
}
