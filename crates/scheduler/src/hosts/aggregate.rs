//! Host aggregates: named sets of hosts with metadata that filters and weighers read.
//!
//! Membership is stored in one place only: placement's aggregate of the same UUID. This module
//! holds the names and metadata and, for each *combination* of aggregates that some host is in,
//! the merged metadata. Fleets have few combinations, so a filter that depends on metadata alone
//! is evaluated once for each combination instead of once for each host.
//!
//! Aggregates without metadata (racks, rooms) do not concern filters and make no combinations.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use hashbrown::HashMap;
use placewright_placement::slot_set::SlotSet;
use uuid::Uuid;

use crate::hosts::verdict::{Partition, Verdict};
use crate::values;

/// The metadata key that makes an aggregate an availability zone.
pub const ZONE_KEY: &str = "availability_zone";

/// A host aggregate as its operator configured it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aggregate {
    /// The name that the operator gave the aggregate.
    pub name: String,
    /// The metadata of the aggregate; values may be lists with commas, depending on the key.
    pub metadata: BTreeMap<String, String>,
}

/// The number of a combination: its index in [`Aggregates`]. Number 0 is the combination of no aggregates, for hosts
/// whose aggregates all lack metadata, too.
pub type CombinationId = u32;

/// Combinations without hosts are dropped when they outnumber those with hosts by more than this.
const UNUSED_COMBINATIONS_MAX: usize = 64;

/// A set of aggregates with metadata that some hosts have in common, with the merged metadata.
#[derive(Clone, Debug, Default)]
pub struct Combination {
    /// The aggregates, in rising order.
    pub aggregates: Vec<Uuid>,
    /// The slots of the hosts that are in exactly these aggregates with metadata, and perhaps in others without.
    pub hosts: SlotSet,
    /// By metadata key: the distinct values, as written, in the order of the aggregates.
    values: BTreeMap<String, Vec<String>>,
}

impl Combination {
    /// The distinct values of a key, as they were written.
    #[must_use]
    pub fn values(&self, key: &str) -> &[String] {
        self.values.get(key).map_or(&[], Vec::as_slice)
    }

    /// All keys with their values, in alphabetical order.
    pub fn metadata(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.values
            .iter()
            .map(|(key, values)| (key.as_str(), values.as_slice()))
    }
}

/// All aggregates, and the combinations that hosts are in.
#[derive(Clone, Debug)]
pub struct Aggregates {
    aggregates: BTreeMap<Uuid, Aggregate>,
    combinations: Vec<Combination>,
    /// By its aggregates with metadata, in rising order: the combination.
    by_aggregates: HashMap<Vec<Uuid>, CombinationId, foldhash::quality::FixedState>,
    /// By slot: the host's combination.
    combination_of: Vec<CombinationId>,
    /// By slot: the aggregates of the host, in rising order.
    memberships: Vec<Option<Box<[Uuid]>>>,
    /// By aggregate: the number of its hosts.
    member_counts: HashMap<Uuid, u32, foldhash::quality::FixedState>,
    /// All metadata keys of aggregates. After an aggregate without hosts was replaced, also the keys that it had
    /// before.
    keys: BTreeSet<String>,
    /// By option and combination: the number that overrides the option; `None` where the option itself applies.
    overrides: BTreeMap<String, Vec<Option<f64>>>,
    version: u64,
}

impl Default for Aggregates {
    fn default() -> Self {
        Self {
            aggregates: BTreeMap::new(),
            combinations: vec![Combination::default()],
            by_aggregates: std::iter::once((Vec::new(), 0)).collect(),
            combination_of: Vec::new(),
            memberships: Vec::new(),
            member_counts: HashMap::default(),
            keys: BTreeSet::new(),
            overrides: BTreeMap::new(),
            version: 0,
        }
    }
}

/// The smallest of the metadata values by which aggregates override an option.
///
/// `None` if there is no value or one of them is not a finite number; the option itself applies then.
#[must_use]
pub fn smallest_override(values: &[String], kind: NumberKind) -> Option<f64> {
    let parse = |value: &String| match kind {
        NumberKind::Integer => values::parse_int(value).map(|number| number as f64),
        NumberKind::Float => values::parse_float(value).filter(|number| number.is_finite()),
    };
    let numbers: Option<Vec<f64>> = values.iter().map(parse).collect();
    numbers?
        .into_iter()
        .reduce(|minimum, number| if number < minimum { number } else { minimum })
}

/// How the values of a metadata key that overrides an option are parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberKind {
    /// An integer, as limits are.
    Integer,
    /// Any finite number, as multipliers are. An infinite one could make the sum of a host's weights NaN; the
    /// configuration's multipliers have to be finite for the same reason.
    Float,
}

