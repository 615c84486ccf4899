//! How a cell runs.

use std::time::Duration;

use placewright_conductor::{CellId, cell_conductor};

/// How a cell runs. The defaults suit a cell of ten thousand hosts.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which cell this is.
    pub cell: CellId,
    /// How long agents may take for a step.
    pub conductor: cell_conductor::Options,
    /// How the store is written.
    pub engine: placewright_engine::Options,
    /// A host is down when its agent was silent for this long. Agents say that they are there at
    /// least three times in it. Default 30 s.
    pub host_timeout: Duration,
    /// What was not answered is asked for again after this long, and then after twice as long each
    /// time, up to [`Self::resend_max`]. Default 5 s.
    pub resend_after: Duration,
    /// The longest time after which something unanswered is asked for again. Default 1 min.
    pub resend_max: Duration,
    /// How long placement may take to answer. Default 10 s.
    pub ask_timeout: Duration,
    /// The longest wait between two calls to placement while it does not answer; the first wait is
    /// 100 ms, each further one twice the one before. Default 5 s.
    pub ask_again_max: Duration,
    /// The most asks in one call to placement. Default 256.
    pub asks_at_once: usize,
    /// The most calls to placement under way. Default 4.
    pub calls_at_once: usize,
    /// The most messages that wait for one connection of agents; what does not fit is asked for
    /// again later. Default 8,192.
    pub agent_queue: usize,
    /// The most messages of one connection of agents that wait to be taken. Default 1,024.
    pub cell_queue: usize,
    /// The most news that wait for one follower, one by one; beyond that, news of one thing are
    /// merged. Default 4,096.
    pub follower_queue: usize,
    /// A follower that takes nothing for this long is cut off. Default 10 s.
    pub follower_timeout: Duration,
    /// How long deletions are remembered, so that an old message creates nothing again. Default
    /// one day.
    pub remember_deleted: Duration,
    /// The most hosts that the cell knows; those of others that come are ignored. Default 200,000.
    pub hosts_max: usize,
}

impl Options {
    /// The defaults, for one cell.
    #[must_use]
    pub fn new(cell: CellId) -> Self {
        Self {
            cell,
            conductor: cell_conductor::Options::default(),
            engine: placewright_engine::Options::default(),
            host_timeout: Duration::from_secs(30),
            resend_after: Duration::from_secs(5),
            resend_max: Duration::from_secs(60),
            ask_timeout: Duration::from_secs(10),
            ask_again_max: Duration::from_secs(5),
            asks_at_once: 256,
            calls_at_once: 4,
            agent_queue: 8192,
            cell_queue: 1024,
            follower_queue: 4096,
            follower_timeout: Duration::from_secs(10),
            remember_deleted: Duration::from_secs(86_400),
            hosts_max: 200_000,
        }
    }
}
