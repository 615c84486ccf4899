//! The platforms of hosts: hardware and hypervisor. A fleet has few, so filters that depend on the
//! platform alone are evaluated once for each.

use std::sync::{Arc, OnceLock};

use hashbrown::HashMap;
use placewright_placement::slot_set::SlotSet;
use serde_json::Value;

pub use placewright_types::platform::Platform;

/// A platform, the hosts that have it, and values derived from it.
#[derive(Clone, Debug, Default)]
pub struct PlatformGroup {
    /// The hardware and hypervisor of these hosts.
    pub platform: Arc<Platform>,
    /// The slots of the hosts with this platform.
    pub hosts: SlotSet,
    cpu_info: OnceLock<Value>,
}

impl PlatformGroup {
    /// The parsed description of the CPU; null if there is none or it is no JSON.
    #[must_use]
    pub fn cpu_info(&self) -> &Value {
        self.cpu_info.get_or_init(|| {
            let text = self.platform.cpu_info.as_deref();
            let read = text.and_then(|text| serde_json::from_str(text).ok());
            read.unwrap_or_default()
        })
    }

    /// The width of physical addresses of the CPU in bits, if it is described.
    #[must_use]
    pub fn physical_address_bits(&self) -> Option<i64> {
        self.cpu_info().get("maxphysaddr")?.get("bits")?.as_i64()
    }
}

/// All platforms that occur, and the platform of each host.
#[derive(Clone, Debug, Default)]
pub struct Platforms {
    groups: Vec<PlatformGroup>,
    by_platform: HashMap<Arc<Platform>, u32, foldhash::quality::FixedState>,
    free: Vec<u32>,
    group_of: Vec<u32>,
}

/// Marks a slot without a host.
const NO_PLATFORM: u32 = u32::MAX;

impl Platforms {
    /// All platforms; some may have no hosts.
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

    /// The platform of a host.
    #[must_use]
    pub fn of(&self, slot: u32) -> Option<&PlatformGroup> {
        let number = *self.group_of.get(slot as usize)?;
        self.groups.get(number as usize)
    }

    /// The shared copy of a platform.
    pub(crate) fn shared(&self, platform: &Platform) -> Arc<Platform> {
        let known = self.by_platform.get_key_value(platform);
        known.map_or_else(|| Arc::new(platform.clone()), |(shared, _)| shared.clone())
    }

    /// Sets the platform of a host.
    pub(crate) fn set(&mut self, slot: u32, platform: &Arc<Platform>) {
        self.forget(slot);
        let number = match self.by_platform.get(platform) {
            Some(number) => *number,
            None => self.add(platform.clone()),
        };
        let index = slot as usize;
        if index >= self.group_of.len() {
            self.group_of.resize(index + 1, NO_PLATFORM);
        }
        self.group_of[index] = number;
        self.groups[number as usize].hosts.insert(slot);
    }

    /// Removes a host, and its platform if no other host has it.
    pub(crate) fn forget(&mut self, slot: u32) {
        let Some(number) = self.group_of.get_mut(slot as usize) else {
            return;
        };
        let number = std::mem::replace(number, NO_PLATFORM);
        let Some(group) = self.groups.get_mut(number as usize) else {
            return;
        };
        group.hosts.remove(slot);
        if group.hosts.is_empty() {
            self.by_platform.remove(&group.platform);
            *group = PlatformGroup::default();
            self.free.push(number);
        }
    }

    fn add(&mut self, platform: Arc<Platform>) -> u32 {
        let group = PlatformGroup {
            platform: platform.clone(),
            ..PlatformGroup::default()
        };
        let number = if let Some(number) = self.free.pop() {
            self.groups[number as usize] = group;
            number
        } else {
            self.groups.push(group);
            u32::try_from(self.groups.len() - 1).unwrap_or(u32::MAX)
        };
        self.by_platform.insert(platform, number);
        number
    }
}
