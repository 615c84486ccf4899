//! Options of a cell.

use std::time::Duration;

use placewright_conductor::{CellId, cell_conductor};
use placewright_secrets::Sealer;

/// Options of a cell. The defaults suit a cell of ten thousand hosts.
#[derive(Clone, Debug)]
pub struct Options {
    /// The id of the cell.
    pub cell: CellId,
    /// The time-outs of agents' steps.
    pub conductor: cell_conductor::Options,
    /// Options of the engine: how the store is written.
    pub engine: placewright_engine::Options,
    /// A host is marked down when its agent was silent for this long. Agents send at least three
    /// heartbeats in this time. Default 30 s.
    pub host_timeout: Duration,
    /// The first interval after which a message or request without an answer is repeated; it doubles up to
    /// [`Self::resend_max`]. Default 5 s.
    pub resend_after: Duration,
    /// The longest interval between repetitions. Default 1 min.
    pub resend_max: Duration,
    /// Time-out of a call to placement. Default 10 s.
    pub placement_timeout: Duration,
    /// The longest wait between two calls to placement while it does not answer; the first wait is
    /// 100 ms, and each further one twice as long. Default 5 s.
    pub placement_retry_max: Duration,
    /// The most requests in one call to placement. Default 256.
    pub claim_requests_at_once: usize,
    /// The most concurrent calls to placement. Default 4.
    pub calls_at_once: usize,
    /// The most messages that wait for one connection of agents; others are dropped and repeated
    /// later. Default 8,192.
    pub agent_queue: usize,
    /// The most messages of one connection of agents that wait to be handled. Default 1,024.
    pub cell_queue: usize,
    /// The longest queue of one follower; when it is full, the changes of each object are merged. Default
    /// 4,096.
    pub follower_queue: usize,
    /// A follower that receives nothing for this long is disconnected. Default 10 s.
    pub follower_timeout: Duration,
    /// How long deleted instances are remembered, so that a delayed message does not create one
    /// again. Default one day.
    pub remember_deleted: Duration,
    /// The most hosts of the cell; further ones are ignored. Default 200,000.
    pub hosts_max: usize,
    /// A leading replica that cannot confirm for this long that it still leads stands by, because another replica may
    /// lead. The time is longer than a replicated store needs to elect a new leader of its own. Default 5 s.
    pub confirmation_timeout: Duration,
    /// Seals and opens the secrets of instances. Default: with a key that is lost when the process ends.
    pub sealer: Sealer,
}

/// The most memory for recent entries of a cell's engine. Only the cell itself follows them, and it is behind by some
/// MiB while many servers are created at once. A cell has no change stream for clients, which may need more.
pub const RECENT_BYTES_MAX: usize = 16 << 20;

impl Options {
    /// The default options, for the cell with this id.
    #[must_use]
    pub fn new(cell: CellId) -> Self {
        Self {
            cell,
            conductor: cell_conductor::Options::default(),
            engine: placewright_engine::Options {
                recent_bytes: RECENT_BYTES_MAX,
                ..placewright_engine::Options::default()
            },
            host_timeout: Duration::from_secs(30),
            resend_after: Duration::from_secs(5),
            resend_max: Duration::from_secs(60),
            placement_timeout: Duration::from_secs(10),
            placement_retry_max: Duration::from_secs(5),
            claim_requests_at_once: 256,
            calls_at_once: 4,
            agent_queue: 8192,
            cell_queue: 1024,
            follower_queue: 4096,
            follower_timeout: Duration::from_secs(10),
            remember_deleted: Duration::from_secs(86_400),
            hosts_max: 200_000,
            confirmation_timeout: Duration::from_secs(5),
            sealer: Sealer::default(),
        }
    }
}
