//! The primitives of `apply`: replacing one row together with every index that depends on it.
//!
//! Each returns the former row. Calling it again with that row undoes the replacement.

use smallvec::SmallVec;
use uuid::Uuid;

use super::{ListEdit, UndoStep};
use crate::group::{Group, HostAssignment, Member};
use crate::ids::{
    AggregateId, ClassId, ConsumerId, ConsumerUuid, GroupId, ProjectId, ProviderId, Timestamp,
    TraitId,
};
use crate::intern::{FreedName, FreedNames};
use crate::names;
use crate::rows::{Allocation, Consumer, InventoryRow, Named, Provider};
use crate::state::State;
use crate::tree_changes::ChangeKind;

/// A consumer that was replaced, with the interned names that its removal freed. Undoing the
/// replacement gives those names the same numbers again.
#[derive(Debug)]
pub(crate) struct ReplacedConsumer {
    pub(crate) consumer: Consumer,
    project: Option<FreedName>,
    user: Option<FreedName>,
    consumer_type: Option<FreedName>,
}

impl State {
    pub(super) fn replace_class(&mut self, id: ClassId, named: Option<Named>) -> Option<Named> {
        let previous = self.classes.take(u32::from(id.0));
        if let Some(previous) = &previous {
            self.class_by_name.remove(&previous.name);
        }
        if let Some(named) = named {
            self.class_by_name.insert(named.name.clone(), id);
            self.classes.put(u32::from(id.0), named);
        }
        self.tree_changes.increment_structure();
        previous
    }

    pub(super) fn replace_trait(&mut self, id: TraitId, named: Option<Named>) -> Option<Named> {
        let previous = self.traits.take(u32::from(id.0));
        if let Some(previous) = &previous {
            self.trait_by_name.remove(&previous.name);
        }
        if let Some(named) = named {
            self.trait_by_name.insert(named.name.clone(), id);
            self.traits.put(u32::from(id.0), named);
        }
        self.sharing_trait = self.trait_id(names::SHARING_TRAIT);
        self.tree_changes.increment_structure();
        previous
    }

