//! Applies changes to the state, and undoes them.
//!
//! `apply` is total: a change that names an unknown object is skipped. Changes that `decide` made and that are applied
//! in order name no unknown objects. The changes of a damaged journal, or of that of another server, may name some;
//! they must not crash this server.

mod rows;
mod topology;

use uuid::Uuid;

use crate::change::Change;
use crate::group::{Distance, Group, HostAssignment, Level};
use crate::ids::{
    AggregateId, ClassId, ConsumerId, ConsumerUuid, GroupId, ProviderId, Timestamp, TraitId,
    TypeId, UserId,
};
use crate::intern::FreedNames;
use crate::rows::{Allocation, Consumer, InventoryRow, Named, Provider};
use crate::state::State;
use rows::ReplacedConsumer;

/// The data that undoes one applied change. Undo in the reverse order of applying.
#[derive(Debug)]
pub struct Undo(UndoStep);

/// How one change is undone. A variant has the slot or number of a row and the content of the row before the change;
/// `None` if the row did not exist.
#[derive(Debug)]
enum UndoStep {
    Nothing,
    Class(ClassId, Option<Named>),
    Trait(TraitId, Option<Named>),
    RemoveProvider(ProviderId),
    RestoreProvider(ProviderId, Box<Provider>, FreedNames),
    /// The name, the parent and the time of update of a provider.
    NameAndParent(ProviderId, Box<str>, Option<ProviderId>, Option<Timestamp>),
    Generation(ProviderId, u64, Option<Timestamp>),
    Inventory(ProviderId, ClassId, Option<InventoryRow>),
    Traits(ProviderId, Vec<TraitId>),
    Aggregates(ProviderId, Vec<AggregateId>, FreedNames),
    Consumer(ConsumerId, ConsumerUuid, Option<Box<ReplacedConsumer>>),
    Group(GroupId, Uuid, Option<Box<Group>>),
    Levels(Vec<Level>, FreedNames),
    Distances(Vec<Distance>),
    HostAssignment(ConsumerId, Option<HostAssignment>),
}

/// The change of an entry of a list.
#[derive(Clone, Copy)]
enum ListEdit {
    Add,
    Remove,
}

impl State {
    /// Applies a change. The result undoes it.
    pub fn apply(&mut self, change: &Change) -> Undo {
        Undo(self.try_apply(change).unwrap_or(UndoStep::Nothing))
    }

    /// Undoes the latest applied change that was not yet undone.
    pub fn undo(&mut self, undo: Undo) {
        match undo.0 {
            UndoStep::Nothing => {}
            UndoStep::Class(id, previous) => drop(self.replace_class(id, previous)),
            UndoStep::Trait(id, previous) => drop(self.replace_trait(id, previous)),
            UndoStep::RemoveProvider(id) => drop(self.remove_provider(id)),
            UndoStep::RestoreProvider(id, provider, freed) => {
                self.restore_aggregates(freed);
                self.insert_provider(id, *provider);
            }
            UndoStep::NameAndParent(id, name, parent, updated_at) => {
                drop(self.replace_name_and_parent(id, name, parent, updated_at));
            }
            UndoStep::Generation(id, generation, updated_at) => {
                if let Some(provider) = self.providers.get_mut(id.0) {
                    provider.generation = generation;
                    provider.updated_at = updated_at;
                }
            }
            UndoStep::Inventory(id, class, previous) => {
                self.replace_inventory(id, class, previous);
            }
            UndoStep::Traits(id, previous) => drop(self.replace_traits(id, previous)),
            UndoStep::Aggregates(id, previous, freed) => {
                self.restore_aggregates(freed);
                drop(self.replace_aggregates(id, previous));
            }
            UndoStep::Consumer(id, uuid, previous) => {
                let previous = previous.map(|replaced| self.restore_names(*replaced));
                drop(self.replace_consumer(id, uuid, previous));
            }
            UndoStep::Group(id, uuid, previous) => {
                drop(self.replace_group(id, uuid, previous.map(|group| *group)));
            }
            UndoStep::Levels(previous, freed) => {
                self.restore_aggregates(freed);
                drop(self.replace_levels(previous));
            }
            UndoStep::Distances(previous) => drop(self.replace_distances(previous)),
            UndoStep::HostAssignment(id, previous) => {
                self.replace_host_assignment(id, previous);
            }
        }
    }

