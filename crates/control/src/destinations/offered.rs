//! The candidates that were offered and can still be claimed: limited in time and number.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use placewright_placement::group::Rule;
use placewright_placement::{AllocationRequest, IntentCandidate, IntentRule};
use placewright_records::offer::Offer as OfferRecord;
use uuid::Uuid;

/// How many candidates can still be claimed after they were offered, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepOptions {
    /// The most candidates that are kept; beyond that, the oldest are dropped.
    pub candidates_max: usize,
    /// How long a candidate is kept.
    pub time: Duration,
}

impl Default for KeepOptions {
    fn default() -> Self {
        Self {
            candidates_max: 1_000_000,
            time: Duration::from_secs(300),
        }
    }
}

/// The data that all claims for the instances of one request have in common.
#[derive(Debug)]
pub(super) struct CommonClaimData {
    /// The project of the instances; may be empty if nothing was claimed.
    pub(super) project: String,
    /// The user of the instances; may be empty if nothing was claimed.
    pub(super) user: String,
    /// The server group, with the rules for its creation if placement does not have it yet.
    pub(super) group: Option<(Uuid, Vec<Rule>)>,
    /// The image's properties, for weighers that compare the images on a host.
    pub(super) image_properties: Vec<(String, String)>,
}

/// The hard topology rules of one instance, about the places of other consumers.
pub(super) type IntentRules = Vec<IntentRule>;

/// A candidate with everything that its claim needs.
#[derive(Clone, Debug)]
pub struct OfferedCandidate {
    pub(super) claim_data: Arc<CommonClaimData>,
    pub(super) rules: Arc<IntentRules>,
    pub(super) candidate: IntentCandidate,
    pub(super) mappings: Vec<(String, Vec<Uuid>)>,
}

impl OfferedCandidate {
    /// The project of the request that the candidate was offered for; may be empty.
    #[must_use]
    pub fn project(&self) -> &str {
        &self.claim_data.project
    }

    /// The user of the request that the candidate was offered for; may be empty.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.claim_data.user
    }

    /// The root provider of the candidate's host.
    #[must_use]
    pub fn host(&self) -> Uuid {
        self.candidate.host
    }

    /// The amounts that a claim of the candidate takes.
    #[must_use]
    pub fn allocations(&self) -> &[AllocationRequest] {
        &self.candidate.allocations
    }

    /// The providers of each group of the request.
    #[must_use]
    pub fn mappings(&self) -> &[(String, Vec<Uuid>)] {
        &self.mappings
    }

    /// The candidate as another replica gets it.
    pub(super) fn to_record(&self) -> OfferRecord {
        OfferRecord {
            project: self.claim_data.project.clone(),
            user: self.claim_data.user.clone(),
            group: self.claim_data.group.clone(),
            image_properties: self.claim_data.image_properties.clone(),
            rules: IntentRules::clone(&self.rules),
            candidate: self.candidate.clone(),
            mappings: self.mappings.clone(),
        }
    }

    /// The candidate of another replica.
    pub(super) fn from_record(record: OfferRecord) -> Self {
        Self {
            claim_data: Arc::new(CommonClaimData {
                project: record.project,
                user: record.user,
                group: record.group,
                image_properties: record.image_properties,
            }),
            rules: Arc::new(record.rules),
            candidate: record.candidate,
            mappings: record.mappings,
        }
    }
}

/// The store of candidates that can still be claimed.
///
/// Candidates expire in the order in which they were offered, so they lie in a queue. The last 48 bits of
/// the UUID of a candidate are its number in that order: so it is found by its position, without an index.
/// If there are several replicas, the first 16 bits of the UUID say which one offered the candidate. The other 58 bits
/// that a UUID has are random, so that nobody can guess a candidate.
///
/// The queue consists of blocks of [`BLOCK`] candidates, because a queue in one piece is copied as a whole when it
/// grows, and every request waits meanwhile: a million candidates take more than 100 MB.
#[derive(Debug)]
pub(super) struct CandidateStore {
    options: KeepOptions,
    /// The first bits of all UUIDs, if this process is one of several replicas. Otherwise they are random, too.
    replica_bits: Option<u128>,
    /// The candidates. Those whose numbers divided by [`BLOCK`] give the same quotient are in one block. The first
    /// block no longer has those that were dropped, and the last block does not have those that are still to be
    /// offered.
    blocks: VecDeque<VecDeque<StoredCandidate>>,
    /// The number of the oldest candidate; `next_number` if there is none.
    first_number: u64,
    /// The number of the candidate that is offered next.
    next_number: u64,
}

