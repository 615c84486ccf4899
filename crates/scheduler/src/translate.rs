//! From a request to what placement is asked: amounts, traits and groups, and the rules between them.
//!
//! Three steps, each of them pure. [`translate`] turns flavor, image, ports, PCI devices and
//! accelerators into a [`ResourceRequest`](resource_request::ResourceRequest). The [pre-filters](crate::translate::prefilter) add what follows
//! from zones, tenants, image types and the like. [`target`] points it at the hosts that were asked
//! for. [`prepare`](crate::translate::prepare::prepare) does all three.
//!
//! Source of the rules: Nova 34, `ResourceRequest`. Deliberately different:
//!
//! - Pinned processors are asked for once, as PCPU. Nova asks a second time for VCPU and leaves it
//!   to a filter to sort the hosts out; [`TranslateOptions::pcpu_fallback`] brings that request
//!   back, for fleets with hosts that report no PCPU, and only for when the first finds nothing.
//! - With [`TranslateOptions::numa_in_placement`] each guest NUMA cell is a group of its own, so
//!   that the search finds the cells and no filter has to.
//! - What Nova finds out from a refusal by Placement, which its users see as "no valid host", is a
//!   [`BadRequest`] that names the field: a trait both required and forbidden, a missing group
//!   policy, a suffix that is none.
//! - Nothing limits how many hosts are looked at. The `limit` of the written query is Nova's.

use crate::error::BadRequest;
use crate::request::RequestSpec;
use crate::translate::guest_requirements::GuestRequirements;

pub mod accelerator;
mod cells;
pub mod cpu;
pub mod guest_requirements;
pub mod machine;
pub mod memory;
mod names;
pub mod numa;
mod options;
mod outside;
pub mod pci;
pub mod port;
pub mod prefilter;
pub mod prepare;
mod query;
mod read_group;
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
    check(spec)?;
    let requirements = GuestRequirements::of(spec);
    let numa = numa::guest_topology(&requirements)?;
    let cell_count = numa.as_ref().map_or(0, |guest| guest.cells.len());
    let mut translation = Translation::default();
    let outside = steps::groups_from_outside(spec, options, cell_count, &mut translation)?;
    let nested = numa.as_ref().filter(|_| options.numa_in_placement);
    let input = steps::Input {
        spec,
        requirements,
        options,
        outside: &outside,
    };
    let mut warnings = Vec::new();
    translation.request = steps::build(&input, true, nested, &mut warnings)?;
    if options.pcpu_fallback && requirements.cpu_policy()? == Some(cpu::CpuPolicy::Dedicated) {
        translation.fallback = Some(steps::build(&input, false, None, &mut Vec::new())?);
    }
    translation.warnings.append(&mut warnings);
    if let Some(guest) = nested {
        cells::relate(guest, &mut translation);
    }
    translation.numa = numa;
    Ok(translation)
}

/// Checks what needs no translation.
fn check(spec: &RequestSpec) -> Result<(), BadRequest> {
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
