//! The whole state in memory, laid out for the decision.

use std::sync::Arc;

use uuid::Uuid;

use crate::column::ClassColumn;
use crate::consumer_index::ConsumerIndex;
use crate::group::{Distance, Group, Level};
use crate::hash::Map;
use crate::ids::{
    AggregateId, ClassId, ConsumerId, ConsumerUuid, GroupId, ProjectId, ProviderId, TraitId,
    TypeId, UserId,
};
use crate::intern::Interner;
use crate::names;
use crate::place_names::PlaceNames;
use crate::rows::{Consumer, Named, Provider};
use crate::slot_set::SlotSet;
use crate::slots::Slots;
use crate::tree_changes::TreeChangeLog;

/// The whole state of placement.
///
/// Rows are addressed by dense numbers; the numbers of providers and consumers are reused, those
/// of aggregates, projects, users and types are private to this copy of the state.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub(crate) classes: Slots<Named>,
    pub(crate) class_by_name: Map<Box<str>, ClassId>,
    pub(crate) traits: Slots<Named>,
    pub(crate) trait_by_name: Map<Box<str>, TraitId>,
    /// The trait that marks sharing providers; `None` before the standard names are created.
    pub(crate) sharing_trait: Option<TraitId>,
    pub(crate) providers: Slots<Provider>,
    pub(crate) provider_by_uuid: Map<Uuid, ProviderId>,
    pub(crate) provider_by_name: Map<Box<str>, ProviderId>,
    pub(crate) aggregates: Interner,
    pub(crate) projects: Interner,
    pub(crate) users: Interner,
    pub(crate) consumer_types: Interner,
    pub(crate) consumers: Slots<Consumer>,
    pub(crate) consumer_index: ConsumerIndex,
    /// The column of each resource class, by number.
    pub(crate) columns: Vec<ClassColumn>,
    /// By number of a trait: the providers that have it.
    pub(crate) trait_members: Vec<SlotSet>,
    /// By number of an aggregate: the providers in it.
    pub(crate) aggregate_members: Vec<SlotSet>,
    pub(crate) roots: SlotSet,
    pub(crate) non_roots: SlotSet,
    pub(crate) parents: SlotSet,
    /// By number of a project: its consumers.
    pub(crate) project_consumers: Vec<SlotSet>,
    pub(crate) groups: Slots<Group>,
    pub(crate) group_by_uuid: Map<Uuid, GroupId>,
    pub(crate) levels: Vec<Level>,
    /// By index of a level: the names of its places.
    pub(crate) place_names: Vec<Arc<PlaceNames>>,
    pub(crate) distances: Vec<Distance>,
    /// By number of an aggregate: the index of its level in `levels`.
    pub(crate) level_of_aggregate: Vec<Option<u16>>,
    pub(crate) tree_changes: TreeChangeLog,
}

/// The empty set, for look-ups of unknown traits and aggregates.
static NO_SLOTS: std::sync::LazyLock<SlotSet> = std::sync::LazyLock::new(SlotSet::default);
/// The empty column, for classes without inventories.
static NO_COLUMN: std::sync::LazyLock<ClassColumn> = std::sync::LazyLock::new(ClassColumn::default);

impl State {
    /// The number of a resource class.
    #[must_use]
    pub fn class_id(&self, name: &str) -> Option<ClassId> {
        self.class_by_name.get(name).copied()
    }

    /// The name of a resource class; empty for one that does not exist.
    #[must_use]
    pub fn class_name(&self, id: ClassId) -> &str {
        self.classes
            .get(u32::from(id.0))
            .map_or("", |class| &class.name)
    }

    /// A resource class by name.
    #[must_use]
    pub fn class(&self, name: &str) -> Option<&Named> {
        self.classes.get(u32::from(self.class_id(name)?.0))
    }

    /// All resource classes, in the order of their numbers: standard ones first.
    pub fn all_classes(&self) -> impl Iterator<Item = (ClassId, &Named)> {
        self.classes
            .iter()
            .map(|(row, class)| (ClassId(dense_u16(row)), class))
    }

    /// The number of a trait.
    #[must_use]
    pub fn trait_id(&self, name: &str) -> Option<TraitId> {
        self.trait_by_name.get(name).copied()
    }

