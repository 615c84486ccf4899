//! The metrics of a cell.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::shared::{CellParts, LeaderState};

/// Counters since the cell's start, and present sizes, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CellMetrics {
    /// The number of instances.
    pub instances: u64,
    /// The number of hosts that have begun a session with the cell and were not removed since.
    pub hosts: u64,
    /// The number of hosts that are up.
    pub hosts_up: u64,
    /// Connections of agents since the start.
    pub connections: u64,
    /// Orders sent to agents.
    pub orders: u64,
    /// Orders that were not sent, because there was no connection or its queue was full; they are
    /// repeated.
    pub orders_dropped: u64,
    /// Claim requests that placement answered.
    pub claim_requests: u64,
    /// Claim requests that placement did not answer; they are repeated.
    pub claim_requests_failed: u64,
    /// Effects that were carried out again because no answer had ended them. Starts of sessions that were submitted to
    /// the engine again, because the store had failed, are counted here, too.
    pub effects_repeated: u64,
    /// The present number of followers.
    pub followers: u64,
    /// Followers that were disconnected because they received nothing for too long.
    pub followers_cut_off: u64,
    /// Events that wait to be decided.
    pub queued: u64,
    /// 1 if this process works as the cell; 0 if it stands by, as one of several replicas.
    pub leading: u64,
}

/// Collects the metrics of a cell. `leader_state` is the data that exists only while this process leads. It is `None`
/// for a standby, whose numbers of instances and hosts are read from its engine.
pub(crate) fn metrics(parts: &CellParts, leader_state: Option<&LeaderState>) -> CellMetrics {
    let counts = &parts.counts;
    let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let metrics = CellMetrics {
        connections: value(&counts.connections),
        orders: value(&counts.orders),
        orders_dropped: value(&counts.orders_dropped),
        claim_requests: value(&counts.claim_requests),
        claim_requests_failed: value(&counts.claim_requests_failed),
        effects_repeated: value(&counts.effects_repeated),
        followers_cut_off: value(&counts.followers_cut_off),
        queued: parts.engine.queued() as u64,
        leading: u64::from(leader_state.is_some()),
        ..CellMetrics::default()
    };
    if let Some(leader_state) = leader_state {
        let read_model = leader_state.read_model.lock();
        return CellMetrics {
            instances: read_model.instance_count() as u64,
            hosts: read_model.hosts_in_cell() as u64,
            hosts_up: read_model.hosts().filter(|(_, host)| host.is_up()).count() as u64,
            followers: read_model.follower_queues.count() as u64,
            ..metrics
        };
    }
    parts.engine.read_now(|machine| CellMetrics {
        instances: machine.state.instances().len() as u64,
        hosts: machine.state.hosts().len() as u64,
        hosts_up: machine
            .state
            .hosts()
            .values()
            .filter(|host| host.is_up)
            .count() as u64,
        ..metrics
    })
}
