//! Setting the traits and aggregates of a provider.

use uuid::Uuid;

use super::{Outcome, check_generation, find_provider};
use crate::change::Change;
use crate::ids::{Timestamp, TraitId};
use crate::refusal::Refusal;
use crate::state::State;

pub(super) fn set_traits(
    state: &State,
    uuid: Uuid,
    generation: Option<u64>,
    names: &[String],
    at: Timestamp,
    changes: &mut Vec<Change>,
) -> Result<Outcome, Refusal> {
    let provider = find_provider(state, uuid)?;
    check_generation(provider, generation)?;
    let traits = resolve(state, names)?;
    let named = traits.iter().filter_map(|id| state.trait_by_id(*id));
    let modified_at = named.map(|named| named.modified_at).max();
    // Setting the same traits does not increment the generation: no client has to read it again.
    if traits == provider.traits {
        return Ok(Outcome::Traits {
            generation: provider.generation,
            modified_at,
        });
    }
    let generation = provider.generation + 1;
    changes.push(Change::TraitsSet {
        provider: uuid,
        traits,
    });
    changes.push(Change::GenerationSet {
        provider: uuid,
        generation,
        at,
    });
    Ok(Outcome::Traits {
        generation,
        modified_at,
    })
}

/// The numbers of traits by name, sorted, each once; or all the unknown names.
fn resolve(state: &State, names: &[String]) -> Result<Vec<TraitId>, Refusal> {
    let mut unknown: Vec<String> = names
        .iter()
        .filter(|name| state.trait_id(name).is_none())
        .cloned()
        .collect();
    if !unknown.is_empty() {
        unknown.sort_unstable();
        unknown.dedup();
        return Err(Refusal::TraitNotFound { names: unknown });
    }
    let mut traits: Vec<TraitId> = names
        .iter()
        .filter_map(|name| state.trait_id(name))
        .collect();
    traits.sort_unstable();
    traits.dedup();
    Ok(traits)
}

pub(super) fn set_aggregates(
    state: &State,
    uuid: Uuid,
    generation: Option<u64>,
    aggregates: &[String],
    at: Timestamp,
    changes: &mut Vec<Change>,
) -> Result<Outcome, Refusal> {
    let provider = find_provider(state, uuid)?;
    check_generation(provider, generation)?;
    let mut aggregates = aggregates.to_vec();
    aggregates.sort_unstable();
    aggregates.dedup();
    let held = || {
        provider
            .aggregates
            .iter()
            .map(|id| state.aggregate_uuid(*id))
    };
    let is_unchanged = held().count() == aggregates.len()
        && held().all(|held| {
            let found = aggregates.binary_search_by(|wanted| wanted.as_str().cmp(held));
            found.is_ok()
        });
    if !is_unchanged {
        changes.push(Change::AggregatesSet {
            provider: uuid,
            aggregates,
        });
    }
    // Before microversion 1.19 a client gives no generation, and the command does not increment it.
    if generation.is_none() {
        return Ok(Outcome::Generation(provider.generation));
    }
    let generation = provider.generation + 1;
    changes.push(Change::GenerationSet {
        provider: uuid,
        generation,
        at,
    });
    Ok(Outcome::Generation(generation))
}
