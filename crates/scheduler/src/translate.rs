//! The translation of a request to a query for placement: amounts, traits, request groups, and the
//! rules between them.
//!
//! There are three steps, each of them pure. [`translate`] turns flavor, image, ports, PCI devices
//! and accelerators into a [`ResourceRequest`](resource_request::ResourceRequest). The
//! [pre-filters](crate::translate::prefilter) add constraints because of zones, tenants, image
//! types and the like. [`target`] restricts the query to the hosts that the request names.
//! [`prepare`](crate::translate::prepare::prepare) does all three.
//!
//! Source of the rules: Nova 34, `ResourceRequest`. Deliberately different:
//!
//! - Pinned processors are requested once, as PCPU. Nova queries a second time with VCPU, and a filter
//!   then rejects the unsuitable hosts. [`TranslateOptions::pcpu_fallback`] enables that second query
//!   for fleets with hosts that report no PCPU. It is used if the first query finds no host.
//! - With [`TranslateOptions::numa_in_placement`] each guest NUMA cell is a request group, so that the
//!   search finds providers for the cells and no filter is needed.
//! - Some requests are refused with a [`BadRequest`] that names the field: a trait that is both required and forbidden,
//!   a missing group policy, an invalid suffix. Nova sends such a query, Placement refuses it, and users see "no valid
//!   host".
//! - The number of hosts that a search looks at is not limited. [`TranslateOptions::max_placement_results`]
//!   appears only as `limit` in [`to_query_string`](resource_request::ResourceRequest::to_query_string),
//!   the query that Nova would send, for logs and comparisons.

use crate::error::BadRequest;
use crate::flavor::Flavor;
use crate::request::RequestSpec;
use crate::translate::guest_requirements::GuestRequirements;

pub mod accelerator;
pub mod cpu;
mod extra_groups;
mod guest_cells;
pub mod guest_hardware;
pub mod guest_requirements;
pub mod memory;
mod names;
pub mod numa;
mod options;
mod parse_group;
pub mod pci;
pub mod port;
pub mod prefilter;
pub mod prepare;
mod query;
pub mod resource_request;
pub mod rule;
mod steps;
pub mod target;
mod translation;

pub use options::TranslateOptions;
pub use translation::Translation;

/// Translates a request into groups of resources.
///
/// # Errors
///
/// [`BadRequest`] for a request that contradicts itself.
pub fn translate(
    spec: &RequestSpec,
    options: &TranslateOptions,
) -> Result<Translation, BadRequest> {
    check_request(spec)?;
    let requirements = GuestRequirements::new(spec);
    let numa = numa::guest_topology(&requirements)?;
    let cell_count = numa.as_ref().map_or(0, |guest| guest.cells.len());
    let mut translation = Translation::default();
    let extra_groups = steps::extra_groups(spec, options, cell_count, &mut translation)?;
    let grouped_cells = numa.as_ref().filter(|_| options.numa_in_placement);
    let input = steps::Input {
        spec,
        requirements,
        options,
        extra_groups: &extra_groups,
    };
    let mut warnings = Vec::new();
    translation.request = steps::build(
        &input,
        steps::DedicatedCpuClass::Pcpu,
        grouped_cells,
        &mut warnings,
    )?;
    if options.pcpu_fallback && requirements.cpu_policy()? == Some(cpu::CpuPolicy::Dedicated) {
        // In the fallback query, NUMA cells are no groups. Its warnings would repeat those of the first query.
        translation.fallback = Some(steps::build(
            &input,
            steps::DedicatedCpuClass::Vcpu,
            None,
            &mut Vec::new(),
        )?);
    }
    translation.warnings.append(&mut warnings);
    if let Some(guest) = grouped_cells {
        guest_cells::add_relations(guest, &mut translation);
    }
    translation.numa = numa;
    Ok(translation)
}

/// Checks the flavor, the number of instances, the ports and the server group.
fn check_request(spec: &RequestSpec) -> Result<(), BadRequest> {
    if spec.flavor == Flavor::default() && spec.requested_resources.is_empty() {
        return Err(BadRequest::invalid(
            "flavor",
            "the request has neither a flavor nor requested_resources",
        ));
    }
    if spec.num_instances == 0 {
        return Err(BadRequest::invalid("num_instances", "must be at least 1"));
    }
    if spec.num_instances > 1
        && let Some(index) = (spec.requested_networks.iter()).position(|nic| nic.port_id.is_some())
    {
        return Err(BadRequest::conflict(
            format!("requested_networks[{index}].port_id"),
            "num_instances",
            "a port belongs to one instance",
        ));
    }
    let Some(group) = &spec.instance_group else {
        return Ok(());
    };
    let field = "instance_group.max_server_per_host";
    match group.max_server_per_host {
        Some(0) => Err(BadRequest::invalid(field, "must be at least 1")),
        Some(_) if group.policy != Some(crate::request::GroupPolicy::AntiAffinity) => {
            Err(BadRequest::conflict(
                field,
                "instance_group.policy",
                "only anti-affinity has a number of servers per host",
            ))
        }
        Some(_) | None => Ok(()),
    }
}
