//! Groups of consumers and the levels of the topology.

use uuid::Uuid;

use super::Outcome;
use crate::change::Change;
use crate::group::{Level, Rule};
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

pub(super) fn set_levels(
    state: &State,
    levels: &[Level],
    changes: &mut Vec<Change>,
) -> Result<Outcome, Refusal> {
    let mut levels = levels.to_vec();
    levels
        .iter_mut()
        .for_each(|level| level.aggregates.sort_unstable());
    check_apart(levels.iter().map(|level| &level.name))?;
    check_apart(levels.iter().flat_map(|level| &level.aggregates))?;
    if state.levels() != levels {
        changes.push(Change::LevelsSet { levels });
    }
    Ok(Outcome::Done)
}

fn check_apart<'a>(names: impl Iterator<Item = &'a String>) -> Result<(), Refusal> {
    let mut names: Vec<&String> = names.collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Refusal::TopologyOverlap {
            name: pair[0].clone(),
        }),
        None => Ok(()),
    }
}
