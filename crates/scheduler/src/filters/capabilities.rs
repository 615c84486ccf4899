//! `ComputeCapabilitiesFilter`: extra specs that constrain a host's attributes.

use serde_json::Value;

use super::extra_spec_ops::Requirement;
use super::filter::Filter;
use super::host_attributes;
use crate::context::Context;
use crate::error::BadRequest;
use crate::hosts::platform::PlatformGroup;
use crate::hosts::table::HostTable;
use crate::hosts::verdict::{Partition, Verdict};
use crate::values;

/// The scope prefix of extra specs for this filter. Extra specs without a scope count only where a host
/// has an attribute of their name.
const SCOPE: &str = "capabilities";
/// The extra spec that requires a minimum width of physical addresses, in bits.
const ADDRESS_BITS: &str = "hw:maxphysaddr_bits";
/// The extra spec with the same requirement as a path into the CPU's description; [`ADDRESS_BITS`] overrides
/// it.
const ADDRESS_BITS_PATH: &str = "capabilities:cpu_info:maxphysaddr:bits";

/// The filter as registered in [`super::ALL`].
pub(super) const FILTER: Filter = Filter {
    name: "ComputeCapabilitiesFilter",
    is_once_per_request: true,
    runs_on_rebuild: false,
    compile,
};

/// A requirement on an attribute of the host.
#[derive(Clone, Debug)]
struct AttributeRequirement {
    /// The attribute's name, followed by the keys within its value.
    path: Vec<String>,
    /// Whether the requirement is dropped for hosts without this attribute.
    is_optional: bool,
    requirement: Requirement,
}

fn compile<'a>(context: &Context<'a>) -> Result<Verdict<'a>, BadRequest> {
    let requirements = requirements(context);
    if requirements.is_empty() {
        return Ok(Verdict::All);
    }
    let hosts = context.hosts;
    let groups = hosts.platforms().groups();
    let depends_on_platform = |requirement: &AttributeRequirement| {
        host_attributes::all_platforms_have(groups, &requirement.path[0])
    };
    if requirements.iter().all(depends_on_platform) {
        let passes = |group: &PlatformGroup| {
            let is_met = |requirement: &AttributeRequirement| {
                requirement.is_met(host_attributes::of_platform(group, &requirement.path[0]))
            };
            requirements.iter().all(is_met)
        };
        return Ok(Partition::verdict(
            hosts.platforms().group_of(),
            groups.iter().map(|group| (&group.hosts, passes(group))),
        ));
    }
    let reads_amounts = requirements
        .iter()
        .any(|requirement| host_attributes::is_amount(&requirement.path[0]));
    let passes = Box::new(move |slot| {
        requirements
            .iter()
            .all(|requirement| requirement.is_met_by_host(hosts, slot))
    });
    Ok(match reads_amounts {
        true => Verdict::EachByAmounts(passes),
        false => Verdict::Each(passes),
    })
}

/// The requirements in the extra specs of the request's flavor.
fn requirements(context: &Context<'_>) -> Vec<AttributeRequirement> {
    let specs = &context.request.flavor.extra_specs;
    let address_bits = specs.get(ADDRESS_BITS);
    let address_bits = address_bits.map(|bits| AttributeRequirement {
        path: ["cpu_info", "maxphysaddr", "bits"]
            .map(str::to_owned)
            .to_vec(),
        is_optional: false,
        requirement: Requirement::parse(&format!(">= {bits}")),
    });
    let other_specs = specs.iter().filter(|(key, _)| {
        address_bits.is_none() || (*key != ADDRESS_BITS && *key != ADDRESS_BITS_PATH)
    });
    let other_specs =
        other_specs.filter_map(|(key, value)| AttributeRequirement::parse(key, value));
    other_specs.chain(address_bits.clone()).collect()
}

impl AttributeRequirement {
    /// Parses an extra spec; `None` if it has the scope of another filter.
    fn parse(key: &str, value: &str) -> Option<Self> {
        let path = match key.split_once(':') {
            None => key,
            Some((SCOPE, path)) => path,
            Some(_) => return None,
        };
        let path: Vec<String> = path.split(':').map(str::to_owned).collect();
        Some(Self {
            is_optional: !key.contains(':') && !host_attributes::exists(&path[0]),
            path,
            requirement: Requirement::parse(value),
        })
    }

    fn is_met_by_host(&self, hosts: &HostTable, slot: u32) -> bool {
        let name = &self.path[0];
        let Some(state) = hosts.get(slot) else {
            return false;
        };
        if self.is_optional && !state.stats.contains_key(name) {
            return true;
        }
        let statistic = || state.stats.get(name).map(|text| text.clone().into());
        let attribute = host_attributes::of_host(hosts, slot, name).or_else(statistic);
        self.is_met(attribute)
    }

    /// Whether the value at the end of the path satisfies the condition.
    fn is_met(&self, attribute: Option<Value>) -> bool {
        let Some(mut value) = attribute else {
            return false;
        };
        for name in &self.path[1..] {
            // A text within the path is parsed as JSON.
            if let Value::String(text) = &value {
                let Ok(parsed) = serde_json::from_str(text) else {
                    return false;
                };
                value = parsed;
            }
            match value.get_mut(name.as_str()).map(Value::take) {
                None | Some(Value::Null) => return false,
                Some(member) => value = member,
            }
        }
        self.requirement.is_met_by(&values::text(&value))
    }
}
