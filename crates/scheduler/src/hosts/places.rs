//! The operator's topology: for each level (rack, row, …) the place of every host.

use hashbrown::HashMap;
use placewright_placement::{ProviderId, State};
use smallvec::SmallVec;

/// The place of a host that is in no place of a level.
pub const NOWHERE: u32 = u32::MAX;

/// The places of a host by level, from the smallest level on.
pub type Chain = SmallVec<[u32; 4]>;

/// The topology of all hosts.
#[derive(Clone, Debug, Default)]
pub struct Places {
    levels: Vec<LevelPlaces>,
    /// The operator's distances by pair of places, the smaller number first.
    distances: HashMap<(u32, u32), u32, foldhash::fast::FixedState>,
    farthest: u32,
    /// The version of placement's topology that this was read from; `None` at first.
    structure: Option<u64>,
}

/// One level of the topology, such as the racks.
#[derive(Clone, Debug)]
pub struct LevelPlaces {
    name: String,
    /// By slot: the place of the host, or [`NOWHERE`].
    of_host: Vec<u32>,
    /// By place: the number of hosts in it.
    hosts: HashMap<u32, u32, foldhash::fast::FixedState>,
}

impl LevelPlaces {
    /// The place of a host, or [`NOWHERE`].
    #[must_use]
    #[inline]
    pub fn of(&self, slot: u32) -> u32 {
        self.of_host.get(slot as usize).copied().unwrap_or(NOWHERE)
    }

    /// The places that hold a host, in no order that means anything.
    pub fn all(&self) -> impl Iterator<Item = u32> + '_ {
        self.hosts.keys().copied()
    }

    fn set(&mut self, slot: u32, place: u32) {
        let index = slot as usize;
        if index >= self.of_host.len() {
            self.of_host.resize(index + 1, NOWHERE);
        }
        let before = std::mem::replace(&mut self.of_host[index], place);
        if before != NOWHERE
            && let Some(count) = self.hosts.get_mut(&before)
        {
            *count -= 1;
            if *count == 0 {
                self.hosts.remove(&before);
            }
        }
        if place != NOWHERE {
            *self.hosts.entry(place).or_default() += 1;
        }
    }
}

impl Places {
    /// A level by its name.
    #[must_use]
    pub fn level(&self, name: &str) -> Option<&LevelPlaces> {
        self.levels.iter().find(|level| level.name == name)
    }

    /// The places of a host at all levels.
    #[must_use]
    pub fn chain(&self, slot: u32) -> Chain {
        self.levels.iter().map(|level| level.of(slot)).collect()
    }

    /// How far apart two different hosts with these places are.
    ///
    /// From the smallest level on: what the operator said of their two places, or else, where it is
    /// one place, the hops up to it and down again. Hosts without a place in common go over the top.
    #[must_use]
    pub fn distance(&self, one: &[u32], other: &[u32]) -> u32 {
        let mut hops = 2;
        for (a, b) in one.iter().zip(other) {
            if *a != NOWHERE && *b != NOWHERE {
                let pair = (*a.min(b), *a.max(b));
                if let Some(said) = self.distances.get(&pair) {
                    return *said;
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
    pub fn farthest(&self) -> u32 {
        self.farthest
    }

    /// Takes over the levels if they changed; whether they did, so that every host has to be put.
    pub(super) fn follow(&mut self, state: &State) -> bool {
        let structure = state.touched().structure();
        if self.structure == Some(structure) {
            return false;
        }
        self.structure = Some(structure);
        let levels = state.levels().iter().map(|level| LevelPlaces {
            name: level.name.clone(),
            of_host: Vec::new(),
            hosts: HashMap::default(),
        });
        self.levels = levels.collect();
        let hops = u32::try_from(2 * (self.levels.len() + 1)).unwrap_or(u32::MAX);
        let said = state.distances().iter();
        self.farthest = said.map(|one| one.distance).fold(hops, u32::max);
        let pairs = state.distances().iter().filter_map(|one| {
            let (from, to) = (
                state.aggregate_id(&one.from)?.0,
                state.aggregate_id(&one.to)?.0,
            );
            Some(((from.min(to), from.max(to)), one.distance))
        });
        self.distances = pairs.collect();
        true
    }

    /// Puts a host where placement says that it is.
    pub(super) fn put(&mut self, state: &State, host: ProviderId) {
        for (number, level) in self.levels.iter_mut().enumerate() {
            let place = state.place_at(host, number);
            level.set(host.0, place.map_or(NOWHERE, |place| place.0));
        }
    }

    /// Takes a host away.
    pub(super) fn forget(&mut self, slot: u32) {
        for level in &mut self.levels {
            level.set(slot, NOWHERE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_what_was_said_or_hops() {
        let mut places = Places {
            levels: Vec::new(),
            distances: HashMap::default(),
            farthest: 6,
            structure: None,
        };
        // Racks 1, 2 and 3; rows 10 and 11.
        assert_eq!(places.distance(&[1, 10], &[1, 10]), 2);
        assert_eq!(places.distance(&[1, 10], &[2, 10]), 4);
        assert_eq!(places.distance(&[1, 10], &[3, 11]), 6);
        assert_eq!(places.distance(&[NOWHERE, 10], &[NOWHERE, 10]), 4);
        places.distances.insert((10, 11), 40);
        places.distances.insert((1, 1), 1);
        places.distances.insert((1, 2), 3);
        assert_eq!(places.distance(&[3, 11], &[1, 10]), 40);
        assert_eq!(places.distance(&[1, 10], &[1, 10]), 1);
        assert_eq!(places.distance(&[2, 10], &[1, 10]), 3);
        assert_eq!(places.distance(&[2, 10], &[2, 10]), 2);
    }
}
