//! Instances whose places depend on each other.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The server group of a request.
///
/// `members` and `hosts` are for groups that are kept elsewhere; the members of a group that the
/// state knows are found there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerGroup {
    /// Its UUID.
    pub uuid: Uuid,
    /// What holds between its members.
    pub policy: GroupPolicy,
    /// The most members on one host; only with [`GroupPolicy::AntiAffinity`], where it is 1 if
    /// nothing is said.
    #[serde(default)]
    pub max_server_per_host: Option<u32>,
    /// Its members.
    #[serde(default)]
    pub members: BTreeSet<Uuid>,
    /// The hosts where members are.
    #[serde(default)]
    pub hosts: BTreeSet<String>,
}

/// What holds between the members of a server group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupPolicy {
    /// All on one host.
    Affinity,
    /// At most so many on one host.
    AntiAffinity,
    /// Near each other if possible.
    SoftAffinity,
    /// Apart from each other if possible.
    SoftAntiAffinity,
}

/// Where instances must or should be in the operator's topology.
///
/// `{"level": "rack", "relation": "different", "strength": "hard"}` keeps the instances of a request,
/// and the members of its server group, in racks of their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopologyRule {
    /// The level that the rule speaks of, as the operator named it: `rack`, `row`, `room` …
    pub level: String,
    /// What must hold there.
    pub relation: TopologyRelation,
    /// Whether the rule can be broken for want of anything better.
    #[serde(default)]
    pub strength: Strength,
    /// To which instances; empty for the members of the request's server group and the instances
    /// of the request itself.
    #[serde(default)]
    pub to: BTreeSet<Uuid>,
}

/// What holds between the places of instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TopologyRelation {
    /// The same place.
    Same,
    /// A place of its own.
    Different,
    /// As evenly as possible over all places.
    Spread,
}

/// Whether a rule can be broken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strength {
    /// It cannot.
    #[default]
    Hard,
    /// It can, for want of anything better.
    Soft,
}
