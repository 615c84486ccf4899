//! The options of the translation.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::request::device::{PciDeviceSpec, PciNumaPolicy};

/// PCI aliases by name.
pub type PciAliases = BTreeMap<String, PciAlias>;

/// The devices that a PCI alias stands for in flavors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PciAlias {
    /// The NUMA affinity of the devices, unless flavor or image override it.
    #[serde(default)]
    pub numa_policy: PciNumaPolicy,
    /// The alternative descriptions of acceptable devices.
    pub spec: Vec<PciDeviceSpec>,
}

/// The options of the translation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TranslateOptions {
    /// Whether each guest NUMA cell becomes a request group, for hosts whose NUMA nodes are
    /// providers with inventories of VCPU, PCPU and MEMORY_MB. A guest with one cell also fits
    /// hosts without such providers.
    pub numa_in_placement: bool,
    /// Whether each PCI device becomes a request group, for hosts whose devices are providers.
    pub pci_in_placement: bool,
    /// The PCI aliases that flavors can name.
    pub pci_aliases: PciAliases,
    /// Whether a request for dedicated processors has a fallback query with VCPU in place of PCPU.
    pub pcpu_fallback: bool,
    /// The `limit` in the text of the query that Nova would send to Placement. Searches of this scheduler are not
    /// limited.
    pub max_placement_results: u32,
}

/// The default of Nova's option `[scheduler]max_placement_results`.
const MAX_PLACEMENT_RESULTS: u32 = 1000;

impl Default for TranslateOptions {
    /// NUMA cells and PCI devices are request groups; dedicated processors are requested as PCPU.
    fn default() -> Self {
        Self {
            numa_in_placement: true,
            pci_in_placement: true,
            pci_aliases: PciAliases::default(),
            pcpu_fallback: false,
            max_placement_results: MAX_PLACEMENT_RESULTS,
        }
    }
}

impl TranslateOptions {
    /// Nova's defaults: filters handle NUMA cells and PCI devices, and requests for dedicated
    /// processors have a fallback.
    #[must_use]
    pub fn nova() -> Self {
        Self {
            numa_in_placement: false,
            pci_in_placement: false,
            pcpu_fallback: true,
            ..Self::default()
        }
    }
}
