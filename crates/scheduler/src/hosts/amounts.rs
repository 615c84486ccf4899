//! The total and free amounts of a host, read from placement's inventories.
//!
//! Whether a request fits is decided by placement. These amounts are for weighers, and for the filters and expressions
//! that read them, so they are defined as in Nova: free memory is counted without the allocation ratio, free CPUs with
//! the ratio.

use placewright_placement::{ClassId, Provider, ProviderId, State};

/// The total and free amounts of a host, summed over its provider tree.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Amounts {
    /// All memory, including the reserved part, in MiB.
    pub ram_total_mb: i64,
    /// Memory that is neither reserved nor allocated, MiB; negative when overcommitted.
    pub ram_free_mb: i64,
    /// All disk space, including the reserved part, in GiB.
    pub disk_total_gb: i64,
    /// Disk that is neither reserved nor allocated, MiB.
    pub disk_free_mb: i64,
    /// Disk that is reserved or allocated, MiB.
    pub disk_used_mb: i64,
    /// VCPU and PCPU together, without the allocation ratio.
    pub vcpus_total: i64,
    /// CPUs that are reserved or allocated.
    pub vcpus_used: i64,
    /// The allocation ratio (overcommit factor) of memory.
    pub ram_ratio: f64,
    /// The allocation ratio of VCPU, or of PCPU on a host without VCPU.
    pub cpu_ratio: f64,
    /// The allocation ratio of disk.
    pub disk_ratio: f64,
    /// PCI devices that are neither reserved nor allocated.
    pub devices_free: i64,
}

impl Amounts {
    /// The free CPUs with overcommit: the total times the allocation ratio, minus the CPUs that are reserved or
    /// allocated.
    #[must_use]
    pub fn cpus_free(&self) -> f64 {
        self.vcpus_total as f64 * self.cpu_ratio - self.vcpus_used as f64
    }

    /// Whether no free amount is larger than before.
    #[must_use]
    pub fn is_reduction_of(&self, before: &Self) -> bool {
        self.ram_free_mb <= before.ram_free_mb
            && self.cpus_free() <= before.cpus_free()
            && self.disk_free_mb <= before.disk_free_mb
            && self.devices_free <= before.devices_free
    }

    /// Reads the amounts of a host from the inventories of its root provider and all descendants.
    #[must_use]
    pub fn read(state: &State, root: ProviderId) -> Self {
        Self::read_classes(state, root, &ResourceClasses::look_up(state))
    }

    /// As [`Self::read`], for callers that looked the resource classes up already.
    #[must_use]
    pub(crate) fn read_classes(state: &State, root: ProviderId, classes: &ResourceClasses) -> Self {
        let mut amounts = Self::default();
        let Some(host) = state.provider(root) else {
            return amounts;
        };
        add_inventories(&mut amounts, state, classes, host);
        if !host.children.is_empty() {
            let subtree = state.subtree(root);
            for provider in subtree.iter().skip(1).filter_map(|id| state.provider(*id)) {
                add_inventories(&mut amounts, state, classes, provider);
            }
        }
        amounts
    }
}

/// The identifiers of the resource classes that amounts are read from; `None` for a class that does
/// not exist.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResourceClasses {
    vcpu: Option<ClassId>,
    pcpu: Option<ClassId>,
    memory_mb: Option<ClassId>,
    disk_gb: Option<ClassId>,
}

impl ResourceClasses {
    /// Looks the classes up in a state.
    pub(crate) fn look_up(state: &State) -> Self {
        Self {
            vcpu: state.class_id("VCPU"),
            pcpu: state.class_id("PCPU"),
            memory_mb: state.class_id("MEMORY_MB"),
            disk_gb: state.class_id("DISK_GB"),
        }
    }
}

/// Whether a resource class is one of PCI devices.
fn is_device_class(name: &str) -> bool {
    name == "PCI_DEVICE" || name == "SRIOV_NET_VF" || name.starts_with("CUSTOM_PCI_")
}

/// Adds the inventories of one provider.
fn add_inventories(
    amounts: &mut Amounts,
    state: &State,
    classes: &ResourceClasses,
    provider: &Provider,
) {
    for row in &provider.inventories {
        let class = Some(row.class);
        let total = i64::from(row.inventory.total);
        let used = i64::from(row.inventory.reserved) + row.used;
        if class == classes.vcpu || class == classes.pcpu {
            // One ratio is used for all CPUs: that of VCPU if the host has an inventory of it.
            if class == classes.vcpu || amounts.cpu_ratio == 0.0 {
                amounts.cpu_ratio = row.inventory.allocation_ratio;
            }
            amounts.vcpus_total += total;
            amounts.vcpus_used += used;
        } else if class == classes.memory_mb {
            amounts.ram_ratio = row.inventory.allocation_ratio;
            amounts.ram_total_mb += total;
            amounts.ram_free_mb += total - used;
        } else if class == classes.disk_gb {
            amounts.disk_ratio = row.inventory.allocation_ratio;
            amounts.disk_total_gb += total;
            amounts.disk_free_mb += (total - used) * 1024;
            amounts.disk_used_mb += used * 1024;
        } else if is_device_class(state.class_name(row.class)) {
            amounts.devices_free += total - used;
        }
    }
}