    /// The name of a trait; empty for one that does not exist.
    #[must_use]
    pub fn trait_name(&self, id: TraitId) -> &str {
        self.traits
            .get(u32::from(id.0))
            .map_or("", |named| &named.name)
    }

    /// A trait by number.
    #[must_use]
    pub fn trait_by_id(&self, id: TraitId) -> Option<&Named> {
        self.traits.get(u32::from(id.0))
    }

    /// All traits, in the order of their numbers: standard ones first.
    pub fn all_traits(&self) -> impl Iterator<Item = (TraitId, &Named)> {
        self.traits
            .iter()
            .map(|(row, named)| (TraitId(dense_u16(row)), named))
    }

    /// The trait that marks sharing providers; `None` before the standard names are created.
    #[must_use]
    pub fn sharing_trait(&self) -> Option<TraitId> {
        self.sharing_trait
    }

    /// The slot of a provider.
    #[must_use]
    #[inline]
    pub fn provider_id(&self, uuid: Uuid) -> Option<ProviderId> {
        self.provider_by_uuid.get(&uuid).copied()
    }

    /// The slot of a provider by its name.
    #[must_use]
    pub fn provider_id_by_name(&self, name: &str) -> Option<ProviderId> {
        self.provider_by_name.get(name).copied()
    }

    /// A provider by slot.
    #[must_use]
    #[inline]
    pub fn provider(&self, id: ProviderId) -> Option<&Provider> {
        self.providers.get(id.0)
    }

    /// A provider by UUID.
    #[must_use]
    pub fn provider_by_uuid(&self, uuid: Uuid) -> Option<&Provider> {
        self.provider(self.provider_id(uuid)?)
    }

    /// All providers, in rising order of slot.
    pub fn all_providers(&self) -> impl Iterator<Item = (ProviderId, &Provider)> {
        self.providers
            .iter()
            .map(|(row, provider)| (ProviderId(row), provider))
    }

    /// How many providers there are.
    #[must_use]
    pub fn provider_count(&self) -> usize {
        self.providers.len()
    }

    /// One past the highest slot of a provider: no column or mask has a provider from here on.
    #[must_use]
    pub fn provider_slots(&self) -> usize {
        self.providers.end_row()
    }

    /// The slots of a provider and of all its descendants: parents first, siblings in rising order.
    #[must_use]
    pub fn subtree(&self, top: ProviderId) -> Vec<ProviderId> {
        let mut found = vec![top];
        let mut visited = 0;
        while let Some(id) = found.get(visited).copied() {
            visited += 1;
            if let Some(provider) = self.provider(id) {
                found.extend_from_slice(&provider.children);
            }
        }
        found
    }

    /// Which of the 64 slots from `64 * word` on hold a provider.
    #[must_use]
    #[inline]
    pub fn existing_word(&self, word: usize) -> u64 {
        self.roots.word(word) | self.non_roots.word(word)
    }

    /// The providers that are roots.
    #[must_use]
    pub fn roots(&self) -> &SlotSet {
        &self.roots
    }

    /// The providers that have a parent.
    #[must_use]
    pub fn non_roots(&self) -> &SlotSet {
        &self.non_roots
    }

    /// The providers that have children.
    #[must_use]
    pub fn parents(&self) -> &SlotSet {
        &self.parents
    }

    /// The providers that have a trait.
    #[must_use]
    pub fn trait_members(&self, id: TraitId) -> &SlotSet {
        self.trait_members.get(id.index()).unwrap_or(&NO_SLOTS)
    }

    /// The number of an aggregate, if any provider or level of the topology has it.
    #[must_use]
    pub fn aggregate_id(&self, uuid: &str) -> Option<AggregateId> {
        self.aggregates.find(uuid).map(AggregateId)
    }

    /// The UUID of an aggregate, as clients wrote it.
    #[must_use]
    pub fn aggregate_uuid(&self, id: AggregateId) -> &str {
        self.aggregates.text(id.0)
    }

    /// The providers that are members of an aggregate.
    #[must_use]
    pub fn aggregate_members(&self, id: AggregateId) -> &SlotSet {
        self.aggregate_members.get(id.index()).unwrap_or(&NO_SLOTS)
    }