/// The kind of number by which a metadata key overrides an option; `None` for other keys.
fn override_kind(key: &str) -> Option<NumberKind> {
    match key {
        "max_io_ops_per_host" | "max_instances_per_host" => Some(NumberKind::Integer),
        _ if key.ends_with("_multiplier") => Some(NumberKind::Float),
        _ => None,
    }
}

impl Aggregates {
    /// A number that grows whenever an aggregate changes, and whenever a combination is added. It may stay the same
    /// when a host joins or leaves aggregates:
    /// [`HostTable::drain_changes`](crate::hosts::table::HostTable::drain_changes) reports such a host.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The aggregate with this UUID; `None` if no operator gave it a name or metadata.
    #[must_use]
    pub fn get(&self, uuid: Uuid) -> Option<&Aggregate> {
        self.aggregates.get(&uuid)
    }

    /// All aggregates, by UUID.
    pub fn iter(&self) -> impl Iterator<Item = (Uuid, &Aggregate)> {
        self.aggregates
            .iter()
            .map(|(uuid, aggregate)| (*uuid, aggregate))
    }

    /// Whether [`Self::keys`] has a metadata key.
    #[must_use]
    pub fn has_key(&self, key: &str) -> bool {
        self.keys.contains(key)
    }

    /// Whether [`Self::keys`] has a metadata key with this prefix.
    #[must_use]
    pub fn has_key_prefix(&self, prefix: &str) -> bool {
        let mut keys_from_prefix = self
            .keys
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        keys_from_prefix
            .next()
            .is_some_and(|key| key.starts_with(prefix))
    }

