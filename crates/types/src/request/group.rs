//! Server groups and topology rules: constraints between the places of instances.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::RequestSpec;
use crate::error::BadRequest;

/// The server group of a request.
///
/// `members` and `hosts` are only for groups that placement does not know. Otherwise placement has
/// the members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerGroup {
    /// The UUID of the group.
    pub uuid: Uuid,
    /// The relation between the members of the group; `None` if only topology rules express it.
    #[serde(default)]
    pub policy: Option<GroupPolicy>,
    /// The maximum number of members on one host; only with [`GroupPolicy::AntiAffinity`], 1 by
    /// default.
    #[serde(default)]
    pub max_server_per_host: Option<u32>,
    /// The members, if placement does not know the group.
    #[serde(default)]
    pub members: BTreeSet<Uuid>,
    /// The names of the hosts that have members.
    #[serde(default)]
    pub hosts: BTreeSet<String>,
    /// Rules between the places of the group's members. The `to` of these rules is empty.
    #[serde(default)]
    pub topology_rules: Vec<TopologyRule>,
}

/// Whether groups of a request with a suffix may share a provider: Placement's `group_policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestGroupPolicy {
    /// Several groups may be served by one provider.
    None,
    /// Each group is served by a provider of its own.
    Isolate,
}

/// The relation that holds between the members of a server group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupPolicy {
    /// All members are on one host.
    Affinity,
    /// At most a given number of members is on one host.
    AntiAffinity,
    /// Members are on one host as far as possible.
    SoftAffinity,
    /// Members are on different hosts as far as possible.
    SoftAntiAffinity,
}

/// The name of the level of single hosts.
pub const HOST_LEVEL: &str = "host";

/// A constraint or preference on the places of instances in the operator's topology.
///
/// `{"level": "rack", "relation": "different", "strength": "hard"}` keeps the instances of a request,
/// and the members of its server group, in racks of their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopologyRule {
    /// The level of the places, as the operator named it: `rack`, `row`, `room` …, or [`HOST_LEVEL`]. Distances are
    /// defined across all levels, so rules about distances have no level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// The relation that the places must satisfy.
    pub relation: TopologyRelation,
    /// Whether the rule may be broken if no host satisfies it.
    #[serde(default)]
    pub strength: Strength,
    /// The instances to whose places the rule refers; empty for the members of the request's server
    /// group and the other instances of the request.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub to: BTreeSet<Uuid>,
    /// For a hard [`TopologyRelation::Spread`]: by how many instances a place may exceed the
    /// emptiest one; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_skew: Option<u32>,
    /// For [`Strength::Soft`]: the weight of the rule, 1 to [`WEIGHT_MAX`]; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// For [`Strength::Soft`]: places of the level to which the rule refers instead of instances, by their names or the
    /// UUIDs of their aggregates. Where the topology has no such place any more, the name has no effect.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub place: BTreeSet<String>,
}

/// The maximum number of places that a rule may name. Each search looks up each of them.
pub const RULE_PLACES_MAX: usize = 16;

/// The maximum weight of a soft rule.
pub const WEIGHT_MAX: u32 = 1_000;

/// A relation between the places of instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TopologyRelation {
    /// All instances are in the same place.
    Same,
    /// Each instance is in a place of its own.
    Different,
    /// Instances are spread as evenly as possible over all places.
    Spread,
    /// Instances are at a small distance; only [`Strength::Soft`].
    Near,
    /// Instances are at a large distance; only [`Strength::Soft`].
    Far,
}

/// Whether a rule is a constraint or a preference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strength {
    /// The rule must hold; without a host that satisfies it, the request fails.
    #[default]
    Hard,
    /// The rule is a preference, which a weigher takes into account.
    Soft,
}

impl TopologyRule {
    /// A hard rule about the members of the request's server group and the other instances of the request.
    #[must_use]
    pub fn hard(level: &str, relation: TopologyRelation) -> Self {
        Self {
            level: Some(level.to_owned()),
            relation,
            strength: Strength::Hard,
            to: BTreeSet::new(),
            max_skew: None,
            weight: None,
            place: BTreeSet::new(),
        }
    }

