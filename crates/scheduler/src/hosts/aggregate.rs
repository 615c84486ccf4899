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
    /// The name that its operator gave it.
    pub name: String,
    /// Its metadata; values may be lists with commas, depending on the key.
    pub metadata: BTreeMap<String, String>,
}

/// A combination of aggregates: its row in [`Aggregates`]. Row 0 is the empty combination.
pub type CombinationId = u32;

/// A set of aggregates that some hosts have in common, with its merged metadata.
#[derive(Clone, Debug, Default)]
pub struct Combination {
    /// The aggregates, in rising order.
    pub aggregates: Vec<Uuid>,
    /// The slots of the hosts that are in exactly these aggregates.
    pub hosts: SlotSet,
    /// By metadata key the distinct values, as written, in the order of the aggregates.
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

/// All aggregates, and all combinations that occur.
#[derive(Clone, Debug)]
pub struct Aggregates {
    known: BTreeMap<Uuid, Aggregate>,
    combinations: Vec<Combination>,
    by_aggregates: HashMap<Vec<Uuid>, CombinationId, foldhash::quality::FixedState>,
    combination_of: Vec<CombinationId>,
    memberships: Vec<Option<Box<[Uuid]>>>,
    member_counts: HashMap<Uuid, u32, foldhash::quality::FixedState>,
    keys: BTreeSet<String>,
    overrides: BTreeMap<String, Vec<Option<f64>>>,
    version: u64,
}

impl Default for Aggregates {
    fn default() -> Self {
        Self {
            known: BTreeMap::new(),
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

/// The smallest of some metadata values, parsed as numeric overrides are.
///
/// `None` if there is no value or one of them is not a number; the configuration then applies.
#[must_use]
pub fn smallest(values: &[String], whole: bool) -> Option<f64> {
    let parse = |value: &String| {
        if whole {
            values::parse_int(value).map(|number| number as f64)
        } else {
            values::parse_float(value)
        }
    };
    let numbers: Option<Vec<f64>> = values.iter().map(parse).collect();
    numbers?
        .into_iter()
        .reduce(|least, next| if next < least { next } else { least })
}

/// `Some(true)` for a metadata key that overrides a whole number (a limit), `Some(false)` for one
/// that overrides any number (a multiplier), `None` for other keys.
fn override_kind(key: &str) -> Option<bool> {
    match key {
        "max_io_ops_per_host" | "max_instances_per_host" => Some(true),
        _ if key.ends_with("_multiplier") => Some(false),
        _ => None,
    }
}

impl Aggregates {
    /// A version number, incremented by every change; whatever was derived from an older version
    /// may be out of date.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The aggregate with this UUID.
    #[must_use]
    pub fn get(&self, uuid: Uuid) -> Option<&Aggregate> {
        self.known.get(&uuid)
    }

    /// All aggregates, by UUID.
    pub fn iter(&self) -> impl Iterator<Item = (Uuid, &Aggregate)> {
        self.known
            .iter()
            .map(|(uuid, aggregate)| (*uuid, aggregate))
    }

    /// Whether any aggregate has a metadata key.
    #[must_use]
    pub fn has_key(&self, key: &str) -> bool {
        self.keys.contains(key)
    }

    /// Whether any aggregate has a metadata key with this prefix.
    #[must_use]
    pub fn has_key_prefix(&self, prefix: &str) -> bool {
        let mut from = self
            .keys
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        from.next().is_some_and(|key| key.starts_with(prefix))
    }

    /// The metadata keys of all aggregates, in alphabetical order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(String::as_str)
    }

    /// The hosts whose combination of aggregates satisfies a predicate.
    pub fn verdict(&self, mut passes: impl FnMut(&Combination) -> bool) -> Verdict<'_> {
        let all = self.combinations.iter();
        Partition::verdict(
            &self.combination_of,
            all.map(|combination| (&combination.hosts, passes(combination))),
        )
    }

    /// Whether no aggregate has any metadata.
    #[must_use]
    pub fn have_no_metadata(&self) -> bool {
        self.keys.is_empty()
    }

    /// The combinations that some host is in, and the empty one.
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

    /// The metadata values of numeric overrides that do not parse: aggregate, key, value.
    pub fn unreadable(&self) -> impl Iterator<Item = (&Aggregate, &str, &str)> {
        self.known.values().flat_map(|aggregate| {
            aggregate.metadata.iter().filter_map(move |(key, value)| {
                let whole = override_kind(key)?;
                smallest(std::slice::from_ref(value), whole)
                    .is_none()
                    .then_some((aggregate, key.as_str(), value.as_str()))
            })
        })
    }

    /// Creates aggregates or replaces their names and metadata.
    pub fn put(&mut self, aggregates: impl IntoIterator<Item = (Uuid, Aggregate)>) {
        let mut is_inhabited = false;
        for (uuid, aggregate) in aggregates {
            is_inhabited |= self.member_counts.contains_key(&uuid);
            self.keys.extend(aggregate.metadata.keys().cloned());
            self.known.insert(uuid, aggregate);
        }
        self.version += 1;
        if is_inhabited {
            self.rebuild();
        }
    }

    /// Removes an aggregate; its hosts move to other combinations.
    pub fn remove(&mut self, uuid: Uuid) {
        if self.known.remove(&uuid).is_some() {
            self.rebuild();
        }
    }

    /// Sets the aggregates that a host is in; those without metadata are ignored.
    ///
    /// The list is what placement has for the host's root provider.
    pub fn set_membership(&mut self, slot: u32, aggregates: impl Iterator<Item = Uuid>) {
        let mut all: Vec<Uuid> = aggregates.collect();
        all.sort_unstable();
        all.dedup();
        let index = slot as usize;
        if index >= self.memberships.len() {
            self.memberships.resize(index + 1, None);
            self.combination_of.resize(index + 1, 0);
        }
        if self.memberships[index].as_deref() == Some(&all) {
            return;
        }
        self.forget(slot);
        for uuid in &all {
            *self.member_counts.entry(*uuid).or_default() += 1;
        }
        let id = self.combination(&all);
        self.memberships[index] = Some(all.into());
        self.combination_of[index] = id;
        self.combinations[id as usize].hosts.insert(slot);
        if self.combinations.len() > 2 * self.combinations().count() + 64 {
            self.rebuild();
        }
    }

    /// Removes a host that no longer exists.
    pub fn forget(&mut self, slot: u32) {
        let known = self.memberships.get_mut(slot as usize);
        let Some(old) = known.and_then(Option::take) else {
            return;
        };
        for uuid in &old {
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

    /// The row of a combination, created on first use.
    fn combination(&mut self, aggregates: &[Uuid]) -> CombinationId {
        let has_metadata = |uuid: &&Uuid| {
            let found = self.known.get(*uuid);
            found.is_some_and(|aggregate| !aggregate.metadata.is_empty())
        };
        let telling: Vec<Uuid> = aggregates.iter().filter(has_metadata).copied().collect();
        if let Some(id) = self.by_aggregates.get(&telling) {
            return *id;
        }
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for aggregate in telling.iter().filter_map(|uuid| self.known.get(uuid)) {
            for (key, value) in &aggregate.metadata {
                let seen = values.entry(key.clone()).or_default();
                if !seen.contains(value) {
                    seen.push(value.clone());
                }
            }
        }
        let id = u32::try_from(self.combinations.len()).unwrap_or(u32::MAX);
        self.by_aggregates.insert(telling.clone(), id);
        self.combinations.push(Combination {
            aggregates: telling,
            hosts: SlotSet::default(),
            values,
        });
        self.note_overrides(id);
        self.version += 1;
        id
    }

    fn note_overrides(&mut self, id: CombinationId) {
        let count = self.combinations.len();
        for overrides in self.overrides.values_mut() {
            overrides.resize(count, None);
        }
        for (key, values) in &self.combinations[id as usize].values {
            let Some(whole) = override_kind(key) else {
                continue;
            };
            let overrides = self.overrides.entry(key.clone()).or_default();
            overrides.resize(count, None);
            overrides[id as usize] = smallest(values, whole);
        }
    }

    /// Recomputes all combinations after a change of metadata, which is rare.
    fn rebuild(&mut self) {
        let known = std::mem::take(&mut self.known);
        let memberships = std::mem::take(&mut self.memberships);
        let version = self.version + 1;
        *self = Self {
            keys: known
                .values()
                .flat_map(|aggregate| aggregate.metadata.keys().cloned())
                .collect(),
            known,
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
    /// The number for a host, if its aggregates override the option.
    #[must_use]
    #[inline]
    pub fn get(&self, slot: u32) -> Option<f64> {
        let id = self.combination_of.get(slot as usize).copied()?;
        self.by_combination.get(id as usize).copied().flatten()
    }
}
