//! The number of instances on each host, and the sums by cell, zone and place.

use std::collections::BTreeMap;

use placewright_placement::{AggregateId, State};
use uuid::Uuid;

use super::{Capacity, LevelCapacity, LimitingFactor, PlaceCapacity};
use crate::hosts::places::NO_PLACE;
use crate::select::Scheduler;

/// The number of instances on each host, and the number of hosts by their first obstacle to a further instance.
#[derive(Debug, Default)]
pub(super) struct HostCounts {
    /// The number of instances by the host's slot.
    by_slot: Vec<u64>,
    limiting_factors: BTreeMap<LimitingFactor, usize>,
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
    pub(super) fn add_limiting_factor(&mut self, factor: LimitingFactor, host_count: usize) {
        if host_count > 0 {
            *self.limiting_factors.entry(factor).or_default() += host_count;
        }
    }

    /// Removes the limiting factors, which are not known because the count was ended early.
    pub(super) fn clear_bounds(&mut self) {
        self.limiting_factors.clear();
    }

    /// Sums the counts up by cell, zone and place.
    pub(super) fn summarize(
        self,
        scheduler: &Scheduler,
        state: &State,
        has_more: bool,
    ) -> Capacity {
        let hosts = &scheduler.hosts;
        let mut capacity = Capacity {
            has_more,
            limiting_factors: self.limiting_factors,
            ..Capacity::default()
        };
        let used = (0u32..).zip(&self.by_slot).filter(|(_, count)| **count > 0);
        let mut by_zone: BTreeMap<&str, u64> = BTreeMap::new();
        let mut last_cell = (Uuid::nil(), 0);
        for (slot, count) in used.clone() {
            capacity.host_count += 1;
            capacity.count = capacity.count.saturating_add(*count);
            let cell = hosts.get(slot).map_or(Uuid::nil(), |host| host.names.cell);
            if last_cell.0 != cell {
                add_to(&mut capacity.by_cell, last_cell.0, last_cell.1);
                last_cell = (cell, 0);
            }
            last_cell.1 = last_cell.1.saturating_add(*count);
            let default_zone = &scheduler.options.prefilter.default_availability_zone;
            let zone = hosts.aggregates().zone(slot).unwrap_or(default_zone);
            add_to(&mut by_zone, zone, *count);
        }
        add_to(&mut capacity.by_cell, last_cell.0, last_cell.1);
        let by_zone = by_zone.into_iter();
        capacity.by_zone = by_zone
            .map(|(zone, count)| (zone.to_owned(), count))
            .collect();
        let levels = state.levels().iter().filter_map(|level| {
            let places = hosts.places().level(&level.name)?;
            let mut by_place: BTreeMap<u32, u64> = BTreeMap::new();
            for (slot, count) in used.clone() {
                add_to(&mut by_place, places.place_of(slot), *count);
            }
            let elsewhere = by_place.remove(&NO_PLACE).unwrap_or(0);
            let places = by_place.into_iter().map(|(place, count)| {
                let aggregate = state.aggregate_uuid(AggregateId(place)).to_owned();
                let named = Uuid::parse_str(&aggregate).ok();
                let named = named.and_then(|uuid| hosts.aggregates().get(uuid));
                let name = named.map(|aggregate| aggregate.name.clone());
                PlaceCapacity {
                    name: name
                        .filter(|name| !name.is_empty())
                        .unwrap_or(aggregate.clone()),
                    aggregate,
                    count,
                }
            });
            Some(LevelCapacity {
                level: level.name.clone(),
                places: places.collect(),
                elsewhere,
            })
        });
        capacity.by_level = levels.collect();
        capacity
    }
}

fn add_to<K: Ord>(sums: &mut BTreeMap<K, u64>, key: K, count: u64) {
    if count > 0 {
        let sum = sums.entry(key).or_default();
        *sum = sum.saturating_add(count);
    }
}
