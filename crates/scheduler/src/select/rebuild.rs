//! Checks whether an instance may be rebuilt in place from another image.
//!
//! Placement is not asked and nothing is claimed: the instance already holds what it needs, and a
//! query for capacity would count it twice. The check consists of the filters that depend on
//! images, the traits of the providers that the instance uses, and the layout of the guest.

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
    /// The image or the request with it contradicts itself.
    #[error(transparent)]
    BadRequest(#[from] BadRequest),
    /// The scheduler has no report of the host.
    #[error("the scheduler does not know its host")]
    UnknownHost,
    /// A filter rejects the host.
    #[error("{0} refuses its host")]
    Filter(String),
    /// No provider that the instance uses has traits that the image requires.
    #[error("its host has not {}", .0.join(", "))]
    MissingTraits(Vec<String>),
    /// The image wants other NUMA cells or processors than the instance has.
    #[error("the image asks for another NUMA layout than the instance has")]
    NumaLayout,
}

impl Scheduler {
    /// Checks whether an instance may be rebuilt in place. `request` is the one that the instance
    /// was placed with, with the new image; `before` is the same with the old image.
    ///
    /// # Errors
    ///
    /// [`RebuildRefusal`].
    pub fn check_rebuild(
        &self,
        state: &State,
        (instance, host): (Uuid, Uuid),
        request: &RequestSpec,
        before: &RequestSpec,
    ) -> Result<(), RebuildRefusal> {
        let (slot, _) = self
            .hosts()
            .by_uuid(host)
            .ok_or(RebuildRefusal::UnknownHost)?;
        let mut asked = request.clone();
        // The host that was forced at creation is irrelevant to a rebuild.
        asked.force_hosts.clear();
        asked.force_nodes.clear();
        asked.ignore_hosts.clear();
        asked.requested_destination = None;
        let check = vec!["rebuild".to_owned()];
        asked.scheduler_hints.insert(CHECK_HINT.to_owned(), check);
        let compiled = self.policy.compile(&asked, &self.hosts, instance)?;
        if let Some(filter) = compiled.filters.refused_by(slot) {
            return Err(RebuildRefusal::Filter(filter.to_owned()));
        }
        let options = &self.options.translate;
        if translate(request, options)?.numa != translate(before, options)?.numa {
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

/// The traits that the image requires and that none of the providers used by the instance has.
fn missing_traits(state: &State, instance: Uuid, request: &RequestSpec) -> Vec<String> {
    let consumer = state.consumer(ConsumerUuid::from_uuid(instance));
    let held = consumer
        .iter()
        .flat_map(|consumer| &consumer.allocations)
        .map(|held| held.provider);
    let providers: BTreeSet<_> = held.collect();
    let has = |name: &str| {
        let Some(id) = state.trait_id(name) else {
            return false;
        };
        let mut providers = providers.iter().filter_map(|id| state.provider(*id));
        providers.any(|provider| provider.has_trait(id))
    };
    let image = request.image.iter();
    let required = image.flat_map(|image| image.properties.traits_required());
    let missing = required.filter(|name| !has(name));
    missing.map(str::to_owned).collect()
}