/// The number of candidates that one block of the queue has room for.
const BLOCK: u64 = 256;

/// A candidate in the store.
#[derive(Debug)]
struct StoredCandidate {
    uuid: Uuid,
    expires_at: Instant,
    offered: OfferedCandidate,
}

/// The bits of a candidate's UUID that are its number: the last 48, which come after the bits of version and variant.
const NUMBER_BITS: u128 = (1 << 48) - 1;
/// The bits of a candidate's UUID that say which replica offered it: the first 16.
const REPLICA_BITS: u128 = 0xffff << 112;

/// Whether a candidate may be one that the replica with the number `origin` offered. Two replicas may have the same
/// first 16 bits, so the replica has to be asked.
#[must_use]
pub fn may_be_offered_by(candidate: Uuid, origin: u64) -> bool {
    candidate.as_u128() & REPLICA_BITS == replica_bits(origin)
}

/// The first bits of the UUIDs of a replica's candidates.
fn replica_bits(origin: u64) -> u128 {
    (u128::from(origin) << 64) & REPLICA_BITS
}

impl CandidateStore {
    pub(super) fn new(options: KeepOptions) -> Self {
        Self {
            options,
            replica_bits: None,
            blocks: VecDeque::new(),
            first_number: 0,
            next_number: 0,
        }
    }

    fn len(&self) -> u64 {
        self.next_number - self.first_number
    }

    /// From now on the UUIDs of candidates say that this process is the replica with the number `origin`.
    pub(super) fn set_replica(&mut self, origin: u64) {
        self.replica_bits = Some(replica_bits(origin));
    }

    /// Stores a candidate, and drops the oldest ones if there are too many. Returns the UUID by
    /// which it can be claimed.
    pub(super) fn keep(&mut self, now: Instant, offered: OfferedCandidate) -> Uuid {
        self.expire(now);
        let candidates_max = self.options.candidates_max.max(1) as u64;
        while self.len() >= candidates_max {
            self.drop_oldest();
        }
        let mut random = Uuid::new_v4().as_u128();
        if let Some(replica_bits) = self.replica_bits {
            random = (random & !REPLICA_BITS) | replica_bits;
        }
        let number = u128::from(self.next_number) & NUMBER_BITS;
        let uuid = Uuid::from_u128((random & !NUMBER_BITS) | number);
        self.push(StoredCandidate {
            uuid,
            expires_at: now + self.options.time,
            offered,
        });
        uuid
    }

    /// A candidate, if it has not expired.
    pub(super) fn get(&mut self, now: Instant, uuid: Uuid) -> Option<&OfferedCandidate> {
        self.expire(now);
        let low_bits = uuid.as_u128() & NUMBER_BITS;
        let position = low_bits.wrapping_sub(u128::from(self.first_number)) & NUMBER_BITS;
        let number = self.first_number + u64::try_from(position).ok()?;
        let block = usize::try_from(number / BLOCK - self.first_number / BLOCK).ok()?;
        let first_in_block = (number / BLOCK * BLOCK).max(self.first_number);
        let index = usize::try_from(number - first_in_block).ok()?;
        let stored = self.blocks.get(block)?.get(index)?;
        (stored.uuid == uuid).then_some(&stored.offered)
    }

    fn expire(&mut self, now: Instant) {
        let first_expiry = |blocks: &VecDeque<VecDeque<StoredCandidate>>| {
            let oldest = blocks.front()?.front()?;
            Some(oldest.expires_at)
        };
        while first_expiry(&self.blocks).is_some_and(|expires_at| expires_at <= now) {
            self.drop_oldest();
        }
    }

    fn push(&mut self, candidate: StoredCandidate) {
        if self.next_number.is_multiple_of(BLOCK) {
            self.blocks
                .push_back(VecDeque::with_capacity(BLOCK as usize));
        }
        if let Some(newest) = self.blocks.back_mut() {
            newest.push_back(candidate);
            self.next_number += 1;
        }
    }