    /// Whether the rule is about the members of the request's server group and the other instances of the request, as
    /// it names neither instances nor places.
    #[must_use]
    pub fn is_about_siblings(&self) -> bool {
        self.to.is_empty() && self.place.is_empty()
    }

    /// Whether the relation is about distances.
    #[must_use]
    pub fn is_about_distance(&self) -> bool {
        matches!(
            self.relation,
            TopologyRelation::Near | TopologyRelation::Far
        )
    }
}

/// Checks the topology rules of a request and its server group for contradictions and for levels
/// that do not exist.
///
/// # Errors
///
/// [`BadRequest`] names the field.
pub fn check_topology(
    request: &RequestSpec,
    is_level: impl Fn(&str) -> bool,
) -> Result<(), BadRequest> {
    let group_rules = request
        .instance_group
        .iter()
        .flat_map(|group| &group.topology_rules);
    for (index, rule) in group_rules.enumerate() {
        let path = || format!("instance_group.topology_rules[{index}]");
        check_rule(rule, &path, &is_level)?;
        if !rule.to.is_empty() {
            return Err(BadRequest::invalid(
                format!("{}.to", path()),
                "a group's rules are about its members",
            ));
        }
    }
    for (index, rule) in request.topology_rules.iter().enumerate() {
        check_rule(rule, &|| format!("topology_rules[{index}]"), &is_level)?;
    }
    Ok(())
}

/// Checks one rule for contradictions and for a level that does not exist. `path` is the rule's
/// position, for the error.
///
/// # Errors
///
/// [`BadRequest`] names the field.
pub fn check_rule(
    rule: &TopologyRule,
    path: &dyn Fn() -> String,
    is_level: &impl Fn(&str) -> bool,
) -> Result<(), BadRequest> {
    let wrong = |field: &str, why: &'static str| {
        Err(BadRequest::invalid(format!("{}.{field}", path()), why))
    };
    let is_hard = rule.strength == Strength::Hard;
    let is_spread = rule.relation == TopologyRelation::Spread;
    match &rule.level {
        None if !rule.is_about_distance() => {
            let field = format!("{}.level", path());
            return Err(BadRequest::missing(
                field,
                "the rule is about places of a level",
            ));
        }
        Some(_) if rule.is_about_distance() => {
            return wrong("level", "a distance goes over all levels: leave it out");
        }
        Some(level) if level == HOST_LEVEL && is_spread && is_hard => {
            return wrong(
                "level",
                "a hard spread is over a level of the topology; for hosts use \"different\" or a \
                 group's max_server_per_host",
            );
        }
        Some(level) if level != HOST_LEVEL && !is_level(level) => {
            return wrong("level", "the topology has no such level");
        }
        None | Some(_) => {}
    }
    if rule.is_about_distance() && is_hard {
        return wrong("strength", "a rule about distance is \"soft\"");
    }
    match rule.max_skew {
        Some(_) if !(is_spread && is_hard) => wrong("max_skew", "only a hard spread has it"),
        Some(0) => wrong("max_skew", "it is at least 1"),
        None | Some(_) => Ok(()),
    }?;
    match rule.weight {
        Some(_) if is_hard => wrong("weight", "only a soft rule has it"),
        Some(weight) if !(1..=WEIGHT_MAX).contains(&weight) => wrong("weight", "it is 1 to 1000"),
        None | Some(_) => Ok(()),
    }?;
    if rule.place.is_empty() {
        return Ok(());
    }
    match (rule.level.as_deref(), rule.relation) {
        (_, TopologyRelation::Spread | TopologyRelation::Near | TopologyRelation::Far) => {
            wrong("place", "only \"same\" and \"different\" have it")
        }
        (Some(HOST_LEVEL), _) => wrong("place", "a host has none: name a level of the topology"),
        _ if is_hard => wrong("strength", "a rule about named places is \"soft\""),
        _ if !rule.to.is_empty() => wrong("place", "a rule is about \"to\" or \"place\", not both"),
        _ if rule.place.len() > RULE_PLACES_MAX => wrong("place", "there are at most 16"),
        _ => Ok(()),
    }
}
