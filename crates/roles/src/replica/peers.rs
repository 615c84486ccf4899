//! The other replicas, whether they lead or not, with the links on which this one calls them.

use std::collections::BTreeMap;
use std::fmt;
use std::slice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, join_all};
use parking_lot::Mutex;
use placewright_control::OtherReplicas;
use placewright_control::destinations::may_be_offered_by;
use placewright_link::{PostedUpdate, ReplicaAddress, ReplicaLink};
use placewright_scheduler::host_state::{NumberedUpdate, Receipt};
use uuid::Uuid;

use super::ThisReplica;
use super::update_queue::UpdateQueue;

/// For how long a replica is remembered after the leader last listed it. A new leader lists replicas only as they begin
/// to follow it, so at first its list lacks some that are running.
const REMEMBERED: Duration = Duration::from_secs(10);
/// How long another replica may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Makes the link to the replica at an address. It has to be called in a Tokio runtime.
pub(crate) type Connect = Arc<dyn Fn(&str) -> Result<Arc<dyn ReplicaLink>, String> + Send + Sync>;

/// The other replicas in the list of the leader, with a link to each.
pub(crate) struct Peers {
    own: Arc<ThisReplica>,
    connect: Connect,
    list: Mutex<PeerList>,
}

/// The list of the other replicas.
#[derive(Default)]
struct PeerList {
    /// The epoch of the leader to which the list belongs.
    epoch: u64,
    /// The replicas, by their numbers. A replica gets a new number at each start.
    peers: BTreeMap<u64, Peer>,
}

/// The data of one other replica, which are kept until [`REMEMBERED`] after the leader has removed it from its list.
struct Peer {
    address: String,
    /// The link to it, which connects when it is first used.
    link: Arc<dyn ReplicaLink>,
    /// The updates of hosts that wait to be sent to it.
    updates: Arc<UpdateQueue>,
    /// Since when the leader does not list it any more; `None` while the leader lists it.
    unlisted_since: Option<Instant>,
}

impl fmt::Debug for Peers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = self.list.lock();
        let addresses = list.peers.values().map(|peer| &peer.address);
        formatter.debug_list().entries(addresses).finish()
    }
}

impl Peers {
    pub(super) fn new(own: Arc<ThisReplica>, connect: Connect) -> Self {
        Self {
            own,
            connect,
            list: Mutex::default(),
        }
    }

    /// Makes the link to the replica at an address.
    pub(crate) fn connect(&self, address: &str) -> Result<Arc<dyn ReplicaLink>, String> {
        (self.connect)(address)
    }

    /// Begins a new list when another leader is known. The list of the leader before may name replicas that are gone,
    /// and it is not known yet which replicas follow the new leader. If the list of this epoch has begun already, it
    /// stays.
    pub(super) fn begin(&self, epoch: u64, leader: Option<&ReplicaAddress>, now: Instant) {
        let mut list = self.list.lock();
        if list.epoch < epoch {
            list.epoch = epoch;
            self.replace(&mut list.peers, leader.map_or(&[], slice::from_ref), now);
        }
    }

    /// Replaces the list of replicas, which may contain this replica, too. `epoch` is that of the leader which made the
    /// list: the list of an earlier leader is ignored.
    pub(super) fn set(&self, epoch: u64, listed: &[ReplicaAddress], now: Instant) {
        let mut list = self.list.lock();
        if list.epoch <= epoch {
            list.epoch = epoch;
            self.replace(&mut list.peers, listed, now);
        }
    }

    /// Makes `listed` the list of replicas. Replicas that are not in it are remembered for a while.
    fn replace(&self, peers: &mut BTreeMap<u64, Peer>, listed: &[ReplicaAddress], now: Instant) {
        for (origin, peer) in peers.iter_mut() {
            let is_listed = listed.iter().any(|replica| replica.origin == *origin);
            let since = peer.unlisted_since.unwrap_or(now);
            peer.unlisted_since = (!is_listed).then_some(since);
        }
        peers.retain(|_, peer| peer.is_remembered(now));
        for replica in listed {
            if replica.origin == self.own.origin || peers.contains_key(&replica.origin) {
                continue;
            }
            match (self.connect)(&replica.address) {
                Ok(link) => {
                    let peer = Peer {
                        address: replica.address.clone(),
                        updates: Arc::new(UpdateQueue::new(Arc::clone(&link))),
                        link,
                        unlisted_since: None,
                    };
                    peers.insert(replica.origin, peer);
                }
                Err(error) => {
                    tracing::warn!(address = replica.address, error, "a replica is not reached");
                }
            }
        }
    }

    /// The links to those remembered replicas whose numbers `is_wanted` accepts.
    fn links(&self, now: Instant, is_wanted: impl Fn(u64) -> bool) -> Vec<Arc<dyn ReplicaLink>> {
        let list = self.list.lock();
        let wanted_peers = list
            .peers
            .iter()
            .filter(|(origin, peer)| is_wanted(**origin) && peer.is_remembered(now));
        wanted_peers
            .map(|(_, peer)| Arc::clone(&peer.link))
            .collect()
    }

