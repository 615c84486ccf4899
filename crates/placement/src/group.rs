//! Groups of consumers, places, and the hard rules between them.
//!
//! A rule is checked in the same step as the claim, against the same state, so that parallel
//! claims cannot break it. A *place* is a host, or one aggregate of a named level of the topology
//! (rack, row, room, …): operators load levels as disjoint sets of aggregates.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use uuid::Uuid;

use crate::ids::{AggregateId, ConsumerId, ConsumerUuid, GroupId, ProviderId};
use crate::state::{Consumer, Provider, State};

/// How large a place a rule speaks of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RuleScope {
    /// One host: the root of a provider tree.
    Host,
    /// One aggregate of this level of the topology.
    Level(String),
}

/// What must hold between the place of a claim and the places of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Relation {
    /// The same place as every other.
    Same,
    /// A place with fewer than this many of the others: 1 means a place of its own.
    FewerThan(u32),
    /// A place that exceeds the emptiest place by at most this many once the claim is made: 1 is
    /// as even as possible. At least 1, because 0 can never hold. Only places that contain a host
    /// count.
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
    /// The rules between its members.
    pub rules: Vec<Rule>,
    /// The members that hold something on a host, in rising order of consumer.
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
    /// The hosts of all members, one entry each, except for a member that is left out.
    pub fn hosts(&self, but: Option<ConsumerId>) -> impl Iterator<Item = ProviderId> + '_ {
        let members = self.members.iter();
        let others = members.filter(move |member| Some(member.consumer) != but);
        others.map(|member| member.host)
    }
}

/// One level of the topology.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// The operator's name for it: rack, row, room, …
    pub name: String,
    /// Its aggregates, in alphabetical order.
    pub aggregates: Vec<String>,
}

/// The distance between two places of one level, or between the hosts of one place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Distance {
    /// One place: an aggregate of a level.
    pub from: String,
    /// The other, or the same one: the distance between hosts of the place.
    pub to: String,
    /// In the operator's own unit; the same both ways.
    pub distance: u32,
}

/// Where a consumer is, as recorded by the claim that placed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostAssignment {
    /// The root provider of the tree it is on.
    pub host: ProviderId,
    /// The group that it is a member of, if any.
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

impl State {
    /// Finds a group by its UUID.
    #[must_use]
    pub fn group(&self, uuid: Uuid) -> Option<&Group> {
        self.groups.get(self.group_by_uuid.get(&uuid)?.0)
    }

    /// A group by slot.
    #[must_use]
    pub fn group_by_id(&self, id: GroupId) -> Option<&Group> {
        self.groups.get(id.0)
    }

