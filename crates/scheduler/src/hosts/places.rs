//! The topology that the operator configured: the place of every host at each level (rack, row, …).

use std::sync::Arc;

use hashbrown::HashMap;
use placewright_placement::place_names::{FoundPlace, PlaceNames};
use placewright_placement::{ProviderId, State};
use smallvec::SmallVec;

/// Stands for the place of a host that is in no place of a level.
pub const NO_PLACE: u32 = u32::MAX;

/// The places of a host by level, the smallest level first. A place is the number of its aggregate.
pub type PlacePath = SmallVec<[u32; 4]>;

/// The topology of all hosts.
#[derive(Clone, Debug, Default)]
pub struct Places {
    levels: Vec<LevelPlaces>,
    /// The distances that the operator configured, by pair of places; the place with the smaller number comes first.
    distances: HashMap<(u32, u32), u32, foldhash::fast::FixedState>,
    distance_max: u32,
    /// The version of placement's structure that this was read from; `None` at first.
    structure: Option<u64>,
}

/// One level of the topology, such as the racks.
#[derive(Clone, Debug)]
pub struct LevelPlaces {
    name: String,
    place_names: Arc<PlaceNames>,
    /// The numbers of the level's aggregates, in the order in which the level lists them; `None` for an aggregate
    /// that placement has no number for, so that no host is in it.
    numbers: Vec<Option<u32>>,
    /// By slot: the place of the host, or [`NO_PLACE`].
    place_of_host: Vec<u32>,
    /// By place: the number of its hosts.
    host_counts: HashMap<u32, u32, foldhash::fast::FixedState>,
}

impl LevelPlaces {
    /// The place of a host, or [`NO_PLACE`].
    #[must_use]
    #[inline]
    pub fn place_of(&self, slot: u32) -> u32 {
        self.place_of_host
            .get(slot as usize)
            .copied()
            .unwrap_or(NO_PLACE)
    }

    /// The place with this name, as [`PlaceNames::find`] looks for it; `None` if there is none, or several.
    #[must_use]
    pub fn place_by_name(&self, name: &str) -> Option<u32> {
        match self.place_names.find(name) {
            FoundPlace::One(index) => *self.numbers.get(index)?,
            FoundPlace::None | FoundPlace::Several => None,
        }
    }

    /// The places that have hosts, in arbitrary order.
    pub fn places(&self) -> impl Iterator<Item = u32> + '_ {
        self.host_counts.keys().copied()
    }

    /// Sets the place of a host; [`NO_PLACE`] takes the host out of its place.
    fn set(&mut self, slot: u32, place: u32) {
        let index = slot as usize;
        if index >= self.place_of_host.len() {
            self.place_of_host.resize(index + 1, NO_PLACE);
        }
        let previous = std::mem::replace(&mut self.place_of_host[index], place);
        if previous != NO_PLACE
            && let Some(count) = self.host_counts.get_mut(&previous)
        {
            *count -= 1;
            if *count == 0 {
                self.host_counts.remove(&previous);
            }
        }
        if place != NO_PLACE {
            *self.host_counts.entry(place).or_default() += 1;
        }
    }
}

impl Places {
    /// A level by its name; `None` if the topology has no such level.
    #[must_use]
    pub fn level(&self, name: &str) -> Option<&LevelPlaces> {
        self.levels.iter().find(|level| level.name == name)
    }

    /// The places of a host at all levels.
    #[must_use]
    pub fn place_path(&self, slot: u32) -> PlacePath {
        self.levels
            .iter()
            .map(|level| level.place_of(slot))
            .collect()
    }

    /// The distance between two different hosts with these places.
    ///
    /// What decides is the smallest level at which the operator configured a distance of the two places, or
    /// at which they are the same place. Without a configured distance, the distance is the number of hops
    /// from one host up to the common place and down to the other; hosts without a common place
    /// meet above the largest level.
    #[must_use]
    pub fn distance(&self, path: &[u32], other_path: &[u32]) -> u32 {
        let mut hops = 2;
        for (a, b) in path.iter().zip(other_path) {
            if *a != NO_PLACE && *b != NO_PLACE {
                let pair = (*a.min(b), *a.max(b));
                if let Some(configured) = self.distances.get(&pair) {
                    return *configured;
                }
                if a == b {
                    return hops;
                }
            }
            hops += 2;
        }
        hops
    }

    /// An upper bound of the distance between two hosts.
    #[must_use]
    pub fn distance_max(&self) -> u32 {
        self.distance_max
    }

    /// Reads the levels and distances from placement if they changed. Returns whether they changed: if so,
    /// [`Self::refresh_host`] has to be called for every host.
    pub(super) fn refresh_levels(&mut self, state: &State) -> bool {
        let structure = state.tree_changes().structure_version();
        if self.structure == Some(structure) {
            return false;
        }
        self.structure = Some(structure);
        let levels = state.levels().iter().zip(state.place_names());
        let levels = levels.map(|(level, place_names)| LevelPlaces {
            name: level.name.clone(),
            place_names: Arc::clone(place_names),
            numbers: (level.aggregates.iter())
                .map(|uuid| state.aggregate_id(uuid).map(|id| id.0))
                .collect(),
            place_of_host: Vec::new(),
            host_counts: HashMap::default(),
        });
        self.levels = levels.collect();
        let hops = u32::try_from(2 * (self.levels.len() + 1)).unwrap_or(u32::MAX);
        let configured = state.distances().iter();
        self.distance_max = configured.map(|entry| entry.distance).fold(hops, u32::max);
        let by_pair = state.distances().iter().filter_map(|entry| {
            let (from, to) = (
                state.aggregate_id(&entry.from)?.0,
                state.aggregate_id(&entry.to)?.0,
            );
            Some(((from.min(to), from.max(to)), entry.distance))
        });
        self.distances = by_pair.collect();
        true
    }

    /// Reads the places of a host from placement.
    pub(super) fn refresh_host(&mut self, state: &State, host: ProviderId) {
        for (index, level) in self.levels.iter_mut().enumerate() {
            let place = state.aggregate_at_level(host, index);
            level.set(host.0, place.map_or(NO_PLACE, |place| place.0));
        }
    }

    /// Removes a host from its places.
    pub(super) fn remove_host(&mut self, slot: u32) {
        for level in &mut self.levels {
            level.set(slot, NO_PLACE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_configured_or_counted_in_hops() {
        let mut places = Places {
            levels: Vec::new(),
            distances: HashMap::default(),
            distance_max: 6,
            structure: None,
        };
        // Racks 1, 2 and 3; rows 10 and 11.
        assert_eq!(places.distance(&[1, 10], &[1, 10]), 2);
        assert_eq!(places.distance(&[1, 10], &[2, 10]), 4);
        assert_eq!(places.distance(&[1, 10], &[3, 11]), 6);
        assert_eq!(places.distance(&[NO_PLACE, 10], &[NO_PLACE, 10]), 4);
        places.distances.insert((10, 11), 40);
        places.distances.insert((1, 1), 1);
        places.distances.insert((1, 2), 3);
        assert_eq!(places.distance(&[3, 11], &[1, 10]), 40);
        assert_eq!(places.distance(&[1, 10], &[1, 10]), 1);
        assert_eq!(places.distance(&[2, 10], &[1, 10]), 3);
        assert_eq!(places.distance(&[2, 10], &[2, 10]), 2);
    }
}
