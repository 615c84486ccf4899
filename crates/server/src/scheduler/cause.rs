//! Why one thing was refused, where a look at all hosts has nothing to add: a claim of one candidate,
//! or a request that a pre-filter leaves no host.

use placewright_placement::Refusal;
use placewright_scheduler::prefilter::PrefilterRefusal;
use serde::Serialize;
use uuid::Uuid;

/// The one reason of a refusal, for programs: its sentence says the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub(super) enum Cause {
    /// A provider has not that much left.
    Capacity {
        provider: Uuid,
        resource_class: String,
        /// How much more would have to be free.
        missing: i64,
    },
    /// One allocation may not take this amount of a provider.
    Units {
        provider: Uuid,
        resource_class: String,
        amount: i64,
    },
    /// A provider has no inventory of a class (any more).
    Inventory {
        provider: Uuid,
        resource_class: String,
    },
    /// A provider does not exist (any more).
    Provider { provider: Uuid },
    /// A rule of a group or of the topology, in words.
    Rule { host: Uuid, rule: String },
    /// The tenant must have an aggregate and has none.
    TenantAggregate { project: String },
    /// A segment of a routed network is in no aggregate.
    SegmentAggregate { segment: Uuid },
    /// Something that has nothing to do with the candidate, in words.
    Other { detail: String },
}

impl Cause {
    /// Why a claim was refused.
    pub(super) fn of_claim(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::CapacityExceeded {
                provider,
                class,
                missing,
            } => Self::Capacity {
                provider: *provider,
                resource_class: class.clone(),
                missing: *missing,
            },
            Refusal::ConstraintsViolated {
                provider,
                class,
                amount,
            } => Self::Units {
                provider: *provider,
                resource_class: class.clone(),
                amount: *amount,
            },
            Refusal::NoInventory { provider, class } => Self::Inventory {
                provider: *provider,
                resource_class: class.clone(),
            },
            Refusal::AllocationProviderNotFound { uuid } => Self::Provider { provider: *uuid },
            Refusal::RuleBroken { host, rule } => Self::Rule {
                host: *host,
                rule: rule.clone(),
            },
            Refusal::NothingFits {
                first: Some(first), ..
            } => Self::of_claim(first),
            other => Self::Other {
                detail: other.to_string(),
            },
        }
    }

    /// Why a pre-filter leaves no host; nothing where the request is wrong.
    pub(super) fn of_prefilter(refusal: &PrefilterRefusal) -> Option<Self> {
        match refusal {
            PrefilterRefusal::NoTenantAggregate { project } => Some(Self::TenantAggregate {
                project: project.clone(),
            }),
            PrefilterRefusal::NoSegmentAggregate { segment } => {
                Some(Self::SegmentAggregate { segment: *segment })
            }
            PrefilterRefusal::NoSuchZone { .. } | PrefilterRefusal::BadRequest(_) => None,
        }
    }
}
