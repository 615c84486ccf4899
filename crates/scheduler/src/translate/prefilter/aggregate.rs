//! Pre-filters that restrict the search to aggregates.

use uuid::Uuid;

use crate::translate::prefilter::{AddedConstraints, PrefilterInput, PrefilterRefusal};

/// The prefix of the metadata keys that list tenants.
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
    let tenant_aggregates = aggregates_with(input, |key, value| {
        key.starts_with(TENANT_KEY) && value == project
    });
    if !tenant_aggregates.is_empty() {
        added.aggregates.push(tenant_aggregates);
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
    let requested_zone = input.spec.availability_zone.as_deref();
    let Some(requested_zone) = requested_zone.filter(|zone| !zone.is_empty()) else {
        return Ok(false);
    };
    let zone_aggregates = aggregates_with(input, |key, value| {
        key == ZONE_KEY && value == requested_zone
    });
    if !zone_aggregates.is_empty() {
        added.aggregates.push(zone_aggregates);
    } else if requested_zone != input.options.default_availability_zone {
        return Err(PrefilterRefusal::NoSuchZone {
            zone: requested_zone.to_owned(),
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
    // Traits that pre-filters added do not count, because the user did not request them.
    let request = &input.translation.request;
    let group_traits = request.all_required_traits();
    // If the guest's NUMA cells are request groups, some traits of flavor and image are required of
    // the root provider instead of a group. These count, too. The traits of the root provider in the request's
    // `request_level_params` do not count.
    let is_requested = |name: &str| {
        let of_root = &request.root_required;
        let of_root_by_caller = &input.spec.request_level_params.root_required;
        group_traits.contains(name) || (of_root.contains(name) && !of_root_by_caller.contains(name))
    };
    let reserved_for_others = aggregates_with(input, |key, value| {
        value == "required"
            && key
                .strip_prefix("trait:")
                .is_some_and(|name| !is_requested(name))
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
        let mut nic_aggregates = Vec::new();
        for segment in &nic.segments {
            let aggregates = input.environment.segment_aggregates(*segment);
            let aggregates = aggregates.filter(|aggregates| !aggregates.is_empty());
            let refusal = PrefilterRefusal::NoSegmentAggregate { segment: *segment };
            nic_aggregates.extend(aggregates.ok_or(refusal)?);
        }
        if !nic_aggregates.is_empty() {
            added.aggregates.push(nic_aggregates);
        }
    }
    Ok(true)
}

/// The aggregates of which any metadata matches, by rising UUID.
fn aggregates_with(input: &PrefilterInput<'_>, matches: impl Fn(&str, &str) -> bool) -> Vec<Uuid> {
    let mut matching = Vec::new();
    input.environment.each_aggregate(&mut |uuid, metadata| {
        if metadata.iter().any(|(key, value)| matches(key, value)) {
            matching.push(uuid);
        }
    });
    matching
}
