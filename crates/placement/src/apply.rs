//! Carrying out facts, and taking them back.
//!
//! `apply` is total: a fact that names something unknown is passed over. That cannot happen with
//! facts that `decide` made and that are applied in order; it keeps a damaged or foreign journal
//! from bringing a server down.

use smallvec::SmallVec;
use uuid::Uuid;

use crate::change::{AllocationFact, Change};
use crate::ids::{
    AggregateId, ClassId, ConsumerId, ConsumerUuid, ProjectId, ProviderId, Timestamp, TraitId,
    TypeId, UserId,
};
use crate::names;
use crate::state::{Allocation, Consumer, InventoryRecord, Named, Provider, State};

/// What takes one applied change back. Undo in the reverse order of applying.
#[derive(Debug)]
pub struct Undo(Step);

#[derive(Debug)]
enum Step {
    Nothing,
    Class(ClassId, Option<Named>),
    Trait(TraitId, Option<Named>),
    RemoveProvider(ProviderId),
    RestoreProvider(ProviderId, Box<Provider>),
    Lineage(ProviderId, Box<str>, Option<ProviderId>, Option<Timestamp>),
    Generation(ProviderId, u64, Option<Timestamp>),
    Inventory(ProviderId, ClassId, Option<InventoryRecord>),
    Traits(ProviderId, Vec<TraitId>),
    Aggregates(ProviderId, Vec<AggregateId>),
    Consumer(ConsumerId, ConsumerUuid, Option<Box<Consumer>>),
}

impl State {
    /// Carries out a fact. The result takes it back.
    pub fn apply(&mut self, change: &Change) -> Undo {
        Undo(self.step(change).unwrap_or(Step::Nothing))
    }

