//! The candidates that were offered and can still be claimed: limited in time and number.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use placewright_placement::group::Rule;
use placewright_placement::{AllocationRequest, IntentCandidate, IntentRule};
use placewright_scheduler::select::Mappings;
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

/// The data that all candidates of one request share.
#[derive(Debug)]
pub(super) struct ClaimOwner {
    /// The project of the instances; may be empty if nothing was claimed.
    pub(super) project: String,
    /// The user of the instances; may be empty if nothing was claimed.
    pub(super) user: String,
    /// The server group, with the rules for its creation if placement does not have it yet.
    pub(super) group: Option<(Uuid, Vec<Rule>)>,
    /// The image's properties, for weighers that compare the images on a host.
    pub(super) image_properties: Vec<(String, String)>,
}

/// Hard rules about other consumers.
pub(super) type Rules = Vec<IntentRule>;

/// A candidate with everything that a claim of it needs.
#[derive(Clone, Debug)]
pub struct OfferedCandidate {
    pub(super) owner: Arc<ClaimOwner>,
    pub(super) rules: Arc<Rules>,
    pub(super) candidate: IntentCandidate,
    pub(super) mappings: Mappings,
}

impl OfferedCandidate {
    /// The project of the request that it was offered for; may be empty.
    #[must_use]
    pub fn project(&self) -> &str {
        &self.owner.project
    }

    /// The user of the request that it was offered for; may be empty.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.owner.user
    }

    /// The root provider of its host.
    #[must_use]
    pub fn host(&self) -> Uuid {
        self.candidate.host
    }

    /// The amounts that it takes.
    #[must_use]
    pub fn allocations(&self) -> &[AllocationRequest] {
        &self.candidate.allocations
    }

    /// The providers of each group of the request.
    #[must_use]
    pub fn mappings(&self) -> &[(String, Vec<Uuid>)] {
        &self.mappings
    }
}

/// The store of candidates that can still be claimed.
#[derive(Debug)]
pub(super) struct CandidateStore {
    options: KeepOptions,
    by_uuid: HashMap<Uuid, OfferedCandidate>,
    /// The candidates in the order in which they expire.
    order: VecDeque<(Instant, Uuid)>,
}

impl CandidateStore {
    pub(super) fn new(options: KeepOptions) -> Self {
        Self {
            options,
            by_uuid: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Stores a candidate, and drops the oldest ones if there are too many. Returns the UUID by
    /// which it can be claimed.
    pub(super) fn keep(&mut self, now: Instant, kept: OfferedCandidate) -> Uuid {
        self.expire(now);
        while self.order.len() >= self.options.candidates_max.max(1) {
            if let Some((_, oldest)) = self.order.pop_front() {
                self.by_uuid.remove(&oldest);
            }
        }
        let uuid = Uuid::new_v4();
        self.by_uuid.insert(uuid, kept);
        self.order.push_back((now + self.options.time, uuid));
        uuid
    }

    /// A candidate, if it has not expired.
    pub(super) fn get(&mut self, now: Instant, uuid: Uuid) -> Option<&OfferedCandidate> {
        self.expire(now);
        self.by_uuid.get(&uuid)
    }

    fn expire(&mut self, now: Instant) {
        while let Some((until, uuid)) = self.order.front() {
            if *until > now {
                break;
            }
            self.by_uuid.remove(uuid);
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> OfferedCandidate {
        OfferedCandidate {
            owner: Arc::new(ClaimOwner {
                project: String::new(),
                user: String::new(),
                group: None,
                image_properties: Vec::new(),
            }),
            rules: Arc::default(),
            candidate: IntentCandidate {
                host: Uuid::nil(),
                allocations: Vec::new(),
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
        let first = offered_candidates.keep(start, some());
        let second = offered_candidates.keep(start + Duration::from_secs(5), some());
        assert!(
            offered_candidates
                .get(start + Duration::from_secs(9), first)
                .is_some()
        );
        let third = offered_candidates.keep(start + Duration::from_secs(9), some());
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
        assert_eq!(
            offered_candidates.by_uuid.len(),
            offered_candidates.order.len()
        );
    }
}