    /// All groups, in rising order of slot.
    pub fn all_groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().map(|(_, group)| group)
    }

    /// The levels of the topology, from the smallest place to the largest.
    #[must_use]
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// The operator's distances between places, each pair once.
    #[must_use]
    pub fn distances(&self) -> &[Distance] {
        &self.distances
    }

    /// The aggregate of a host at a level, given by its index.
    #[must_use]
    pub fn place_at(&self, host: ProviderId, level: usize) -> Option<AggregateId> {
        match self.place_in_level(self.provider(host)?, level)? {
            Place::Aggregate(id) => Some(id),
            Place::Host(_) => None,
        }
    }

    /// The place of a host at a scope; `None` if it belongs to no aggregate of the level.
    #[must_use]
    pub fn place(&self, host: ProviderId, scope: &RuleScope) -> Option<Place> {
        match scope {
            RuleScope::Host => Some(Place::Host(host)),
            RuleScope::Level(name) => {
                let level = self.levels.iter().position(|level| level.name == *name)?;
                self.place_in_level(self.provider(host)?, level)
            }
        }
    }

    fn place_in_level(&self, host: &Provider, level: usize) -> Option<Place> {
        let level = u16::try_from(level).ok()?;
        let is_of_level = |id: &&AggregateId| {
            self.level_of_aggregate
                .get(id.index())
                .is_some_and(|of| *of == Some(level))
        };
        host.aggregates
            .iter()
            .find(is_of_level)
            .map(|id| Place::Aggregate(*id))
    }

    /// Whether a host satisfies a rule, given the hosts of the others.
    ///
    /// A host that has no place at the scope satisfies no rule, because its neighbours are
    /// unknown.
    pub fn satisfies_rule(
        &self,
        host: ProviderId,
        rule: &Rule,
        mut others: impl Iterator<Item = ProviderId>,
    ) -> bool {
        let Some(place) = self.place(host, &rule.scope) else {
            return false;
        };
        let is_there = |other| self.place(other, &rule.scope) == Some(place);
        match rule.relation {
            Relation::Same => others.all(is_there),
            Relation::FewerThan(most) => {
                let most = usize::try_from(most).unwrap_or(usize::MAX);
                others.filter(|other| is_there(*other)).take(most).count() < most
            }
            Relation::Spread(skew) => {
                let mut places: Vec<Place> = others
                    .filter_map(|other| self.place(other, &rule.scope))
                    .collect();
                places.sort_unstable();
                self.is_even(place, &places, &rule.scope, skew)
            }
        }
    }

    /// Whether one more in a place leaves it at most `skew` above the emptiest place of a scope,
    /// given the sorted places of all others.
    fn is_even(&self, place: Place, others: &[Place], scope: &RuleScope, skew: u32) -> bool {
        let skew = usize::try_from(skew).unwrap_or(usize::MAX);
        let count = count_of(others, place) + 1;
        skew > 0 && (count <= skew || count <= skew.saturating_add(self.least(others, scope)))
    }

    /// How many of some others the emptiest place of a scope has, given their sorted places. Only
    /// places that contain a host count.
    #[must_use]
    pub fn least(&self, others: &[Place], scope: &RuleScope) -> usize {
        let sharing = self.sharing_trait();
        let is_host = |slot: u32| {
            let provider = self.provider(ProviderId(slot));
            provider.is_some_and(|provider| {
                provider.root == ProviderId(slot)
                    && !sharing.is_some_and(|sharing| provider.has_trait(sharing))
            })
        };
        let mut least = usize::MAX;
        match scope {
            RuleScope::Host => {
                for (id, _) in self.all_providers().filter(|(id, _)| is_host(id.0)) {
                    least = least.min(count_of(others, Place::Host(id)));
                    if least == 0 {
                        break;
                    }
                }
            }
            RuleScope::Level(name) => {
                let level = self.levels.iter().position(|level| level.name == *name);
                let level = level.and_then(|level| u16::try_from(level).ok());
                for (id, of) in (0u32..).zip(&self.level_of_aggregate) {
                    let id = AggregateId(id);
                    if of.is_none() || *of != level {
                        continue;
                    }
                    let count = count_of(others, Place::Aggregate(id));
                    if count < least && self.aggregate_members(id).iter().any(is_host) {
                        least = count;
                    }
                    if least == 0 {
                        break;
                    }
                }
            }
        }
        least
    }

    /// The hosts of some consumers, in order; consumers without a placing are skipped.
    pub fn hosts_of<'a>(
        &'a self,
        consumers: &'a [ConsumerUuid],
    ) -> impl Iterator<Item = ProviderId> + 'a {
        // Two passes, slots first and records second: the loads of each pass are independent, so
        // the processor overlaps their cache misses.
        let likely = consumers
            .iter()
            .map(|uuid| self.consumer_index.likely(uuid));
        let likely: SmallVec<[Option<ConsumerId>; 16]> = likely.collect();
        let both = consumers.iter().zip(likely);
        let found = both.filter_map(|(uuid, likely)| {
            let is_it = |consumer: &&Consumer| consumer.uuid == *uuid;
            let consumer = self.consumer_by_id(likely?).filter(is_it);
            consumer.or_else(|| self.consumer(*uuid))
        });
        found.filter_map(|consumer| Some(consumer.placing?.host))
    }
}

/// How many of the sorted places equal a place.
fn count_of(others: &[Place], place: Place) -> usize {
    let start = others.partition_point(|other| *other < place);
    others[start..].partition_point(|other| *other == place)
}
