//! Decides commands: changes and an outcome, or a refusal.
//!
//! All reasons for which a client's command can be refused are checked here. A decision reads the state and writes
//! nothing; after a refusal the changes gathered so far are to be dropped.

mod claim;
mod group;
mod intent;
mod inventory;
mod ledger;
mod names;
mod provider;
mod reshape;
mod traits;

pub use intent::Rehearsal;

use uuid::Uuid;

use crate::change::Change;
use crate::command::Command;
use crate::ids::Timestamp;
use crate::refusal::Refusal;
use crate::rows::Provider;
use crate::state::State;

/// The outcome of an accepted command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The command is done; there is nothing else to report.
    Done,
    /// The provider as it is after the command.
    Provider(ProviderView),
    /// The provider's generation after the command.
    Generation(u64),
    /// The traits of a provider were set.
    Traits {
        /// The generation that the provider has now.
        generation: u64,
        /// The time of creation of the newest trait; `None` without traits.
        modified_at: Option<Timestamp>,
    },
    /// The index of the candidate that each intent got; `None` for an intent that got none.
    Claimed(Vec<Option<u32>>),
    /// The resource class or trait exists.
    Named {
        /// Whether this command created the class or trait.
        created: bool,
        /// When the class or trait was created or last renamed.
        modified_at: Timestamp,
    },
}

/// A provider with everything that the API shows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderView {
    /// The UUID, unique among providers.
    pub uuid: Uuid,
    /// The name, unique among providers. An update may change it.
    pub name: String,
    /// The generation: incremented by most changes of the provider's inventories, traits, aggregates and allocations.
    pub generation: u64,
    /// The parent provider; `None` for a root.
    pub parent: Option<Uuid>,
    /// The root of the provider's tree.
    pub root: Uuid,
    /// When the provider was created.
    pub created_at: Timestamp,
    /// When the provider was last written; `None` for a child that was never written since its creation.
    pub updated_at: Option<Timestamp>,
}

impl ProviderView {
    /// The view of a provider in its state.
    #[must_use]
    pub fn new(state: &State, provider: &Provider) -> Self {
        let uuid_of = |id| state.provider(id).map(|provider: &Provider| provider.uuid);
        Self {
            uuid: provider.uuid,
            name: provider.name.to_string(),
            generation: provider.generation,
            parent: provider.parent.and_then(uuid_of),
            root: uuid_of(provider.root).unwrap_or(provider.uuid),
            created_at: provider.created_at,
            updated_at: provider.updated_at,
        }
    }
}

/// Decides a command. The changes are appended to `changes`; apply them in that order.
///
/// # Errors
///
/// A [`Refusal`] when the state does not admit the command. `changes` may then hold changes of the
/// abandoned decision: drop them.
#[expect(clippy::too_many_lines, reason = "one arm a command")]
pub fn decide(
    state: &State,
    command: &Command,
    changes: &mut Vec<Change>,
) -> Result<Outcome, Refusal> {
    match command {
        Command::SyncStandardNames { at } => names::sync(state, *at, changes),
        Command::CreateProvider {
            uuid,
            name,
            parent,
            at,
        } => provider::create(state, *uuid, name, *parent, *at, changes),
        Command::UpdateProvider {
            uuid,
            name,
            parent,
            at,
        } => provider::update(state, *uuid, name, *parent, *at, changes),
        Command::DeleteProvider { uuid } => provider::delete(state, *uuid, changes),
        Command::AddInventory {
            provider,
            class,
            inventory,
            may_reserve_all,
            at,
        } => inventory::Edit {
            state,
            provider: *provider,
            may_reserve_all: *may_reserve_all,
            at: *at,
        }
        .add(class, inventory, changes),
        Command::UpdateInventory {
            provider,
            generation,
            class,
            inventory,
            may_reserve_all,
            at,
        } => inventory::Edit {
            state,
            provider: *provider,
            may_reserve_all: *may_reserve_all,
            at: *at,
        }
        .update(*generation, class, inventory, changes),
        Command::SetInventories {
            provider,
            generation,
            inventories,
            may_reserve_all,
            at,
        } => inventory::Edit {
            state,
            provider: *provider,
            may_reserve_all: *may_reserve_all,
            at: *at,
        }
        .replace(*generation, inventories, changes),
        Command::DeleteInventory {
            provider,
            class,
            at,
        } => inventory::Edit {
            state,
            provider: *provider,
            may_reserve_all: true, // A deletion sets no inventory, so this is not used.
            at: *at,
        }
        .delete(class, changes),
        Command::SetTraits {
            provider,
            generation,
            traits,
            at,
        } => traits::set_traits(state, *provider, *generation, traits, *at, changes),
        Command::SetAggregates {
            provider,
            generation,
            aggregates,
            at,
        } => traits::set_aggregates(state, *provider, *generation, aggregates, *at, changes),
        Command::CreateClass { name, exist_ok, at } => {
            names::create_class(state, name, *exist_ok, *at, changes)
        }
        Command::RenameClass { name, new_name, at } => {
            names::rename_class(state, name, new_name, *at, changes)
        }
        Command::DeleteClass { name } => names::delete_class(state, name, changes),
        Command::EnsureTrait { name, at } => names::ensure_trait(state, name, *at, changes),
        Command::DeleteTrait { name } => names::delete_trait(state, name, changes),
        Command::Claim { consumers, at } => claim::claim(state, consumers, *at, changes),
        Command::ClaimFirst { intents, least, at } => {
            intent::claim_first(state, intents, *least, *at, changes)
        }
        Command::SetGroup { group, rules } => group::set(state, *group, rules, changes),
        Command::DeleteGroup { group } => group::delete(state, *group, changes),
        Command::SetLevels { levels, distances } => {
            group::set_levels(state, levels, distances, changes)
        }
        Command::Release { consumer } => claim::release(state, *consumer, changes),
        Command::Reshape {
            inventories,
            consumers,
            at,
        } => reshape::reshape(state, inventories, consumers, *at, changes),
    }
}

fn find_provider(state: &State, uuid: Uuid) -> Result<&Provider, Refusal> {
    state
        .provider_by_uuid(uuid)
        .ok_or(Refusal::ProviderNotFound { uuid })
}

fn check_generation(provider: &Provider, given: Option<u64>) -> Result<(), Refusal> {
    match given {
        Some(given) if given != provider.generation => Err(Refusal::ProviderGenerationConflict {
            uuid: provider.uuid,
            actual: provider.generation,
            given,
        }),
        _ => Ok(()),
    }
}
