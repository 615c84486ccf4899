//! Creating, renaming and deleting resource classes and traits.

use super::Outcome;
use crate::change::Change;
use crate::ids::{ClassId, Timestamp, TraitId};
use crate::names;
use crate::refusal::Refusal;
use crate::state::State;

/// The lowest number of a custom class. The numbers between the standard classes and this one are for
/// standard classes of later releases, so that each has its number in os-resource-classes.
const FIRST_CUSTOM_CLASS: u16 = 1_000;
/// The lowest number of a custom trait; lower numbers are for standard traits, including those of later
/// releases.
const FIRST_CUSTOM_TRAIT: u16 = 4_000;

/// Adds the standard resource classes and traits that the state does not have yet.
pub(super) fn sync(
    state: &State,
    at: Timestamp,
    changes: &mut Vec<Change>,
) -> Result<Outcome, Refusal> {
    for (number, name) in (0u16..).zip(names::STANDARD_CLASSES) {
        if state.class_id(name).is_none() {
            changes.push(Change::ClassCreated {
                id: ClassId(number),
                name: name.to_owned(),
                at,
            });
        }
    }
    let mut number = 0;
    for name in names::standard_traits() {
        if state.trait_id(name).is_some() {
            continue;
        }
        while state.trait_by_id(TraitId(number)).is_some() {
            number += 1;
        }
        changes.push(Change::TraitCreated {
            id: TraitId(number),
            name: name.to_owned(),
            at,
        });
        number += 1;
    }
    Ok(Outcome::Done)
}

pub(super) fn create_class(
    state: &State,
    name: &str,
    exist_ok: bool,
    at: Timestamp,
    changes: &mut Vec<Change>,
) -> Result<Outcome, Refusal> {
    if let Some(class) = state.class(name) {
        if exist_ok {
            return Ok(Outcome::Named {
                created: false,
                modified_at: class.modified_at,
            });
        }
        return Err(Refusal::ClassExists {
            name: name.to_owned(),
        });
    }
    let number = free_number(FIRST_CUSTOM_CLASS, |number| {
        state.class_name(ClassId(number))
    })?;
    changes.push(Change::ClassCreated {
        id: ClassId(number),
        name: name.to_owned(),
        at,
    });
    Ok(Outcome::Named {
        created: true,
        modified_at: at,
    })
}

pub(super) fn rename_class(
    state: &State,
    name: &str,
    new_name: &str,
    at: Timestamp,
    changes: &mut Vec<Change>,
) -> Result<Outcome, Refusal> {
    let id = custom_class(state, name)?;
    if state.class_id(new_name).is_some_and(|holder| holder != id) {
        return Err(Refusal::ClassExists {
            name: new_name.to_owned(),
        });
    }
    changes.push(Change::ClassRenamed {
        id,
        name: new_name.to_owned(),
        at,
    });
    Ok(Outcome::Named {
        created: false,
        modified_at: at,
    })
}

pub(super) fn delete_class(
    state: &State,
    name: &str,
    changes: &mut Vec<Change>,
) -> Result<Outcome, Refusal> {
    let id = custom_class(state, name)?;
    if !state.column(id).is_empty() {
        return Err(Refusal::ClassInUse {
            name: name.to_owned(),
        });
    }
    changes.push(Change::ClassRemoved { id });
    Ok(Outcome::Done)
}

/// The number of a custom resource class; a standard class is refused.
fn custom_class(state: &State, name: &str) -> Result<ClassId, Refusal> {
    let id = state.class_id(name).ok_or_else(|| Refusal::ClassNotFound {
        name: name.to_owned(),
    })?;
    if names::is_standard_class(name) {
        return Err(Refusal::ClassStandard {
            name: name.to_owned(),
        });
    }
    Ok(id)
}

pub(super) fn ensure_trait(
    state: &State,
    name: &str,
    at: Timestamp,
    changes: &mut Vec<Change>,
) -> Result<Outcome, Refusal> {
    if let Some(existing) = state.trait_id(name).and_then(|id| state.trait_by_id(id)) {
        return Ok(Outcome::Named {
            created: false,
            modified_at: existing.modified_at,
        });
    }
    let number = free_number(FIRST_CUSTOM_TRAIT, |number| {
        state.trait_name(TraitId(number))
    })?;
    changes.push(Change::TraitCreated {
        id: TraitId(number),
        name: name.to_owned(),
        at,
    });
    Ok(Outcome::Named {
        created: true,
        modified_at: at,
    })
}

pub(super) fn delete_trait(
    state: &State,
    name: &str,
    changes: &mut Vec<Change>,
) -> Result<Outcome, Refusal> {
    let not_found = || Refusal::TraitNotFound {
        names: vec![name.to_owned()],
    };
    let id = state.trait_id(name).ok_or_else(not_found)?;
    if !names::is_custom(name) {
        return Err(Refusal::TraitStandard {
            name: name.to_owned(),
        });
    }
    if !state.trait_members(id).is_empty() {
        return Err(Refusal::TraitInUse {
            name: name.to_owned(),
        });
    }
    changes.push(Change::TraitRemoved { id });
    Ok(Outcome::Done)
}

/// The lowest unused number from `first` on.
fn free_number<'a>(first: u16, name_of: impl Fn(u16) -> &'a str) -> Result<u16, Refusal> {
    (first..u16::MAX)
        .find(|number| name_of(*number).is_empty())
        .ok_or(Refusal::NamesExhausted)
}
