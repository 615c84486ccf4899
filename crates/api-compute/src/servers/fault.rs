//! Faults, as administrators and as owners see them.
//!
//! A stored fault has names of hosts, numbers of hosts and requested amounts, which, as in Nova, only
//! administrators see. Owners see which parts of their own request could not be satisfied.

use std::collections::BTreeSet;

use placewright_conductor::Fault;
use serde::Deserialize;

/// The beginning of each message about a server for which no host was found.
const NO_HOST: &str = "No valid host was found.";

/// How the owner's message names the hints and the server group of the request, which become hard rules of the claim.
const RULES: &str = "hints or group";

/// The message for a fault of code 500 that is not about a search for a host.
const OTHER_FAULT: &str = "The server could not be made what it was asked to be.";

/// The explanation of a search that found no host, reduced to the fields on which the owner's message depends.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Explanation {
    /// The constraints of the placement query that no host satisfies.
    impossible: Vec<String>,
    filters: Vec<FilterEffect>,
    /// How many hosts the hard rules removed after the filters, and how many they left.
    removed_by_rules: usize,
    left: usize,
    /// Why the last claim was refused, if that is known.
    reason: String,
}

/// The effect of one filter: how many hosts it removed, and how many it left.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FilterEffect {
    filter: String,
    removed: usize,
    left: usize,
}

/// The message of a fault for the owner of the server.
pub(crate) fn for_owner(fault: &Fault) -> String {
    if !fault.message.starts_with(NO_HOST) {
        // Messages of faults with a code other than 500 are about the request, and may be shown to its author.
        return match fault.code {
            500 => OTHER_FAULT.to_owned(),
            _ => fault.message.clone(),
        };
    }
    let explanation: Explanation = serde_json::from_str(&fault.details).unwrap_or_default();
    let parts: Vec<&str> = unsatisfied_parts(&explanation).into_iter().collect();
    match parts.split_last() {
        None => NO_HOST.to_owned(),
        Some((last, [])) => format!("{NO_HOST} No host does for its {last}."),
        Some((last, others)) => {
            let others = others.join(", ");
            format!("{NO_HOST} No host does for its {others} and its {last}.")
        }
    }
}

/// The parts of the request that no host satisfies.
fn unsatisfied_parts(explanation: &Explanation) -> BTreeSet<&'static str> {
    let mut parts: BTreeSet<&str> = explanation
        .impossible
        .iter()
        .filter_map(|constraint| part_of_constraint(constraint))
        .collect();
    if !parts.is_empty() {
        return parts;
    }
    let filter_that_left_none = explanation
        .filters
        .iter()
        .find(|effect| effect.removed > 0 && effect.left == 0);
    if explanation.reason == "rule" {
        parts.insert(RULES);
    }
    match filter_that_left_none {
        Some(effect) => parts.extend(part_of_filter(&effect.filter)),
        None if explanation.removed_by_rules > 0 && explanation.left == 0 => {
            parts.insert(RULES);
        }
        None => {}
    }
    parts
}

/// The part of the request from which a constraint of the placement query was derived; traits come
/// from the flavor or the image. `None` for aggregates, because the operator may have made that restriction.
fn part_of_constraint(constraint: &str) -> Option<&'static str> {
    if constraint.starts_with("resources") || constraint.contains(" of all groups together") {
        return Some("flavor");
    }
    let is_about_traits =
        constraint.starts_with("required") || constraint.starts_with("root_required");
    is_about_traits.then_some("traits")
}

/// The part of the request that a filter checks; `None` for filters that check hosts only.
fn part_of_filter(filter: &str) -> Option<&'static str> {
    Some(match filter {
        "AvailabilityZoneFilter" => "zone",
        "AggregateInstanceExtraSpecsFilter"
        | "AggregateTypeAffinityFilter"
        | "ComputeCapabilitiesFilter"
        | "NUMATopologyFilter"
        | "PciPassthroughFilter" => "flavor",
        "AggregateImagePropertiesIsolation" | "ImagePropertiesFilter" => "image",
        "DifferentHostFilter" | "JsonFilter" | "SameHostFilter" | "SimpleCIDRAffinityFilter" => {
            "hints"
        }
        "ServerGroupAffinityFilter" | "ServerGroupAntiAffinityFilter" => "group",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use placewright_placement::Timestamp;

    use super::*;

    #[test]
    fn owners_see_which_parts_of_their_request_no_host_satisfies() {
        let no_host = "No valid host was found. 0 of 30 hosts have room, nobody has VCPU:99.";
        for (code, message, details, expected) in [
            (500, no_host, "", NO_HOST),
            (
                500,
                no_host,
                r#"{"hosts":30,"impossible":["resources=VCPU:99"],"filters":[]}"#,
                "No valid host was found. No host does for its flavor.",
            ),
            (
                500,
                no_host,
                r#"{"impossible":["resources=VCPU:9","required=A,B"]}"#,
                "No valid host was found. No host does for its flavor and its traits.",
            ),
            (500, no_host, r#"{"impossible":["member_of=x"]}"#, NO_HOST),
            (
                500,
                no_host,
                r#"{"filters":[{"filter":"ComputeFilter","removed":1,"left":4},
                    {"filter":"SameHostFilter","removed":4,"left":0}]}"#,
                "No valid host was found. No host does for its hints.",
            ),
            (500, "host cn-7 broke", "cn-7", OTHER_FAULT),
            (
                404,
                "The instance was deleted.",
                "",
                "The instance was deleted.",
            ),
        ] {
            let fault = Fault {
                code,
                message: message.into(),
                details: details.into(),
                at: Timestamp(0),
            };
            assert_eq!(for_owner(&fault), expected, "{details}");
        }
    }
}
