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

/// The scope prefix of extra specs for this filter. Those without a scope count only where a host
/// has an attribute of that name.
const SCOPE: &str = "capabilities";
/// A short form of a condition on the CPU's description.
const ADDRESS_BITS: &str = "hw:maxphysaddr_bits";
/// The long form of the same condition, which the short form overrides.
const ADDRESS_BITS_WRITTEN_OUT: &str = "capabilities:cpu_info:maxphysaddr:bits";

/// The filter as registered in [`super::ALL`].
pub(super) const FILTER: Filter = Filter {
    name: "ComputeCapabilitiesFilter",
    is_once_per_request: true,
    runs_on_rebuild: false,
    compile,
};

/// A requirement: the path of an attribute and the condition on its value.
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
    let is_about_platforms = |wanted: &AttributeRequirement| {
        host_attributes::all_platforms_have(groups, &wanted.path[0])
    };
    if requirements.iter().all(is_about_platforms) {
        let passes = |group: &PlatformGroup| {
            let is_met = |wanted: &AttributeRequirement| {
                wanted.is_met(host_attributes::of_platform(group, &wanted.path[0]))
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
        .any(|wanted| host_attributes::is_amount(&wanted.path[0]));
    let passes = Box::new(move |slot| {
        requirements
            .iter()
            .all(|wanted| wanted.is_met_by_host(hosts, slot))
    });
    Ok(match reads_amounts {
        true => Verdict::EachByAmounts(passes),
        false => Verdict::Each(passes),
    })
}

fn requirements(context: &Context<'_>) -> Vec<AttributeRequirement> {
    let specs = &context.request.flavor.extra_specs;
    // The short form replaces the same condition in the long form.
    let bits = specs.get(ADDRESS_BITS);
    let bits = bits.map(|bits| AttributeRequirement {
        path: ["cpu_info", "maxphysaddr", "bits"]
            .map(str::to_owned)
            .to_vec(),
        is_optional: false,
        requirement: Requirement::parse(&format!(">= {bits}")),
    });
    let others = specs.iter().filter(|(key, _)| {
        bits.is_none() || (*key != ADDRESS_BITS && *key != ADDRESS_BITS_WRITTEN_OUT)
    });
    let others = others.filter_map(|(key, value)| AttributeRequirement::read(key, value));
    others.chain(bits.clone()).collect()
}

impl AttributeRequirement {
    /// Parses an extra spec; `None` if its scope is that of another consumer.
    fn read(key: &str, value: &str) -> Option<Self> {
        let path = match key.split_once(':') {
            None => key,
            Some((SCOPE, path)) => path,
            Some(_) => return None,
        };
        Some(Self {
            path: path.split(':').map(str::to_owned).collect(),
            is_optional: !key.contains(':'),
            requirement: Requirement::parse(value),
        })
    }

    fn is_met_by_host(&self, hosts: &HostTable, slot: u32) -> bool {
        let name = &self.path[0];
        let Some(state) = hosts.get(slot) else {
            return false;
        };
        if self.is_optional && !host_attributes::exists(name) && !state.stats.contains_key(name) {
            return true;
        }
        let stat = || state.stats.get(name).map(|text| text.clone().into());
        let attribute = host_attributes::of_host(hosts, slot, name).or_else(stat);
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
                let Ok(read) = serde_json::from_str(text) else {
                    return false;
                };
                value = read;
            }
            match value.get_mut(name.as_str()).map(Value::take) {
                None | Some(Value::Null) => return false,
                Some(found) => value = found,
            }
        }
        self.requirement.is_met_by(&values::text(&value))
    }
}
