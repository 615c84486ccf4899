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
    /// Idle connections that were closed to make room for new ones.
    pub evicted: Counter,
    /// Connections that were refused because their peer had reached its limit.
    pub refused: Counter,
    /// Failures to accept a connection.
    pub failed: Counter,
}

/// No request was answered yet: evicted first.
const SILENT: u8 = 0;
/// A request is being answered: never evicted.
const BUSY: u8 = 1;
/// Waits for a further request: evicted if no connection is silent.
const KEPT: u8 = 2;
/// The answer may still be in transmission.
const ANSWERED: u8 = 3;

/// The state of one connection. Its own task updates it, without a lock.
#[derive(Debug)]
pub struct ConnectionState {
    condition: AtomicU8,
    /// Whether no byte of a further request has arrived, and the last answer is sent completely.
    idle: AtomicBool,
    leave: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl ConnectionState {
    fn new(condition: u8) -> Self {
        Self {
            condition: AtomicU8::new(condition),
            idle: AtomicBool::new(false),
            leave: AtomicBool::new(false),
            waker: Mutex::new(None),
        }
    }

    /// A state that no limiter counts, for connections without a limit.
    pub fn alone() -> Arc<Self> {
        Arc::new(Self::new(SILENT))
    }

    /// Records that the head of a request has arrived, or (`false`) that of its answer was
    /// produced.
    pub fn set_busy(&self, busy: bool) {
        let condition = if busy { BUSY } else { ANSWERED };
        self.condition.store(condition, Ordering::Relaxed);
    }

    /// Records that the previous answer is complete and the next request is awaited.
    pub fn waits(&self) {
        if self.condition.load(Ordering::Relaxed) == ANSWERED {
            self.condition.store(KEPT, Ordering::Relaxed);
        }
    }

    /// Whether a request is being answered.
    pub fn is_busy(&self) -> bool {
        self.condition.load(Ordering::Relaxed) == BUSY
    }

    /// Whether no request was answered yet.
    pub fn is_silent(&self) -> bool {
        self.condition.load(Ordering::Relaxed) == SILENT
    }

    /// Sets whether the connection is idle between two requests.
    pub fn set_idle(&self, idle: bool) {
        self.idle.store(idle, Ordering::Relaxed);
    }

    /// Whether the connection is idle between two requests.
    pub fn is_idle(&self) -> bool {
        self.idle.load(Ordering::Relaxed)
    }

    /// Whether the connection should close as soon as it waits for its peer.
    pub fn must_close(&self) -> bool {
        self.leave.load(Ordering::SeqCst)
    }

    /// Registers the task that is woken when the connection should close or the server stops.
    pub fn wake_by(&self, context: &Context<'_>) {
        *self.waker.lock() = Some(context.waker().clone());
    }

    fn wake(&self) {
        if let Some(waker) = &*self.waker.lock() {
            waker.wake_by_ref();
        }
    }

    fn request_close(&self) {
        self.leave.store(true, Ordering::SeqCst);
        self.wake();
    }
}

/// Admits connections up to the limits and counts them.
#[derive(Debug)]
pub struct ConnectionLimiter {
    limits: Limits,
    metrics: ConnectionMetrics,
    open_connections: Mutex<Connections>,
    freed: Notify,
}

/// All connections, by peer.
#[derive(Debug, Default)]
struct Connections {
    next: u64,
    total: usize,
    peers: HashMap<Peer, PeerConnections>,
}

/// The connections of one peer.
#[derive(Debug, Default)]
struct PeerConnections {
    /// The connections by age, the oldest first.
    open_connections: BTreeMap<u64, Arc<ConnectionState>>,
    /// The number of them that were asked to close.
    leaving: usize,
}

impl PeerConnections {
    fn staying(&self) -> usize {
        self.open_connections.len().saturating_sub(self.leaving)
    }

    fn count(&self, condition: u8) -> usize {
        let open_connections = self.open_connections.values();
        open_connections
            .filter(|connection_state| may_close(connection_state, condition))
            .count()
    }

