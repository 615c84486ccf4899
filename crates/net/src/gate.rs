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

/// Counters of a gate's decisions.
#[derive(Debug, Clone, Default)]
pub struct GateMetrics {
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
pub struct Seat {
    condition: AtomicU8,
    /// Whether no byte of a further request has arrived, and the last answer is sent completely.
    idle: AtomicBool,
    leave: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Seat {
    fn new(condition: u8) -> Self {
        Self {
            condition: AtomicU8::new(condition),
            idle: AtomicBool::new(false),
            leave: AtomicBool::new(false),
            waker: Mutex::new(None),
        }
    }

    /// A state that no gate counts, for connections without a limit.
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
    pub fn must_leave(&self) -> bool {
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

    fn ask_to_leave(&self) {
        self.leave.store(true, Ordering::SeqCst);
        self.wake();
    }
}

/// Admits connections up to the limits and counts them.
#[derive(Debug)]
pub struct Gate {
    limits: Limits,
    metrics: GateMetrics,
    seats: Mutex<Seats>,
    freed: Notify,
}

/// All connections, by peer.
#[derive(Debug, Default)]
struct Seats {
    next: u64,
    total: usize,
    peers: HashMap<Peer, PeerSeats>,
}

/// The connections of one peer.
#[derive(Debug, Default)]
struct PeerSeats {
    /// The connections by age, the oldest first.
    seats: BTreeMap<u64, Arc<Seat>>,
    /// The number of them that were asked to close.
    leaving: usize,
}

impl PeerSeats {
    fn staying(&self) -> usize {
        self.seats.len().saturating_sub(self.leaving)
    }

    fn count(&self, condition: u8) -> usize {
        let seats = self.seats.values();
        seats.filter(|seat| may_leave(seat, condition)).count()
    }

    /// Asks the oldest connections in this condition to close; returns their number.
    fn ask_to_leave(&mut self, condition: u8, most: usize) -> usize {
        let mut asked = 0;
        for seat in self.seats.values() {
            if asked < most && may_leave(seat, condition) {
                seat.ask_to_leave();
                asked += 1;
            }
        }
        self.leaving += asked;
        asked
    }
}

fn may_leave(seat: &Seat, condition: u8) -> bool {
    seat.condition.load(Ordering::Relaxed) == condition && !seat.must_leave()
}

/// When many connections are silent, several are evicted at once: one in [`TOGETHER`], at most
/// [`TOGETHER_MAX`].
const TOGETHER: usize = 16;
const TOGETHER_MAX: usize = 32;

/// The decision about a new connection.
#[derive(Debug)]
pub(crate) enum Entry {
    In(Place),
    /// Its peer has reached its limit, and none of the peer's connections can be evicted.
    PeerFull,
    /// There is no room; connections that can be evicted were asked to close.
    Full,
}

impl Gate {
    /// A gate without connections.
    pub fn new(limits: Limits, metrics: GateMetrics) -> Arc<Self> {
        Arc::new(Self {
            limits,
            metrics,
            seats: Mutex::default(),
            freed: Notify::new(),
        })
    }

    /// The limits that the gate was made with.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn metrics(&self) -> &GateMetrics {
        &self.metrics
    }

    /// The number of open connections.
    pub fn connections(&self) -> usize {
        self.seats.lock().total
    }

    /// Admits a connection if there is room.
    pub(crate) fn enter(self: &Arc<Self>, remote: SocketAddr) -> Entry {
        let peer = Peer::from(remote);
        let mut seats = self.seats.lock();
        let limit = self.limits.per_peer;
        if let Some(own) = seats.peers.get_mut(&peer)
            && limit > 0
            && own.staying() >= limit
        {
            // A connection that has been answered is worth more than a silent one.
            if own.ask_to_leave(SILENT, 1) == 0 {
                self.metrics.refused.inc();
                return Entry::PeerFull;
            }
            self.metrics.evicted.inc();
        }
        if seats.total >= self.limits.connections {
            let asked = seats.make_room();
            self.metrics.evicted.inc_by(asked as u64);
            return Entry::Full;
        }
        Entry::In(self.sit(&mut seats, peer, SILENT))
    }

    /// Admits a connection taken over from the previous process, regardless of the limits.
    pub fn inherit(self: &Arc<Self>, remote: SocketAddr) -> Place {
        self.sit(&mut self.seats.lock(), Peer::from(remote), KEPT)
    }

    fn sit(self: &Arc<Self>, seats: &mut Seats, peer: Peer, condition: u8) -> Place {
        let number = seats.next;
        seats.next += 1;
        seats.total += 1;
        let seat = Arc::new(Seat::new(condition));
        let own = seats.peers.entry(peer).or_default();
        own.seats.insert(number, Arc::clone(&seat));
        Place {
            gate: Arc::clone(self),
            peer,
            number,
            seat,
        }
    }

    /// Asks an idle connection of the peer with the most of them to close.
    pub(crate) fn make_room(&self) {
        let asked = self.seats.lock().make_room();
        self.metrics.evicted.inc_by(asked as u64);
    }

    /// Wakes the tasks of all connections, for example because the server stops.
    pub fn wake_all(&self) {
        let all: Vec<Arc<Seat>> = {
            let seats = self.seats.lock();
            let peers = seats.peers.values();
            peers
                .flat_map(|own| own.seats.values().map(Arc::clone))
                .collect()
        };
        for seat in all {
            seat.wake();
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

impl Seats {
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
                return own.ask_to_leave(condition, most);
            }
        }
        0
    }
}

/// The place of an open connection; dropping it makes room.
#[derive(Debug)]
pub struct Place {
    gate: Arc<Gate>,
    peer: Peer,
    number: u64,
    seat: Arc<Seat>,
}

impl Place {
    /// The state of the connection, which its task updates.
    pub fn seat(&self) -> &Arc<Seat> {
        &self.seat
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut seats = self.gate.seats.lock();
        seats.total -= 1;
        if let Some(own) = seats.peers.get_mut(&self.peer) {
            own.seats.remove(&self.number);
            if self.seat.must_leave() {
                own.leaving = own.leaving.saturating_sub(1);
            }
            if own.seats.is_empty() {
                seats.peers.remove(&self.peer);
            }
        }
        drop(seats);
        self.gate.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(connections: usize, per_peer: usize) -> Arc<Gate> {
        let limits = Limits {
            connections,
            per_peer,
            connections_option: "max",
            per_peer_option: "per_peer",
        };
        Gate::new(limits, GateMetrics::default())
    }

    fn from(last: u8) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, last], 1))
    }

    fn enter(gate: &Arc<Gate>, last: u8) -> Place {
        match gate.enter(from(last)) {
            Entry::In(place) => place,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn who_has_most_silent_connections_makes_room() {
        let gate = gate(6, 0);
        let few: Vec<Place> = (0..2).map(|_| enter(&gate, 1)).collect();
        let many: Vec<Place> = (0..3).map(|_| enter(&gate, 2)).collect();
        let kept = enter(&gate, 3);
        kept.seat().set_busy(true);
        kept.seat().set_busy(false);
        kept.seat().waits();
        assert!(matches!(gate.enter(from(4)), Entry::Full));
        let leaving = |places: &[Place]| {
            let leaving = places.iter().filter(|place| place.seat().must_leave());
            leaving.count()
        };
        assert_eq!((leaving(&few), leaving(&many)), (0, 1));
        assert!(many[0].seat().must_leave(), "the oldest");
        drop(many);
        let _others: Vec<Place> = (0..3).map(|_| enter(&gate, 4)).collect();
        assert!(!kept.seat().must_leave());
    }

    #[test]
    fn kept_connections_make_room_last_and_busy_ones_never() {
        let gate = gate(2, 0);
        let (first, second) = (enter(&gate, 1), enter(&gate, 1));
        first.seat().set_busy(true);
        second.seat().set_busy(true);
        assert!(matches!(gate.enter(from(2)), Entry::Full));
        assert!(!first.seat().must_leave() && !second.seat().must_leave());
        second.seat().set_busy(false);
        assert!(matches!(gate.enter(from(2)), Entry::Full));
        assert!(!second.seat().must_leave(), "its answer is on its way");
        second.seat().waits();
        assert!(matches!(gate.enter(from(2)), Entry::Full));
        assert!(!first.seat().must_leave() && second.seat().must_leave());
        drop(second);
        enter(&gate, 2);
        assert_eq!(gate.metrics.evicted.get(), 1);
    }

    #[test]
    fn one_peer_has_no_more_than_its_share() {
        let gate = gate(10, 2);
        let (first, second) = (enter(&gate, 1), enter(&gate, 1));
        first.seat().set_busy(true);
        // A silent connection makes room for a new one of the same peer.
        let third = enter(&gate, 1);
        assert!(second.seat().must_leave() && !first.seat().must_leave());
        third.seat().set_busy(true);
        assert!(matches!(gate.enter(from(1)), Entry::PeerFull));
        enter(&gate, 2);
        drop(third);
        drop(second);
        enter(&gate, 1);
        assert_eq!(gate.metrics.refused.get(), 1);
        drop(first);
        assert_eq!(gate.connections(), 0);
        assert!(gate.seats.lock().peers.is_empty());
    }
}