    /// Sends an update of a host to each replica that the leader lists. Returns the receipts of those that answer.
    async fn send_update(&self, posted: PostedUpdate) -> Vec<Receipt> {
        let listed: Vec<_> = {
            let list = self.list.lock();
            let listed = list.peers.values();
            let listed = listed.filter(|peer| peer.unlisted_since.is_none());
            listed.map(|peer| Arc::clone(&peer.updates)).collect()
        };
        let receipts = join_all(listed.iter().map(|updates| updates.send(posted.clone()))).await;
        receipts.into_iter().flatten().collect()
    }

    /// Asks each replica that may have offered a candidate for the offer. `None` means that all of them have answered
    /// and none has it. An error means that one of them did not answer, so the offer may exist.
    async fn ask_for_offer(&self, candidate: Uuid) -> Result<Option<Vec<u8>>, String> {
        let may_have_offered = |origin| may_be_offered_by(candidate, origin);
        let mut unanswered = None;
        for link in self.links(Instant::now(), may_have_offered) {
            match tokio::time::timeout(ANSWER_TIMEOUT, link.find_offer(candidate)).await {
                Ok(Ok(None)) => {}
                Ok(Ok(found)) => return Ok(found),
                Ok(Err(error)) => unanswered = Some(error.to_string()),
                Err(_) => unanswered = Some("no answer in time".to_owned()),
            }
        }
        unanswered.map_or(Ok(None), Err)
    }
}

impl Peer {
    fn is_remembered(&self, now: Instant) -> bool {
        let since = self.unlisted_since;
        since.is_none_or(|since| now.saturating_duration_since(since) < REMEMBERED)
    }
}

impl OtherReplicas for Peers {
    fn own_origin(&self) -> u64 {
        self.own.origin
    }

    fn find_offer(&self, candidate: Uuid) -> BoxFuture<'_, Result<Option<Vec<u8>>, String>> {
        Box::pin(self.ask_for_offer(candidate))
    }

    fn forward_update(
        &self,
        host: Uuid,
        update: Arc<NumberedUpdate>,
    ) -> BoxFuture<'_, Vec<Receipt>> {
        Box::pin(self.send_update(PostedUpdate { host, update }))
    }
}

#[cfg(test)]
mod tests {
    use placewright_link::{FollowStart, LeaderConnection, LinkError, LinkFuture, ReplicaIdentity};
    use placewright_scheduler::host_state::HostUpdate;

    use super::*;

    /// A replica at the address that is its name. It keeps every candidate, but the one at `empty` keeps none, and
    /// the one at `away` does not answer.
    struct FakeReplica(String);

    impl FakeReplica {
        /// The replica at `empty` lacks all earlier updates, and cannot read updates with the number 0.
        fn take(&self, posted: &PostedUpdate) -> Option<Receipt> {
            match (self.0.as_str(), posted.update.sequence) {
                ("empty", 0) => None,
                ("empty", _) => Some(Receipt::Gap),
                _ => Some(Receipt::Applied),
            }
        }
    }

    fn away() -> LinkError {
        LinkError::Unavailable {
            peer: "away".into(),
            why: "test".into(),
        }
    }

    impl ReplicaLink for FakeReplica {
        fn identify(&self) -> LinkFuture<'_, ReplicaIdentity> {
            Box::pin(async { Err(away()) })
        }

