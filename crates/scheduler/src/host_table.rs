//! All hosts: what filters and weighers read of them, by slot.
//!
//! A host's slot is that of its root provider in placement. What a pass over many hosts reads is
//! kept in [`Column`]s and [`SlotSet`]s; the rest is in one [`HostState`] a host.
//!
//! Three things change the table. Agents' updates come through [`HostTable::apply`]. What placement
//! knows (which providers there are, what they have free, their aggregates) is taken over by
//! [`HostTable::follow`]. Time passes with [`HostTable::advance`]. An instance that was just claimed
//! counts at once, from [`HostTable::expect`] on, until its host's agent speaks of it.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use hashbrown::HashMap;
use placewright_placement::slot_set::SlotSet;
use placewright_placement::touch::{Touch, What};
use placewright_placement::{ProviderId, State, Timestamp};
use smallvec::SmallVec;
use uuid::Uuid;

use crate::aggregate::Aggregates;
use crate::amounts::{Amounts, Classes};
use crate::config::{self, SchedulerConfig};
use crate::host_state::{HostState, HostUpdate, InstanceReport, NumberedUpdate, Receipt};
use crate::packing::Packing;
use crate::platform::Platforms;
use crate::ranking::Column;
use crate::request::RequestSpec;

pub mod places;
mod property_counts;
mod track;

use places::Places;
pub use property_counts::{PropertyCounts, compared};
use track::SlotList;

/// Which column holds what.
pub mod column {
    /// Free memory, MiB, without the allocation ratio.
    pub const RAM_FREE_MB: usize = 0;
    /// Free CPUs, with the allocation ratio.
    pub const CPUS_FREE: usize = 1;
    /// Free disk, MiB.
    pub const DISK_FREE_MB: usize = 2;
    /// Busy instances.
    pub const IO_OPS: usize = 3;
    /// Instances.
    pub const INSTANCES: usize = 4;
    /// Failed builds.
    pub const FAILED_BUILDS: usize = 5;
    /// The hypervisor's version, 0 for none.
    pub const HYPERVISOR_VERSION: usize = 6;
    /// 100 less the number of free PCI devices, at least 1.
    pub const FEW_DEVICES: usize = 7;
    /// The metrics with their ratios, summed up.
    pub const METRICS: usize = 8;
    /// How many columns there are.
    pub const COUNT: usize = 9;
}

type Map<K, V> = HashMap<K, V, foldhash::quality::FixedState>;

/// What the table keeps besides the states, because the configuration has a use for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tracked {
    /// How long a host may be silent, in microseconds.
    down_after_us: i64,
    /// Metrics and their ratios.
    metrics: Vec<(String, f64)>,
    /// The raw weight of a host that lacks a metric.
    metric_unavailable: f64,
    /// Whether instances' image properties are counted.
    image_properties: bool,
}

impl Tracked {
    /// What a configuration has a use for.
    #[must_use]
    pub fn of(config: &SchedulerConfig) -> Self {
        Self {
            down_after_us: i64::from(config.service_down_time_s) * 1_000_000,
            metrics: config::pairs(&config.metrics.weight_setting).0,
            metric_unavailable: config.metrics.weight_of_unavailable,
            image_properties: config.image_props_weight_multiplier != 0.0,
        }
    }
}

/// A host that changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The host.
    pub slot: u32,
    /// What changed.
    pub what: What,
}

impl Touched {
    /// A host about which anything may have changed.
    fn all_of(slot: u32) -> Self {
        Self {
            slot,
            what: What::Anything,
        }
    }
}

/// All hosts.
#[derive(Clone, Debug)]
pub struct HostTable {
    tracked: Tracked,
    hosts: Vec<Option<Box<HostState>>>,
    slot_of: Map<Uuid, u32>,
    /// Hosts that were heard of and have no provider (yet).
    waiting: Map<Uuid, Box<HostState>>,
    /// Those of them that came since placement was last followed: it may have had their providers
    /// for long.
    newcomers: Vec<Uuid>,
    by_service_host: Map<Box<str>, SlotList>,
    by_instance: Map<Uuid, SlotList>,
    by_group: Map<Uuid, BTreeSet<Uuid>>,
    by_cell: Map<Uuid, SlotSet>,
    platforms: Platforms,
    known: SlotSet,
    enabled: SlotSet,
    up: SlotSet,
    usable: SlotSet,
    lacks_metric: SlotSet,
    columns: Vec<Column>,
    amounts: Vec<Amounts>,
    aggregates: Aggregates,
    properties: PropertyCounts,
    places: Places,
    /// The devices of hosts, if the configuration has a use for them.
    packing: Option<Packing>,
    /// When hosts that are up will be looked at again, soonest first.
    wake_ups: BinaryHeap<Reverse<(Timestamp, u32)>>,
    /// The hosts that are in `wake_ups`, each once.
    watched: SlotSet,
    now: Timestamp,
    /// How much of placement's log of changed trees was taken over; nothing before the first time.
    followed: Option<u64>,
    /// Where placement's resource classes are found, and the count of its names for which it holds.
    classes: Option<(u64, Classes)>,
    /// The hosts whose soft state changed since somebody took note.
    touched: Vec<Touched>,
}

