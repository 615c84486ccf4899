//! Pre-filters that restrict the search to aggregates.

use uuid::Uuid;

use crate::translate::prefilter::{AddedConstraints, PrefilterInput, PrefilterRefusal};

/// What the metadata keys of a tenant's own aggregates begin with.
const TENANT_KEY: &str = "filter_tenant_id";
/// The metadata key of an aggregate's zone.
const ZONE_KEY: &str = "availability_zone";

/// Restricts to the aggregates of the request's tenant.
pub(super) fn tenant(
    input: &PrefilterInput<'_>,
    added: &mut AddedConstraints,
) -> Result<bool, PrefilterRefusal> {
    if !input.options.limit_tenants_to_placement_aggregate {
        return Ok(false);
    }
    let project = &input.spec.project_id;
    let own = aggregates(input, |key, value| {
        key.starts_with(TENANT_KEY) && value == project
    });
    if !own.is_empty() {
        added.aggregates.push(own);
    } else if input.options.placement_aggregate_required_for_tenants {
        return Err(PrefilterRefusal::NoTenantAggregate {
            project: project.clone(),
        });
    }
    Ok(true)
}

/// Restricts to the aggregates of the requested zone.
pub(super) fn zone(
    input: &PrefilterInput<'_>,
    added: &mut AddedConstraints,
) -> Result<bool, PrefilterRefusal> {
    if !input.options.map_az_to_placement_aggregate {
        return Ok(false);
    }
    let wanted = input.spec.availability_zone.as_deref();
    let Some(wanted) = wanted.filter(|zone| !zone.is_empty()) else {
        return Ok(false);
    };
    let in_zone = aggregates(input, |key, value| key == ZONE_KEY && value == wanted);
    if !in_zone.is_empty() {
        added.aggregates.push(in_zone);
    } else if wanted != input.options.default_availability_zone {
        return Err(PrefilterRefusal::NoSuchZone {
            zone: wanted.to_owned(),
        });
    }
    Ok(true)
}

/// Excludes aggregates that are reserved for a trait that the request does not require.
pub(super) fn isolated(
    input: &PrefilterInput<'_>,
    added: &mut AddedConstraints,
) -> Result<bool, PrefilterRefusal> {
    if !input.options.enable_isolated_aggregate_filtering {
        return Ok(false);
    }
    // Traits added by pre-filters do not count, because the user did not ask for them.
    let request = &input.translation.request;
    let asked = request.all_required_traits();
    // When each NUMA cell of the guest is a request group of its own, the traits of flavor and
    // image are in no group. They are required of the root provider instead, and count too. Traits that
    // the request itself requires of the root do not.
    let asked = |name: &str| {
        let of_host = &request.root_required;
        let named_by_caller = &input.spec.request_level_params.root_required;
        asked.contains(name) || (of_host.contains(name) && !named_by_caller.contains(name))
    };
    let reserved_for_others = aggregates(input, |key, value| {
        value == "required" && key.strip_prefix("trait:").is_some_and(|name| !asked(name))
    });
    added.forbidden_aggregates.extend(reserved_for_others);
    Ok(true)
}

/// Restricts to the aggregates of the segments that each routed network can use.
pub(super) fn routed_networks(
    input: &PrefilterInput<'_>,
    added: &mut AddedConstraints,
) -> Result<bool, PrefilterRefusal> {
    if !input.options.query_placement_for_routed_network_aggregates {
        return Ok(false);
    }
    for nic in &input.spec.requested_networks {
        let mut of_nic = Vec::new();
        for segment in &nic.segments {
            let found = input.environment.segment_aggregates(*segment);
            let found = found.filter(|aggregates| !aggregates.is_empty());
            of_nic.extend(found.ok_or(PrefilterRefusal::NoSegmentAggregate { segment: *segment })?);
        }
        if !of_nic.is_empty() {
            added.aggregates.push(of_nic);
        }
    }
    Ok(true)
}

/// The aggregates with any metadata that matches, in rising order.
fn aggregates(input: &PrefilterInput<'_>, matches: impl Fn(&str, &str) -> bool) -> Vec<Uuid> {
    let mut found = Vec::new();
    input.environment.each_aggregate(&mut |uuid, metadata| {
        if metadata.iter().any(|(key, value)| matches(key, value)) {
            found.push(uuid);
        }
    });
    found
}
