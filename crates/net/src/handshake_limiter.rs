//! Limits the number of handshakes under way, in total and for each peer.
//!
//! A handshake beyond a limit waits for a permit. When it has waited for [`DISPLACE_AFTER`], an older handshake that is
//! still waiting for its client is displaced: otherwise clients that begin handshakes and never finish them could block
//! all other handshakes.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::peer::Peer;

/// How long a handshake waits for its permit before an older one is displaced, and the minimum age of a
/// handshake that is displaced: a distant client needs two or three round trips.
const DISPLACE_AFTER: Duration = Duration::from_secs(1);

/// Issues permits for handshakes.
#[derive(Debug)]
pub(crate) struct HandshakeLimiter {
    /// The maximum number of handshakes under way of one peer.
    per_peer: usize,
    /// The permits of all handshakes together.
    total: Arc<Semaphore>,
    state: Mutex<State>,
}

/// The handshakes that have or wait for a permit.
#[derive(Debug, Default)]
struct State {
    /// The number of the next handshake. Numbers grow, so they order handshakes by age.
    next_number: u64,
    peers: HashMap<Peer, PeerState>,
    /// Handshakes under way by age, the oldest first.
    under_way: BTreeMap<u64, Handshake>,
}

/// The permits of one peer.
#[derive(Debug)]
struct PeerState {
    permits: Arc<Semaphore>,
    /// The number of the peer's handshakes, including those that wait.
    handshake_count: usize,
}

/// A handshake that has its permit.
#[derive(Debug)]
struct Handshake {
    peer: Peer,
    /// When it got its permit.
    since: Instant,
    /// Notified when the handshake is displaced.
    displaced: Arc<Notify>,
}

/// The permit of one handshake, which is released when it is dropped.
#[derive(Debug)]
pub(crate) struct HandshakePermit {
    number: u64,
    displaced: Arc<Notify>,
    peer_entry: PeerEntry,
    _peer_permit: OwnedSemaphorePermit,
    _total_permit: OwnedSemaphorePermit,
}

/// Keeps the state of a peer as long as it has handshakes.
#[derive(Debug)]
struct PeerEntry {
    limiter: Arc<HandshakeLimiter>,
    peer: Peer,
}

impl HandshakeLimiter {
    pub(crate) fn new(total: usize, per_peer: usize) -> Arc<Self> {
        let bounded = |number: usize| number.clamp(1, Semaphore::MAX_PERMITS);
        Arc::new(Self {
            per_peer: bounded(per_peer),
            total: Arc::new(Semaphore::new(bounded(total))),
            state: Mutex::default(),
        })
    }

    /// Waits for a permit. `None` only if the semaphores were closed, which never happens.
    pub(crate) async fn acquire(self: &Arc<Self>, remote: SocketAddr) -> Option<HandshakePermit> {
        let peer = Peer::from(remote);
        let (peer_entry, peer_permits) = self.enter(peer);
        let peer_permit = self.wait(peer_permits, Some(peer)).await?;
        let total_permit = self.wait(Arc::clone(&self.total), None).await?;
        let displaced = Arc::new(Notify::new());
        let mut state = self.state.lock();
        let number = state.next_number;
        state.next_number += 1;
        let handshake = Handshake {
            peer,
            since: Instant::now(),
            displaced: Arc::clone(&displaced),
        };
        state.under_way.insert(number, handshake);
        drop(state);
        Some(HandshakePermit {
            number,
            displaced,
            peer_entry,
            _peer_permit: peer_permit,
            _total_permit: total_permit,
        })
    }

    /// The number of handshakes that have a permit.
    #[cfg(test)]
    fn under_way(&self) -> usize {
        self.state.lock().under_way.len()
    }

    /// Waits for a permit, and displaces an old handshake each time that [`DISPLACE_AFTER`] has passed: one of `peer`,
    /// or if none is given, of the peer with the most old ones.
    async fn wait(
        &self,
        permits: Arc<Semaphore>,
        peer: Option<Peer>,
    ) -> Option<OwnedSemaphorePermit> {
        let mut permit = std::pin::pin!(permits.acquire_owned());
        loop {
            match tokio::time::timeout(DISPLACE_AFTER, permit.as_mut()).await {
                Ok(permit) => return permit.ok(),
                Err(_) => self.displace(peer),
            }
        }
    }

