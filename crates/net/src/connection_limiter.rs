//! Limits the number of connections, in total and for each peer, and chooses which to evict.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Waker};

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::Notify;

use crate::peer::Peer;

/// The connection limits of a listener, and the options that set them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of connections in total.
    pub connections: usize,
    /// The maximum number of connections of one peer; 0 for no limit.
    pub per_peer: usize,
    /// The name of the option that sets the total.
    pub connections_option: &'static str,
    /// The name of the option that sets the limit of one peer.
    pub per_peer_option: &'static str,
}

/// Counters of a limiter's decisions.
#[derive(Debug, Clone, Default)]
pub struct ConnectionMetrics {
    /// Connections without a request under way that were closed in favour of other connections.
    pub evicted: Counter,
    /// Connections that were refused because their peer had reached its limit.
    pub refused: Counter,
    /// Failures to accept a connection.
    pub failed: Counter,
}

/// No request has arrived yet: evicted first.
const NEW: u8 = 0;
/// A request is being processed: never evicted.
const BUSY: u8 = 1;
/// The connection was kept alive and waits for a further request: evicted if no connection is
/// new.
const KEPT_ALIVE: u8 = 2;
/// The response may not have been sent completely: not evicted.
const RESPONDED: u8 = 3;

/// The state of one connection. The task of the connection updates it, without a lock. `Relaxed` is enough for `phase`
/// and `is_idle`, because no other memory depends on them: a limiter that reads an old phase may evict a connection
/// that has just become busy, and such a connection still answers its request.
#[derive(Debug)]
pub struct ConnectionState {
    /// The phase of the connection: [`NEW`], [`BUSY`], [`RESPONDED`] or [`KEPT_ALIVE`].
    phase: AtomicU8,
    /// Whether no byte of a further request has arrived, and the last response was sent completely.
    is_idle: AtomicBool,
    /// Whether the connection is evicted. It is set before the task is woken, and read after the task has registered
    /// its waker, so that no wake-up is missed.
    must_close: AtomicBool,
    /// The waker of the connection's task; `None` until the task registers it.
    waker: Mutex<Option<Waker>>,
}

impl ConnectionState {
    fn new(phase: u8) -> Self {
        Self {
            phase: AtomicU8::new(phase),
            is_idle: AtomicBool::new(false),
            must_close: AtomicBool::new(false),
            waker: Mutex::new(None),
        }
    }

    /// Records that the head of a request has arrived.
    pub fn set_busy(&self) {
        self.phase.store(BUSY, Ordering::Relaxed);
    }

    /// Records that the head of the response was produced.
    pub fn set_responded(&self) {
        self.phase.store(RESPONDED, Ordering::Relaxed);
    }

    /// Records that the previous response is complete and the next request is awaited.
    pub fn set_waiting(&self) {
        if self.phase.load(Ordering::Relaxed) == RESPONDED {
            self.phase.store(KEPT_ALIVE, Ordering::Relaxed);
        }
    }

    /// Whether a request is being processed.
    pub fn is_busy(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == BUSY
    }

    /// Whether no request has arrived yet.
    pub fn is_new(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == NEW
    }

    /// Sets whether the connection is idle between two requests.
    pub fn set_idle(&self, is_idle: bool) {
        self.is_idle.store(is_idle, Ordering::Relaxed);
    }

    /// Whether the connection is idle between two requests.
    pub fn is_idle(&self) -> bool {
        self.is_idle.load(Ordering::Relaxed)
    }

    /// Whether the connection is evicted: it has to close as soon as it waits for its peer.
    pub fn must_close(&self) -> bool {
        self.must_close.load(Ordering::SeqCst)
    }

    /// Registers the task that is woken when the connection has to close or the server stops.
    pub fn register_waker(&self, context: &Context<'_>) {
        *self.waker.lock() = Some(context.waker().clone());
    }

    fn wake(&self) {
        if let Some(waker) = &*self.waker.lock() {
            waker.wake_by_ref();
        }
    }

    fn request_close(&self) {
        self.must_close.store(true, Ordering::SeqCst);
        self.wake();
    }
}

/// Admits connections up to the limits and counts them.
#[derive(Debug)]
pub struct ConnectionLimiter {
    limits: Limits,
    metrics: ConnectionMetrics,
    open_connections: Mutex<Connections>,
    /// Notified when a connection has closed.
    closed: Notify,
}

/// All connections, by peer.
#[derive(Debug, Default)]
struct Connections {
    /// The number of the next connection. Numbers grow, so they order connections by age.
    next_number: u64,
    total: usize,
    peers: HashMap<Peer, PeerConnections>,
}

/// The connections of one peer.
#[derive(Debug, Default)]
struct PeerConnections {
    /// The connections by their numbers, so the oldest first.
    by_age: BTreeMap<u64, Arc<ConnectionState>>,
    /// The number of these connections that have to close.
    closing_count: usize,
}

impl PeerConnections {
    /// The number of connections that do not have to close.
    fn remaining(&self) -> usize {
        self.by_age.len().saturating_sub(self.closing_count)
    }

