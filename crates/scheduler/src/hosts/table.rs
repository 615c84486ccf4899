//! The table of all hosts that filters and weighers read, by slot.
//!
//! A host's slot is that of its root provider in placement. Data that is read for many hosts at
//! once is in [`Column`]s and [`SlotSet`]s; everything else is in one [`HostState`] for each host.
//!
//! The table changes mainly in four ways. [`HostTable::apply`] applies the updates of agents.
//! [`HostTable::catch_up_with_placement`] reads what changed in placement: providers, free amounts, aggregates.
//! [`HostTable::advance`] advances the time. [`HostTable::add_pending_instance`] counts an instance that was just
//! claimed, until its host's agent reports it.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use hashbrown::HashMap;
use placewright_placement::slot_set::SlotSet;
use placewright_placement::tree_changes::{ChangeKind, TreeChange};
use placewright_placement::{ProviderId, State, Timestamp};
use smallvec::SmallVec;
use uuid::Uuid;

use crate::config::{self, SchedulerConfig};
use crate::hosts::aggregate::Aggregates;
use crate::hosts::amounts::{Amounts, ResourceClasses};
use crate::hosts::column::{self, Column};
use crate::hosts::fragmentation_data::FragmentationData;
use crate::hosts::places::Places;
use crate::hosts::platform::Platforms;
use crate::hosts::property_counts::PropertyCounts;
use crate::hosts::service_versions::ServiceVersions;
use crate::hosts::state::{HostState, HostUpdate, NumberedUpdate, Receipt};
use crate::request::RequestSpec;

mod change;
mod pending;
mod track;

pub use change::HostChange;

use track::SlotList;

type Map<K, V> = HashMap<K, V, foldhash::quality::FixedState>;

/// The options that determine which values the table derives from the states of hosts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DerivedConfig {
    /// How long a host may be silent before it is down, in microseconds.
    down_after_us: i64,
    /// The metrics that count, with their ratios.
    metrics: Vec<(String, f64)>,
    /// The raw value of a host that lacks a metric.
    metric_unavailable: f64,
    /// Whether image properties of instances are counted.
    counts_image_properties: bool,
}

impl DerivedConfig {
    /// Takes these options from a configuration.
    #[must_use]
    pub fn new(config: &SchedulerConfig) -> Self {
        let (metrics, _malformed) = config::parse_ratios(&config.metrics.weight_setting);
        Self {
            down_after_us: i64::from(config.service_down_time_s) * 1_000_000,
            metrics,
            metric_unavailable: config.metrics.weight_of_unavailable,
            counts_image_properties: config.image_props_weight_multiplier != 0.0,
        }
    }
}

/// The state of all hosts, with columns, sets and indexes derived from it.
#[derive(Clone, Debug)]
pub struct HostTable {
    derived_config: DerivedConfig,
    hosts: Vec<Option<Box<HostState>>>,
    slot_of: Map<Uuid, u32>,
    /// Hosts whose agents have reported, but which have no provider in placement so far, and therefore no slot.
    unbound: Map<Uuid, Box<HostState>>,
    /// The hosts in `unbound` that were added or updated since the table last caught up with placement. The provider of
    /// such a host may be older: then it is not among the changes that the table reads from placement next.
    unbound_to_look_up: Vec<Uuid>,
    /// By name of a service host, in lower case: its nodes.
    by_service_host: Map<Box<str>, SlotList>,
    by_instance: Map<Uuid, SlotList>,
    by_group: Map<Uuid, BTreeSet<Uuid>>,
    by_cell: Map<Uuid, SlotSet>,
    platforms: Platforms,
    slots: SlotSet,
    enabled: SlotSet,
    up: SlotSet,
    usable: SlotSet,
    lacking_metrics: SlotSet,
    columns: Vec<Column>,
    amounts: Vec<Amounts>,
    aggregates: Aggregates,
    property_counts: PropertyCounts,
    service_versions: ServiceVersions,
    places: Places,
    /// The devices of hosts for the fragmentation weigher, if it is enabled.
    fragmentation_data: Option<FragmentationData>,
    /// A heap of the times at which hosts that are up have to be checked again, earliest first.
    liveness_checks: BinaryHeap<Reverse<(Timestamp, u32)>>,
    /// The hosts that are in `liveness_checks`.
    with_liveness_check: SlotSet,
    now: Timestamp,
    /// The position in placement's tree change log up to which it was read; `None` at first.
    placement_position: Option<u64>,
    /// The position in placement's log of released claims up to which it was read.
    release_position: u64,
    /// The identifiers of resource classes, with the version of placement's structure that they are from.
    resource_classes: Option<(u64, ResourceClasses)>,
    /// Changes since the last call of [`Self::drain_changes`].
    changes: Vec<HostChange>,
}

