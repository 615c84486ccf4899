//! Names of resource classes and traits: the standard ones, and the prefix of custom ones.

/// The standard resource classes of os-resource-classes 1.1.0 in the order of their numbers.
pub const STANDARD_CLASSES: [&str; 21] = [
    "VCPU",
    "MEMORY_MB",
    "DISK_GB",
    "PCI_DEVICE",
    "SRIOV_NET_VF",
    "NUMA_SOCKET",
    "NUMA_CORE",
    "NUMA_THREAD",
    "NUMA_MEMORY_MB",
    "IPV4_ADDRESS",
    "VGPU",
    "VGPU_DISPLAY_HEAD",
    "NET_BW_EGR_KILOBIT_PER_SEC",
    "NET_BW_IGR_KILOBIT_PER_SEC",
    "PCPU",
    "MEM_ENCRYPTION_CONTEXT",
    "FPGA",
    "PGPU",
    "NET_PACKET_RATE_KILOPACKET_PER_SEC",
    "NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC",
    "NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC",
];

/// The trait of a provider that shares its resources with the other members of its aggregates.
pub const SHARING_TRAIT: &str = "MISC_SHARES_VIA_AGGREGATE";

/// The prefix of the name of every custom resource class and trait.
pub const CUSTOM_PREFIX: &str = "CUSTOM_";

/// The standard traits of os-traits 3.9.0, in alphabetical order.
pub fn standard_traits() -> impl Iterator<Item = &'static str> {
    include_str!("standard_traits.txt").lines()
}

/// Whether a name is a custom one, by its prefix.
#[must_use]
pub fn is_custom(name: &str) -> bool {
    name.starts_with(CUSTOM_PREFIX)
}

/// Whether a name is one of the standard resource classes.
#[must_use]
pub fn is_standard_class(name: &str) -> bool {
    STANDARD_CLASSES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_traits_are_all_there_and_sorted() {
        let traits: Vec<_> = standard_traits().collect();
        assert_eq!(traits.len(), 377);
        assert!(traits.is_sorted());
        assert!(traits.contains(&SHARING_TRAIT));
        assert!(!traits.iter().any(|name| is_custom(name)));
    }
}
