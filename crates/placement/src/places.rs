//! Groups, the places of hosts, and whether the rules between the places hold.
//!
//! A rule is checked in the same step as the claim, against the same state, so that parallel
//! claims cannot break it.

use std::sync::Arc;

use smallvec::SmallVec;
use uuid::Uuid;

use crate::group::{Distance, Group, Level, Place, Relation, Rule, RuleScope};
use crate::ids::{AggregateId, ConsumerId, ConsumerUuid, GroupId, ProviderId};
use crate::place_names::PlaceNames;
use crate::rows::{Consumer, Provider};
use crate::state::State;

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

    /// The names of the places of each level, in the order of [`Self::levels`].
    #[must_use]
    pub fn place_names(&self) -> &[Arc<PlaceNames>] {
        &self.place_names
    }

    /// The operator's distances between places, each pair once.
    #[must_use]
    pub fn distances(&self) -> &[Distance] {
        &self.distances
    }

    /// The aggregate of a level that contains a host. `level` is an index into [`Self::levels`]. `None` if no aggregate
    /// of the level contains the host.
    #[must_use]
    pub fn aggregate_at_level(&self, host: ProviderId, level: usize) -> Option<AggregateId> {
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
                .is_some_and(|entry_level| *entry_level == Some(level))
        };
        host.aggregates
            .iter()
            .find(is_of_level)
            .map(|id| Place::Aggregate(*id))
    }

    /// Whether a host satisfies a rule, given the hosts of the other consumers.
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
        let is_in_place = |other| self.place(other, &rule.scope) == Some(place);
        match rule.relation {
            Relation::Same => others.all(is_in_place),
            Relation::FewerThan(limit) => {
                let limit = usize::try_from(limit).unwrap_or(usize::MAX);
                others
                    .filter(|other| is_in_place(*other))
                    .take(limit)
                    .count()
                    < limit
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

    /// Whether a place with one more consumer has at most `skew` more consumers than the place of the
    /// scope with the fewest, given the sorted places of all other consumers.
    fn is_even(&self, place: Place, others: &[Place], scope: &RuleScope, skew: u32) -> bool {
        let skew = usize::try_from(skew).unwrap_or(usize::MAX);
        let count = count_of(others, place) + 1;
        skew > 0
            && (count <= skew
                || count <= skew.saturating_add(self.emptiest_place_count(others, scope)))
    }

    /// The number of consumers in the place of a scope that has the fewest, given the sorted places
    /// of all consumers. Only places that contain a host count; `usize::MAX` if there is none.
    #[must_use]
    pub fn emptiest_place_count(&self, sorted_places: &[Place], scope: &RuleScope) -> usize {
        let sharing = self.sharing_trait();
        // A root that shares its inventories, such as a shared store, is no host.
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
                    least = least.min(count_of(sorted_places, Place::Host(id)));
                    if least == 0 {
                        break;
                    }
                }
            }
            RuleScope::Level(name) => {
                let level = self.levels.iter().position(|level| level.name == *name);
                let level = level.and_then(|level| u16::try_from(level).ok());
                for (id, aggregate_level) in (0u32..).zip(&self.level_of_aggregate) {
                    let id = AggregateId(id);
                    if aggregate_level.is_none() || *aggregate_level != level {
                        continue;
                    }
                    let count = count_of(sorted_places, Place::Aggregate(id));
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

    /// The hosts of some consumers, in order; consumers without a host assignment are skipped.
    pub fn hosts_of<'a>(
        &'a self,
        consumers: &'a [ConsumerUuid],
    ) -> impl Iterator<Item = ProviderId> + 'a {
        // Two passes, slots first and consumers second: the loads of each pass are independent, so
        // the processor overlaps their cache misses.
        let likely_ids = consumers
            .iter()
            .map(|uuid| self.consumer_index.likely(uuid));
        let likely_ids: SmallVec<[Option<ConsumerId>; 16]> = likely_ids.collect();
        let pairs = consumers.iter().zip(likely_ids);
        let found = pairs.filter_map(|(uuid, likely_id)| {
            let has_uuid = |consumer: &&Consumer| consumer.uuid == *uuid;
            let consumer = self.consumer_by_id(likely_id?).filter(has_uuid);
            consumer.or_else(|| self.consumer(*uuid))
        });
        found.filter_map(|consumer| Some(consumer.host_assignment?.host))
    }
}

/// How many of the sorted places equal a place.
fn count_of(sorted_places: &[Place], place: Place) -> usize {
    let start = sorted_places.partition_point(|other| *other < place);
    sorted_places[start..].partition_point(|other| *other == place)
}