impl HostTable {
    /// An empty table for a configuration.
    #[must_use]
    pub fn new(config: &SchedulerConfig) -> Self {
        Self {
            derived_config: DerivedConfig::new(config),
            hosts: Vec::new(),
            slot_of: Map::default(),
            unbound: Map::default(),
            unbound_to_look_up: Vec::new(),
            by_service_host: Map::default(),
            by_instance: Map::default(),
            by_group: Map::default(),
            by_cell: Map::default(),
            platforms: Platforms::default(),
            slots: SlotSet::default(),
            enabled: SlotSet::default(),
            up: SlotSet::default(),
            usable: SlotSet::default(),
            lacking_metrics: SlotSet::default(),
            columns: vec![Column::default(); column::COUNT],
            amounts: Vec::new(),
            aggregates: Aggregates::default(),
            property_counts: PropertyCounts::default(),
            service_versions: ServiceVersions::default(),
            places: Places::default(),
            fragmentation_data: (config.fragmentation_weight_multiplier != 0.0)
                .then(|| FragmentationData::new(&config.fragmentation_device_class)),
            liveness_checks: BinaryHeap::new(),
            with_liveness_check: SlotSet::default(),
            now: Timestamp::default(),
            placement_position: None,
            release_position: 0,
            resource_classes: None,
            changes: Vec::new(),
        }
    }

    /// The slots of all hosts.
    #[must_use]
    pub fn slots(&self) -> &SlotSet {
        &self.slots
    }

    /// The hosts that are not disabled, whether up or not.
    #[must_use]
    pub fn enabled(&self) -> &SlotSet {
        &self.enabled
    }

    /// The hosts that are neither silent nor forced down.
    #[must_use]
    pub fn up(&self) -> &SlotSet {
        &self.up
    }

    /// The hosts that are both enabled and up.
    #[must_use]
    pub fn usable(&self) -> &SlotSet {
        &self.usable
    }

    /// The hosts of a cell; `None` if it has none.
    #[must_use]
    pub fn of_cell(&self, cell: Uuid) -> Option<&SlotSet> {
        self.by_cell.get(&cell)
    }

    /// The hosts that lack one of the metrics that count.
    #[must_use]
    pub fn lacking_metrics(&self) -> &SlotSet {
        &self.lacking_metrics
    }

    /// The state of the host in a slot; `None` if the slot has no host.
    #[must_use]
    #[inline]
    pub fn get(&self, slot: u32) -> Option<&HostState> {
        self.hosts.get(slot as usize)?.as_deref()
    }

    /// A host by the UUID of its compute node, with its slot; `None` if no host with a slot has this UUID.
    #[must_use]
    pub fn by_uuid(&self, uuid: Uuid) -> Option<(u32, &HostState)> {
        let slot = *self.slot_of.get(&uuid)?;
        Some((slot, self.get(slot)?))
    }

    /// The nodes of a service host, whose name is compared without regard to case.
    #[must_use]
    pub fn nodes_ignoring_case(&self, service_host: &str) -> &[u32] {
        self.by_service_host
            .get(service_host.to_lowercase().as_str())
            .map_or(&[], |slots| slots.as_slice())
    }

    /// The nodes of a service host, by its exact name.
    pub fn nodes_of(&self, service_host: &str) -> impl Iterator<Item = u32> {
        let nodes = self.nodes_ignoring_case(service_host).iter().copied();
        nodes.filter(move |slot| {
            let state = self.get(*slot);
            state.is_some_and(|state| state.names.service_host == service_host)
        })
    }

    /// The platforms, and the platform of each host.
    #[must_use]
    pub fn platforms(&self) -> &Platforms {
        &self.platforms
    }

    /// The hosts on which an instance is, or is pending; several during a move.
    #[must_use]
    pub fn hosts_of(&self, instance: Uuid) -> &[u32] {
        self.by_instance
            .get(&instance)
            .map_or(&[], |slots| slots.as_slice())
    }

