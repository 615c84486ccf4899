//! The faults of instances and moves that cannot be placed.

use std::sync::Arc;

use crate::placer::Placing;
use crate::scheduler::{
    ExplanationTime, SchedulerHandle, claim_refusal_json, prepare_refusal_json,
};
use placewright_conductor::Fault;
use placewright_placement::Refusal;
use placewright_scheduler::prepare::{PrepareRefusal, Prepared};
use placewright_scheduler::request::{RequestParseError, RequestSpec};
use uuid::Uuid;

use crate::handle::now;

/// Why there is no host, as a fault that may still have to be explained.
#[derive(Debug)]
pub(crate) enum PlanFault {
    /// The fault is complete.
    Known(Fault),
    /// No host is feasible. The explanation is made later, when the scheduler is not locked any
    /// more.
    NoHost {
        request: Arc<RequestSpec>,
        prepared: Arc<Prepared>,
        instance: Uuid,
    },
}

impl PlanFault {
    /// The fault of a request that cannot be read.
    pub(super) fn unreadable(error: &RequestParseError) -> Self {
        Self::Known(Fault {
            code: 500,
            message: format!("The request cannot be read: {error}."),
            details: String::new(),
            at: now(),
        })
    }

    /// The fault of instances for which no host is feasible; the first of them is explained. `None`
    /// without an instance, or before the request was prepared.
    pub(super) fn no_host(placing: &Placing, instances: &[Uuid]) -> Option<Self> {
        Some(Self::NoHost {
            request: Arc::clone(&placing.demand().request),
            prepared: Arc::clone(placing.prepared()?),
            instance: *instances.first()?,
        })
    }

    /// Makes the fault, with an explanation of the present state, or one that was computed after `planned_at`, when the
    /// plan was made. This locks the scheduler, so the caller must not hold its lock.
    pub(crate) fn explained(
        self,
        scheduler: &SchedulerHandle,
        planned_at: ExplanationTime,
    ) -> Fault {
        let (request, prepared, instance) = match self {
            Self::Known(fault) => return fault,
            Self::NoHost {
                request,
                prepared,
                instance,
            } => (request, prepared, instance),
        };
        let explained = scheduler.explain(&request, &prepared, instance, planned_at);
        Fault {
            code: 500,
            message: format!("No valid host was found. {}.", explained.sentence),
            details: explained.json,
            at: now(),
        }
    }
}

/// The fault of a request that cannot be prepared.
pub(crate) fn fault_of_prepare_refusal(refusal: &PrepareRefusal) -> Fault {
    Fault {
        code: 500,
        message: format!("No valid host was found. {refusal}."),
        details: prepare_refusal_json(refusal),
        at: now(),
    }
}

/// The fault when all rounds lost to concurrent claims, and why the last claim was refused, if that
/// is known.
pub(crate) fn lost_to_other_claims(cause: Option<&Refusal>) -> Fault {
    Fault {
        code: 500,
        message: "No valid host was found. Every host that would do was taken by others first."
            .to_owned(),
        details: cause.map(claim_refusal_json).unwrap_or_default(),
        at: now(),
    }
}

#[cfg(test)]
mod tests {
    use placewright_conductor::control::ControlState;
    use placewright_scheduler::config::SchedulerConfig;
    use placewright_scheduler::prefilter::PrefilterOptions;
    use placewright_scheduler::prepare::PrepareOptions;
    use placewright_scheduler::select::Scheduler;

    use super::*;

    #[test]
    fn the_fault_of_a_project_without_an_aggregate_names_the_project() {
        let options = PrepareOptions {
            prefilter: PrefilterOptions {
                limit_tenants_to_placement_aggregate: true,
                placement_aggregate_required_for_tenants: true,
                ..PrefilterOptions::default()
            },
            ..PrepareOptions::default()
        };
        let mut scheduler = Scheduler::new(SchedulerConfig::default(), options).unwrap();
        let request: RequestSpec =
            serde_json::from_str(r#"{"flavor": {"vcpus": 1, "memory_mb": 1}, "project_id": "p"}"#)
                .unwrap();
        let control = ControlState::default();
        let refusal = scheduler.prepare_cached(&control.placement, &request).err();
        let fault = fault_of_prepare_refusal(&refusal.expect("the tenant has no aggregate"));
        assert_eq!(
            fault.details,
            r#"{"reason":"tenant_aggregate","project":"p"}"#
        );
        assert!(fault.message.contains("no hosts available for tenant"));
    }
}
