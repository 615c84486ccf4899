//! PCI devices as resources: one group for each device.

use placewright_placement::names::{is_custom, is_standard_class, standard_traits};

use super::cells;
use super::names::custom_name;
use super::options::TranslateOptions;
pub use super::options::{PciAlias, PciAliases};
use super::outside::Outside;
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

/// The maximum number of devices of one request: each becomes a group, which the search has to
/// place.
pub const DEVICES_MAX: u32 = 256;

/// The PCI devices of a request: those it lists, or else those of the flavor's aliases.
///
/// # Errors
///
/// [`BadRequest`] for an alias that does not exist or a list that cannot be read.
pub fn requests(spec: &RequestSpec, aliases: &PciAliases) -> Result<Vec<PciRequest>, BadRequest> {
    let Some(list) = spec.flavor.extra_spec(ALIAS_KEY) else {
        return Ok(spec.pci_requests.clone());
    };
    if !spec.pci_requests.is_empty() {
        return Ok(spec.pci_requests.clone());
    }
    let policy = GuestRequirements::of(spec).pci_numa_policy()?;
    let field = || extra_spec_field(ALIAS_KEY);
    let mut found = Vec::new();
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
        found.push(PciRequest {
            request_id: format!("pci_alias_{index}"),
            count,
            alias_name: Some(name.to_owned()),
            from_port: false,
            numa_policy: policy.unwrap_or(alias.numa_policy),
            spec: alias.spec.clone(),
        });
    }
    Ok(found)
}

/// Adds a group for each device, except for those of ports, whose groups come from the network
/// service.
pub(super) fn add_groups(
    spec: &RequestSpec,
    options: &TranslateOptions,
    nested_cells: usize,
    outside: &mut Vec<Outside>,
    translation: &mut Translation,
) -> Result<(), BadRequest> {
    let requests = requests(spec, &options.pci_aliases)?;
    let of_flavor = requests.iter().filter(|request| !request.from_port);
    let mut total = 0_u32;
    for (index, request) in of_flavor.enumerate() {
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
            if needs_affinity(request.numa_policy) && nested_cells > 0 {
                translation.rules.push(CandidateRule::NearAny {
                    group: suffix.clone(),
                    cells: (0..nested_cells).map(cells::suffix).collect(),
                    may_be_nowhere: request.numa_policy == PciNumaPolicy::Legacy,
                });
            }
            outside.push(Outside {
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

/// The resource class of a device: the configured one, normalised, or one made of vendor and
/// product.
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
    let in_form = names.map(|name| {
        let upper = name.to_uppercase();
        if is_custom(&upper) {
            return upper;
        }
        if standard_traits().any(|standard| standard == name) {
            return name.to_owned();
        }
        custom_name(&upper)
    });
    in_form.collect()
}

/// Whether devices with this policy have to be on the guest's NUMA nodes.
fn needs_affinity(policy: PciNumaPolicy) -> bool {
    match policy {
        PciNumaPolicy::Required | PciNumaPolicy::Legacy => true,
        // Nova only asks for a host that supports socket affinity and leaves the rest to it.
        PciNumaPolicy::Preferred | PciNumaPolicy::Socket => false,
    }
}
