//! How many handshakes are under way, in total and of each peer.
//!
//! A handshake holds memory and, for moments, a processor. One beyond the limits waits. If it has
//! waited for a while, the oldest one that makes no progress for its client's sake gives way: nobody
//! can keep others out by beginning handshakes and leaving them there.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::peer::Peer;

/// How long a handshake waits for its place before an older one gives way, and how old that one is
/// at least: a client far away needs two or three round trips.
const PATIENCE: Duration = Duration::from_secs(1);

/// The places of handshakes.
#[derive(Debug)]
pub(crate) struct HandshakePlaces {
    per_peer: usize,
    total: Arc<Semaphore>,
    taken: Mutex<Taken>,
}

/// Who has a place, or waits for one.
#[derive(Debug, Default)]
struct Taken {
    next: u64,
    peers: HashMap<Peer, PeerTurns>,
    /// Handshakes under way by age, the oldest first.
    under_way: BTreeMap<u64, UnderWay>,
}

/// The places of one peer.
#[derive(Debug)]
struct PeerTurns {
    places: Arc<Semaphore>,
    /// Its handshakes, with those that wait.
    users: usize,
}

/// A handshake that has its place.
#[derive(Debug)]
struct UnderWay {
    peer: Peer,
    since: Instant,
    gives_way: Arc<Notify>,
}

/// The place of one handshake; dropping it makes room.
#[derive(Debug)]
pub(crate) struct HandshakePlace {
    number: u64,
    gives_way: Arc<Notify>,
    visit: Visit,
    _of_peer: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

/// A peer's entry in the table, for as long as somebody uses it.
#[derive(Debug)]
struct Visit {
    places: Arc<HandshakePlaces>,
    peer: Peer,
}

impl HandshakePlaces {
    pub(crate) fn new(total: usize, per_peer: usize) -> Arc<Self> {
        let bounded = |number: usize| number.clamp(1, Semaphore::MAX_PERMITS);
        Arc::new(Self {
            per_peer: bounded(per_peer),
            total: Arc::new(Semaphore::new(bounded(total))),
            taken: Mutex::default(),
        })
    }

    /// Waits for a place. None only if the semaphores were closed, which nobody does.
    pub(crate) async fn enter(self: &Arc<Self>, remote: SocketAddr) -> Option<HandshakePlace> {
        let peer = Peer::from(remote);
        let (visit, of_peer) = self.visit(peer);
        let of_peer = self.wait(of_peer, Some(peer)).await?;
        let of_all = self.wait(Arc::clone(&self.total), None).await?;
        let gives_way = Arc::new(Notify::new());
        let mut taken = self.taken.lock();
        let number = taken.next;
        taken.next += 1;
        let under_way = UnderWay {
            peer,
            since: Instant::now(),
            gives_way: Arc::clone(&gives_way),
        };
        taken.under_way.insert(number, under_way);
        drop(taken);
        Some(HandshakePlace {
            number,
            gives_way,
            visit,
            _of_peer: of_peer,
            _of_all: of_all,
        })
    }

    /// The number of handshakes that have a place.
    #[cfg(test)]
    fn under_way(&self) -> usize {
        self.taken.lock().under_way.len()
    }

    /// Waits for a permit. Each time that it has waited for a while, one old handshake gives way.
    async fn wait(
        &self,
        permits: Arc<Semaphore>,
        peer: Option<Peer>,
    ) -> Option<OwnedSemaphorePermit> {
        let mut permit = std::pin::pin!(permits.acquire_owned());
        loop {
            match tokio::time::timeout(PATIENCE, permit.as_mut()).await {
                Ok(permit) => return permit.ok(),
                Err(_) => self.displace(peer),
            }
        }
    }

    /// Has an old handshake give way: the oldest one of this peer, or of the peer with most old ones.
    fn displace(&self, peer: Option<Peer>) {
        let mut taken = self.taken.lock();
        let old = || {
            let all = taken.under_way.iter();
            all.take_while(|(_, one)| one.since.elapsed() >= PATIENCE)
        };
        let most = || {
            let mut counts: BTreeMap<Peer, usize> = BTreeMap::new();
            for (_, one) in old() {
                *counts.entry(one.peer).or_default() += 1;
            }
            let most = counts.into_iter().max_by_key(|(_, count)| *count);
            most.map(|(peer, _)| peer)
        };
        let peer = peer.or_else(most);
        let oldest = old().find(|(_, one)| Some(one.peer) == peer);
        let number = oldest.map(|(number, _)| *number);
        if let Some(one) = number.and_then(|number| taken.under_way.remove(&number)) {
            one.gives_way.notify_one();
        }
    }

    fn visit(self: &Arc<Self>, peer: Peer) -> (Visit, Arc<Semaphore>) {
        let mut taken = self.taken.lock();
        let turns = taken.peers.entry(peer).or_insert_with(|| PeerTurns {
            places: Arc::new(Semaphore::new(self.per_peer)),
            users: 0,
        });
        turns.users += 1;
        let visit = Visit {
            places: Arc::clone(self),
            peer,
        };
        (visit, Arc::clone(&turns.places))
    }
}

impl HandshakePlace {
    /// Completes when the place is needed for others.
    pub(crate) async fn must_go(&self) {
        self.gives_way.notified().await;
    }
}

impl Drop for HandshakePlace {
    fn drop(&mut self) {
        let mut taken = self.visit.places.taken.lock();
        taken.under_way.remove(&self.number);
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        if let Some(turns) = taken.peers.get_mut(&self.peer) {
            turns.users -= 1;
            if turns.users == 0 {
                taken.peers.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(last: u8) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, last], 1))
    }

    #[tokio::test(start_paused = true)]
    async fn one_peer_leaves_room_for_others() {
        let places = HandshakePlaces::new(3, 2);
        let _first = places.enter(from(1)).await.unwrap();
        let _second = places.enter(from(1)).await.unwrap();
        let third = {
            let places = Arc::clone(&places);
            tokio::spawn(async move { places.enter(from(1)).await })
        };
        tokio::task::yield_now().await;
        assert!(!third.is_finished());
        let other = places.enter(from(2)).await.unwrap();
        assert_eq!(places.under_way(), 3);
        drop(other);
        third.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_go_on_gives_way() {
        let places = HandshakePlaces::new(2, 2);
        let old = places.enter(from(1)).await.unwrap();
        let young = places.enter(from(1)).await.unwrap();
        let waiting = {
            let places = Arc::clone(&places);
            tokio::spawn(async move { places.enter(from(2)).await })
        };
        old.must_go().await;
        assert!(!waiting.is_finished());
        drop(old);
        let waiting = waiting.await.unwrap().unwrap();
        assert!(
            tokio::time::timeout(PATIENCE * 3, young.must_go())
                .await
                .is_err()
        );
        drop((young, waiting));
        let taken = places.taken.lock();
        assert!(taken.peers.is_empty() && taken.under_way.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn places_are_freed_when_nobody_waits_any_more() {
        let places = HandshakePlaces::new(1, 1);
        let held = places.enter(from(1)).await.unwrap();
        let gone = tokio::time::timeout(PATIENCE / 2, places.enter(from(1)));
        assert!(gone.await.is_err());
        drop(held);
        assert!(places.taken.lock().peers.is_empty());
        assert_eq!(places.total.available_permits(), 1);
    }
}