    /// The headroom of all providers for one resource class.
    #[must_use]
    pub fn column(&self, class: ClassId) -> &ClassColumn {
        self.columns.get(class.index()).unwrap_or(&NO_COLUMN)
    }

    /// A consumer by UUID.
    #[must_use]
    pub fn consumer(&self, uuid: ConsumerUuid) -> Option<&Consumer> {
        self.consumers.get(self.consumer_id(uuid)?.0)
    }

    /// The slot of a consumer.
    #[must_use]
    pub fn consumer_id(&self, uuid: ConsumerUuid) -> Option<ConsumerId> {
        self.consumer_index.get(&uuid, &self.consumers)
    }

    /// A consumer by slot.
    #[must_use]
    pub fn consumer_by_id(&self, id: ConsumerId) -> Option<&Consumer> {
        self.consumers.get(id.0)
    }

    /// All consumers, in rising order of slot.
    pub fn all_consumers(&self) -> impl Iterator<Item = (ConsumerId, &Consumer)> {
        self.consumers
            .iter()
            .map(|(row, consumer)| (ConsumerId(row), consumer))
    }

    /// One past the highest slot of a consumer: the end of the range of slots in use.
    #[must_use]
    pub fn consumer_slots(&self) -> usize {
        self.consumers.end_row()
    }

    /// How many consumers there are.
    #[must_use]
    pub fn consumer_count(&self) -> usize {
        self.consumers.len()
    }

    /// The consumers of a project, in rising order of slot.
    pub fn project_consumers(&self, project: &str) -> impl Iterator<Item = &Consumer> {
        let consumers = self.project_consumers_from(project, 0);
        consumers.map(|(_, consumer)| consumer)
    }

    /// The consumers of a project from some slot on, with their slots, in rising order.
    pub fn project_consumers_from(
        &self,
        project: &str,
        slot: u32,
    ) -> impl Iterator<Item = (u32, &Consumer)> {
        let id = self.projects.find(project);
        let members = id.and_then(|id| self.project_consumers.get(id as usize));
        members
            .unwrap_or(&NO_SLOTS)
            .iter_from(slot)
            .filter_map(|row| Some((row, self.consumers.get(row)?)))
    }

    /// The name of a project.
    #[must_use]
    pub fn project_name(&self, id: ProjectId) -> &str {
        self.projects.text(id.0)
    }

    /// The name of a user.
    #[must_use]
    pub fn user_name(&self, id: UserId) -> &str {
        self.users.text(id.0)
    }

    /// The number of a user, if any consumer has it.
    #[must_use]
    pub fn user_id(&self, name: &str) -> Option<UserId> {
        self.users.find(name).map(UserId)
    }

    /// The name of a consumer type.
    #[must_use]
    pub fn consumer_type_name(&self, id: TypeId) -> &str {
        self.consumer_types.text(id.0)
    }

    /// The number of a consumer type, if any consumer has it.
    #[must_use]
    pub fn consumer_type_id(&self, name: &str) -> Option<TypeId> {
        self.consumer_types.find(name).map(TypeId)
    }

    /// How many interned aggregates, projects, users and consumer types are in use, in this order.
    #[must_use]
    pub fn name_counts(&self) -> [usize; 4] {
        let tables = [
            &self.aggregates,
            &self.projects,
            &self.users,
            &self.consumer_types,
        ];
        tables.map(Interner::len)
    }

    /// The log of recently changed trees, for readers that cache search results.
    #[must_use]
    pub fn tree_changes(&self) -> &TreeChangeLog {
        &self.tree_changes
    }

    /// Prepares this state to take the place of a former one. Readers of the former state's tree change log keep their
    /// positions in it; in the log of this state they find that they have to read everything anew.
    pub fn take_place_of(&mut self, former: &Self) {
        self.tree_changes.move_beyond(&former.tree_changes);
    }

    /// Whether the name of a class or trait is a standard one.
    #[must_use]
    pub fn is_standard(name: &str) -> bool {
        !names::is_custom(name)
    }
}

/// Narrows a row number of classes or traits, which are below 65,536 by construction.
fn dense_u16(row: u32) -> u16 {
    u16::try_from(row).unwrap_or(u16::MAX)
}