    /// The number of connections in this phase that do not have to close.
    fn evictable_count(&self, phase: u8) -> usize {
        self.by_age
            .values()
            .filter(|connection_state| is_evictable(connection_state, phase))
            .count()
    }

    /// Evicts the oldest connections in this phase, up to `limit` of them; returns their number.
    fn evict(&mut self, phase: u8, limit: usize) -> usize {
        let mut evicted = 0;
        for connection_state in self.by_age.values() {
            if evicted < limit && is_evictable(connection_state, phase) {
                connection_state.request_close();
                evicted += 1;
            }
        }
        self.closing_count += evicted;
        evicted
    }
}

fn is_evictable(connection_state: &ConnectionState, phase: u8) -> bool {
    connection_state.phase.load(Ordering::Relaxed) == phase && !connection_state.must_close()
}

/// When many connections are new, several are evicted at once: one in [`EVICTED_ONE_IN`], at most [`EVICTED_MAX`]. So
/// eviction keeps up with a client that opens connections fast and sends nothing on them.
const EVICTED_ONE_IN: usize = 16;
const EVICTED_MAX: usize = 32;

/// The decision about a new connection.
#[derive(Debug)]
pub(crate) enum Admission {
    Admitted(ConnectionPermit),
    /// The peer has reached its limit, and none of its connections can be evicted.
    PeerLimitReached,
    /// The total limit is reached; some connections were evicted, if any can be.
    LimitReached,
}

impl ConnectionLimiter {
    /// A limiter without connections.
    pub fn new(limits: Limits, metrics: ConnectionMetrics) -> Arc<Self> {
        Arc::new(Self {
            limits,
            metrics,
            open_connections: Mutex::default(),
            closed: Notify::new(),
        })
    }

    /// The limits that the limiter was made with.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn metrics(&self) -> &ConnectionMetrics {
        &self.metrics
    }

    /// The number of open connections.
    pub fn connections(&self) -> usize {
        self.open_connections.lock().total
    }

    /// Admits a connection if the limits allow it.
    pub(crate) fn admit(self: &Arc<Self>, remote: SocketAddr) -> Admission {
        let peer = Peer::from(remote);
        let mut open_connections = self.open_connections.lock();
        let limit = self.limits.per_peer;
        if let Some(peer_connections) = open_connections.peers.get_mut(&peer)
            && limit > 0
            && peer_connections.remaining() >= limit
        {
            // Only new connections are evicted here: those on which a response was sent are worth more.
            if peer_connections.evict(NEW, 1) == 0 {
                self.metrics.refused.inc();
                return Admission::PeerLimitReached;
            }
            self.metrics.evicted.inc();
        }
        if open_connections.total >= self.limits.connections {
            let evicted = open_connections.evict();
            self.metrics.evicted.inc_by(evicted as u64);
            return Admission::LimitReached;
        }
        Admission::Admitted(self.register(&mut open_connections, peer, NEW))
    }

    /// Admits a connection taken over from the previous process, regardless of the limits.
    pub fn inherit(self: &Arc<Self>, remote: SocketAddr) -> ConnectionPermit {
        self.register(
            &mut self.open_connections.lock(),
            Peer::from(remote),
            KEPT_ALIVE,
        )
    }

    fn register(
        self: &Arc<Self>,
        open_connections: &mut Connections,
        peer: Peer,
        phase: u8,
    ) -> ConnectionPermit {
        let number = open_connections.next_number;
        open_connections.next_number += 1;
        open_connections.total += 1;
        let connection_state = Arc::new(ConnectionState::new(phase));
        let peer_connections = open_connections.peers.entry(peer).or_default();
        peer_connections
            .by_age
            .insert(number, Arc::clone(&connection_state));
        ConnectionPermit {
            limiter: Arc::clone(self),
            peer,
            number,
            connection_state,
        }
    }

    /// Evicts new connections of the peer with the most of them, or if no connection is new, one that was
    /// kept alive.
    pub(crate) fn evict(&self) {
        let evicted = self.open_connections.lock().evict();
        self.metrics.evicted.inc_by(evicted as u64);
    }

    /// Wakes the tasks of all connections, for example because the server stops.
    pub fn wake_all(&self) {
        let all: Vec<Arc<ConnectionState>> = {
            let open_connections = self.open_connections.lock();
            let peers = open_connections.peers.values();
            peers
                .flat_map(|peer_connections| peer_connections.by_age.values().map(Arc::clone))
                .collect()
        };
        for connection_state in all {
            connection_state.wake();
        }
    }

    /// Waits until a connection has closed since the last call.
    pub(crate) async fn wait_until_closed(&self) {
        self.closed.notified().await;
    }

    /// Waits until no connection is open.
    pub async fn wait_until_empty(&self) {
        while self.connections() > 0 {
            self.wait_until_closed().await;
        }
    }
}

