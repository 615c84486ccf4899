//! Replaces the levels of the topology and the distances between places.

use std::sync::Arc;

use crate::group::{Distance, Level};
use crate::intern::FreedNames;
use crate::place_names::PlaceNames;
use crate::state::State;

impl State {
    pub(crate) fn replace_levels(&mut self, levels: Vec<Level>) -> (Vec<Level>, FreedNames) {
        self.tree_changes.increment_structure();
        // The new levels hold their aggregates before the former levels release theirs. So an aggregate that is in both
        // is never freed.
        self.level_of_aggregate.clear();
        for (number, level) in (0u16..).zip(&levels) {
            for uuid in &level.aggregates {
                let id = self.intern_aggregate(uuid);
                self.aggregates.hold(id.0);
                if self.level_of_aggregate.len() <= id.index() {
                    self.level_of_aggregate.resize(id.index() + 1, None);
                }
                self.level_of_aggregate[id.index()] = Some(number);
            }
        }
        self.place_names = levels.iter().map(PlaceNames::new).map(Arc::new).collect();
        let previous = std::mem::replace(&mut self.levels, levels);
        let released: Vec<u32> = (previous.iter().flat_map(|level| &level.aggregates))
            .filter_map(|uuid| self.aggregates.find(uuid))
            .collect();
        let freed = self.release_aggregates(released.into_iter());
        (previous, freed)
    }

    pub(crate) fn replace_distances(&mut self, distances: Vec<Distance>) -> Vec<Distance> {
        self.tree_changes.increment_structure();
        std::mem::replace(&mut self.distances, distances)
    }
}