    /// Takes back the latest applied change that was not yet taken back.
    pub fn undo(&mut self, undo: Undo) {
        match undo.0 {
            Step::Nothing => {}
            Step::Class(id, previous) => drop(self.replace_class(id, previous)),
            Step::Trait(id, previous) => drop(self.replace_trait(id, previous)),
            Step::RemoveProvider(id) => drop(self.remove_provider(id)),
            Step::RestoreProvider(id, provider) => self.insert_provider(id, *provider),
            Step::Lineage(id, name, parent, updated_at) => {
                drop(self.replace_lineage(id, name, parent, updated_at));
            }
            Step::Generation(id, generation, updated_at) => {
                if let Some(provider) = self.providers.get_mut(id.0) {
                    provider.generation = generation;
                    provider.updated_at = updated_at;
                }
            }
            Step::Inventory(id, class, previous) => {
                self.replace_inventory(id, class, previous);
            }
            Step::Traits(id, previous) => drop(self.replace_traits(id, previous)),
            Step::Aggregates(id, previous) => drop(self.replace_aggregates(id, previous)),
            Step::Consumer(id, uuid, previous) => {
                drop(self.replace_consumer(id, uuid, previous.map(|consumer| *consumer)));
            }
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm a kind of fact")]
    fn step(&mut self, change: &Change) -> Option<Step> {
        Some(match change {
            Change::ClassCreated { id, name, at } | Change::ClassRenamed { id, name, at } => {
                let named = Named {
                    name: name.as_str().into(),
                    modified_at: *at,
                };
                Step::Class(*id, self.replace_class(*id, Some(named)))
            }
            Change::ClassRemoved { id } => Step::Class(*id, self.replace_class(*id, None)),
            Change::TraitCreated { id, name, at } => {
                let named = Named {
                    name: name.as_str().into(),
                    modified_at: *at,
                };
                Step::Trait(*id, self.replace_trait(*id, Some(named)))
            }
            Change::TraitRemoved { id } => Step::Trait(*id, self.replace_trait(*id, None)),
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
                self.replace_lineage(id, name.as_str().into(), parent, Some(*at))?
            }
            Change::ProviderRemoved { uuid } => {
                let id = self.provider_id(*uuid)?;
                Step::RestoreProvider(id, Box::new(self.remove_provider(id)?))
            }
            Change::GenerationSet {
                provider,
                generation,
                at,
            } => {
                let id = self.provider_id(*provider)?;
                let provider = self.providers.get_mut(id.0)?;
                Step::Generation(
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
                let record = InventoryRecord {
                    class: *class,
                    inventory: *inventory,
                    capacity: inventory.capacity(),
                    used: self
                        .provider(id)?
                        .inventory(*class)
                        .map_or(0, |record| record.used),
                    modified_at: *at,
                };
                Step::Inventory(id, *class, self.replace_inventory(id, *class, Some(record)))
            }
            Change::InventoryRemoved { provider, class } => {
                let id = self.provider_id(*provider)?;
                Step::Inventory(id, *class, self.replace_inventory(id, *class, None))
            }
            Change::TraitsSet { provider, traits } => {
                let id = self.provider_id(*provider)?;
                Step::Traits(id, self.replace_traits(id, traits.clone())?)
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
                Step::Aggregates(id, self.replace_aggregates(id, ids)?)
            }
            Change::ConsumerSet { consumer, .. } => {
                let record = self.consumer_record(change)?;
                let id = self
                    .consumer_by_uuid
                    .get(consumer)
                    .copied()
                    .unwrap_or_else(|| ConsumerId(self.consumers.next()));
                let previous = self.replace_consumer(id, *consumer, Some(record));
                Step::Consumer(id, *consumer, previous.map(Box::new))
            }
            Change::ConsumerRemoved { consumer } => {
                let id = self.consumer_by_uuid.get(consumer).copied()?;
                let previous = self.replace_consumer(id, *consumer, None);
                Step::Consumer(id, *consumer, previous.map(Box::new))
            }
        })
    }

    fn replace_class(&mut self, id: ClassId, named: Option<Named>) -> Option<Named> {
        let previous = self.classes.take(u32::from(id.0));
        if let Some(previous) = &previous {
            self.class_by_name.remove(&previous.name);
        }
        if let Some(named) = named {
            self.class_by_name.insert(named.name.clone(), id);
            self.classes.put(u32::from(id.0), named);
        }
        previous
    }

    fn replace_trait(&mut self, id: TraitId, named: Option<Named>) -> Option<Named> {
        let previous = self.traits.take(u32::from(id.0));
        if let Some(previous) = &previous {
            self.trait_by_name.remove(&previous.name);
        }
        if let Some(named) = named {
            self.trait_by_name.insert(named.name.clone(), id);
            self.traits.put(u32::from(id.0), named);
        }
        self.sharing_trait = self.trait_id(names::SHARING_TRAIT);
        previous
    }

    fn create_provider(
        &mut self,
        uuid: Uuid,
        name: &str,
        parent: Option<Uuid>,
        at: Timestamp,
    ) -> Option<Step> {
        if self.provider_by_uuid.contains_key(&uuid) || self.provider_by_name.contains_key(name) {
            return None;
        }
        let id = ProviderId(self.providers.next());
        let parent = match parent {
            Some(parent) => Some(self.provider_id(parent)?),
            None => None,
        };
        let root = match parent {
            Some(parent) => self.provider(parent)?.root,
            None => id,
        };
        let provider = Provider {
            uuid,
            name: name.into(),
            parent,
            root,
            children: Vec::new(),
            generation: 0,
            created_at: at,
            updated_at: parent.is_none().then_some(at),
            inventories: Vec::new(),
            traits: Vec::new(),
            aggregates: Vec::new(),
            consumers: Vec::new(),
        };
        self.insert_provider(id, provider);
        Some(Step::RemoveProvider(id))
    }

    /// Puts a provider with all it has into a free slot; its consumers are not touched.
    pub(crate) fn insert_provider(&mut self, id: ProviderId, mut provider: Provider) {
        let inventories = std::mem::take(&mut provider.inventories);
        let traits = std::mem::take(&mut provider.traits);
        let aggregates = std::mem::take(&mut provider.aggregates);
        self.provider_by_uuid.insert(provider.uuid, id);
        self.provider_by_name.insert(provider.name.clone(), id);
        let parent = provider.parent;
        self.providers.put(id.0, provider);
        self.join_parent(id, parent);
        for record in inventories {
            self.replace_inventory(id, record.class, Some(record));
        }
        self.replace_traits(id, traits);
        self.replace_aggregates(id, aggregates);
    }

    fn remove_provider(&mut self, id: ProviderId) -> Option<Provider> {
        let classes: SmallVec<[ClassId; 8]> = self
            .provider(id)?
            .inventories
            .iter()
            .map(|record| record.class)
            .collect();
        let inventories: Vec<InventoryRecord> = classes
            .into_iter()
            .filter_map(|class| self.replace_inventory(id, class, None))
            .collect();
        let traits = self.replace_traits(id, Vec::new()).unwrap_or_default();
        let aggregates = self.replace_aggregates(id, Vec::new()).unwrap_or_default();
        self.leave_parent(id);
        let mut provider = self.providers.take(id.0)?;
        self.provider_by_uuid.remove(&provider.uuid);
        self.provider_by_name.remove(&provider.name);
        provider.inventories = inventories;
        provider.traits = traits;
        provider.aggregates = aggregates;
        Some(provider)
    }

    fn join_parent(&mut self, id: ProviderId, parent: Option<ProviderId>) {
        self.roots.set(id.0, parent.is_none());
        self.children.set(id.0, parent.is_some());
        let Some(parent) = parent else { return };
        let Some(record) = self.providers.get_mut(parent.0) else {
            return;
        };
        if let Err(place) = record.children.binary_search(&id) {
            record.children.insert(place, id);
        }
        self.parents.insert(parent.0);
    }

    /// Makes a root a child, its root and its descendants' root being right already.
    pub(crate) fn attach(&mut self, id: ProviderId, parent: ProviderId) {
        if let Some(provider) = self.providers.get_mut(id.0) {
            provider.parent = Some(parent);
            self.join_parent(id, Some(parent));
        }
    }

    fn leave_parent(&mut self, id: ProviderId) {
        self.roots.remove(id.0);
        self.children.remove(id.0);
        let Some(parent) = self.provider(id).and_then(|provider| provider.parent) else {
            return;
        };
        let Some(record) = self.providers.get_mut(parent.0) else {
            return;
        };
        record.children.retain(|child| *child != id);
        if record.children.is_empty() {
            self.parents.remove(parent.0);
        }
    }

    fn replace_lineage(
        &mut self,
        id: ProviderId,
        name: Box<str>,
        parent: Option<ProviderId>,
        updated_at: Option<Timestamp>,
    ) -> Option<Step> {
        let root = match parent {
            Some(parent) => self.provider(parent)?.root,
            None => id,
        };
        self.leave_parent(id);
        let provider = self.providers.get_mut(id.0)?;
        let previous_parent = std::mem::replace(&mut provider.parent, parent);
        let previous_updated_at = std::mem::replace(&mut provider.updated_at, updated_at);
        let previous_name = std::mem::replace(&mut provider.name, name.clone());
        self.provider_by_name.remove(&previous_name);
        self.provider_by_name.insert(name, id);
        self.join_parent(id, parent);
        for member in self.subtree(id) {
            if let Some(provider) = self.providers.get_mut(member.0) {
                provider.root = root;
            }
        }
        Some(Step::Lineage(
            id,
            previous_name,
            previous_parent,
            previous_updated_at,
        ))
    }

    fn replace_inventory(
        &mut self,
        id: ProviderId,
        class: ClassId,
        record: Option<InventoryRecord>,
    ) -> Option<InventoryRecord> {
        let provider = self.providers.get_mut(id.0)?;
        if self.columns.len() <= class.index() {
            self.columns
                .resize_with(class.index() + 1, Default::default);
        }
        self.columns[class.index()].set(
            id.0,
            record.as_ref().map(|record| {
                (
                    &record.inventory,
                    record.capacity.saturating_sub(record.used),
                )
            }),
        );
        let place = provider
            .inventories
            .binary_search_by_key(&class, |record| record.class);
        match (place, record) {
            (Ok(place), Some(record)) => {
                Some(std::mem::replace(&mut provider.inventories[place], record))
            }
            (Ok(place), None) => Some(provider.inventories.remove(place)),
            (Err(place), Some(record)) => {
                provider.inventories.insert(place, record);
                None
            }
            (Err(_), None) => None,
        }
    }

    fn replace_traits(&mut self, id: ProviderId, traits: Vec<TraitId>) -> Option<Vec<TraitId>> {
        let provider = self.providers.get_mut(id.0)?;
        for old in &provider.traits {
            if let Some(members) = self.trait_members.get_mut(old.index()) {
                members.remove(id.0);
            }
        }
        for new in &traits {
            if self.trait_members.len() <= new.index() {
                self.trait_members
                    .resize_with(new.index() + 1, Default::default);
            }
            self.trait_members[new.index()].insert(id.0);
        }
        Some(std::mem::replace(&mut provider.traits, traits))
    }

    pub(crate) fn intern_aggregate(&mut self, uuid: &str) -> AggregateId {
        let id = AggregateId(self.aggregates.intern(uuid));
        if self.aggregate_members.len() <= id.index() {
            self.aggregate_members
                .resize_with(id.index() + 1, Default::default);
        }
        id
    }

    fn replace_aggregates(
        &mut self,
        id: ProviderId,
        aggregates: Vec<AggregateId>,
    ) -> Option<Vec<AggregateId>> {
        let provider = self.providers.get_mut(id.0)?;
        for old in &provider.aggregates {
            self.aggregate_members[old.index()].remove(id.0);
        }
        for new in &aggregates {
            self.aggregate_members[new.index()].insert(id.0);
        }
        Some(std::mem::replace(&mut provider.aggregates, aggregates))
    }

    fn consumer_record(&mut self, change: &Change) -> Option<Consumer> {
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
            allocations: allocations
                .iter()
                .filter_map(
                    |AllocationFact {
                         provider,
                         class,
                         amount,
                     }| {
                        let provider = self.provider_id(*provider)?;
                        Some(Allocation {
                            provider,
                            class: *class,
                            amount: *amount,
                        })
                    },
                )
                .collect(),
        })
    }