    /// Creates a provider. `None` if its UUID or name is taken, or its parent does not exist.
    pub(super) fn create_provider(
        &mut self,
        uuid: Uuid,
        name: &str,
        parent: Option<Uuid>,
        at: Timestamp,
    ) -> Option<UndoStep> {
        if self.provider_by_uuid.contains_key(&uuid) || self.provider_by_name.contains_key(name) {
            return None;
        }
        let id = ProviderId(self.providers.next_row());
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
            // OpenStack's Placement writes a new root twice, which sets its time of update; a new child has none.
            updated_at: parent.is_none().then_some(at),
            inventories: Vec::new(),
            traits: Vec::new(),
            aggregates: Vec::new(),
            consumers: Vec::new(),
        };
        self.insert_provider(id, provider);
        Some(UndoStep::RemoveProvider(id))
    }

    /// Inserts a provider with its inventories, traits and aggregates into a free slot. It has no
    /// consumers: allocations are added with their consumers.
    pub(crate) fn insert_provider(&mut self, id: ProviderId, mut provider: Provider) {
        let inventories = std::mem::take(&mut provider.inventories);
        let traits = std::mem::take(&mut provider.traits);
        let aggregates = std::mem::take(&mut provider.aggregates);
        self.provider_by_uuid.insert(provider.uuid, id);
        self.provider_by_name.insert(provider.name.clone(), id);
        let parent = provider.parent;
        self.providers.put(id.0, provider);
        self.join_parent(id, parent);
        self.log_change(id);
        for row in inventories {
            self.replace_inventory(id, row.class, Some(row));
        }
        self.replace_traits(id, traits);
        self.replace_aggregates(id, aggregates);
    }

    pub(super) fn remove_provider(&mut self, id: ProviderId) -> Option<(Provider, FreedNames)> {
        let classes: SmallVec<[ClassId; 8]> = self
            .provider(id)?
            .inventories
            .iter()
            .map(|row| row.class)
            .collect();
        let inventories: Vec<InventoryRow> = classes
            .into_iter()
            .filter_map(|class| self.replace_inventory(id, class, None))
            .collect();
        let traits = self.replace_traits(id, Vec::new()).unwrap_or_default();
        let (aggregates, freed) = self.replace_aggregates(id, Vec::new()).unwrap_or_default();
        self.log_change(id);
        self.leave_parent(id);
        let mut provider = self.providers.take(id.0)?;
        self.provider_by_uuid.remove(&provider.uuid);
        self.provider_by_name.remove(&provider.name);
        provider.inventories = inventories;
        provider.traits = traits;
        provider.aggregates = aggregates;
        Some((provider, freed))
    }

    /// Enters a provider in the set of roots, or of its parent's children.
    pub(super) fn join_parent(&mut self, id: ProviderId, parent: Option<ProviderId>) {
        self.roots.set(id.0, parent.is_none());
        self.non_roots.set(id.0, parent.is_some());
        let Some(parent) = parent else { return };
        let Some(parent_row) = self.providers.get_mut(parent.0) else {
            return;
        };
        if let Err(index) = parent_row.children.binary_search(&id) {
            parent_row.children.insert(index, id);
        }
        self.parents.insert(parent.0);
    }

    /// Makes a root provider a child. Its field `root`, and that of its descendants, is already right.
    pub(crate) fn attach(&mut self, id: ProviderId, parent: ProviderId) {
        if let Some(provider) = self.providers.get_mut(id.0) {
            provider.parent = Some(parent);
            self.join_parent(id, Some(parent));
        }
    }

    pub(super) fn leave_parent(&mut self, id: ProviderId) {
        self.roots.remove(id.0);
        self.non_roots.remove(id.0);
        let Some(parent) = self.provider(id).and_then(|provider| provider.parent) else {
            return;
        };
        let Some(parent_row) = self.providers.get_mut(parent.0) else {
            return;
        };
        parent_row.children.retain(|child| *child != id);
        if parent_row.children.is_empty() {
            self.parents.remove(parent.0);
        }
    }

    pub(super) fn replace_name_and_parent(
        &mut self,
        id: ProviderId,
        name: Box<str>,
        parent: Option<ProviderId>,
        updated_at: Option<Timestamp>,
    ) -> Option<UndoStep> {
        let root = match parent {
            Some(parent) => self.provider(parent)?.root,
            None => id,
        };
        // Logged before and after, because the old and the new tree of the provider change.
        self.log_change(id);
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
        self.log_change(id);
        Some(UndoStep::NameAndParent(
            id,
            previous_name,
            previous_parent,
            previous_updated_at,
        ))
    }

    pub(super) fn replace_inventory(
        &mut self,
        id: ProviderId,
        class: ClassId,
        row: Option<InventoryRow>,
    ) -> Option<InventoryRow> {
        self.log_change(id);
        let provider = self.providers.get_mut(id.0)?;
        if self.columns.len() <= class.index() {
            self.columns
                .resize_with(class.index() + 1, Default::default);
        }
        self.columns[class.index()].set(
            id.0,
            row.as_ref()
                .map(|row| (&row.inventory, row.capacity.saturating_sub(row.used))),
        );
        let position = provider
            .inventories
            .binary_search_by_key(&class, |row| row.class);
        match (position, row) {
            (Ok(index), Some(row)) => {
                Some(std::mem::replace(&mut provider.inventories[index], row))
            }
            (Ok(index), None) => Some(provider.inventories.remove(index)),
            (Err(index), Some(row)) => {
                provider.inventories.insert(index, row);
                None
            }
            (Err(_), None) => None,
        }
    }

    pub(super) fn replace_traits(
        &mut self,
        id: ProviderId,
        traits: Vec<TraitId>,
    ) -> Option<Vec<TraitId>> {
        self.log_change(id);
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
        let previous = std::mem::replace(&mut provider.traits, traits);
        // Repeated after the change, so that a provider that has just become a sharing one is logged as sharing.
        self.log_change(id);
        Some(previous)
    }

    /// The number of an aggregate, interned if it is new. A caller that stores the number has to hold the aggregate for
    /// as long as it stores it ([`Interner::hold`](crate::intern::Interner::hold)).
    pub(crate) fn intern_aggregate(&mut self, uuid: &str) -> AggregateId {
        if let Some(existing) = self.aggregates.find(uuid) {
            return AggregateId(existing);
        }
        let id = AggregateId(self.aggregates.intern(uuid));
        if self.aggregate_members.len() <= id.index() {
            self.aggregate_members
                .resize_with(id.index() + 1, Default::default);
        }
        // Cached queries that name this aggregate were resolved without it, so they have to be resolved again.
        self.tree_changes.increment_structure();
        id
    }

    /// Gives freed aggregates their former numbers again.
    pub(super) fn restore_aggregates(&mut self, freed: FreedNames) {
        if freed.is_empty() {
            return;
        }
        self.aggregates.restore(freed);
        let end = self.aggregates.end_number();
        if self.aggregate_members.len() < end {
            self.aggregate_members.resize_with(end, Default::default);
        }
        self.tree_changes.increment_structure();
    }

    /// Releases aggregates; those without another holder are freed and returned for undo.
    pub(super) fn release_aggregates(&mut self, ids: impl Iterator<Item = u32>) -> FreedNames {
        let aggregates = &mut self.aggregates;
        let freed: FreedNames = ids.filter_map(|id| aggregates.release(id)).collect();
        if !freed.is_empty() {
            crate::slot_set::drop_spares(&mut self.aggregate_members, aggregates.end_number());
            // A reader that cached the number has to look it up again.
            self.tree_changes.increment_structure();
        }
        freed
    }

    pub(super) fn replace_aggregates(
        &mut self,
        id: ProviderId,
        aggregates: Vec<AggregateId>,
    ) -> Option<(Vec<AggregateId>, FreedNames)> {
        self.log_change(id);
        let provider = self.providers.get_mut(id.0)?;
        for old in &provider.aggregates {
            self.aggregate_members[old.index()].remove(id.0);
        }
        for new in &aggregates {
            self.aggregates.hold(new.0);
            self.aggregate_members[new.index()].insert(id.0);
        }
        let previous = std::mem::replace(&mut provider.aggregates, aggregates);
        let freed = self.release_aggregates(previous.iter().map(|old| old.0));
        Some((previous, freed))
    }

    pub(crate) fn intern_project(&mut self, name: &str) -> ProjectId {
        let id = ProjectId(self.projects.intern(name));
        if self.project_consumers.len() <= id.index() {
            self.project_consumers
                .resize_with(id.index() + 1, Default::default);
        }
        id
    }

    /// Gives the interned names of a former consumer their numbers again.
    pub(super) fn restore_names(&mut self, former: ReplacedConsumer) -> Consumer {
        self.projects.restore(former.project);
        let end = self.projects.end_number();
        if self.project_consumers.len() < end {
            self.project_consumers.resize_with(end, Default::default);
        }
        self.users.restore(former.user);
        self.consumer_types.restore(former.consumer_type);
        former.consumer
    }

    /// Releases the interned names of a removed consumer.
    fn release_names(&mut self, consumer: Consumer) -> ReplacedConsumer {
        let project = self.projects.release(consumer.project.0);
        if project.is_some() {
            crate::slot_set::drop_spares(&mut self.project_consumers, self.projects.end_number());
        }
        let type_id = consumer.consumer_type;
        ReplacedConsumer {
            project,
            user: self.users.release(consumer.user.0),
            consumer_type: type_id.and_then(|id| self.consumer_types.release(id.0)),
            consumer,
        }
    }

    fn hold_names(&mut self, consumer: &Consumer) {
        self.projects.hold(consumer.project.0);
        self.users.hold(consumer.user.0);
        if let Some(id) = consumer.consumer_type {
            self.consumer_types.hold(id.0);
        }
    }

    /// Replaces one consumer and its allocations in every index. The caller has interned the names of
    /// the new consumer; those of the former one are released.
    pub(crate) fn replace_consumer(
        &mut self,
        id: ConsumerId,
        uuid: ConsumerUuid,
        consumer: Option<Consumer>,
    ) -> Option<ReplacedConsumer> {
        let previous = self.consumers.take(id.0);
        if let Some(previous) = &previous {
            self.edit_group_members(id, previous.host_assignment, ListEdit::Remove);
            self.project_consumers[previous.project.index()].remove(id.0);
            for allocation in &previous.allocations {
                self.add_usage(allocation, -i64::from(allocation.amount));
                self.edit_provider_consumers(allocation.provider, id, ListEdit::Remove);
            }
        }
        if let Some(consumer) = consumer {
            self.hold_names(&consumer);
            self.edit_group_members(id, consumer.host_assignment, ListEdit::Add);
            self.project_consumers[consumer.project.index()].insert(id.0);
            for allocation in &consumer.allocations {
                self.add_usage(allocation, i64::from(allocation.amount));
                self.edit_provider_consumers(allocation.provider, id, ListEdit::Add);
            }
            if previous.is_none() {
                self.consumer_index.insert(&uuid, id);
            }
            self.consumers.put(id.0, consumer);
        } else {
            self.consumer_index.remove(&uuid, id);
        }
        previous.map(|previous| self.release_names(previous))
    }

    #[inline]
    pub(super) fn add_usage(&mut self, allocation: &Allocation, difference: i64) {
        let Some(provider) = self.providers.get_mut(allocation.provider.0) else {
            return;
        };
        let class = allocation.class;
        let Some(row) = provider.inventory_mut(class) else {
            return;
        };
        row.used = row.used.saturating_add(difference);
        if let Some(column) = self.columns.get_mut(class.index()) {
            let free = row.capacity.saturating_sub(row.used);
            column.set_free(allocation.provider.0, &row.inventory, free);
        }
        let kind = if difference >= 0 {
            ChangeKind::CapacityLoss
        } else {
            ChangeKind::CapacityChange
        };
        self.log_change_as(allocation.provider, kind);
    }

    /// Records a change of a provider in the tree change log, for readers that cache results.
    pub(super) fn log_change(&mut self, id: ProviderId) {
        self.log_change_as(id, ChangeKind::Anything);
    }

    fn log_change_as(&mut self, id: ProviderId, kind: ChangeKind) {
        let Some(provider) = self.providers.get(id.0) else {
            return;
        };
        self.tree_changes.push(provider.root, kind);
        if self
            .sharing_trait
            .is_some_and(|sharing| provider.has_trait(sharing))
        {
            self.tree_changes.increment_sharing();
        }
    }

    fn edit_provider_consumers(
        &mut self,
        provider: ProviderId,
        consumer: ConsumerId,
        edit: ListEdit,
    ) {
        let Some(provider) = self.providers.get_mut(provider.0) else {
            return;
        };
        match (provider.consumers.binary_search(&consumer), edit) {
            (Err(index), ListEdit::Add) => provider.consumers.insert(index, consumer),
            (Ok(index), ListEdit::Remove) => drop(provider.consumers.remove(index)),
            (Ok(_), ListEdit::Add) | (Err(_), ListEdit::Remove) => {}
        }
    }

    fn edit_group_members(
        &mut self,
        consumer: ConsumerId,
        assignment: Option<HostAssignment>,
        edit: ListEdit,
    ) {
        let Some(HostAssignment {
            host,
            group: Some(id),
        }) = assignment
        else {
            return;
        };
        let Some(group) = self.groups.get_mut(id.0) else {
            return;
        };
        let members = &mut group.members;
        let position = members.binary_search_by_key(&consumer, |member| member.consumer);
        let member = Member { consumer, host };
        match (position, edit) {
            (Err(index), ListEdit::Add) => members.insert(index, member),
            (Ok(index), ListEdit::Add) => members[index] = member,
            (Ok(index), ListEdit::Remove) => drop(members.remove(index)),
            (Err(_), ListEdit::Remove) => {}
        }
    }

    pub(super) fn replace_host_assignment(
        &mut self,
        id: ConsumerId,
        assignment: Option<HostAssignment>,
    ) -> Option<HostAssignment> {
        let consumer = self.consumers.get_mut(id.0)?;
        let previous = std::mem::replace(&mut consumer.host_assignment, assignment);
        self.edit_group_members(id, previous, ListEdit::Remove);
        self.edit_group_members(id, assignment, ListEdit::Add);
        previous
    }

    /// Replaces a group. Members refer to their group by slot, so their assignments are updated too.
    pub(crate) fn replace_group(
        &mut self,
        id: GroupId,
        uuid: Uuid,
        group: Option<Group>,
    ) -> Option<Group> {
        let previous = self.groups.take(id.0);
        for member in previous.iter().flat_map(|group| &group.members) {
            self.set_group_of(member.consumer, None);
        }
        for member in group.iter().flat_map(|group| &group.members) {
            self.set_group_of(member.consumer, Some(id));
        }
        match group {
            Some(group) => {
                self.group_by_uuid.insert(uuid, id);
                self.groups.put(id.0, group);
            }
            None => drop(self.group_by_uuid.remove(&uuid)),
        }
        previous
    }

    pub(super) fn set_group_of(&mut self, id: ConsumerId, group: Option<GroupId>) {
        if let Some(Some(assignment)) = self
            .consumers
            .get_mut(id.0)
            .map(|consumer| consumer.host_assignment.as_mut())
        {
            assignment.group = group;
        }
    }
}
