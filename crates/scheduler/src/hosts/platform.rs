//! The platforms of hosts: hardware and hypervisor. A fleet has few platforms, so a filter that
//! depends on nothing but the platform is evaluated once for each platform.

use std::sync::{Arc, OnceLock};

use hashbrown::HashMap;
use placewright_placement::slot_set::SlotSet;
use serde_json::Value;

pub use placewright_types::platform::Platform;

/// A platform with the hosts that have it.
#[derive(Clone, Debug, Default)]
pub struct PlatformGroup {
    /// The hardware and hypervisor of these hosts.
    pub platform: Arc<Platform>,
    /// The slots of the hosts with this platform.
    pub hosts: SlotSet,
    cpu_info: OnceLock<Value>,
}

impl PlatformGroup {
    /// The parsed description of the CPU; null if it is absent or not JSON.
    #[must_use]
    pub fn cpu_info(&self) -> &Value {
        self.cpu_info.get_or_init(|| {
            let text = self.platform.cpu_info.as_deref();
            let parsed = text.and_then(|text| serde_json::from_str(text).ok());
            parsed.unwrap_or_default()
        })
    }

    /// The width of the CPU's physical addresses in bits, if the platform describes it.
    #[must_use]
    pub fn physical_address_bits(&self) -> Option<i64> {
        self.cpu_info().get("maxphysaddr")?.get("bits")?.as_i64()
    }
}

/// The platforms that hosts have, and the platform of each host.
#[derive(Clone, Debug, Default)]
pub struct Platforms {
    groups: Vec<PlatformGroup>,
    /// By platform: its index in `groups`.
    by_platform: HashMap<Arc<Platform>, u32, foldhash::quality::FixedState>,
    /// The unused indexes of `groups`.
    free_indexes: Vec<u32>,
    /// By slot: the index in `groups`, or [`NO_PLATFORM`].
    group_of: Vec<u32>,
}

/// Stands for the platform of a slot without a host.
const NO_PLATFORM: u32 = u32::MAX;

impl Platforms {
    /// All platforms. An entry without hosts is unused, and its platform is the default one.
    #[must_use]
    pub fn groups(&self) -> &[PlatformGroup] {
        &self.groups
    }

    /// The platform of each slot as an index into [`Self::groups`]; out of range for slots without
    /// a host.
    #[must_use]
    pub fn group_of(&self) -> &[u32] {
        &self.group_of
    }

    /// The platform of the host in a slot; `None` if the slot has no host.
    #[must_use]
    pub fn of_host(&self, slot: u32) -> Option<&PlatformGroup> {
        let index = *self.group_of.get(slot as usize)?;
        self.groups.get(index as usize)
    }

    /// The copy of a platform that its hosts share; a new one if no host has the platform.
    pub(crate) fn shared(&self, platform: &Platform) -> Arc<Platform> {
        let entry = self.by_platform.get_key_value(platform);
        entry.map_or_else(|| Arc::new(platform.clone()), |(shared, _)| shared.clone())
    }

    /// Sets the platform of a host.
    pub(crate) fn set_host(&mut self, slot: u32, platform: &Arc<Platform>) {
        self.remove_host(slot);
        let group_index = match self.by_platform.get(platform) {
            Some(index) => *index,
            None => self.add(platform.clone()),
        };
        let slot_index = slot as usize;
        if slot_index >= self.group_of.len() {
            self.group_of.resize(slot_index + 1, NO_PLATFORM);
        }
        self.group_of[slot_index] = group_index;
        self.groups[group_index as usize].hosts.insert(slot);
    }

    /// Removes a host, and its platform if no other host has it.
    pub(crate) fn remove_host(&mut self, slot: u32) {
        let Some(host_group) = self.group_of.get_mut(slot as usize) else {
            return;
        };
        let index = std::mem::replace(host_group, NO_PLATFORM);
        let Some(group) = self.groups.get_mut(index as usize) else {
            return;
        };
        group.hosts.remove(slot);
        if group.hosts.is_empty() {
            self.by_platform.remove(&group.platform);
            *group = PlatformGroup::default();
            self.free_indexes.push(index);
        }
    }

    /// Adds a platform without hosts, and returns its index in `groups`.
    fn add(&mut self, platform: Arc<Platform>) -> u32 {
        let group = PlatformGroup {
            platform: platform.clone(),
            ..PlatformGroup::default()
        };
        let index = if let Some(index) = self.free_indexes.pop() {
            self.groups[index as usize] = group;
            index
        } else {
            self.groups.push(group);
            u32::try_from(self.groups.len() - 1).unwrap_or(u32::MAX)
        };
        self.by_platform.insert(platform, index);
        index
    }
}
