//! The replicas that follow this one. When this one ends, it hands over the leadership to one of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use placewright_control::FollowerReport;
use placewright_link::{FollowStart, ReplicaAddress};
use tokio::sync::watch;

use super::peers::Peers;

/// The replicas that follow this one now.
#[derive(Debug)]
pub(crate) struct Followers {
    state: Mutex<State>,
    /// The list of the other replicas, which gets the followers at each change.
    peers: Arc<Peers>,
    /// The addresses of the followers, for the streams to them.
    addresses: watch::Sender<Vec<ReplicaAddress>>,
}

/// The followers, and what their registration needs.
#[derive(Debug, Default)]
struct State {
    /// The number that the stream of the next follower gets.
    next_stream: u64,
    /// The entry with which this replica last began to lead, as the last follower that joined knows it.
    epoch: u64,
    /// The followers, by the number of the stream of each.
    followers: BTreeMap<u64, KnownFollower>,
}

/// The data of one follower.
#[derive(Debug)]
struct KnownFollower {
    /// The entry with which this replica began to lead, as the follower knows it.
    epoch: u64,
    /// The number of the follower, which is a new one at each of its starts.
    origin: u64,
    /// The address at which other replicas reach the follower.
    address: String,
    /// The release of Placewright that the follower runs.
    release: String,
    /// The last entry that the follower has applied.
    sequence: u64,
}

/// Registers a follower for as long as its stream exists.
#[derive(Debug)]
pub(crate) struct Joined {
    followers: Arc<Followers>,
    /// The number of the follower's stream in [`State::followers`].
    stream: u64,
}

impl Followers {
    pub(crate) fn new(peers: Arc<Peers>) -> Self {
        Self {
            state: Mutex::default(),
            peers,
            addresses: watch::Sender::default(),
        }
    }

    /// The addresses of all followers. The receiver gets each change of them.
    pub(crate) fn addresses(&self) -> watch::Receiver<Vec<ReplicaAddress>> {
        self.addresses.subscribe()
    }

    /// Passes the new list of followers to `peers` and to the streams of all followers. The list has no followers that
    /// joined in an earlier epoch in which this replica led: their streams are about to end.
    fn publish(&self, state: &State) {
        let followers = state.followers.values();
        let addresses: Vec<_> = followers
            .filter(|follower| follower.epoch == state.epoch)
            .map(|follower| ReplicaAddress {
                origin: follower.origin,
                address: follower.address.clone(),
            })
            .collect();
        self.peers.set(state.epoch, &addresses, Instant::now());
        self.addresses.send_replace(addresses);
    }

    /// Adds a follower.
    pub(crate) fn join(self: &Arc<Self>, start: &FollowStart) -> Joined {
        let mut state = self.state.lock();
        let stream = state.next_stream;
        state.next_stream += 1;
        state.epoch = state.epoch.max(start.leader.epoch);
        let follower = KnownFollower {
            epoch: start.leader.epoch,
            origin: start.origin,
            address: start.address.clone(),
            release: start.release.clone(),
            sequence: 0,
        };
        state.followers.insert(stream, follower);
        self.publish(&state);
        Joined {
            followers: Arc::clone(self),
            stream,
        }
    }

    /// The number and address of the follower that has applied the most entries, among all followers but the one with
    /// the number `excluded`. `None` if there is no such follower.
    pub(crate) fn best_except(&self, excluded: u64) -> Option<(u64, String)> {
        let state = self.state.lock();
        let followers = state.followers.values();
        let others = followers.filter(|follower| follower.origin != excluded);
        let best = others.max_by_key(|follower| follower.sequence)?;
        Some((best.origin, best.address.clone()))
    }

    /// All followers, for operators.
    pub(crate) fn report(&self) -> Vec<FollowerReport> {
        let state = self.state.lock();
        let report = |follower: &KnownFollower| FollowerReport {
            address: follower.address.clone(),
            release: follower.release.clone(),
            applied: follower.sequence,
        };
        state.followers.values().map(report).collect()
    }
}

impl Joined {
    /// Notes the last entry that the follower has applied.
    pub(crate) fn note_applied(&self, sequence: u64) {
        if let Some(follower) = self.followers.state.lock().followers.get_mut(&self.stream) {
            follower.sequence = sequence;
        }
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        let mut state = self.followers.state.lock();
        state.followers.remove(&self.stream);
        self.followers.publish(&state);
    }
}

#[cfg(test)]
mod tests {
    use placewright_link::Leader;

    use super::*;

    /// The message with which a follower joins this replica, which leads since the entry `epoch`.
    fn start(epoch: u64, origin: u64, address: &str, release: &str) -> FollowStart {
        FollowStart {
            origin,
            address: address.into(),
            release: release.into(),
            leader: Leader {
                epoch,
                ..Leader::default()
            },
            ..FollowStart::default()
        }
    }

    #[test]
    fn the_follower_that_has_applied_most_is_the_best_while_it_is_there() {
        let peers = Arc::new(Peers::of_test(7));
        let followers = Arc::new(Followers::new(Arc::clone(&peers)));
        let addresses = followers.addresses();
        assert_eq!(followers.best_except(0), None);
        let one = followers.join(&start(3, 1, "one", "1.0"));
        let two = followers.join(&start(3, 2, "two", "1.1"));
        two.note_applied(5);
        one.note_applied(4);
        assert_eq!(followers.best_except(0), Some((2, "two".into())));
        assert_eq!(followers.best_except(2), Some((1, "one".into())));
        let report = |address: &str, release: &str, applied| FollowerReport {
            address: address.into(),
            release: release.into(),
            applied,
        };
        let all = [report("one", "1.0", 4), report("two", "1.1", 5)];
        assert_eq!(followers.report(), all);
        let named = || {
            addresses
                .borrow()
                .iter()
                .map(|named| named.origin)
                .collect::<Vec<_>>()
        };
        assert_eq!(named(), [1, 2]);
        assert_eq!(format!("{peers:?}"), "[\"one\", \"two\"]");
        drop(two);
        assert_eq!(named(), [1]);
        assert_eq!(followers.best_except(0), Some((1, "one".into())));
    }

    #[test]
    fn a_stream_that_ends_late_does_not_change_the_list_of_a_later_leader() {
        let peers = Arc::new(Peers::of_test(7));
        let followers = Arc::new(Followers::new(Arc::clone(&peers)));
        let now = Instant::now();
        let one = followers.join(&start(3, 1, "one", "1.0"));
        let two = followers.join(&start(3, 2, "two", "1.0"));
        // The replica `one` leads now, and has already named all replicas to this one before the old streams end.
        let address = |origin, address: &str| ReplicaAddress {
            origin,
            address: address.into(),
        };
        peers.set(4, &[address(1, "one"), address(2, "two")], now);
        drop(one);
        assert_eq!(peers.listed(), ["one", "two"]);
        // This replica leads again, and a follower joins before the last of the old streams has ended.
        peers.begin(5, None, now);
        let three = followers.join(&start(5, 3, "three", "1.0"));
        assert_eq!(peers.listed(), ["three"]);
        drop(two);
        assert_eq!(peers.listed(), ["three"]);
        drop(three);
        assert!(peers.listed().is_empty());
    }
}