    fn drop_oldest(&mut self) {
        let oldest = self.blocks.front_mut().and_then(VecDeque::pop_front);
        if oldest.is_some() {
            self.first_number += 1;
            if self.first_number.is_multiple_of(BLOCK) {
                self.blocks.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any_candidate() -> OfferedCandidate {
        OfferedCandidate {
            claim_data: Arc::new(CommonClaimData {
                project: String::new(),
                user: String::new(),
                group: None,
                image_properties: Vec::new(),
            }),
            rules: Arc::default(),
            candidate: IntentCandidate {
                host: Uuid::nil(),
                allocations: [].into(),
            },
            mappings: Vec::new(),
        }
    }

    #[test]
    fn candidates_expire_by_number_and_by_time() {
        let start = Instant::now();
        let mut offered_candidates = CandidateStore::new(KeepOptions {
            candidates_max: 2,
            time: Duration::from_secs(10),
        });
        let first = offered_candidates.keep(start, any_candidate());
        let second = offered_candidates.keep(start + Duration::from_secs(5), any_candidate());
        assert!(
            offered_candidates
                .get(start + Duration::from_secs(9), first)
                .is_some()
        );
        let third = offered_candidates.keep(start + Duration::from_secs(9), any_candidate());
        assert!(
            offered_candidates
                .get(start + Duration::from_secs(9), first)
                .is_none()
        );
        assert!(
            offered_candidates
                .get(start + Duration::from_secs(14), second)
                .is_some()
        );
        assert!(
            offered_candidates
                .get(start + Duration::from_secs(15), second)
                .is_none()
        );
        assert!(
            offered_candidates
                .get(start + Duration::from_secs(15), third)
                .is_some()
        );
        assert_eq!(offered_candidates.len(), 1);
    }

    #[test]
    fn the_newest_candidates_are_found_over_many_blocks() {
        let kept = 2 * BLOCK + 7;
        let start = Instant::now();
        let time = Duration::from_secs(10);
        let mut offered_candidates = CandidateStore::new(KeepOptions {
            candidates_max: kept as usize,
            time,
        });
        let mut uuids = Vec::new();
        for number in 0..5 * BLOCK + 3 {
            let now = start + Duration::from_millis(number);
            uuids.push(offered_candidates.keep(now, any_candidate()));
            assert_eq!(offered_candidates.len(), kept.min(number + 1));
            assert!(offered_candidates.blocks.len() <= 4);
        }
        let first_kept = uuids.len() - kept as usize;
        let last_offered = start + Duration::from_millis(uuids.len() as u64 - 1);
        for expired in [0, 5, BLOCK as usize, kept as usize - 1, kept as usize] {
            let now = match expired {
                0 => last_offered,
                count => start + time + Duration::from_millis((first_kept + count - 1) as u64),
            };
            for (number, uuid) in uuids.iter().enumerate() {
                let is_found = offered_candidates.get(now, *uuid).is_some();
                assert_eq!(is_found, number >= first_kept + expired, "{number}");
            }
        }
        assert_eq!(offered_candidates.len(), 0);
        let uuid = offered_candidates.keep(last_offered, any_candidate());
        assert!(offered_candidates.get(last_offered, uuid).is_some());
    }

    #[test]
    fn a_candidate_is_found_by_its_whole_uuid_only() {
        let now = Instant::now();
        let mut offered_candidates = CandidateStore::new(KeepOptions::default());
        let (own, other) = (0x1234 << 48 | 7, 0x1235 << 48 | 7);
        offered_candidates.set_replica(own);
        let uuids: Vec<Uuid> = (0..3)
            .map(|_| offered_candidates.keep(now, any_candidate()))
            .collect();
        for uuid in &uuids {
            assert!(offered_candidates.get(now, *uuid).is_some());
            assert_eq!(uuid.get_version_num(), 4);
            assert!(may_be_offered_by(*uuid, own) && !may_be_offered_by(*uuid, other));
            let guessed = Uuid::from_u128(uuid.as_u128() ^ (1 << 100));
            assert!(offered_candidates.get(now, guessed).is_none());
        }
        for uuid in [Uuid::nil(), Uuid::max(), Uuid::new_v4()] {
            assert!(offered_candidates.get(now, uuid).is_none());
        }
    }
}