    pub(crate) fn intern_project(&mut self, name: &str) -> ProjectId {
        let id = ProjectId(self.projects.intern(name));
        if self.project_consumers.len() <= id.index() {
            self.project_consumers
                .resize_with(id.index() + 1, Default::default);
        }
        id
    }

    /// Replaces one consumer with all it holds; nothing forgets it.
    pub(crate) fn replace_consumer(
        &mut self,
        id: ConsumerId,
        uuid: ConsumerUuid,
        record: Option<Consumer>,
    ) -> Option<Consumer> {
        let previous = self.consumers.take(id.0);
        if let Some(previous) = &previous {
            self.project_consumers[previous.project.index()].remove(id.0);
            for allocation in &previous.allocations {
                self.count(allocation, -i64::from(allocation.amount));
                self.note_holder(allocation.provider, id, false);
            }
        }
        if let Some(record) = record {
            self.project_consumers[record.project.index()].insert(id.0);
            for allocation in &record.allocations {
                self.count(allocation, i64::from(allocation.amount));
                self.note_holder(allocation.provider, id, true);
            }
            if previous.is_none() {
                self.consumer_by_uuid.insert(uuid, id);
            }
            self.consumers.put(id.0, record);
        } else {
            self.consumer_by_uuid.remove(&uuid);
        }
        previous
    }

    #[inline]
    fn count(&mut self, allocation: &Allocation, difference: i64) {
        let Some(provider) = self.providers.get_mut(allocation.provider.0) else {
            return;
        };
        let class = allocation.class;
        let Some(record) = provider
            .inventories
            .iter_mut()
            .find(|record| record.class == class)
        else {
            return;
        };
        record.used = record.used.saturating_add(difference);
        if let Some(column) = self.columns.get_mut(class.index()) {
            column.set(
                allocation.provider.0,
                Some((
                    &record.inventory,
                    record.capacity.saturating_sub(record.used),
                )),
            );
        }
    }

    fn note_holder(&mut self, provider: ProviderId, consumer: ConsumerId, holds: bool) {
        let Some(provider) = self.providers.get_mut(provider.0) else {
            return;
        };
        match (provider.consumers.binary_search(&consumer), holds) {
            (Err(place), true) => provider.consumers.insert(place, consumer),
            (Ok(place), false) => drop(provider.consumers.remove(place)),
            (Ok(_), true) | (Err(_), false) => {}
        }
    }
}