impl HostTable {
    /// An empty table for a configuration.
    #[must_use]
    pub fn new(config: &SchedulerConfig) -> Self {
        Self {
            tracked: Tracked::of(config),
            hosts: Vec::new(),
            slot_of: Map::default(),
            waiting: Map::default(),
            newcomers: Vec::new(),
            by_service_host: Map::default(),
            by_instance: Map::default(),
            by_group: Map::default(),
            by_cell: Map::default(),
            platforms: Platforms::default(),
            known: SlotSet::default(),
            enabled: SlotSet::default(),
            up: SlotSet::default(),
            usable: SlotSet::default(),
            lacks_metric: SlotSet::default(),
            columns: vec![Column::default(); column::COUNT],
            amounts: Vec::new(),
            aggregates: Aggregates::default(),
            properties: PropertyCounts::default(),
            places: Places::default(),
            packing: (config.fragmentation_weight_multiplier != 0.0)
                .then(|| Packing::new(&config.fragmentation_device_class)),
            wake_ups: BinaryHeap::new(),
            watched: SlotSet::default(),
            now: Timestamp::default(),
            followed: None,
            classes: None,
            touched: Vec::new(),
        }
    }

    /// The slots of all hosts.
    #[must_use]
    pub fn known(&self) -> &SlotSet {
        &self.known
    }

    /// The hosts that may get new instances, up or not.
    #[must_use]
    pub fn enabled(&self) -> &SlotSet {
        &self.enabled
    }

    /// The hosts that were heard of lately and that nobody called down.
    #[must_use]
    pub fn up(&self) -> &SlotSet {
        &self.up
    }

    /// The hosts that are both enabled and up.
    #[must_use]
    pub fn usable(&self) -> &SlotSet {
        &self.usable
    }

    /// The hosts of a cell.
    #[must_use]
    pub fn of_cell(&self, cell: Uuid) -> Option<&SlotSet> {
        self.by_cell.get(&cell)
    }

    /// The hosts that lack a metric that has a ratio.
    #[must_use]
    pub fn lacking_metrics(&self) -> &SlotSet {
        &self.lacks_metric
    }

    /// A host.
    #[must_use]
    #[inline]
    pub fn get(&self, slot: u32) -> Option<&HostState> {
        self.hosts.get(slot as usize)?.as_deref()
    }

    /// A host by the UUID of its compute node.
    #[must_use]
    pub fn by_uuid(&self, uuid: Uuid) -> Option<(u32, &HostState)> {
        let slot = *self.slot_of.get(&uuid)?;
        Some((slot, self.get(slot)?))
    }

    /// The nodes of a service host, by its name in whatever case.
    #[must_use]
    pub fn nodes_of_any_case(&self, service_host: &str) -> &[u32] {
        self.by_service_host
            .get(service_host.to_lowercase().as_str())
            .map_or(&[], |slots| slots.as_slice())
    }

    /// The nodes of a service host, by its exact name.
    pub fn nodes_of(&self, service_host: &str) -> impl Iterator<Item = u32> {
        let nodes = self.nodes_of_any_case(service_host).iter().copied();
        nodes.filter(move |slot| {
            let state = self.get(*slot);
            state.is_some_and(|state| state.names.service_host == service_host)
        })
    }

    /// The makes of hosts, and which host is of which.
    #[must_use]
    pub fn platforms(&self) -> &Platforms {
        &self.platforms
    }

    /// The hosts that an instance is on; several while it moves.
    #[must_use]
    pub fn hosts_of(&self, instance: Uuid) -> &[u32] {
        self.by_instance
            .get(&instance)
            .map_or(&[], |slots| slots.as_slice())
    }