        fn follow(&self, _: FollowStart) -> LinkFuture<'_, LeaderConnection> {
            Box::pin(async { Err(away()) })
        }

        fn take_host_updates(
            &self,
            updates: Vec<PostedUpdate>,
        ) -> LinkFuture<'_, Vec<Option<Receipt>>> {
            Box::pin(async move {
                match self.0.as_str() {
                    "away" => Err(away()),
                    _ => Ok(updates.iter().map(|posted| self.take(posted)).collect()),
                }
            })
        }

        fn find_offer(&self, _: Uuid) -> LinkFuture<'_, Option<Vec<u8>>> {
            Box::pin(async {
                match self.0.as_str() {
                    "empty" => Ok(None),
                    "away" => Err(away()),
                    address => Ok(Some(address.as_bytes().to_vec())),
                }
            })
        }
    }

    impl Peers {
        pub(crate) fn of_test(origin: u64) -> Self {
            let own = ThisReplica {
                origin,
                address: "own".into(),
            };
            let connect = |address: &str| Ok(Arc::new(FakeReplica(address.to_owned())) as _);
            Self::new(Arc::new(own), Arc::new(connect))
        }

        /// The addresses of the replicas that are listed now.
        pub(crate) fn listed(&self) -> Vec<String> {
            let list = self.list.lock();
            let listed = list.peers.values();
            let listed = listed.filter(|peer| peer.unlisted_since.is_none());
            listed.map(|peer| peer.address.clone()).collect()
        }
    }

    fn listed(replicas: &[(u64, &str)]) -> Vec<ReplicaAddress> {
        let address = |(origin, address): &(u64, &str)| ReplicaAddress {
            origin: *origin,
            address: (*address).to_owned(),
        };
        replicas.iter().map(address).collect()
    }

    /// The number of a replica whose candidates have these first 16 bits.
    const fn origin(first_bits: u64) -> u64 {
        (first_bits << 48) | 0xabc
    }

    fn candidate_of(first_bits: u128) -> Uuid {
        Uuid::from_u128((first_bits << 112) | 0x4000_8000_0000_0000_0001)
    }

    #[tokio::test]
    async fn the_replicas_that_may_have_offered_a_candidate_are_asked() {
        let peers = Peers::of_test(origin(1));
        let all = [
            (origin(1), "own"),
            (origin(2), "two"),
            (origin(3), "empty"),
            (origin(3) + 1, "three"),
            (origin(4), "away"),
            (origin(5), "empty"),
        ];
        peers.set(1, &listed(&all), Instant::now());
        let found = async |first_bits| peers.find_offer(candidate_of(first_bits)).await;
        assert_eq!(found(2).await, Ok(Some(b"two".to_vec())));
        assert_eq!(found(3).await, Ok(Some(b"three".to_vec())));
        assert!(found(4).await.is_err());
        // Candidates of this replica, of one that keeps none, and of no replica at all.
        for first_bits in [1, 5, 6] {
            assert_eq!(found(first_bits).await, Ok(None));
        }
    }

    #[tokio::test]
    async fn updates_of_hosts_go_to_all_replicas_and_those_that_answer_return_receipts() {
        let peers = Peers::of_test(1);
        let start = Instant::now();
        peers.set(1, &listed(&[(5, "five")]), start);
        let all = [(1, "own"), (2, "two"), (3, "away"), (4, "empty")];
        peers.set(1, &listed(&all), start);
        let send = |sequence| {
            let update = NumberedUpdate {
                incarnation: 1,
                sequence,
                update: HostUpdate::Alive,
            };
            peers.forward_update(Uuid::nil(), Arc::new(update))
        };
        assert_eq!(send(0).await, [Receipt::Applied]);
        // More updates at once than one call carries.
        for receipts in join_all((1..250).map(send)).await {
            assert_eq!(receipts, [Receipt::Applied, Receipt::Gap]);
        }
    }

    #[test]
    fn a_replica_is_remembered_for_a_while_after_it_was_last_listed() {
        let peers = Peers::of_test(origin(1));
        let start = Instant::now();
        let count = |at| peers.links(at, |_| true).len();
        peers.set(1, &listed(&[(2, "two"), (3, "three")]), start);
        // Another replica leads now. The others begin to follow it one after the other.
        peers.set(1, &listed(&[(3, "three")]), start);
        let late = start + REMEMBERED;
        assert_eq!(count(late - Duration::from_millis(1)), 2);
        assert_eq!(count(late), 1);
        peers.set(1, &listed(&[(2, "two"), (3, "three")]), late);
        assert_eq!(count(late + REMEMBERED), 2);
    }

    #[tokio::test]
    async fn a_leader_that_is_gone_is_forgotten_also_if_nobody_follows_the_next_one() {
        let peers = Peers::of_test(1);
        let start = Instant::now();
        peers.set(5, &listed(&[(1, "own"), (2, "two"), (3, "three")]), start);
        // This replica leads.
        peers.begin(6, None, start);
        assert!(peers.listed().is_empty());
        let update = NumberedUpdate {
            incarnation: 1,
            sequence: 1,
            update: HostUpdate::Alive,
        };
        let receipts = peers.forward_update(Uuid::nil(), Arc::new(update));
        assert_eq!(receipts.await, []);
        assert_eq!(peers.links(start, |_| true).len(), 2);
        assert!(peers.links(start + REMEMBERED, |_| true).is_empty());
    }

    #[test]
    fn the_list_of_an_earlier_leader_is_ignored() {
        let peers = Peers::of_test(1);
        let now = Instant::now();
        peers.begin(5, listed(&[(2, "two")]).first(), now);
        assert_eq!(peers.listed(), ["two"]);
        peers.set(5, &listed(&[(2, "two"), (3, "three")]), now);
        // This leader is known already, and its list has come since, so nothing changes.
        peers.begin(5, None, now);
        peers.set(4, &listed(&[(4, "four")]), now);
        peers.begin(4, None, now);
        assert_eq!(peers.listed(), ["two", "three"]);
        peers.begin(6, listed(&[(3, "three")]).first(), now);
        assert_eq!(peers.listed(), ["three"]);
    }
}
