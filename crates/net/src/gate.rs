//! How many connections there may be, in total and of one peer, and which one makes room.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Waker};

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::Notify;

use crate::peer::Peer;

/// How many connections a listener may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// In total.
    pub connections: usize,
    /// Of one peer; 0: no limit of its own.
    pub per_peer: usize,
    /// The option that sets the total.
    pub connections_option: &'static str,
    /// The option that sets the limit of one peer.
    pub per_peer_option: &'static str,
}

/// What is counted.
#[derive(Debug, Clone, Default)]
pub struct GateMetrics {
    /// Idle connections that were closed because a newcomer needed the room.
    pub evicted: Counter,
    /// Connections that were refused because their peer had as many as it may.
    pub refused: Counter,
    /// Failures to accept a connection.
    pub failed: Counter,
}

/// No request was answered yet: the first to make room.
const SILENT: u8 = 0;
/// A request is being answered: never makes room.
const BUSY: u8 = 1;
/// Waits for a further request: makes room if nobody is silent.
const KEPT: u8 = 2;
/// Its answer may be on its way still.
const ANSWERED: u8 = 3;

/// What is known of one connection. Its own task writes it, without a lock.
#[derive(Debug)]
pub struct Seat {
    condition: AtomicU8,
    /// Whether nothing of a further request has come, and all of the last answer is gone.
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

    /// One that nobody counts.
    pub fn alone() -> Arc<Self> {
        Arc::new(Self::new(SILENT))
    }

    /// A request's head is there, or (`false`) the head of its answer.
    pub fn set_busy(&self, busy: bool) {
        let condition = if busy { BUSY } else { ANSWERED };
        self.condition.store(condition, Ordering::Relaxed);
    }

    /// A head is waited for: the answer to the request before it is complete.
    pub fn waits(&self) {
        if self.condition.load(Ordering::Relaxed) == ANSWERED {
            self.condition.store(KEPT, Ordering::Relaxed);
        }
    }

    /// Whether a request is being answered.
    pub fn is_busy(&self) -> bool {
        self.condition.load(Ordering::Relaxed) == BUSY
    }

    /// Whether no request was answered so far.
    pub fn is_silent(&self) -> bool {
        self.condition.load(Ordering::Relaxed) == SILENT
    }

    /// The connection waits between two requests, or (`false`) does not.
    pub fn set_idle(&self, idle: bool) {
        self.idle.store(idle, Ordering::Relaxed);
    }

    /// Whether the connection waits between two requests.
    pub fn is_idle(&self) -> bool {
        self.idle.load(Ordering::Relaxed)
    }

    /// Whether the connection should end as soon as it waits for its peer.
    pub fn must_leave(&self) -> bool {
        self.leave.load(Ordering::SeqCst)
    }

    /// Says who is to be woken when the connection should leave or the server stops.
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

/// Lets connections in and counts them.
#[derive(Debug)]
pub struct Gate {
    limits: Limits,
    metrics: GateMetrics,
    seats: Mutex<Seats>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Seats {
    next: u64,
    total: usize,
    peers: HashMap<Peer, PeerSeats>,
}

#[derive(Debug, Default)]
struct PeerSeats {
    /// By age.
    seats: BTreeMap<u64, Arc<Seat>>,
    /// How many of them were asked to leave.
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

    /// Asks the oldest ones of this condition to leave; answers how many there were.
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

/// A crowd of silent connections makes room for several newcomers at once: one in so many, and no more
/// than that.
const TOGETHER: usize = 16;
const TOGETHER_MAX: usize = 32;

/// What became of a connection at the gate.
#[derive(Debug)]
pub(crate) enum Entry {
    In(Place),
    /// Its peer has as many as it may, and none of them makes room.
    PeerFull,
    /// There is no room; connections that can make some were asked to.
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

    /// Its limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn metrics(&self) -> &GateMetrics {
        &self.metrics
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.seats.lock().total
    }

    /// Lets a connection in if there is room.
    pub(crate) fn enter(self: &Arc<Self>, remote: SocketAddr) -> Entry {
        let peer = Peer::from(remote);
        let mut seats = self.seats.lock();
        let limit = self.limits.per_peer;
        if let Some(own) = seats.peers.get_mut(&peer)
            && limit > 0
            && own.staying() >= limit
        {
            // Whoever has been answered is worth more than who has said nothing yet.
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

    /// Lets a connection in that was kept by the process before this one, whether there is room or
    /// not.
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

    /// Asks an idle connection to leave, whoever has most of them.
    pub(crate) fn make_room(&self) {
        let asked = self.seats.lock().make_room();
        self.metrics.evicted.inc_by(asked as u64);
    }

    /// Wakes the tasks of all connections, which have something to look at.
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

    /// Waits until a connection has ended since this was last waited for.
    pub(crate) async fn freed(&self) {
        self.freed.notified().await;
    }

    /// Waits until there is no connection.
    pub async fn empty(&self) {
        while self.connections() > 0 {
            self.freed().await;
        }
    }
}

impl Seats {
    /// Asks connections of the peer that has most idle ones to leave; answers how many.
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

/// A connection's place; the room is free again once this is dropped.
#[derive(Debug)]
pub struct Place {
    gate: Arc<Gate>,
    peer: Peer,
    number: u64,
    seat: Arc<Seat>,
}

impl Place {
    /// What the connection's task says of it.
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
        // A silent one makes room for a newcomer of the same peer.
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
