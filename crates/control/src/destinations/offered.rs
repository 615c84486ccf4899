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
/// If there are several replicas, its first 16 bits say which one offered it. The other 58 bits that a UUID has are
/// random, so that nobody can guess a candidate.
#[derive(Debug)]
pub(super) struct CandidateStore {
    options: KeepOptions,
    /// The first bits of all UUIDs, if this process is one of several replicas. Otherwise they are random, too.
    replica_bits: Option<u128>,
    candidates: VecDeque<StoredCandidate>,
    /// The number of the first candidate in the queue, which is the oldest.
    first_number: u64,
}

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
            candidates: VecDeque::new(),
            first_number: 0,
        }
    }

    /// From now on the UUIDs of candidates say that this process is the replica with the number `origin`.
    pub(super) fn set_replica(&mut self, origin: u64) {
        self.replica_bits = Some(replica_bits(origin));
    }

    /// Stores a candidate, and drops the oldest ones if there are too many. Returns the UUID by
    /// which it can be claimed.
    pub(super) fn keep(&mut self, now: Instant, offered: OfferedCandidate) -> Uuid {
        self.expire(now);
        while self.candidates.len() >= self.options.candidates_max.max(1) {
            self.drop_oldest();
        }
        let number = u128::from(self.first_number) + self.candidates.len() as u128;
        let mut random = Uuid::new_v4().as_u128();
        if let Some(replica_bits) = self.replica_bits {
            random = (random & !REPLICA_BITS) | replica_bits;
        }
        let uuid = Uuid::from_u128((random & !NUMBER_BITS) | (number & NUMBER_BITS));
        self.candidates.push_back(StoredCandidate {
            uuid,
            expires_at: now + self.options.time,
            offered,
        });
        uuid
    }

    /// A candidate, if it has not expired.
    pub(super) fn get(&mut self, now: Instant, uuid: Uuid) -> Option<&OfferedCandidate> {
        self.expire(now);
        let number = uuid.as_u128() & NUMBER_BITS;
        let index = number.wrapping_sub(u128::from(self.first_number)) & NUMBER_BITS;
        let stored = self.candidates.get(usize::try_from(index).ok()?)?;
        (stored.uuid == uuid).then_some(&stored.offered)
    }

    fn expire(&mut self, now: Instant) {
        while (self.candidates.front()).is_some_and(|oldest| oldest.expires_at <= now) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if self.candidates.pop_front().is_some() {
            self.first_number += 1;
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
        assert_eq!(offered_candidates.candidates.len(), 1);
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
