//! Platforms of hosts ("makes"): hardware and hypervisor. A fleet has few, so filters that depend
//! on the platform alone are evaluated once for each.

use std::sync::{Arc, OnceLock};

use hashbrown::HashMap;
use placewright_placement::slot_set::SlotSet;
use serde_json::Value;

pub use placewright_types::platform::Platform;

/// A platform, the hosts that have it, and values derived from it.
#[derive(Clone, Debug, Default)]
pub struct Make {
    /// The hardware and hypervisor of these hosts.
    pub platform: Arc<Platform>,
    /// The slots of the hosts with this platform.
    pub hosts: SlotSet,
    cpu_info: OnceLock<Value>,
}

impl Make {
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
    makes: Vec<Make>,
    by_platform: HashMap<Arc<Platform>, u32, foldhash::quality::FixedState>,
    free: Vec<u32>,
    make_of: Vec<u32>,
}

/// Marks a slot without a host.
const NO_MAKE: u32 = u32::MAX;

impl Platforms {
    /// All platforms; some may have no hosts.
    #[must_use]
    pub fn makes(&self) -> &[Make] {
        &self.makes
    }

    /// The platform of each slot as an index into [`Self::makes`]; out of range for slots without
    /// a host.
    #[must_use]
    pub fn make_of(&self) -> &[u32] {
        &self.make_of
    }

    /// The platform of a host.
    #[must_use]
    pub fn of(&self, slot: u32) -> Option<&Make> {
        let number = *self.make_of.get(slot as usize)?;
        self.makes.get(number as usize)
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
        if index >= self.make_of.len() {
            self.make_of.resize(index + 1, NO_MAKE);
        }
        self.make_of[index] = number;
        self.makes[number as usize].hosts.insert(slot);
    }

    /// Removes a host, and its platform if no other host has it.
    pub(crate) fn forget(&mut self, slot: u32) {
        let Some(number) = self.make_of.get_mut(slot as usize) else {
            return;
        };
        let number = std::mem::replace(number, NO_MAKE);
        let Some(make) = self.makes.get_mut(number as usize) else {
            return;
        };
        make.hosts.remove(slot);
        if make.hosts.is_empty() {
            self.by_platform.remove(&make.platform);
            *make = Make::default();
            self.free.push(number);
        }
    }

    fn add(&mut self, platform: Arc<Platform>) -> u32 {
        let make = Make {
            platform: platform.clone(),
            ..Make::default()
        };
        let number = if let Some(number) = self.free.pop() {
            self.makes[number as usize] = make;
            number
        } else {
            self.makes.push(make);
            u32::try_from(self.makes.len() - 1).unwrap_or(u32::MAX)
        };
        self.by_platform.insert(platform, number);
        number
    }
}