    /// The instances on hosts that are members of a server group, in rising order.
    pub fn members_of(&self, group: Uuid) -> impl Iterator<Item = Uuid> + '_ {
        self.by_group.get(&group).into_iter().flatten().copied()
    }

    /// One past the highest slot of a host.
    #[must_use]
    pub fn slot_count(&self) -> usize {
        self.hosts.len()
    }

    /// All columns; see [`mod@column`] for which is which.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// What a host has and has free.
    #[must_use]
    pub fn amounts(&self, slot: u32) -> Amounts {
        self.amounts.get(slot as usize).copied().unwrap_or_default()
    }

    /// The aggregates.
    #[must_use]
    pub fn aggregates(&self) -> &Aggregates {
        &self.aggregates
    }

    /// The aggregates, to change their names and metadata.
    pub fn aggregates_mut(&mut self) -> &mut Aggregates {
        &mut self.aggregates
    }

    /// How many instances with which image properties are where.
    #[must_use]
    pub fn properties(&self) -> &PropertyCounts {
        &self.properties
    }

    /// What the fragmentation weigher knows, if it is switched on.
    #[must_use]
    pub fn packing(&self) -> Option<&Packing> {
        self.packing.as_ref()
    }

    /// Takes note of a request that hosts are searched for.
    pub(crate) fn note_request(&mut self, request: &RequestSpec) {
        if let Some(packing) = &mut self.packing {
            packing.note(request);
        }
    }

    /// Where hosts are in the topology.
    #[must_use]
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Whether image properties of instances are counted.
    #[must_use]
    pub fn counts_properties(&self) -> bool {
        self.tracked.image_properties
    }

    /// The time up to which hosts were looked at.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The hosts whose soft state, amounts or aggregates changed since the last call, some several
    /// times. What was kept about them must be taken anew.
    pub fn take_touched(&mut self) -> impl Iterator<Item = Touched> + '_ {
        self.touched.drain(..)
    }

    /// Takes a change of a host's soft state. Nothing happens to a host that was never fully
    /// described: its agent must send everything first.
    ///
    /// Returns whether it was taken.
    pub fn apply(&mut self, host: Uuid, at: Timestamp, update: &HostUpdate) -> bool {
        let found = self.take_state(host);
        if matches!(update, HostUpdate::Gone) {
            if let Some((slot, state)) = found {
                let state = match slot {
                    Some(slot) => {
                        self.hosts[slot as usize] = Some(state);
                        self.unbind(slot)
                    }
                    None => Some(state),
                };
                state.iter().for_each(|state| self.drop_state(state));
            }
            return true;
        }
        let is_full = matches!(update, HostUpdate::Full(_));
        let unknown = || is_full.then(|| (None, track::unknown(host)));
        let Some((slot, mut state)) = found.or_else(unknown) else {
            return false;
        };
        state.heard_at = state.heard_at.max(at);
        self.change(slot, &mut state, update);
        self.put_back(slot, state);
        true
    }

    /// Takes a change if it comes next in its agent's stream.
    pub fn apply_numbered(
        &mut self,
        host: Uuid,
        at: Timestamp,
        numbered: &NumberedUpdate,
    ) -> Receipt {
        let is_full = matches!(numbered.update, HostUpdate::Full(_));
        let receipt = match self.state(host) {
            Some(state) => state.receive(numbered),
            None if is_full => Receipt::Applied,
            None => Receipt::Gap,
        };
        if receipt == Receipt::Applied {
            self.apply(host, at, &numbered.update);
            let state = match self.slot_of.get(&host) {
                Some(slot) => self.hosts[*slot as usize].as_mut(),
                None => self.waiting.get_mut(&host),
            };
            if let Some(state) = state {
                state.position = (numbered.incarnation, numbered.sequence);
            }
        }
        receipt
    }

    /// A host's state, whether it has a slot or waits for one.
    #[must_use]
    pub fn state(&self, host: Uuid) -> Option<&HostState> {
        match self.slot_of.get(&host) {
            Some(slot) => self.get(*slot),
            None => self.waiting.get(&host).map(|state| &**state),
        }
    }

    /// Whether hosts were heard of for the first time since placement was last followed.
    #[must_use]
    pub fn has_newcomers(&self) -> bool {
        !self.newcomers.is_empty()
    }

    /// Lets time pass: hosts that were silent for too long are down from here on.
    pub fn advance(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        while let Some(Reverse((due, slot))) = self.wake_ups.peek().copied() {
            if due >= self.now {
                break;
            }
            self.wake_ups.pop();
            self.watched.remove(slot);
            self.refresh_up(slot);
        }
    }

    /// Takes over what changed in placement since the last time: providers that came and went, what
    /// is free, who is in which aggregate.
    pub fn follow(&mut self, state: &State) {
        let log = state.touched();
        let is_known = |(structure, _): &(u64, Classes)| *structure == log.structure();
        let known = self.classes.filter(is_known);
        let (_, classes) = *self
            .classes
            .insert(known.unwrap_or_else(|| (log.structure(), Classes::of(state))));
        if self.places.follow(state) {
            for slot in self.known.iter() {
                self.places.put(state, ProviderId(slot));
            }
        }
        let since = self.followed.and_then(|position| log.since(position));
        if let Some(changed) = since {
            let mut changed: SmallVec<[Touch; 16]> = changed.collect();
            changed.sort_unstable_by_key(|touch| (touch.root, Reverse(touch.what)));
            changed.dedup_by_key(|touch| touch.root);
            for touch in changed {
                self.follow_root(state, &classes, touch);
            }
        } else {
            let highest = state.provider_slots().max(self.hosts.len());
            for slot in 0..u32::try_from(highest).unwrap_or(u32::MAX) {
                let touch = Touch {
                    root: ProviderId(slot),
                    what: What::Anything,
                };
                self.follow_root(state, &classes, touch);
            }
        }
        for host in std::mem::take(&mut self.newcomers) {
            if let Some(root) = state
                .provider_id(host)
                .filter(|_| self.waiting.contains_key(&host))
            {
                let what = What::Anything;
                self.follow_root(state, &classes, Touch { root, what });
            }
        }
        self.followed = Some(log.position());
    }

    fn follow_root(&mut self, state: &State, classes: &Classes, touch: Touch) {
        let (root, slot) = (touch.root, touch.root.0);
        if touch.what != What::Anything && self.known.contains(slot) {
            // It is still the same provider, or anything would have changed.
            let amounts = Amounts::read_as(state, root, classes);
            self.put_amounts(slot, amounts);
            self.follow_devices(state, root, &amounts);
            self.touched.push(Touched {
                slot,
                what: touch.what,
            });
            return;
        }
        let provider = state.provider(root).filter(|found| found.root == root);
        let uuid = provider.map(|provider| provider.uuid);
        let bound = self.get(slot).map(|host| host.uuid);
        if bound.is_some() && bound != uuid {
            // The host's provider is gone, or another one has its slot; the agent may still be there.
            if let Some(host) = self.unbind(slot) {
                self.waiting.insert(host.uuid, host);
            }
        }
        let Some(provider) = provider else { return };
        if let Some(host) = self.waiting.remove(&provider.uuid) {
            self.bind(slot, host);
        }
        if self.get(slot).is_some() {
            let amounts = Amounts::read_as(state, root, classes);
            self.set_amounts(slot, amounts);
            self.follow_devices(state, root, &amounts);
            let aggregates = provider.aggregates.iter();
            let uuids = aggregates.filter_map(|id| state.aggregate_uuid(*id).parse().ok());
            self.aggregates.set_membership(slot, uuids);
            self.places.put(state, root);
        }
    }

    fn follow_devices(&mut self, state: &State, root: ProviderId, amounts: &Amounts) {
        if let Some(packing) = &mut self.packing {
            packing.follow(state, root, amounts);
        }
    }

    /// Binds a host to a slot by hand: for tables that follow no placement, such as in tests.
    pub fn bind_to_slot(&mut self, host: Uuid, slot: u32) {
        if let Some(state) = self.waiting.remove(&host) {
            self.bind(slot, state);
        }
    }

    /// Counts an instance that was just claimed for a host, until its agent speaks of it.
    pub fn expect(&mut self, slot: u32, instance: &InstanceReport) {
        let Some(mut state) = self.hosts.get_mut(slot as usize).and_then(Option::take) else {
            return;
        };
        // The agent was faster than the claim's echo: then it is no news.
        if !state.instances.contains_key(&instance.uuid) {
            self.put_instance(Some(slot), &mut state, instance, true);
        }
        self.put_back(Some(slot), state);
    }

    /// Takes an expected instance back: its claim was released before the agent spoke of it.
    pub fn expect_no_more(&mut self, slot: u32, instance: Uuid) {
        let Some(mut state) = self.hosts.get_mut(slot as usize).and_then(Option::take) else {
            return;
        };
        let found = state.instances.get(&instance);
        if found.is_some_and(|instance| instance.is_expected) {
            self.take_instance(Some(slot), &mut state, instance);
        }
        self.put_back(Some(slot), state);
    }
}
