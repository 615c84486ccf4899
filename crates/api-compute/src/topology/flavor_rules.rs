//! The topology rules in flavors.
//!
//! When a server is created, the rules of its flavor become rules of the server's own request, as do those rules of its
//! server group that name servers (`servers/hints.rs`). So they hold for moves of the server too, even if the flavor or
//! the group is changed or removed later. A resize exchanges the rules of the flavor.

use placewright_conductor::{ControlState, Rules, Spec};
use placewright_http::{ApiError, ApiResult};
use placewright_scheduler::flavor::Flavor;
use placewright_scheduler::request::group::check_rule;
use placewright_scheduler::request::rule_text::{self, RULE_SERVERS_MAX, rules_of_flavor};
use placewright_scheduler::request::{RequestSpec, TopologyRule};

use super::{NAME, check_rules, hard_rules, parse_rules};
use crate::routed_request::RoutedRequest;

/// Rejects extra specs with topology rules that a flavor cannot have.
pub(crate) async fn check_spec_rules(
    request: &RoutedRequest<'_>,
    path: &str,
    specs: &[(String, String)],
) -> ApiResult<()> {
    for (key, text) in specs.iter().filter(|(key, _)| key == NAME) {
        let path = format!("{path}[{key:?}]");
        let rules = parse_rules(&path, &text.as_str().into())?;
        request
            .try_read(|control, _| check_rules(request, control, &path, &rules))
            .await?;
    }
    Ok(())
}

/// Adds the rules of the request's flavor to the request, after all its other rules: [`exchange`] relies on this order.
/// `field` is the field of the request that names the flavor.
pub(crate) fn add(control: &ControlState, field: &str, request: &mut RequestSpec) -> ApiResult<()> {
    let rules = checked_rules(control, field, &request.flavor)?;
    let is_about_many = rules.iter().any(TopologyRule::is_about_siblings)
        && request.instance_group.is_none()
        && request.num_instances as usize > RULE_SERVERS_MAX;
    if is_about_many {
        let message = format!(
            "the flavor has a topology rule about all servers of the request: for more than {RULE_SERVERS_MAX} make a \
             server group"
        );
        return Err(ApiError::field(field, message));
    }
    request.topology_rules.extend(rules);
    Ok(())
}

/// The rules of a flavor. Refuses a rule that names a level that the topology does not have. Levels that the caller
/// does not see are allowed, because whoever made the flavor may see more of them.
fn checked_rules(
    control: &ControlState,
    field: &str,
    flavor: &Flavor,
) -> ApiResult<Vec<TopologyRule>> {
    let rules = rules_of_flavor(flavor).map_err(|error| ApiError::field(field, error))?;
    let is_level = |name: &str| {
        let mut levels = control.placement.levels().iter();
        levels.any(|level| level.name == name)
    };
    for (index, rule) in rules.iter().enumerate() {
        let path = || format!("{}[{index}]", rule_text::flavor_path());
        check_rule(rule, &path, &is_level).map_err(|error| ApiError::field(field, error))?;
    }
    Ok(rules)
}

/// Replaces the rules of a former flavor by those of the request's flavor, in the request and in the hard rules of the
/// server's claim.
pub(crate) fn exchange(
    control: &ControlState,
    field: &str,
    former_flavor: &Flavor,
    request: &mut RequestSpec,
    spec: &mut Spec,
) -> ApiResult<()> {
    let new_rules = checked_rules(control, field, &request.flavor)?;
    let hard_count = hard_rules(&request.topology_rules).count();
    let of_flavor = rules_of_flavor(former_flavor).unwrap_or_default();
    let former_rules = split_off(&mut request.topology_rules, &of_flavor);
    for rule in new_rules {
        // A rule that both flavors have is kept as it is stored: it may name the servers that were created together
        // with this one.
        let mut stored = former_rules.iter();
        let stored = stored.find(|stored| is_of_flavor(stored, &rule));
        request.topology_rules.push(stored.unwrap_or(&rule).clone());
    }
    // The hard rules of the claim begin with those of the hints `same_host` and `different_host`. The hard topology
    // rules of the request follow.
    let kept_count = spec.rules.len().saturating_sub(hard_count);
    let mut rules = spec.rules[..kept_count].to_vec();
    rules.extend(hard_rules(&request.topology_rules));
    spec.rules = Rules::from(rules);
    Ok(())
}

/// Takes the rules of a flavor off the end of a request's rules, and returns them. The request of a server that an
/// older release created has no rules of its flavor; then nothing is taken.
fn split_off(rules: &mut Vec<TopologyRule>, of_flavor: &[TopologyRule]) -> Vec<TopologyRule> {
    let start = rules.len().checked_sub(of_flavor.len());
    let start = start.filter(|start| {
        let stored = rules[*start..].iter();
        stored
            .zip(of_flavor)
            .all(|(stored, rule)| is_of_flavor(stored, rule))
    });
    rules.split_off(start.unwrap_or(rules.len()))
}

/// Whether a rule of a request was made from this rule of a flavor. [`Hints`](crate::servers) may have added the
/// servers that the request created to a rule about siblings.
fn is_of_flavor(stored: &TopologyRule, rule: &TopologyRule) -> bool {
    let mut without_servers = stored.clone();
    if rule.is_about_siblings() {
        without_servers.to.clear();
    }
    without_servers == *rule
}
