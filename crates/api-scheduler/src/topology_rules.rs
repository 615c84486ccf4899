//! The topology rules of a request: those of its flavor, and the places that they name.

use placewright_scheduler::error::BadRequest;
use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::request::group::check_rule;
use placewright_scheduler::request::rule_text::{self, rules_of_flavor};
use placewright_scheduler::select::rules::check_places;

use crate::error_response::HandlerResult;
use crate::shared::RoutedRequest;

/// Adds the rules in the flavor's extra specs to those of the request, and checks the places that rules name.
pub(crate) async fn complete(
    request: &RoutedRequest<'_>,
    spec: &mut RequestSpec,
) -> HandlerResult<()> {
    let flavor_rules = rules_of_flavor(&spec.flavor)?;
    let own_count = spec.topology_rules.len();
    spec.topology_rules.extend(flavor_rules);
    let group_rules = spec.instance_group.iter();
    let group_rules = group_rules.flat_map(|group| &group.topology_rules);
    let mut rules = spec.topology_rules.iter().chain(group_rules);
    let names_no_place = rules.all(|rule| rule.place.is_empty());
    if names_no_place && own_count == spec.topology_rules.len() {
        return Ok(());
    }
    let spec = &*spec;
    let checked = request.api_state.placement.read(|state| {
        let levels = state.levels();
        let is_level = |name: &str| levels.iter().any(|level| level.name == name);
        let (own, of_flavor) = spec.topology_rules.split_at(own_count);
        for (index, rule) in own.iter().enumerate() {
            check_places(state, rule, &|| format!("topology_rules[{index}]"))?;
        }
        // The search checks all rules, but its errors name those of the flavor as if the request had them. So the
        // flavor's rules are checked here before, with errors that name the flavor.
        for (index, rule) in of_flavor.iter().enumerate() {
            let path = || format!("{}[{index}]", rule_text::flavor_path());
            check_rule(rule, &path, &is_level)?;
            check_places(state, rule, &path)?;
        }
        let group = spec.instance_group.iter();
        for (index, rule) in group.flat_map(|group| group.topology_rules.iter().enumerate()) {
            let path = || format!("instance_group.topology_rules[{index}]");
            check_places(state, rule, &path)?;
        }
        Ok::<(), BadRequest>(())
    });
    Ok(checked.await?)
}
