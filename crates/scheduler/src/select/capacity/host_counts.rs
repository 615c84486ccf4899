//! The number of instances on each host, and the sums by cell, zone and place.

use std::collections::BTreeMap;
use std::ops::Range;

use placewright_placement::{AggregateId, State};
use uuid::Uuid;

use super::{Capacity, LevelCapacity, LimitingFactor, PlaceCapacity};
use crate::hosts::places::NO_PLACE;
use crate::select::Scheduler;

type Map<K, V> = hashbrown::HashMap<K, V, foldhash::fast::FixedState>;

/// The number of instances on each host, and the number of hosts by their first obstacle to a further instance.
#[derive(Debug, Default)]
pub(super) struct HostCounts {
    /// The number of instances by the host's slot.
    by_slot: Vec<u64>,
    limiting_factors: BTreeMap<LimitingFactor, usize>,
    sums: Sums,
}

/// The sums over the hosts for which [`HostCounts::add_to_sums`] was called.
#[derive(Debug, Default)]
struct Sums {
    count: u64,
    host_count: usize,
    by_cell: Map<Uuid, u64>,
    by_zone: Map<String, u64>,
    /// By level, in the state's order: its name, and the sum by place.
    by_level: Vec<(String, Map<u32, u64>)>,
}

impl HostCounts {
    /// Adds instances to a host.
    pub(super) fn add(&mut self, slot: u32, count: u64) {
        let index = slot as usize;
        if index >= self.by_slot.len() {
            self.by_slot.resize(index + 1, 0);
        }
        self.by_slot[index] = self.by_slot[index].saturating_add(count);
    }

    /// Adds the number of hosts on which `factor` is the first obstacle.
    pub(super) fn add_limiting_factor(&mut self, factor: &LimitingFactor, host_count: usize) {
        if host_count == 0 {
            return;
        }
        match self.limiting_factors.get_mut(factor) {
            Some(hosts) => *hosts += host_count,
            None => {
                self.limiting_factors.insert(factor.clone(), host_count);
            }
        }
    }

    /// Adds the instances of the hosts of these slots to the sums. Nothing may be added to these hosts afterwards.
    pub(super) fn add_to_sums(
        &mut self,
        scheduler: &Scheduler,
        state: &State,
        slots: Range<usize>,
    ) {
        let hosts = &scheduler.hosts;
        let sums = &mut self.sums;
        let end = slots.end.min(self.by_slot.len());
        let counted = self.by_slot.get(slots.start..end).unwrap_or_default();
        let first_slot = u32::try_from(slots.start).unwrap_or(u32::MAX);
        let used = (first_slot..).zip(counted).filter(|(_, count)| **count > 0);
        let default_zone = &scheduler.options.prefilter.default_availability_zone;
        for (slot, count) in used.clone() {
            sums.host_count += 1;
            sums.count = sums.count.saturating_add(*count);
            let cell = hosts.get(slot).map_or(Uuid::nil(), |host| host.names.cell);
            add_to(sums.by_cell.entry(cell).or_default(), *count);
            let zone = hosts.aggregates().zone(slot).unwrap_or(default_zone);
            add_to(sums.by_zone.entry_ref(zone).or_default(), *count);
        }
        for (index, level) in state.levels().iter().enumerate() {
            if sums.by_level.len() <= index {
                sums.by_level.push((level.name.clone(), Map::default()));
            }
            let (Some(places), Some((_, by_place))) = (
                hosts.places().level(&level.name),
                sums.by_level.get_mut(index),
            ) else {
                continue;
            };
            for (slot, count) in used.clone() {
                add_to(by_place.entry(places.place_of(slot)).or_default(), *count);
            }
        }
    }

    /// The sums of all counts. `add_to_sums` was called for every slot.
    pub(super) fn summarize(
        self,
        scheduler: &Scheduler,
        state: &State,
        has_more: bool,
    ) -> Capacity {
        let sums = self.sums;
        let aggregates = scheduler.hosts.aggregates();
        let place_capacity = |names: Option<&BTreeMap<String, String>>, place: u32, count: u64| {
            let aggregate = state.aggregate_uuid(AggregateId(place)).to_owned();
            let of_aggregate = || {
                let named = Uuid::parse_str(&aggregate).ok();
                let named = named.and_then(|uuid| aggregates.get(uuid));
                named.map(|aggregate| aggregate.name.clone())
            };
            let name = names.and_then(|names| names.get(&aggregate)).cloned();
            let name = name.or_else(of_aggregate).filter(|name| !name.is_empty());
            PlaceCapacity {
                name: name.unwrap_or_else(|| aggregate.clone()),
                aggregate,
                count,
            }
        };
        let by_level = sums.by_level.into_iter().filter_map(|(level, by_place)| {
            scheduler.hosts.places().level(&level)?;
            let mut by_place: BTreeMap<u32, u64> = by_place.into_iter().collect();
            let elsewhere = by_place.remove(&NO_PLACE).unwrap_or(0);
            let level_names = state.levels().iter().find(|known| known.name == level);
            let names = level_names.map(|known| &known.names);
            let places = by_place
                .into_iter()
                .map(|(place, count)| place_capacity(names, place, count));
            Some(LevelCapacity {
                level,
                places: places.collect(),
                elsewhere,
            })
        });
        Capacity {
            count: sums.count,
            has_more,
            host_count: sums.host_count,
            by_level: by_level.collect(),
            by_cell: sums.by_cell.into_iter().collect(),
            by_zone: sums.by_zone.into_iter().collect(),
            limiting_factors: self.limiting_factors,
        }
    }
}

fn add_to(sum: &mut u64, count: u64) {
    *sum = sum.saturating_add(count);
}