    /// Asks the oldest connections in this condition to close; returns their number.
    fn request_close(&mut self, condition: u8, most: usize) -> usize {
        let mut asked = 0;
        for connection_state in self.open_connections.values() {
            if asked < most && may_close(connection_state, condition) {
                connection_state.request_close();
                asked += 1;
            }
        }
        self.leaving += asked;
        asked
    }
}

fn may_close(connection_state: &ConnectionState, condition: u8) -> bool {
    connection_state.condition.load(Ordering::Relaxed) == condition
        && !connection_state.must_close()
}

/// When many connections are silent, several are evicted at once: one in [`TOGETHER`], at most
/// [`TOGETHER_MAX`].
const TOGETHER: usize = 16;
const TOGETHER_MAX: usize = 32;

/// The decision about a new connection.
#[derive(Debug)]
pub(crate) enum Entry {
    In(ConnectionPermit),
    /// Its peer has reached its limit, and none of the peer's connections can be evicted.
    PeerFull,
    /// There is no room; connections that can be evicted were asked to close.
    Full,
}

impl ConnectionLimiter {
    /// A limiter without connections.
    pub fn new(limits: Limits, metrics: ConnectionMetrics) -> Arc<Self> {
        Arc::new(Self {
            limits,
            metrics,
            open_connections: Mutex::default(),
            freed: Notify::new(),
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

    /// Admits a connection if there is room.
    pub(crate) fn enter(self: &Arc<Self>, remote: SocketAddr) -> Entry {
        let peer = Peer::from(remote);
        let mut open_connections = self.open_connections.lock();
        let limit = self.limits.per_peer;
        if let Some(own) = open_connections.peers.get_mut(&peer)
            && limit > 0
            && own.staying() >= limit
        {
            // A connection that has been answered is worth more than a silent one.
            if own.request_close(SILENT, 1) == 0 {
                self.metrics.refused.inc();
                return Entry::PeerFull;
            }
            self.metrics.evicted.inc();
        }
        if open_connections.total >= self.limits.connections {
            let asked = open_connections.make_room();
            self.metrics.evicted.inc_by(asked as u64);
            return Entry::Full;
        }
        Entry::In(self.register(&mut open_connections, peer, SILENT))
    }

    /// Admits a connection taken over from the previous process, regardless of the limits.
    pub fn inherit(self: &Arc<Self>, remote: SocketAddr) -> ConnectionPermit {
        self.register(&mut self.open_connections.lock(), Peer::from(remote), KEPT)
    }

    fn register(
        self: &Arc<Self>,
        open_connections: &mut Connections,
        peer: Peer,
        condition: u8,
    ) -> ConnectionPermit {
        let number = open_connections.next;
        open_connections.next += 1;
        open_connections.total += 1;
        let connection_state = Arc::new(ConnectionState::new(condition));
        let own = open_connections.peers.entry(peer).or_default();
        own.open_connections
            .insert(number, Arc::clone(&connection_state));
        ConnectionPermit {
            limiter: Arc::clone(self),
            peer,
            number,
            connection_state,
        }
    }

    /// Asks an idle connection of the peer with the most of them to close.
    pub(crate) fn make_room(&self) {
        let asked = self.open_connections.lock().make_room();
        self.metrics.evicted.inc_by(asked as u64);
    }

    /// Wakes the tasks of all connections, for example because the server stops.
    pub fn wake_all(&self) {
        let all: Vec<Arc<ConnectionState>> = {
            let open_connections = self.open_connections.lock();
            let peers = open_connections.peers.values();
            peers
                .flat_map(|own| own.open_connections.values().map(Arc::clone))
                .collect()
        };
        for connection_state in all {
            connection_state.wake();
        }
    }

    /// Waits until a connection has ended since the last call.
    pub(crate) async fn freed(&self) {
        self.freed.notified().await;
    }

    /// Waits until no connection is open.
    pub async fn empty(&self) {
        while self.connections() > 0 {
            self.freed().await;
        }
    }
}

impl Connections {
    /// Asks connections of the peer with the most idle ones to close; returns their number.
    fn make_room(&mut self) -> usize {
        for condition in [SILENT, KEPT] {
            let counts = self
                .peers
                .iter()
                .map(|(peer, own)| (own.count(condition), *peer));
            let Some((count, peer)) = counts.max().filter(|(count, _)| *count > 0) else {
                continue;
            };
            let most = if condition == SILENT {
                (count / TOGETHER).clamp(1, TOGETHER_MAX)
            } else {
                1
            };
            if let Some(own) = self.peers.get_mut(&peer) {
                return own.request_close(condition, most);
            }
        }
        0
    }
}

/// The place of an open connection; dropping it makes room.
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
        if let Some(own) = open_connections.peers.get_mut(&self.peer) {
            own.open_connections.remove(&self.number);
            if self.connection_state.must_close() {
                own.leaving = own.leaving.saturating_sub(1);
            }
            if own.open_connections.is_empty() {
                open_connections.peers.remove(&self.peer);
            }
        }
        drop(open_connections);
        self.limiter.freed.notify_one();
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

    fn from(last: u8) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, last], 1))
    }

    fn enter(limiter: &Arc<ConnectionLimiter>, last: u8) -> ConnectionPermit {
        match limiter.enter(from(last)) {
            Entry::In(place) => place,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn who_has_most_silent_connections_makes_room() {
        let limiter = limiter(6, 0);
        let few: Vec<ConnectionPermit> = (0..2).map(|_| enter(&limiter, 1)).collect();
        let many: Vec<ConnectionPermit> = (0..3).map(|_| enter(&limiter, 2)).collect();
        let kept = enter(&limiter, 3);
        kept.connection_state().set_busy(true);
        kept.connection_state().set_busy(false);
        kept.connection_state().waits();
        assert!(matches!(limiter.enter(from(4)), Entry::Full));
        let leaving = |places: &[ConnectionPermit]| {
            let leaving = places
                .iter()
                .filter(|place| place.connection_state().must_close());
            leaving.count()
        };
        assert_eq!((leaving(&few), leaving(&many)), (0, 1));
        assert!(many[0].connection_state().must_close(), "the oldest");
        drop(many);
        let _others: Vec<ConnectionPermit> = (0..3).map(|_| enter(&limiter, 4)).collect();
        assert!(!kept.connection_state().must_close());
    }

    #[test]
    fn kept_connections_make_room_last_and_busy_ones_never() {
        let limiter = limiter(2, 0);
        let (first, second) = (enter(&limiter, 1), enter(&limiter, 1));
        first.connection_state().set_busy(true);
        second.connection_state().set_busy(true);
        assert!(matches!(limiter.enter(from(2)), Entry::Full));
        assert!(!first.connection_state().must_close() && !second.connection_state().must_close());
        second.connection_state().set_busy(false);
        assert!(matches!(limiter.enter(from(2)), Entry::Full));
        assert!(
            !second.connection_state().must_close(),
            "its answer is on its way"
        );
        second.connection_state().waits();
        assert!(matches!(limiter.enter(from(2)), Entry::Full));
        assert!(!first.connection_state().must_close() && second.connection_state().must_close());
        drop(second);
        enter(&limiter, 2);
        assert_eq!(limiter.metrics.evicted.get(), 1);
    }

    #[test]
    fn one_peer_has_no_more_than_its_share() {
        let limiter = limiter(10, 2);
        let (first, second) = (enter(&limiter, 1), enter(&limiter, 1));
        first.connection_state().set_busy(true);
        // A silent connection makes room for a new one of the same peer.
        let third = enter(&limiter, 1);
        assert!(second.connection_state().must_close() && !first.connection_state().must_close());
        third.connection_state().set_busy(true);
        assert!(matches!(limiter.enter(from(1)), Entry::PeerFull));
        enter(&limiter, 2);
        drop(third);
        drop(second);
        enter(&limiter, 1);
        assert_eq!(limiter.metrics.refused.get(), 1);
        drop(first);
        assert_eq!(limiter.connections(), 0);
        assert!(limiter.open_connections.lock().peers.is_empty());
    }
}
