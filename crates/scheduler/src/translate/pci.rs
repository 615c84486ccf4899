//! PCI devices as request groups, one for each device.

use placewright_placement::names::{is_custom, is_standard_class, standard_traits};

use super::extra_groups::ExtraGroup;
use super::guest_cells;
use super::names::custom_name;
use super::options::TranslateOptions;
pub use super::options::{PciAlias, PciAliases};
use super::translation::Translation;
use crate::error::BadRequest;
use crate::flavor::extra_spec_field;
use crate::request::device::{PciDeviceSpec, PciNumaPolicy};
use crate::request::{PciRequest, RequestGroup, RequestSpec};
use crate::translate::guest_requirements::GuestRequirements;
use crate::translate::rule::CandidateRule;
use placewright_types::text::whole_number;

/// The extra spec that lists a flavor's PCI devices: `alias:count,alias:count`.
pub const ALIAS_KEY: &str = "pci_passthrough:alias";

/// The maximum number of devices of one request. Each becomes a request group, and many groups make
/// a search slow.
pub const DEVICES_MAX: u32 = 256;

/// The PCI devices of a request: those that it lists or, if it lists none, those of the flavor's
/// aliases.
///
/// # Errors
///
/// [`BadRequest`] for an unknown alias or a malformed list.
pub fn requests(spec: &RequestSpec, aliases: &PciAliases) -> Result<Vec<PciRequest>, BadRequest> {
    let Some(list) = spec.flavor.extra_spec(ALIAS_KEY) else {
        return Ok(spec.pci_requests.clone());
    };
    if !spec.pci_requests.is_empty() {
        return Ok(spec.pci_requests.clone());
    }
    let policy = GuestRequirements::new(spec).pci_numa_policy()?;
    let field = || extra_spec_field(ALIAS_KEY);
    let mut requests = Vec::new();
    for (index, item) in list.split(',').enumerate() {
        let malformed = || BadRequest::malformed(field(), item, "\"alias:count\"");
        let (name, count) = item.split_once(':').ok_or_else(malformed)?;
        let count = whole_number(count).and_then(|count| u32::try_from(count).ok());
        let count = count.ok_or_else(malformed)?;
        let name = name.trim();
        let Some(alias) = aliases.get(name) else {
            return Err(BadRequest::invalid(
                field(),
                format!("there is no PCI alias {name:?}"),
            ));
        };
        requests.push(PciRequest {
            request_id: format!("pci_alias_{index}"),
            count,
            alias_name: Some(name.to_owned()),
            from_port: false,
            numa_policy: policy.unwrap_or(alias.numa_policy),
            spec: alias.spec.clone(),
        });
    }
    Ok(requests)
}

/// Adds a group for each device. Devices of ports are left out, because the network service
/// supplies their groups.
pub(super) fn add_groups(
    spec: &RequestSpec,
    options: &TranslateOptions,
    grouped_cell_count: usize,
    extra_groups: &mut Vec<ExtraGroup>,
    translation: &mut Translation,
) -> Result<(), BadRequest> {
    let requests = requests(spec, &options.pci_aliases)?;
    let not_from_ports = requests.iter().filter(|request| !request.from_port);
    let mut total = 0_u32;
    for (index, request) in not_from_ports.enumerate() {
        let field = match &request.alias_name {
            Some(name) => format!("{ALIAS_KEY} {name:?}"),
            None => format!("pci_requests[{index}]"),
        };
        total = total.saturating_add(request.count);
        if total > DEVICES_MAX {
            return Err(BadRequest::invalid(
                field,
                format!("a request has at most {DEVICES_MAX} PCI devices"),
            ));
        }
        let [device] = &*request.spec else {
            return Err(BadRequest::invalid(
                format!("{field}.spec"),
                "devices that are resources have exactly one description",
            ));
        };
        let group = RequestGroup {
            resources: [(resource_class(device, &field)?, 1)].into(),
            required_traits: traits(device.traits.as_deref().unwrap_or_default()),
            ..RequestGroup::default()
        };
        for number in 0..request.count {
            let suffix = format!("{}-{number}", request.request_id);
            translation.pci_groups.push(suffix.clone());
            if needs_affinity(request.numa_policy) && grouped_cell_count > 0 {
                translation.rules.push(CandidateRule::BelowAnyCell {
                    group: suffix.clone(),
                    cells: (0..grouped_cell_count).map(guest_cells::suffix).collect(),
                    may_lack_numa_node: request.numa_policy == PciNumaPolicy::Legacy,
                });
            }
            extra_groups.push(ExtraGroup {
                group: RequestGroup {
                    requester_id: suffix,
                    ..group.clone()
                },
                field: format!("{field}.request_id"),
            });
        }
    }
    Ok(())
}

/// The resource class of a device: the configured one, normalised, or else one with the identifiers
/// of vendor and product.
fn resource_class(device: &PciDeviceSpec, field: &str) -> Result<String, BadRequest> {
    if let Some(name) = device
        .resource_class
        .as_deref()
        .filter(|name| !name.is_empty())
    {
        let name = name.to_uppercase();
        let is_known = is_standard_class(&name) || is_custom(&name);
        return Ok(if is_known { name } else { custom_name(&name) });
    }
    match (&device.vendor_id, &device.product_id) {
        (Some(vendor), Some(product)) => {
            Ok(format!("CUSTOM_PCI_{vendor}_{product}").to_uppercase())
        }
        _ => Err(BadRequest::missing(
            format!("{field}.spec[0].resource_class"),
            "without it, vendor_id and product_id are needed",
        )),
    }
}

/// The traits of a comma-separated list, normalised.
fn traits(list: &str) -> std::collections::BTreeSet<String> {
    let names = list.split(',').filter(|name| !name.is_empty());
    let normalised = names.map(|name| {
        let upper = name.to_uppercase();
        if is_custom(&upper) {
            return upper;
        }
        if standard_traits().any(|standard| standard == name) {
            return name.to_owned();
        }
        custom_name(&upper)
    });
    normalised.collect()
}

/// Whether devices with this policy have to be on the NUMA nodes of the guest.
fn needs_affinity(policy: PciNumaPolicy) -> bool {
    match policy {
        PciNumaPolicy::Required | PciNumaPolicy::Legacy => true,
        // For socket affinity only a trait of the host is required.
        PciNumaPolicy::Preferred | PciNumaPolicy::Socket => false,
    }
}