    /// Displaces an old handshake: the oldest one of this peer, or if none is given, of the peer with the most old
    /// ones.
    fn displace(&self, peer: Option<Peer>) {
        let mut state = self.state.lock();
        let old = || {
            let all = state.under_way.iter();
            all.take_while(|(_, handshake)| handshake.since.elapsed() >= DISPLACE_AFTER)
        };
        let peer_with_most = || {
            let mut counts: BTreeMap<Peer, usize> = BTreeMap::new();
            for (_, handshake) in old() {
                *counts.entry(handshake.peer).or_default() += 1;
            }
            let most = counts.into_iter().max_by_key(|(_, count)| *count);
            most.map(|(peer, _)| peer)
        };
        let peer = peer.or_else(peer_with_most);
        let oldest = old().find(|(_, handshake)| Some(handshake.peer) == peer);
        let number = oldest.map(|(number, _)| *number);
        if let Some(handshake) = number.and_then(|number| state.under_way.remove(&number)) {
            handshake.displaced.notify_one();
        }
    }

    /// Counts a handshake of a peer, and returns the permits of the peer.
    fn enter(self: &Arc<Self>, peer: Peer) -> (PeerEntry, Arc<Semaphore>) {
        let mut state = self.state.lock();
        let peer_state = state.peers.entry(peer).or_insert_with(|| PeerState {
            permits: Arc::new(Semaphore::new(self.per_peer)),
            handshake_count: 0,
        });
        peer_state.handshake_count += 1;
        let peer_entry = PeerEntry {
            limiter: Arc::clone(self),
            peer,
        };
        (peer_entry, Arc::clone(&peer_state.permits))
    }
}

impl HandshakePermit {
    /// Completes when the permit is needed for another handshake.
    pub(crate) async fn wait_until_displaced(&self) {
        self.displaced.notified().await;
    }
}

impl Drop for HandshakePermit {
    fn drop(&mut self) {
        let mut state = self.peer_entry.limiter.state.lock();
        state.under_way.remove(&self.number);
    }
}

impl Drop for PeerEntry {
    fn drop(&mut self) {
        let mut state = self.limiter.state.lock();
        if let Some(peer_state) = state.peers.get_mut(&self.peer) {
            peer_state.handshake_count -= 1;
            if peer_state.handshake_count == 0 {
                state.peers.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, last], 1))
    }

    #[tokio::test(start_paused = true)]
    async fn one_peer_cannot_take_all_permits() {
        let limiter = HandshakeLimiter::new(3, 2);
        let _first = limiter.acquire(address(1)).await.unwrap();
        let _second = limiter.acquire(address(1)).await.unwrap();
        let third = {
            let limiter = Arc::clone(&limiter);
            tokio::spawn(async move { limiter.acquire(address(1)).await })
        };
        tokio::task::yield_now().await;
        assert!(!third.is_finished());
        let other = limiter.acquire(address(2)).await.unwrap();
        assert_eq!(limiter.under_way(), 3);
        drop(other);
        third.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn an_old_handshake_is_displaced() {
        let limiter = HandshakeLimiter::new(2, 2);
        let old = limiter.acquire(address(1)).await.unwrap();
        let young = limiter.acquire(address(1)).await.unwrap();
        let waiting = {
            let limiter = Arc::clone(&limiter);
            tokio::spawn(async move { limiter.acquire(address(2)).await })
        };
        old.wait_until_displaced().await;
        assert!(!waiting.is_finished());
        drop(old);
        let waiting = waiting.await.unwrap().unwrap();
        assert!(
            tokio::time::timeout(DISPLACE_AFTER * 3, young.wait_until_displaced())
                .await
                .is_err()
        );
        drop((young, waiting));
        let state = limiter.state.lock();
        assert!(state.peers.is_empty() && state.under_way.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_wait_holds_no_permit() {
        let limiter = HandshakeLimiter::new(1, 1);
        let held = limiter.acquire(address(1)).await.unwrap();
        let cancelled = tokio::time::timeout(DISPLACE_AFTER / 2, limiter.acquire(address(1)));
        assert!(cancelled.await.is_err());
        drop(held);
        assert!(limiter.state.lock().peers.is_empty());
        assert_eq!(limiter.total.available_permits(), 1);
    }
}
