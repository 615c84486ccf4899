//! Creating, moving and deleting resource providers.

use uuid::Uuid;

use super::{Outcome, ProviderView, find_provider};
use crate::change::Change;
use crate::command::ParentChange;
use crate::ids::Timestamp;
use crate::refusal::Refusal;
use crate::rows::Provider;
use crate::state::State;

pub(super) fn create(
    state: &State,
    uuid: Uuid,
    name: &str,
    parent: Option<Uuid>,
    at: Timestamp,
    changes: &mut Vec<Change>,
) -> Result<Outcome, Refusal> {
    let mut root = uuid;
    if let Some(parent) = parent {
        if parent == uuid {
            return Err(Refusal::ParentIsSelf { uuid });
        }
        root = root_of(state, find_parent(state, parent)?);
    }
    if state.provider_id(uuid).is_some() {
        return Err(Refusal::ProviderUuidTaken { uuid });
    }
    check_name(state, uuid, name)?;
    changes.push(Change::ProviderCreated {
        uuid,
        name: name.to_owned(),
        parent,
        at,
    });
    Ok(Outcome::Provider(ProviderView {
        uuid,
        name: name.to_owned(),
        generation: 0,
        parent,
        root,
        created_at: at,
        // OpenStack's Placement writes a new root a second time, to record it as the root of its own tree, which sets
        // this time. A new child has no such time.
        updated_at: parent.is_none().then_some(at),
    }))
}

pub(super) fn update(
    state: &State,
    uuid: Uuid,
    name: &str,
    change: ParentChange,
    at: Timestamp,
    changes: &mut Vec<Change>,
) -> Result<Outcome, Refusal> {
    let provider = find_provider(state, uuid)?;
    let old_parent = provider
        .parent
        .and_then(|id| state.provider(id))
        .map(|parent| parent.uuid);
    let parent = new_parent(state, provider, old_parent, change)?;
    check_name(state, uuid, name)?;
    if *provider.name == *name && parent == old_parent {
        // An update without a change is not recorded, because clients would see a new time of
        // update.
        return Ok(Outcome::Provider(ProviderView::new(state, provider)));
    }
    changes.push(Change::ProviderUpdated {
        uuid,
        name: name.to_owned(),
        parent,
        at,
    });
    let root = match parent {
        Some(parent) => root_of(state, find_parent(state, parent)?),
        None => uuid,
    };
    Ok(Outcome::Provider(ProviderView {
        uuid,
        name: name.to_owned(),
        generation: provider.generation,
        parent,
        root,
        created_at: provider.created_at,
        updated_at: Some(at),
    }))
}

/// The parent of the provider after the change; a refusal if the change is not allowed.
fn new_parent(
    state: &State,
    provider: &Provider,
    old_parent: Option<Uuid>,
    change: ParentChange,
) -> Result<Option<Uuid>, Refusal> {
    let uuid = provider.uuid;
    let (wanted, may_move) = match change {
        ParentChange::Keep => return Ok(old_parent),
        ParentChange::SetOnce(wanted) => (wanted, false),
        ParentChange::Move(wanted) => (wanted, true),
    };
    let Some(wanted) = wanted else {
        return match old_parent {
            Some(_) if !may_move => Err(Refusal::UnparentingNotAllowed { uuid }),
            _ => Ok(None),
        };
    };
    find_parent(state, wanted)?;
    if old_parent.is_some_and(|old| old != wanted) && !may_move {
        return Err(Refusal::ReparentingNotAllowed { uuid });
    }
    // A loop closes when the provider is met on the way from the new parent to its root.
    let mut above = state.provider_by_uuid(wanted);
    while let Some(ancestor) = above {
        if ancestor.uuid == uuid {
            return Err(Refusal::ProviderLoop { uuid });
        }
        above = ancestor.parent.and_then(|id| state.provider(id));
    }
    Ok(Some(wanted))
}

pub(super) fn delete(
    state: &State,
    uuid: Uuid,
    changes: &mut Vec<Change>,
) -> Result<Outcome, Refusal> {
    let provider = find_provider(state, uuid)?;
    if !provider.children.is_empty() {
        return Err(Refusal::ProviderHasChildren { uuid });
    }
    if !provider.consumers.is_empty() {
        return Err(Refusal::ProviderInUse { uuid });
    }
    changes.push(Change::ProviderRemoved { uuid });
    Ok(Outcome::Done)
}

fn find_parent(state: &State, uuid: Uuid) -> Result<&Provider, Refusal> {
    state
        .provider_by_uuid(uuid)
        .ok_or(Refusal::ParentNotFound { uuid })
}

fn root_of(state: &State, provider: &Provider) -> Uuid {
    state
        .provider(provider.root)
        .map_or(provider.uuid, |root| root.uuid)
}

fn check_name(state: &State, uuid: Uuid, name: &str) -> Result<(), Refusal> {
    let holder = state
        .provider_id_by_name(name)
        .and_then(|id| state.provider(id));
    match holder {
        Some(holder) if holder.uuid != uuid => Err(Refusal::ProviderNameTaken {
            name: name.to_owned(),
        }),
        _ => Ok(()),
    }
}