    /// The members of a server group that are on hosts, by rising UUID.
    pub fn members_of(&self, group: Uuid) -> impl Iterator<Item = Uuid> + '_ {
        self.by_group.get(&group).into_iter().flatten().copied()
    }

    /// An upper bound of the slots of hosts, exclusive.
    #[must_use]
    pub fn slot_count(&self) -> usize {
        self.hosts.len()
    }

    /// All columns, by the indexes that are defined in [`mod@column`].
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The total and free amounts of a host.
    #[must_use]
    pub fn amounts(&self, slot: u32) -> Amounts {
        self.amounts.get(slot as usize).copied().unwrap_or_default()
    }

    /// The host aggregates, their metadata and their hosts.
    #[must_use]
    pub fn aggregates(&self) -> &Aggregates {
        &self.aggregates
    }

    /// The host aggregates, to change their names and metadata.
    pub fn aggregates_mut(&mut self) -> &mut Aggregates {
        &mut self.aggregates
    }

    /// The number of instances of each host by image property.
    #[must_use]
    pub fn property_counts(&self) -> &PropertyCounts {
        &self.property_counts
    }

    /// The versions of the hosts' compute services, by cell.
    #[must_use]
    pub fn service_versions(&self) -> &ServiceVersions {
        &self.service_versions
    }

    /// The data of the fragmentation weigher, if it is enabled.
    #[must_use]
    pub fn fragmentation_data(&self) -> Option<&FragmentationData> {
        self.fragmentation_data.as_ref()
    }

    /// Records a request in the demand histogram of the fragmentation weigher.
    pub(crate) fn record_request(&mut self, request: &RequestSpec) {
        if let Some(fragmentation_data) = &mut self.fragmentation_data {
            fragmentation_data.record(request);
        }
    }

    /// The topology: the place of each host at each level.
    #[must_use]
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Whether image properties of instances are counted.
    #[must_use]
    pub fn counts_image_properties(&self) -> bool {
        self.derived_config.counts_image_properties
    }

    /// The time for which the table says whether hosts are up.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Drains the hosts whose soft state, amounts or aggregates changed since the last call, each
    /// once with the strongest kind of its changes. Cached results about these hosts have to be updated.
    pub fn drain_changes(&mut self) -> impl Iterator<Item = HostChange> + '_ {
        if self.changes.len() > 1 {
            (self.changes).sort_unstable_by_key(|change| (change.slot, Reverse(change.kind)));
            self.changes.dedup_by_key(|change| change.slot);
        }
        self.changes.drain(..)
    }

    /// Applies an update of a host's soft state. An update of an unknown host is ignored, unless it
    /// is the complete state, which its agent has to send first.
    ///
    /// Returns whether the update was applied, which [`HostUpdate::Gone`] always is.
    pub fn apply(&mut self, host: Uuid, at: Timestamp, update: &HostUpdate) -> bool {
        let taken = self.take_state(host);
        if matches!(update, HostUpdate::Gone) {
            if let Some((slot, state)) = taken {
                self.remove_taken(slot, state);
            }
            return true;
        }
        let is_full = matches!(update, HostUpdate::Full(_));
        let initial = || is_full.then(|| (None, track::initial_state(host)));
        let Some((slot, mut state)) = taken.or_else(initial) else {
            return false;
        };
        state.reported_at = state.reported_at.max(at);
        self.apply_update(slot, &mut state, update);
        self.put_back(slot, state, track::kind_of(update));
        true
    }

    /// Applies an update if it is the next one of its agent's stream, or a newer one with the full state.
    pub fn apply_numbered(
        &mut self,
        host: Uuid,
        at: Timestamp,
        numbered: &NumberedUpdate,
    ) -> Receipt {
        let is_full = matches!(numbered.update, HostUpdate::Full(_));
        let receipt = match self.state(host) {
            Some(state) => state.receipt_of(numbered),
            None if is_full => Receipt::Applied,
            None => Receipt::Gap,
        };
        if receipt == Receipt::Applied {
            self.apply(host, at, &numbered.update);
            let state = match self.slot_of.get(&host) {
                Some(slot) => self.hosts[*slot as usize].as_mut(),
                None => self.unbound.get_mut(&host),
            };
            if let Some(state) = state {
                state.position = (numbered.incarnation, numbered.sequence);
            }
        }
        receipt
    }

    /// The state of a host, whether it has a slot or not; `None` if its agent has not reported it.
    #[must_use]
    pub fn state(&self, host: Uuid) -> Option<&HostState> {
        match self.slot_of.get(&host) {
            Some(slot) => self.get(*slot),
            None => self.unbound.get(&host).map(|state| &**state),
        }
    }

    /// Whether hosts without slots were added or updated since the table last caught up with placement.
    #[must_use]
    pub fn has_unbound_to_look_up(&self) -> bool {
        !self.unbound_to_look_up.is_empty()
    }

    /// Advances the time. Hosts that have then been silent for too long count as down.
    pub fn advance(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        self.service_versions.advance(self.now);
        while let Some(Reverse((due, slot))) = self.liveness_checks.peek().copied() {
            if due >= self.now {
                break;
            }
            self.liveness_checks.pop();
            self.with_liveness_check.remove(slot);
            self.refresh_up(slot);
        }
    }

    /// Reads what changed in placement since the last call: new and removed providers, free
    /// amounts, aggregates, and consumers that no longer hold anything where they are pending.
    pub fn catch_up_with_placement(&mut self, state: &State) {
        let log = state.tree_changes();
        let structure = log.structure_version();
        let current = (self.resource_classes).filter(|(version, _)| *version == structure);
        let look_up = || (structure, ResourceClasses::look_up(state));
        let (_, classes) = *(self.resource_classes).insert(current.unwrap_or_else(look_up));
        if self.places.refresh_levels(state) {
            for slot in self.slots.iter() {
                self.places.refresh_host(state, ProviderId(slot));
            }
        }
        let position = self.placement_position;
        let changes = position.and_then(|position| log.since(position));
        if let Some(changed) = changes {
            let mut changed: SmallVec<[TreeChange; 16]> = changed.collect();
            changed.sort_unstable_by_key(|change| (change.root, Reverse(change.kind)));
            changed.dedup_by_key(|change| change.root);
            for change in changed {
                self.refresh_tree(state, &classes, change);
            }
        } else {
            let highest = state.provider_slots().max(self.hosts.len());
            for slot in 0..u32::try_from(highest).unwrap_or(u32::MAX) {
                let change = TreeChange {
                    root: ProviderId(slot),
                    kind: ChangeKind::Anything,
                };
                self.refresh_tree(state, &classes, change);
            }
        }
        for host in std::mem::take(&mut self.unbound_to_look_up) {
            // The changes above may have bound the host already.
            if let Some(root) = state
                .provider_id(host)
                .filter(|_| self.unbound.contains_key(&host))
            {
                let kind = ChangeKind::Anything;
                self.refresh_tree(state, &classes, TreeChange { root, kind });
            }
        }
        self.placement_position = Some(log.position());
        self.remove_released(state);
    }

    /// Updates the host whose root provider changed.
    fn refresh_tree(&mut self, state: &State, classes: &ResourceClasses, change: TreeChange) {
        let (root, slot) = (change.root, change.root.0);
        if change.kind != ChangeKind::Anything && self.slots.contains(slot) {
            // The slot still belongs to the same provider: if it did not, the change would be of
            // kind `Anything`.
            let amounts = Amounts::read_classes(state, root, classes);
            self.change_amounts(slot, amounts, change.kind);
            self.refresh_devices(state, root, &amounts);
            return;
        }
        let provider = state.provider(root).filter(|found| found.root == root);
        let uuid = provider.map(|provider| provider.uuid);
        let bound_uuid = self.get(slot).map(|host| host.uuid);
        if bound_uuid.is_some() && bound_uuid != uuid {
            // The host's provider was deleted or its slot reused. The state is kept, because the
            // host's agent may still be running.
            if let Some(host) = self.unbind(slot) {
                self.unbound.insert(host.uuid, host);
            }
        }
        let Some(provider) = provider else { return };
        if let Some(host) = self.unbound.remove(&provider.uuid) {
            self.bind(slot, host);
            self.remove_released_from(state, slot);
        }
        if self.get(slot).is_some() {
            let amounts = Amounts::read_classes(state, root, classes);
            self.set_amounts(slot, amounts);
            self.refresh_devices(state, root, &amounts);
            let aggregates = provider.aggregates.iter();
            let uuids = aggregates.filter_map(|id| state.aggregate_uuid(*id).parse().ok());
            self.aggregates.set_membership(slot, uuids);
            self.places.refresh_host(state, root);
        }
    }

    /// Updates the free devices of a host, if the fragmentation weigher is enabled.
    fn refresh_devices(&mut self, state: &State, root: ProviderId, amounts: &Amounts) {
        if let Some(fragmentation_data) = &mut self.fragmentation_data {
            fragmentation_data.refresh_host(state, root, amounts);
        }
    }

    /// Binds a host to a slot without placement, as in tests.
    pub fn bind_to_slot(&mut self, host: Uuid, slot: u32) {
        if let Some(state) = self.unbound.remove(&host) {
            self.bind(slot, state);
        }
    }
}