    /// Carries out a change. `None` if it was skipped, because it names an unknown object.
    #[expect(clippy::too_many_lines, reason = "one arm a kind of change")]
    fn try_apply(&mut self, change: &Change) -> Option<UndoStep> {
        Some(match change {
            Change::ClassCreated { id, name, at } | Change::ClassRenamed { id, name, at } => {
                let named = Named {
                    name: name.as_str().into(),
                    modified_at: *at,
                };
                UndoStep::Class(*id, self.replace_class(*id, Some(named)))
            }
            Change::ClassRemoved { id } => UndoStep::Class(*id, self.replace_class(*id, None)),
            Change::TraitCreated { id, name, at } => {
                let named = Named {
                    name: name.as_str().into(),
                    modified_at: *at,
                };
                UndoStep::Trait(*id, self.replace_trait(*id, Some(named)))
            }
            Change::TraitRemoved { id } => UndoStep::Trait(*id, self.replace_trait(*id, None)),
            Change::ProviderCreated {
                uuid,
                name,
                parent,
                at,
            } => self.create_provider(*uuid, name, *parent, *at)?,
            Change::ProviderUpdated {
                uuid,
                name,
                parent,
                at,
            } => {
                let id = self.provider_id(*uuid)?;
                let parent = match parent {
                    Some(parent) => Some(self.provider_id(*parent)?),
                    None => None,
                };
                self.replace_name_and_parent(id, name.as_str().into(), parent, Some(*at))?
            }
            Change::ProviderRemoved { uuid } => {
                let id = self.provider_id(*uuid)?;
                let (provider, freed) = self.remove_provider(id)?;
                UndoStep::RestoreProvider(id, Box::new(provider), freed)
            }
            Change::GenerationSet {
                provider,
                generation,
                at,
            } => {
                let id = self.provider_id(*provider)?;
                let provider = self.providers.get_mut(id.0)?;
                UndoStep::Generation(
                    id,
                    std::mem::replace(&mut provider.generation, *generation),
                    provider.updated_at.replace(*at),
                )
            }
            Change::InventorySet {
                provider,
                class,
                inventory,
                at,
            } => {
                let id = self.provider_id(*provider)?;
                let row = InventoryRow {
                    class: *class,
                    inventory: *inventory,
                    capacity: inventory.capacity(),
                    used: self
                        .provider(id)?
                        .inventory(*class)
                        .map_or(0, |row| row.used),
                    modified_at: *at,
                };
                UndoStep::Inventory(id, *class, self.replace_inventory(id, *class, Some(row)))
            }
            Change::InventoryRemoved { provider, class } => {
                let id = self.provider_id(*provider)?;
                UndoStep::Inventory(id, *class, self.replace_inventory(id, *class, None))
            }
            Change::TraitsSet { provider, traits } => {
                let id = self.provider_id(*provider)?;
                UndoStep::Traits(id, self.replace_traits(id, traits.clone())?)
            }
            Change::AggregatesSet {
                provider,
                aggregates,
            } => {
                let id = self.provider_id(*provider)?;
                let mut ids: Vec<AggregateId> = aggregates
                    .iter()
                    .map(|uuid| self.intern_aggregate(uuid))
                    .collect();
                ids.sort_unstable();
                let (previous, freed) = self.replace_aggregates(id, ids)?;
                UndoStep::Aggregates(id, previous, freed)
            }
            Change::ConsumerSet { consumer, .. } => {
                let existing = self.consumer_id(*consumer);
                let row = self.consumer_row(change, existing)?;
                let id = existing.unwrap_or_else(|| ConsumerId(self.consumers.next_row()));
                self.set_consumer(id, *consumer, Some(row))
            }
            Change::ConsumerRemoved { consumer } => {
                let id = self.consumer_id(*consumer)?;
                self.set_consumer(id, *consumer, None)
            }
            Change::GroupSet { group, rules } => {
                let existing = self.group_by_uuid.get(group).copied();
                let id = existing.unwrap_or_else(|| GroupId(self.groups.next_row()));
                let members = self.groups.get(id.0).map(|group| group.members.clone());
                let row = Group {
                    uuid: *group,
                    rules: rules.clone(),
                    members: members.unwrap_or_default(),
                };
                UndoStep::Group(
                    id,
                    *group,
                    self.replace_group(id, *group, Some(row)).map(Box::new),
                )
            }
            Change::GroupRemoved { group } => {
                let id = self.group_by_uuid.get(group).copied()?;
                UndoStep::Group(
                    id,
                    *group,
                    self.replace_group(id, *group, None).map(Box::new),
                )
            }
            Change::LevelsSet { levels } => {
                let (previous, freed) = self.replace_levels(levels.clone());
                UndoStep::Levels(previous, freed)
            }
            Change::DistancesSet { distances } => {
                UndoStep::Distances(self.replace_distances(distances.clone()))
            }
            Change::ConsumerPlaced {
                consumer,
                host,
                group,
            } => {
                let id = self.consumer_id(*consumer)?;
                let group = group.and_then(|uuid| self.group_by_uuid.get(&uuid).copied());
                let host = host.and_then(|uuid| self.provider_id(uuid));
                let assignment = host.map(|host| HostAssignment { host, group });
                UndoStep::HostAssignment(id, self.replace_host_assignment(id, assignment))
            }
        })
    }

    /// The row that a `ConsumerSet` puts in place, with its names interned. `existing` is the consumer's slot, if the
    /// consumer exists already. `None` for any other change.
    fn consumer_row(&mut self, change: &Change, existing: Option<ConsumerId>) -> Option<Consumer> {
        let Change::ConsumerSet {
            consumer,
            generation,
            project,
            user,
            consumer_type,
            at,
            allocations,
        } = change
        else {
            return None;
        };
        Some(Consumer {
            uuid: *consumer,
            generation: *generation,
            project: self.intern_project(project),
            user: UserId(self.users.intern(user)),
            consumer_type: consumer_type
                .as_ref()
                .map(|name| TypeId(self.consumer_types.intern(name))),
            allocated_at: *at,
            host_assignment: existing
                .and_then(|id| self.consumers.get(id.0))
                .and_then(|consumer| consumer.host_assignment),
            allocations: allocations
                .iter()
                .filter_map(|allocation| {
                    Some(Allocation {
                        provider: self.provider_id(allocation.provider)?,
                        class: allocation.class,
                        amount: allocation.amount,
                    })
                })
                .collect(),
        })
    }

    /// Replaces a consumer. If it existed before, the tree change log records that it released its allocations.
    fn set_consumer(
        &mut self,
        id: ConsumerId,
        uuid: ConsumerUuid,
        consumer: Option<Consumer>,
    ) -> UndoStep {
        let previous = self.replace_consumer(id, uuid, consumer);
        if previous.is_some() {
            self.tree_changes.push_release(uuid);
        }
        UndoStep::Consumer(id, uuid, previous.map(Box::new))
    }
}
