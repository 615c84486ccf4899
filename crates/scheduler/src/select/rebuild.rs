//! Checks whether an instance may be rebuilt in place from another image.
//!
//! Nothing is searched or claimed in placement: the instance already has its allocations, which a
//! query for capacity would count a second time. The check consists of the filters that depend on
//! images, the traits of the providers that the instance uses, and the guest's NUMA layout.

use std::collections::BTreeSet;

use placewright_placement::{ConsumerUuid, State};
use thiserror::Error;
use uuid::Uuid;

use super::Scheduler;
use crate::context::CHECK_HINT;
use crate::error::BadRequest;
use crate::request::RequestSpec;
use crate::translate::translate;

/// Why an instance may not be rebuilt in place from an image.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RebuildRefusal {
    /// The image is invalid, or contradicts the rest of the request.
    #[error(transparent)]
    BadRequest(#[from] BadRequest),
    /// The scheduler has no report of the host.
    #[error("the scheduler does not know its host")]
    UnknownHost,
    /// A filter rejects the host.
    #[error("{0} refuses its host")]
    Filter(String),
    /// The image requires traits that none of the providers in the instance's allocations has.
    #[error("its host has not {}", .0.join(", "))]
    MissingTraits(Vec<String>),
    /// The image requires another NUMA layout than the instance has.
    #[error("the image asks for another NUMA layout than the instance has")]
    NumaLayout,
}

impl Scheduler {
    /// Checks whether an instance may be rebuilt in place on its host. `request` is the request of
    /// the instance with the new image, `old_request` the same with the old image.
    ///
    /// # Errors
    ///
    /// [`RebuildRefusal`] if the instance may not be rebuilt.
    pub fn check_rebuild(
        &self,
        state: &State,
        (instance, host): (Uuid, Uuid),
        request: &RequestSpec,
        old_request: &RequestSpec,
    ) -> Result<(), RebuildRefusal> {
        let (slot, _) = self
            .hosts()
            .by_uuid(host)
            .ok_or(RebuildRefusal::UnknownHost)?;
        let mut checked_request = request.clone();
        // The restrictions to hosts at creation do not matter to a rebuild.
        checked_request.force_hosts.clear();
        checked_request.force_nodes.clear();
        checked_request.ignore_hosts.clear();
        checked_request.requested_destination = None;
        let check = vec!["rebuild".to_owned()];
        checked_request
            .scheduler_hints
            .insert(CHECK_HINT.to_owned(), check);
        let compiled = self
            .policy
            .compile(&checked_request, &self.hosts, instance)?;
        if let Some(filter) = compiled.filters.rejecting_filter(slot) {
            return Err(RebuildRefusal::Filter(filter.to_owned()));
        }
        let options = &self.options.translate;
        if translate(request, options)?.numa != translate(old_request, options)?.numa {
            return Err(RebuildRefusal::NumaLayout);
        }
        let missing = missing_traits(state, instance, request);
        if missing.is_empty() {
            Ok(())
        } else {
            Err(RebuildRefusal::MissingTraits(missing))
        }
    }
}

/// The traits that the image requires, and that none of the providers in the instance's allocations has.
fn missing_traits(state: &State, instance: Uuid, request: &RequestSpec) -> Vec<String> {
    let consumer = state.consumer(ConsumerUuid::from_uuid(instance));
    let allocated = consumer
        .iter()
        .flat_map(|consumer| &consumer.allocations)
        .map(|allocation| allocation.provider);
    let providers: BTreeSet<_> = allocated.collect();
    let some_provider_has = |name: &str| {
        let Some(id) = state.trait_id(name) else {
            return false;
        };
        let mut providers = providers.iter().filter_map(|id| state.provider(*id));
        providers.any(|provider| provider.has_trait(id))
    };
    let image = request.image.iter();
    let required = image.flat_map(|image| image.properties.traits_required());
    let missing = required.filter(|name| !some_provider_has(name));
    missing.map(str::to_owned).collect()
}
