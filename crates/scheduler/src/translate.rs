//! From a request to what placement is asked: amounts, traits and groups, and the rules between them.
//!
//! Three steps, each of them pure. [`translate`] turns flavor, image, ports, PCI devices and
//! accelerators into a [`ResourceRequest`]. The [pre-filters](crate::translate::prefilter) add what follows
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

use crate::error::{BadRequest, Warning};
use crate::request::{PciNumaPolicy, RequestSpec};
use crate::translate::numa::GuestTopology;
use crate::translate::pci::PciAliases;
use crate::translate::resource_request::ResourceRequest;
use crate::translate::rule::CandidateRule;
use crate::translate::wish::Wishes;
use serde::{Deserialize, Serialize};

pub mod accelerator;
mod cells;
pub mod cpu;
pub mod machine;
pub mod memory;
mod names;
pub mod numa;
pub mod pci;
pub mod port;
pub mod prefilter;
pub mod prepare;
mod query;
pub mod resource_request;
pub mod rule;
mod steps;
pub mod target;
pub mod wish;

/// The options of the translation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TranslateOptions {
    /// Whether each guest NUMA cell becomes a group, for hosts whose NUMA nodes are providers with
    /// VCPU, PCPU and MEMORY_MB of their own. A guest of one cell also fits hosts without.
    pub numa_in_placement: bool,
    /// Whether each PCI device becomes a group, for hosts whose devices are providers.
    pub pci_in_placement: bool,
    /// The PCI aliases that flavors can name.
    pub pci_aliases: PciAliases,
    /// Whether a pinned request has a fallback with VCPU in place of PCPU.
    pub pcpu_fallback: bool,
    /// The `limit` of the query string; our own search has none.
    pub max_placement_results: u32,
}

/// The default of Nova's option `[scheduler]max_placement_results`.
const MAX_PLACEMENT_RESULTS: u32 = 1000;

impl Default for TranslateOptions {
    /// NUMA cells and PCI devices as resources; pinned CPUs as PCPU.
    fn default() -> Self {
        Self {
            numa_in_placement: true,
            pci_in_placement: true,
            pci_aliases: PciAliases::default(),
            pcpu_fallback: false,
            max_placement_results: MAX_PLACEMENT_RESULTS,
        }
    }
}

impl TranslateOptions {
    /// Nova's defaults: filters handle NUMA cells and PCI devices, and pinned requests have a
    /// fallback.
    #[must_use]
    pub fn nova() -> Self {
        Self {
            numa_in_placement: false,
            pci_in_placement: false,
            pcpu_fallback: true,
            ..Self::default()
        }
    }
}

/// The result of translating a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Translation {
    /// The groups to request from placement.
    pub request: ResourceRequest,
    /// The same with VCPU in place of PCPU, searched when the first has no candidates.
    pub fallback: Option<ResourceRequest>,
    /// The guest's NUMA cells, where it has any.
    pub numa: Option<GuestTopology>,
    /// The suffixes of the groups that are PCI devices.
    pub pci_groups: Vec<String>,
    /// Rules for candidates that a query cannot express.
    pub rules: Vec<CandidateRule>,
    /// Parts of the request that were ignored.
    pub warnings: Vec<Warning>,
}

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
    let wishes = Wishes::of(spec);
    let numa = numa::guest_topology(&wishes)?;
    let cell_count = numa.as_ref().map_or(0, |guest| guest.cells.len());
    let mut translation = Translation::default();
    let outside = steps::groups_from_outside(spec, options, cell_count, &mut translation)?;
    let nested = numa.as_ref().filter(|_| options.numa_in_placement);
    let input = steps::Input {
        spec,
        wishes,
        options,
        outside: &outside,
    };
    let mut warnings = Vec::new();
    translation.request = steps::build(&input, true, nested, &mut warnings)?;
    if options.pcpu_fallback && wishes.cpu_policy()? == Some(cpu::CpuPolicy::Dedicated) {
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

/// Whether devices with this policy have to be on the guest's NUMA nodes.
pub(crate) fn needs_affinity(policy: PciNumaPolicy) -> bool {
    match policy {
        PciNumaPolicy::Required | PciNumaPolicy::Legacy => true,
        // Nova only asks for a host that supports socket affinity and leaves the rest to it.
        PciNumaPolicy::Preferred | PciNumaPolicy::Socket => false,
    }
}
