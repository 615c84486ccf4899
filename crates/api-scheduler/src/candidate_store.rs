//! The candidates of earlier responses, which can still be claimed: limited in time and number.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use placewright_placement::group::Rule;
use placewright_placement::{IntentCandidate, IntentRule};
use placewright_scheduler::select::Mappings;
use uuid::Uuid;

/// The data that all candidates of one request share.
#[derive(Debug)]
pub(crate) struct ClaimOwner {
    /// The project of the instances; may be empty if nothing was claimed.
    pub(crate) project: String,
    /// The user of the instances; may be empty if nothing was claimed.
    pub(crate) user: String,
    /// The server group, with the rules for its creation if placement does not have it yet.
    pub(crate) group: Option<(Uuid, Vec<Rule>)>,
    /// The image's properties, for weighers that compare the images on a host.
    pub(crate) image_properties: Vec<(String, String)>,
}

/// Hard rules about other consumers.
pub(crate) type Rules = Vec<IntentRule>;

/// A candidate with everything that a claim of it needs.
#[derive(Clone, Debug)]
pub(crate) struct OfferedCandidate {
    pub(crate) wish: Arc<ClaimOwner>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) candidate: IntentCandidate,
    /// The providers of each group of the request.
    pub(crate) mappings: Mappings,
}

/// The store of candidates that can still be claimed.
#[derive(Debug)]
pub(crate) struct CandidateStore {
    most: usize,
    time: Duration,
    by_uuid: HashMap<Uuid, OfferedCandidate>,
    /// The candidates in the order in which they expire.
    order: VecDeque<(Instant, Uuid)>,
}

impl CandidateStore {
    pub(crate) fn new(most: usize, time: Duration) -> Self {
        Self {
            most,
            time,
            by_uuid: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Stores a candidate, and drops the oldest ones if there are too many.
    pub(crate) fn keep(&mut self, now: Instant, kept: OfferedCandidate) -> Uuid {
        self.expire(now);
        while self.order.len() >= self.most.max(1) {
            if let Some((_, oldest)) = self.order.pop_front() {
                self.by_uuid.remove(&oldest);
            }
        }
        let uuid = Uuid::new_v4();
        self.by_uuid.insert(uuid, kept);
        self.order.push_back((now + self.time, uuid));
        uuid
    }

    /// A candidate, if it has not expired.
    pub(crate) fn get(&mut self, now: Instant, uuid: Uuid) -> Option<&OfferedCandidate> {
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
            wish: Arc::new(ClaimOwner {
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
        let mut offered_candidates = CandidateStore::new(2, Duration::from_secs(10));
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