    /// The metadata keys of all aggregates, in alphabetical order. Keys that an aggregate without hosts had before it
    /// was replaced may be among them.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(String::as_str)
    }

    /// The verdict by which those hosts pass whose combination of aggregates satisfies a predicate.
    pub fn verdict(&self, mut passes: impl FnMut(&Combination) -> bool) -> Verdict<'_> {
        let combinations = self.combinations.iter();
        Partition::verdict(
            &self.combination_of,
            combinations.map(|combination| (&combination.hosts, passes(combination))),
        )
    }

    /// Whether [`Self::keys`] is empty, so that no aggregate has metadata.
    #[must_use]
    pub fn have_no_metadata(&self) -> bool {
        self.keys.is_empty()
    }

    /// The combinations that some host is in.
    pub fn combinations(&self) -> impl Iterator<Item = &Combination> {
        self.combinations
            .iter()
            .filter(|combination| !combination.hosts.is_empty())
    }

    /// The combination of a host.
    #[must_use]
    #[inline]
    pub fn combination_of(&self, slot: u32) -> &Combination {
        let id = self.combination_of.get(slot as usize).copied().unwrap_or(0);
        &self.combinations[id as usize]
    }

    /// The availability zone of a host, if one of its aggregates is a zone.
    #[must_use]
    pub fn zone(&self, slot: u32) -> Option<&str> {
        self.combination_of(slot)
            .values(ZONE_KEY)
            .first()
            .map(String::as_str)
    }

    /// The numbers by which aggregates override an option, by host; `None` if no aggregate
    /// overrides it.
    #[must_use]
    pub fn overrides<'a>(&'a self, key: &str) -> Option<OverrideColumn<'a>> {
        Some(OverrideColumn {
            by_combination: self.overrides.get(key)?,
            combination_of: &self.combination_of,
        })
    }

    /// The metadata values that should override an option but are not finite numbers: aggregate, key,
    /// value.
    pub fn malformed_overrides(&self) -> impl Iterator<Item = (&Aggregate, &str, &str)> {
        self.aggregates.values().flat_map(|aggregate| {
            aggregate.metadata.iter().filter_map(move |(key, value)| {
                let kind = override_kind(key)?;
                smallest_override(std::slice::from_ref(value), kind)
                    .is_none()
                    .then_some((aggregate, key.as_str(), value.as_str()))
            })
        })
    }

    /// Creates aggregates or replaces their names and metadata.
    pub fn put(&mut self, aggregates: impl IntoIterator<Item = (Uuid, Aggregate)>) {
        let mut has_hosts = false;
        for (uuid, aggregate) in aggregates {
            has_hosts |= self.member_counts.contains_key(&uuid);
            self.keys.extend(aggregate.metadata.keys().cloned());
            self.aggregates.insert(uuid, aggregate);
        }
        self.version += 1;
        // Aggregates without hosts are in no combination.
        if has_hosts {
            self.rebuild();
        }
    }

    /// Removes an aggregate. Its hosts get other combinations.
    pub fn remove(&mut self, uuid: Uuid) {
        if self.aggregates.remove(&uuid).is_some() {
            self.rebuild();
        }
    }

    /// Sets the aggregates that a host is in: those that placement has for its root provider. The ones
    /// without metadata do not count for the host's combination.
    pub fn set_membership(&mut self, slot: u32, aggregates: impl Iterator<Item = Uuid>) {
        let mut membership: Vec<Uuid> = aggregates.collect();
        membership.sort_unstable();
        membership.dedup();
        let index = slot as usize;
        if index >= self.memberships.len() {
            self.memberships.resize(index + 1, None);
            self.combination_of.resize(index + 1, 0);
        }
        if self.memberships[index].as_deref() == Some(&membership) {
            return;
        }
        self.remove_host(slot);
        for uuid in &membership {
            *self.member_counts.entry(*uuid).or_default() += 1;
        }
        let id = self.combination_id(&membership);
        self.memberships[index] = Some(membership.into());
        self.combination_of[index] = id;
        self.combinations[id as usize].hosts.insert(slot);
        let max_with_unused = 2 * self.combinations().count() + UNUSED_COMBINATIONS_MAX;
        if self.combinations.len() > max_with_unused {
            self.rebuild();
        }
    }

    /// Takes a host out of its combination, and no longer counts it as a member of its aggregates.
    pub fn remove_host(&mut self, slot: u32) {
        let membership = self.memberships.get_mut(slot as usize);
        let Some(membership) = membership.and_then(Option::take) else {
            return;
        };
        for uuid in &membership {
            if let Some(count) = self.member_counts.get_mut(uuid) {
                *count -= 1;
                if *count == 0 {
                    self.member_counts.remove(uuid);
                }
            }
        }
        let id = std::mem::take(&mut self.combination_of[slot as usize]);
        self.combinations[id as usize].hosts.remove(slot);
    }

    /// The combination of these aggregates, which is added if it is new.
    fn combination_id(&mut self, aggregates: &[Uuid]) -> CombinationId {
        let has_metadata = |uuid: &&Uuid| {
            let aggregate = self.aggregates.get(*uuid);
            aggregate.is_some_and(|aggregate| !aggregate.metadata.is_empty())
        };
        let with_metadata: Vec<Uuid> = aggregates.iter().filter(has_metadata).copied().collect();
        if let Some(id) = self.by_aggregates.get(&with_metadata) {
            return *id;
        }
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for aggregate in with_metadata
            .iter()
            .filter_map(|uuid| self.aggregates.get(uuid))
        {
            for (key, value) in &aggregate.metadata {
                let distinct = values.entry(key.clone()).or_default();
                if !distinct.contains(value) {
                    distinct.push(value.clone());
                }
            }
        }
        let id = u32::try_from(self.combinations.len()).unwrap_or(u32::MAX);
        self.by_aggregates.insert(with_metadata.clone(), id);
        self.combinations.push(Combination {
            aggregates: with_metadata,
            hosts: SlotSet::default(),
            values,
        });
        self.add_overrides(id);
        self.version += 1;
        id
    }

    /// Adds the overrides of a new combination.
    fn add_overrides(&mut self, id: CombinationId) {
        let count = self.combinations.len();
        for overrides in self.overrides.values_mut() {
            overrides.resize(count, None);
        }
        for (key, values) in &self.combinations[id as usize].values {
            let Some(kind) = override_kind(key) else {
                continue;
            };
            let overrides = self.overrides.entry(key.clone()).or_default();
            overrides.resize(count, None);
            overrides[id as usize] = smallest_override(values, kind);
        }
    }

    /// Recomputes all combinations, after a change of metadata, or to drop combinations without hosts.
    fn rebuild(&mut self) {
        let aggregates = std::mem::take(&mut self.aggregates);
        let memberships = std::mem::take(&mut self.memberships);
        let version = self.version + 1;
        *self = Self {
            keys: aggregates
                .values()
                .flat_map(|aggregate| aggregate.metadata.keys().cloned())
                .collect(),
            aggregates,
            ..Self::default()
        };
        for (slot, aggregates) in memberships.into_iter().enumerate() {
            if let Some(aggregates) = aggregates {
                let slot = u32::try_from(slot).unwrap_or(u32::MAX);
                self.set_membership(slot, aggregates.into_iter());
            }
        }
        self.version = version;
    }
}

/// The numbers by which aggregates override an option, for every host.
#[derive(Clone, Copy, Debug)]
pub struct OverrideColumn<'a> {
    by_combination: &'a [Option<f64>],
    combination_of: &'a [CombinationId],
}

impl OverrideColumn<'_> {
    /// The number that overrides the option for a host; `None` if its aggregates do not.
    #[must_use]
    #[inline]
    pub fn get(&self, slot: u32) -> Option<f64> {
        let id = self.combination_of.get(slot as usize).copied()?;
        self.by_combination.get(id as usize).copied().flatten()
    }
}
