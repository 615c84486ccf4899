//! Groups of consumers and the levels of the topology.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::Outcome;
use crate::change::Change;
use crate::group::{Distance, Level, Rule};
use crate::refusal::Refusal;
use crate::state::State;

pub(super) fn set(
    state: &State,
    group: Uuid,
    rules: &[Rule],
    changes: &mut Vec<Change>,
) -> Result<Outcome, Refusal> {
    if state
        .group(group)
        .is_none_or(|existing| existing.rules != rules)
    {
        changes.push(Change::GroupSet {
            group,
            rules: rules.to_vec(),
        });
    }
    Ok(Outcome::Done)
}

pub(super) fn delete(
    state: &State,
    group: Uuid,
    changes: &mut Vec<Change>,
) -> Result<Outcome, Refusal> {
    if state.group(group).is_none() {
        return Err(Refusal::GroupNotFound { group });
    }
    changes.push(Change::GroupRemoved { group });
    Ok(Outcome::Done)
}

/// The name that stands for single hosts where rules name a level: no level may have it.
const HOST: &str = "host";

pub(super) fn set_levels(
    state: &State,
    levels: &[Level],
    distances: &[Distance],
    changes: &mut Vec<Change>,
) -> Result<Outcome, Refusal> {
    let mut levels = levels.to_vec();
    for level in &mut levels {
        level.aggregates.sort_unstable();
        let aggregates = &level.aggregates;
        let names = &mut level.names;
        names.retain(|uuid, _| aggregates.binary_search(uuid).is_ok());
    }
    if let Some(level) = levels
        .iter()
        .find(|level| level.name.is_empty() || level.name == HOST)
    {
        let name = level.name.clone();
        return Err(Refusal::LevelName { name });
    }
    check_unique(levels.iter().map(|level| &level.name))?;
    check_unique(levels.iter().flat_map(|level| &level.aggregates))?;
    let distances = sort_distances(&levels, distances)?;
    if state.levels() != levels {
        changes.push(Change::LevelsSet { levels });
    }
    if state.distances() != distances {
        changes.push(Change::DistancesSet { distances });
    }
    Ok(Outcome::Done)
}

/// Checks the distances, and returns them in rising order, each with the smaller of its two places first.
fn sort_distances(levels: &[Level], distances: &[Distance]) -> Result<Vec<Distance>, Refusal> {
    let level_of: BTreeMap<&str, usize> = (0..)
        .zip(levels)
        .flat_map(|(number, level)| level.aggregates.iter().map(move |uuid| (&**uuid, number)))
        .collect();
    let mut ordered = Vec::with_capacity(distances.len());
    for distance in distances {
        let level = |place: &String| {
            let level = level_of.get(place.as_str()).copied();
            level.ok_or_else(|| Refusal::PlaceNotFound {
                name: place.clone(),
            })
        };
        if level(&distance.from)? != level(&distance.to)? {
            return Err(Refusal::DistanceAcrossLevels {
                from: distance.from.clone(),
                to: distance.to.clone(),
            });
        }
        let (from, to) = if distance.from <= distance.to {
            (&distance.from, &distance.to)
        } else {
            (&distance.to, &distance.from)
        };
        ordered.push(Distance {
            from: from.clone(),
            to: to.clone(),
            distance: distance.distance,
        });
    }
    ordered.sort_unstable();
    let is_twice =
        |pair: &&[Distance]| (&pair[0].from, &pair[0].to) == (&pair[1].from, &pair[1].to);
    match ordered.windows(2).find(is_twice) {
        Some(pair) => Err(Refusal::DistanceTwice {
            from: pair[0].from.clone(),
            to: pair[0].to.clone(),
        }),
        None => Ok(ordered),
    }
}

fn check_unique<'a>(names: impl Iterator<Item = &'a String>) -> Result<(), Refusal> {
    let mut names: Vec<&String> = names.collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Refusal::TopologyOverlap {
            name: pair[0].clone(),
        }),
        None => Ok(()),
    }
}
