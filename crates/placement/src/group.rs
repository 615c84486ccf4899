//! Groups of consumers, places, and the hard rules between them.
//!
//! A *place* is a host, or one aggregate of a named level of the topology
//! (rack, row, room, …): operators load levels as disjoint sets of aggregates.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::ids::{AggregateId, ConsumerId, GroupId, ProviderId};

/// The size of the places that a rule compares.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RuleScope {
    /// One host: the root of a provider tree.
    Host,
    /// One aggregate of this level of the topology.
    Level(String),
}

/// The relation that must hold between the place of a claim and the places of other claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Relation {
    /// The same place as every other claim.
    Same,
    /// A place with fewer than this many of the other claims: 1 means a place without other claims.
    FewerThan(u32),
    /// How many consumers more than the emptiest place the chosen place may have, once the claimed consumer is in it.
    /// The emptiest place is counted without the claimed consumer. 1 is as even as possible; 0 is satisfied by no
    /// place. Only places that contain a host count.
    Spread(u32),
}

/// A hard rule on where a consumer may be placed relative to others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rule {
    /// The size of the places that are compared: host, rack, row, ….
    pub scope: RuleScope,
    /// The relation that must hold between these places.
    pub relation: Relation,
}

/// A group of consumers whose places depend on each other (a server group).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// The UUID by which clients name the group.
    pub uuid: Uuid,
    /// The rules between the members of the group.
    pub rules: Vec<Rule>,
    /// The members that have allocations on a host, in rising order of consumer.
    pub members: Vec<Member>,
}

/// A member of a group with its host, so that collecting the hosts of all members needs no look-up
/// of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The slot of the consumer.
    pub consumer: ConsumerId,
    /// The host, as in its [`HostAssignment`].
    pub host: ProviderId,
}

impl Group {
    /// The hosts of all members but `except`, one host for each member.
    pub fn hosts(&self, except: Option<ConsumerId>) -> impl Iterator<Item = ProviderId> + '_ {
        let members = self.members.iter();
        let others = members.filter(move |member| Some(member.consumer) != except);
        others.map(|member| member.host)
    }
}

/// One level of the topology.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// The operator's name for the level: rack, row, room, …
    pub name: String,
    /// The aggregates of the level, in alphabetical order.
    pub aggregates: Vec<String>,
    /// By aggregate: the name of the place for people, with the names of the larger places before it, as in
    /// `north/a/r1`. Not every place has one. In snapshots the names are written after the other fields.
    #[serde(skip)]
    pub names: BTreeMap<String, String>,
}

impl Level {
    /// A level whose places have no names.
    #[must_use]
    pub fn unnamed(name: &str, aggregates: Vec<String>) -> Self {
        Self {
            name: name.to_owned(),
            aggregates,
            names: BTreeMap::new(),
        }
    }
}

/// The distance between two places of one level, or between the hosts of one place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Distance {
    /// The first place: an aggregate of a level.
    pub from: String,
    /// The second place. If it equals the first, this is the distance between two hosts of that place.
    pub to: String,
    /// The distance in the operator's own unit. It is the same in both directions.
    pub distance: u32,
}

/// Where a consumer is, as recorded by the claim that placed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostAssignment {
    /// The root provider of the tree that the consumer is on.
    pub host: ProviderId,
    /// The group that the consumer is a member of, if any.
    pub group: Option<GroupId>,
}

/// A resolved place at some scope: two hosts are in the same place when their values are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// At host scope: the root provider.
    Host(ProviderId),
    /// At level scope: the aggregate of the level that contains the host.
    Aggregate(AggregateId),
}
