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
pub(crate) struct Wish {
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
pub(crate) struct Kept {
    pub(crate) wish: Arc<Wish>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) candidate: IntentCandidate,
    /// The providers of each group of the request.
    pub(crate) mappings: Mappings,
}

/// The store of candidates that can still be claimed.
#[derive(Debug)]
pub(crate) struct Shelf {
    most: usize,
    time: Duration,
    by_uuid: HashMap<Uuid, Kept>,
    /// The candidates in the order in which they expire.
    order: VecDeque<(Instant, Uuid)>,
}

impl Shelf {
    pub(crate) fn new(most: usize, time: Duration) -> Self {
        Self {
            most,
            time,
            by_uuid: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Stores a candidate, and drops the oldest ones if there are too many.
    pub(crate) fn keep(&mut self, now: Instant, kept: Kept) -> Uuid {
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
    pub(crate) fn get(&mut self, now: Instant, uuid: Uuid) -> Option<&Kept> {
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

    fn some() -> Kept {
        Kept {
            wish: Arc::new(Wish {
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
        let mut shelf = Shelf::new(2, Duration::from_secs(10));
        let first = shelf.keep(start, some());
        let second = shelf.keep(start + Duration::from_secs(5), some());
        assert!(shelf.get(start + Duration::from_secs(9), first).is_some());
        let third = shelf.keep(start + Duration::from_secs(9), some());
        assert!(shelf.get(start + Duration::from_secs(9), first).is_none());
        assert!(shelf.get(start + Duration::from_secs(14), second).is_some());
        assert!(shelf.get(start + Duration::from_secs(15), second).is_none());
        assert!(shelf.get(start + Duration::from_secs(15), third).is_some());
        assert_eq!(shelf.by_uuid.len(), shelf.order.len());
    }
}
