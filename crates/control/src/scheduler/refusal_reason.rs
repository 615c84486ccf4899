//! The single reason of a refusal that does not depend on all hosts: the claim of one candidate, or a
//! request for which a pre-filter leaves no host.

use placewright_placement::Refusal;
use placewright_scheduler::prefilter::PrefilterRefusal;
use serde::Serialize;
use uuid::Uuid;

/// The reason of a refusal, for programs; the response also has it as a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum RefusalReason {
    /// A provider has too little left of a class.
    Capacity {
        /// The UUID of the provider.
        provider: Uuid,
        /// The name of the resource class.
        resource_class: String,
        /// How much more would have to be free.
        missing: i64,
    },
    /// The amount is not one that a single allocation of the provider may have.
    Units {
        /// The UUID of the provider.
        provider: Uuid,
        /// The name of the resource class.
        resource_class: String,
        /// The amount that the claim requests.
        amount: i64,
    },
    /// A provider has no inventory of a class (any more).
    Inventory {
        /// The UUID of the provider.
        provider: Uuid,
        /// The name of the resource class.
        resource_class: String,
    },
    /// A provider does not exist (any more).
    Provider {
        /// The UUID that the claim names.
        provider: Uuid,
    },
    /// A rule of a group or of the topology, as text.
    Rule {
        /// The host that the rule excludes.
        host: Uuid,
        /// The rule, for people.
        rule: String,
    },
    /// The tenant must have an aggregate and has none.
    TenantAggregate {
        /// The project of the request.
        project: String,
    },
    /// A segment of a routed network is in no aggregate.
    SegmentAggregate {
        /// The UUID of the segment.
        segment: Uuid,
    },
    /// A reason that does not concern the candidate, as text.
    Other {
        /// The reason, for people.
        detail: String,
    },
}

impl RefusalReason {
    /// Why a claim was refused.
    #[must_use]
    pub fn of_claim(refusal: &Refusal) -> Self {
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

    /// Why a pre-filter leaves no host; `None` if the request itself is wrong.
    #[must_use]
    pub fn of_prefilter(refusal: &PrefilterRefusal) -> Option<Self> {
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
