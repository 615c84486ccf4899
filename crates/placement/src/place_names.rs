//! Finds the places of a level of the topology by their names.

use std::collections::BTreeMap;

use crate::group::Level;
use crate::hash::Map;

/// The result of looking for a place by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundPlace {
    /// No place has the name.
    None,
    /// The only place with the name, as the index of its aggregate in the level.
    One(usize),
    /// Several places have the name, or names that end with it.
    Several,
}

/// The names under which the places of one level are found. A look-up takes the same time however many places there
/// are, because tenants name places in their requests.
#[derive(Debug, Default)]
pub struct PlaceNames {
    by_name: Map<Box<str>, FoundPlace>,
}

impl PlaceNames {
    pub(crate) fn new(level: &Level) -> Self {
        // By the part of a name after one of its slashes.
        let mut by_end = Map::default();
        let mut by_name = Map::default();
        let indices: BTreeMap<&String, usize> = level.aggregates.iter().zip(0..).collect();
        for (aggregate, name) in &level.names {
            let Some(index) = indices.get(aggregate) else {
                continue;
            };
            add(&mut by_name, name, *index);
            for (slash, _) in name.match_indices('/') {
                add(&mut by_end, &name[slash + 1..], *index);
            }
        }
        // A whole name counts for more than the end of another one, and a UUID for more than a name.
        by_end.extend(by_name);
        let uuids = indices.into_iter();
        by_end.extend(uuids.map(|(uuid, index)| (uuid.as_str().into(), FoundPlace::One(index))));
        Self { by_name: by_end }
    }

    /// Finds a place by its whole name or the UUID of its aggregate; else by the end of its name, without the first
    /// larger places, as `r1` or `a/r1` for `north/a/r1`.
    #[must_use]
    pub fn find(&self, name: &str) -> FoundPlace {
        self.by_name.get(name).copied().unwrap_or(FoundPlace::None)
    }
}

/// Enters a place under a name. A name that is entered for two places stands for several.
fn add(places: &mut Map<Box<str>, FoundPlace>, name: &str, index: usize) {
    let found = places.entry(name.into()).or_insert(FoundPlace::One(index));
    if *found != FoundPlace::One(index) {
        *found = FoundPlace::Several;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_found_by_its_uuid_its_name_or_the_end_of_its_name() {
        let named = [
            ("u1", "north/a/r1"),
            ("u2", "north/b/r1"),
            ("u3", "a/r1"),
            ("u4", "x"),
        ];
        let mut level = Level::unnamed("rack", named.map(|(uuid, _)| uuid.to_owned()).into());
        level.aggregates.push("u5".to_owned());
        level.names = named
            .map(|(uuid, name)| (uuid.to_owned(), name.to_owned()))
            .into();
        let names = PlaceNames::new(&level);
        for (name, found) in [
            ("u5", FoundPlace::One(4)),
            ("north/a/r1", FoundPlace::One(0)),
            ("b/r1", FoundPlace::One(1)),
            ("r1", FoundPlace::Several),
            ("a/r1", FoundPlace::One(2)),
            ("x", FoundPlace::One(3)),
            ("1", FoundPlace::None),
            ("", FoundPlace::None),
            ("north", FoundPlace::None),
        ] {
            assert_eq!(names.find(name), found, "{name}");
        }
    }
}
