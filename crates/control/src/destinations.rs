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
use std::sync::Arc;

use parking_lot::Mutex;
use uuid::Uuid;

use crate::placement::Placement;
use crate::placer::claim::ClaimConsumer;
use crate::scheduler::SchedulerHandle;
use offered::CandidateStore;
use select::SelectionRequest;
use shared::Shared;

pub use error::{DestinationsError, NoHost};
pub use offered::{KeepOptions, OfferedCandidate};
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
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Selects a host for each instance of a request, with alternates; and claims them if the
    /// request says so. It runs as a task of its own, so that it completes also when the caller
    /// goes away.
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
        let running = tokio::spawn(placewright_audit_log::with_note(note, selection.run()));
        running
            .await
            .map_err(|error| DestinationsError::Bug(error.to_string()))?
    }

    /// A candidate that was offered.
    ///
    /// # Errors
    ///
    /// [`DestinationsError::Expired`].
    pub fn offered(&self, candidate: Uuid) -> Result<OfferedCandidate, DestinationsError> {
        self.shared.find_offered(candidate)
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

    /// Claims a candidate for a consumer, instead of what it holds.
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

    /// Releases what a consumer holds.
    ///
    /// # Errors
    ///
    /// [`DestinationsError::HoldsNothing`], or the store failed.
    pub async fn release(&self, consumer: Uuid) -> Result<(), DestinationsError> {
        self.shared.release(consumer).await
    }
}
