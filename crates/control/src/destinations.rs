//! Selects hosts for instances that other systems build: a host for each instance of a request, with or
//! without a claim, and alternates. Candidates that were offered and not claimed can be claimed later.

mod alternates;
mod claims;
mod error;
mod offered;
mod request;
mod rollback;
mod search;
mod select;
mod selected;
mod shared;

use std::fmt;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use placewright_tasks::{ContainedWork, finish_if_dropped};
use uuid::Uuid;

use crate::other_replicas::OtherReplicas;
use crate::placement::Placement;
use crate::placer::claim::ClaimConsumer;
use crate::scheduler::SchedulerHandle;
use offered::CandidateStore;
use select::SelectionRequest;
use shared::Shared;

pub use error::{DestinationsError, NoHost};
pub use offered::{KeepOptions, OfferedCandidate, may_be_offered_by};
pub use request::DestinationsRequest;
pub use selected::{Destinations, Offer, Selection};

/// A handle that selects hosts, for APIs. Clones share the offered candidates.
#[derive(Clone)]
pub struct DestinationsHandle {
    shared: Arc<Shared>,
}

impl fmt::Debug for DestinationsHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("DestinationsHandle")
            .finish_non_exhaustive()
    }
}

impl DestinationsHandle {
    /// A handle on this placement and this scheduler, which read the same state.
    #[must_use]
    pub fn new(
        placement: Placement,
        scheduler: SchedulerHandle,
        keep_options: KeepOptions,
    ) -> Self {
        let shared = Shared {
            placement,
            scheduler,
            keep_options,
            offered: Mutex::new(CandidateStore::new(keep_options)),
            others: OnceLock::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Makes the candidates that other replicas offer claimable at this process, and the candidates of this process
    /// claimable at the other replicas. Called once, before the first request.
    pub fn set_other_replicas(&self, others: Arc<dyn OtherReplicas>) {
        self.shared.offered.lock().set_replica(others.own_origin());
        // Setting fails only if there is a value already, and this is called once.
        let _ = self.shared.others.set(others);
    }

    /// Selects a host for each instance of a request, with alternates; and claims the hosts if the request says so. The
    /// work completes even if the caller goes away.
    ///
    /// # Errors
    ///
    /// See [`DestinationsError`], which also says whether something may be claimed then.
    pub async fn select(
        &self,
        request: DestinationsRequest,
    ) -> Result<Destinations, DestinationsError> {
        let selection = SelectionRequest::new(Arc::clone(&self.shared), request);
        let note = placewright_audit_log::current_note();
        let running = placewright_audit_log::with_note(note, selection.run());
        finish_if_dropped(ContainedWork::HttpRequest, running)
            .await
            .map_err(|panicked| DestinationsError::Bug(panicked.to_string()))?
    }

    /// A candidate that was offered, by whichever replica.
    ///
    /// # Errors
    ///
    /// [`DestinationsError::Expired`] or [`DestinationsError::OffererAway`].
    pub async fn offered(&self, candidate: Uuid) -> Result<OfferedCandidate, DestinationsError> {
        self.shared.find_offered_anywhere(candidate).await
    }

    /// A candidate that this process offered and keeps, for another replica: in the form of `offer` of
    /// `placewright-records`.
    #[must_use]
    pub fn own_offer(&self, candidate: Uuid) -> Option<Vec<u8>> {
        let found = self.shared.find_offered(candidate).ok()?;
        Some(placewright_records::offer::encode(&found.to_record()))
    }

    /// Claims a candidate for a consumer that holds nothing.
    ///
    /// # Errors
    ///
    /// See [`DestinationsError`], which also says whether the claim may have been made then.
    pub async fn claim(
        &self,
        consumer: Uuid,
        (project, user): (&str, &str),
        offered: &OfferedCandidate,
    ) -> Result<(), DestinationsError> {
        let claim_consumer = ClaimConsumer::new(consumer, project, user);
        self.shared
            .claim_offered(claim_consumer, consumer, offered)
            .await
    }

    /// Claims a candidate for a consumer, in place of the allocations that it has.
    ///
    /// # Errors
    ///
    /// See [`DestinationsError`], which also says whether the claim may have been made then.
    pub async fn swap(
        &self,
        consumer: Uuid,
        offered: &OfferedCandidate,
    ) -> Result<(), DestinationsError> {
        let claim_consumer = self.shared.consumer_with_allocations(consumer).await?;
        self.shared
            .claim_offered(claim_consumer, consumer, offered)
            .await
    }

    /// Releases all allocations of a consumer.
    ///
    /// # Errors
    ///
    /// [`DestinationsError::HoldsNothing`], or the store failed.
    pub async fn release(&self, consumer: Uuid) -> Result<(), DestinationsError> {
        self.shared.release(consumer).await
    }
}