impl Connections {
    /// Evicts new connections of the peer with the most of them, or if no connection is new, one that was
    /// kept alive; returns their number.
    fn evict(&mut self) -> usize {
        for phase in [NEW, KEPT_ALIVE] {
            let counts = self
                .peers
                .iter()
                .map(|(peer, peer_connections)| (peer_connections.evictable_count(phase), *peer));
            let Some((count, peer)) = counts.max().filter(|(count, _)| *count > 0) else {
                continue;
            };
            let limit = if phase == NEW {
                (count / EVICTED_ONE_IN).clamp(1, EVICTED_MAX)
            } else {
                1
            };
            if let Some(peer_connections) = self.peers.get_mut(&peer) {
                return peer_connections.evict(phase, limit);
            }
        }
        0
    }
}

/// The permit of an open connection. Dropping it frees its share of the limits.
#[derive(Debug)]
pub struct ConnectionPermit {
    limiter: Arc<ConnectionLimiter>,
    peer: Peer,
    number: u64,
    connection_state: Arc<ConnectionState>,
}

impl ConnectionPermit {
    /// The state of the connection, which its task updates.
    pub fn connection_state(&self) -> &Arc<ConnectionState> {
        &self.connection_state
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut open_connections = self.limiter.open_connections.lock();
        open_connections.total -= 1;
        if let Some(peer_connections) = open_connections.peers.get_mut(&self.peer) {
            peer_connections.by_age.remove(&self.number);
            if self.connection_state.must_close() {
                peer_connections.closing_count = peer_connections.closing_count.saturating_sub(1);
            }
            if peer_connections.by_age.is_empty() {
                open_connections.peers.remove(&self.peer);
            }
        }
        drop(open_connections);
        self.limiter.closed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(connections: usize, per_peer: usize) -> Arc<ConnectionLimiter> {
        let limits = Limits {
            connections,
            per_peer,
            connections_option: "max",
            per_peer_option: "per_peer",
        };
        ConnectionLimiter::new(limits, ConnectionMetrics::default())
    }

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, last], 1))
    }

    fn admit(limiter: &Arc<ConnectionLimiter>, last: u8) -> ConnectionPermit {
        match limiter.admit(address(last)) {
            Admission::Admitted(permit) => permit,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_connection_of_the_peer_with_most_new_ones_is_evicted() {
        let limiter = limiter(6, 0);
        let few: Vec<ConnectionPermit> = (0..2).map(|_| admit(&limiter, 1)).collect();
        let many: Vec<ConnectionPermit> = (0..3).map(|_| admit(&limiter, 2)).collect();
        let kept_alive = admit(&limiter, 3);
        kept_alive.connection_state().set_busy();
        kept_alive.connection_state().set_responded();
        kept_alive.connection_state().set_waiting();
        assert!(matches!(limiter.admit(address(4)), Admission::LimitReached));
        let closing = |permits: &[ConnectionPermit]| {
            let closing = permits
                .iter()
                .filter(|permit| permit.connection_state().must_close());
            closing.count()
        };
        assert_eq!((closing(&few), closing(&many)), (0, 1));
        assert!(many[0].connection_state().must_close(), "the oldest");
        drop(many);
        let _others: Vec<ConnectionPermit> = (0..3).map(|_| admit(&limiter, 4)).collect();
        assert!(!kept_alive.connection_state().must_close());
    }

    #[test]
    fn kept_alive_connections_are_evicted_last_and_busy_ones_never() {
        let limiter = limiter(2, 0);
        let (first, second) = (admit(&limiter, 1), admit(&limiter, 1));
        first.connection_state().set_busy();
        second.connection_state().set_busy();
        assert!(matches!(limiter.admit(address(2)), Admission::LimitReached));
        assert!(!first.connection_state().must_close() && !second.connection_state().must_close());
        second.connection_state().set_responded();
        assert!(matches!(limiter.admit(address(2)), Admission::LimitReached));
        assert!(
            !second.connection_state().must_close(),
            "its response may not be sent completely"
        );
        second.connection_state().set_waiting();
        assert!(matches!(limiter.admit(address(2)), Admission::LimitReached));
        assert!(!first.connection_state().must_close() && second.connection_state().must_close());
        drop(second);
        admit(&limiter, 2);
        assert_eq!(limiter.metrics.evicted.get(), 1);
    }

    #[test]
    fn one_peer_has_no_more_connections_than_its_limit() {
        let limiter = limiter(10, 2);
        let (first, second) = (admit(&limiter, 1), admit(&limiter, 1));
        first.connection_state().set_busy();
        // A new connection is evicted in favour of a further one of the same peer.
        let third = admit(&limiter, 1);
        assert!(second.connection_state().must_close() && !first.connection_state().must_close());
        third.connection_state().set_busy();
        assert!(matches!(
            limiter.admit(address(1)),
            Admission::PeerLimitReached
        ));
        admit(&limiter, 2);
        drop(third);
        drop(second);
        admit(&limiter, 1);
        assert_eq!(limiter.metrics.refused.get(), 1);
        drop(first);
        assert_eq!(limiter.connections(), 0);
        assert!(limiter.open_connections.lock().peers.is_empty());
    }
}
