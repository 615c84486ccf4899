//! Columns: one number for each host, by slot, so that weighers read 64 hosts at once.

use crate::block::{BLOCK_HOSTS, at_least};

/// Free memory, MiB, without the allocation ratio.
pub const RAM_FREE_MB: usize = 0;
/// Free CPUs, with the allocation ratio.
pub const CPUS_FREE: usize = 1;
/// Free disk in MiB, without the allocation ratio.
pub const DISK_FREE_MB: usize = 2;
/// Instances in transition (being built, resized, …).
pub const IO_OPS: usize = 3;
/// Instances on the host or expected on it.
pub const INSTANCES: usize = 4;
/// Builds that failed since the last successful one.
pub const FAILED_BUILDS: usize = 5;
/// The hypervisor's version, 0 for none.
pub const HYPERVISOR_VERSION: usize = 6;
/// `max(100 - free PCI devices, 1)`: the fewer free devices, the higher.
pub const FEW_DEVICES: usize = 7;
/// The sum of the host's metrics, each multiplied by its ratio.
pub const METRICS: usize = 8;
/// The number of columns.
pub const COUNT: usize = 9;

/// The direction in which a column's value changes when its host loses free capacity, or when an instance is expected
/// on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnCapacityLoss {
    /// The value falls or stays.
    Falls,
    /// The value rises or stays.
    Rises,
    /// The value stays: it depends neither on free capacity nor on instances.
    Stays,
}

/// The direction in which a column's value changes when its host loses free capacity, or when an instance is expected
/// on it.
#[must_use]
pub fn on_capacity_loss(column: usize) -> OnCapacityLoss {
    match column {
        RAM_FREE_MB | CPUS_FREE | DISK_FREE_MB => OnCapacityLoss::Falls,
        IO_OPS | INSTANCES | FEW_DEVICES => OnCapacityLoss::Rises,
        _ => OnCapacityLoss::Stays,
    }
}

/// One number for each host, by slot; the length is a multiple of [`BLOCK_HOSTS`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Column {
    values: Vec<f64>,
    /// The first value that was set. It is the value of all hosts for which none was set.
    default: f64,
    /// The number of hosts with a value other than the default.
    non_default_count: usize,
}

impl Column {
    /// The value of a host.
    #[must_use]
    #[inline]
    pub fn get(&self, slot: u32) -> f64 {
        match self.values.get(slot as usize) {
            Some(value) => *value,
            None => self.default,
        }
    }

    /// The common value of all hosts, if they all have the same.
    #[must_use]
    pub fn uniform(&self) -> Option<f64> {
        (self.non_default_count == 0).then_some(self.default)
    }

    /// Sets the value of a host.
    pub fn set(&mut self, slot: u32, value: f64) {
        if self.values.is_empty() {
            self.default = value;
        }
        let index = slot as usize;
        if index >= self.values.len() {
            self.values
                .resize((index / BLOCK_HOSTS + 1) * BLOCK_HOSTS, self.default);
        }
        let is_default = |value: f64| value.to_bits() == self.default.to_bits();
        let was_default = is_default(self.values[index]);
        if was_default && !is_default(value) {
            self.non_default_count += 1;
        } else if !was_default && is_default(value) {
            self.non_default_count -= 1;
        }
        self.values[index] = value;
    }

    /// The mask of the hosts of a block whose value is at least `minimum`.
    #[must_use]
    pub fn at_least(&self, block: usize, minimum: f64) -> u64 {
        at_least(self.block(block), minimum)
    }

    /// The 64 values of a block. Slots without a host have the default, or 0 if the whole block is beyond the column's
    /// end; no mask contains such slots.
    #[must_use]
    pub(crate) fn block(&self, block: usize) -> &[f64; BLOCK_HOSTS] {
        static ZEROS: [f64; BLOCK_HOSTS] = [0.0; BLOCK_HOSTS];
        let start = block * BLOCK_HOSTS;
        let values = self.values.get(start..start + BLOCK_HOSTS);
        values
            .and_then(|values| values.try_into().ok())
            .unwrap_or(&ZEROS)
    }
}
