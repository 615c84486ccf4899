//! Merges a new topology into the present one.

use std::collections::{BTreeMap, BTreeSet};

use placewright_client::{Distance, Level, Topology};
use placewright_roles::config::ConfigErrors;

/// Merges the levels, places and distances of `new` into `old`. A level that only `new` has comes directly above the
/// level that precedes it in `new`; without a preceding one it is the lowest.
///
/// # Errors
///
/// The two have common levels in another order.
pub(super) fn merge(old: Topology, new: Topology) -> Result<Topology, ConfigErrors> {
    let mut levels = old.levels;
    let mut position = 0;
    for level in new.levels {
        match levels.iter().position(|other| other.name == level.name) {
            Some(found) if found < position => {
                return Err(ConfigErrors(vec![format!(
                    "level {:?} is below other levels of the file in the topology that is there: with --replace the \
                     file's order counts",
                    level.name
                )]));
            }
            Some(found) => {
                levels[found].aggregates.extend(level.aggregates);
                levels[found].names.extend(level.names);
                position = found + 1;
            }
            None => {
                levels.insert(position, level);
                position += 1;
            }
        }
    }
    let pair = |entry: &Distance| (entry.from.min(entry.to), entry.from.max(entry.to));
    let replaced: BTreeSet<_> = new.distances.iter().map(pair).collect();
    let mut distances = old.distances;
    distances.retain(|entry| !replaced.contains(&pair(entry)));
    distances.extend(new.distances);
    Ok(Topology { levels, distances })
}

/// Adds an empty level directly above the one with the index `lower`, or as the lowest one if `lower` is `None`.
/// Returns the index of the new level.
pub(super) fn insert_level(topology: &mut Topology, name: &str, lower: Option<usize>) -> usize {
    let index = lower
        .map_or(0, |index| index + 1)
        .min(topology.levels.len());
    let level = Level {
        name: name.to_owned(),
        aggregates: BTreeSet::new(),
        names: BTreeMap::new(),
    };
    topology.levels.insert(index, level);
    index
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn topology(levels: &[(&str, &[u128])], distances: &[(u128, u128, u32)]) -> Topology {
        let levels = levels.iter().map(|(name, places)| Level {
            name: (*name).to_owned(),
            aggregates: places.iter().copied().map(Uuid::from_u128).collect(),
            names: BTreeMap::new(),
        });
        let distances = distances.iter().map(|(from, to, distance)| Distance {
            from: Uuid::from_u128(*from),
            to: Uuid::from_u128(*to),
            distance: *distance,
        });
        Topology {
            levels: levels.collect(),
            distances: distances.collect(),
        }
    }

    #[test]
    fn what_the_new_topology_does_not_name_stays() {
        let old = topology(
            &[("rack", &[1, 2]), ("room", &[8])],
            &[(1, 2, 5), (8, 8, 1)],
        );
        let new = topology(&[("rack", &[3]), ("row", &[6])], &[(2, 1, 7)]);
        let merged = merge(old, new).expect("the order is the same");
        let expected = topology(
            &[("rack", &[1, 2, 3]), ("row", &[6]), ("room", &[8])],
            &[(8, 8, 1), (2, 1, 7)],
        );
        assert_eq!(merged.levels, expected.levels);
        assert_eq!(merged.distances, expected.distances);
    }

    #[test]
    fn another_order_of_levels_is_refused() {
        let old = topology(&[("rack", &[1]), ("room", &[8])], &[]);
        let new = topology(&[("room", &[8]), ("rack", &[1])], &[]);
        let refused = merge(old, new).expect_err("the order differs");
        assert!(refused.to_string().contains("--replace"), "{refused}");
    }
}
