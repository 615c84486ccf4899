//! Flavors: the size of an instance, and extra specs for all other requirements.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::text;

/// A flavor as the request for an instance contains it: a copy, which stays the same when the flavor is deleted or
/// replaced in the compute API.
///
/// For example `{"name": "m1.small", "vcpus": 2, "memory_mb": 4096, "root_gb": 20}`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flavor {
    /// The flavor's name, which some filters compare, such as `AggregateTypeAffinityFilter`.
    #[serde(default)]
    pub name: String,
    /// The number of virtual processors.
    pub vcpus: u32,
    /// Guest memory in MiB.
    pub memory_mb: u32,
    /// Root disk in GiB; ignored for instances that boot from a volume.
    #[serde(default)]
    pub root_gb: u32,
    /// Ephemeral disks in GiB.
    #[serde(default)]
    pub ephemeral_gb: u32,
    /// Swap disk in MiB.
    #[serde(default, alias = "swap")]
    pub swap_mb: u32,
    /// Extra specs: `resources:VGPU` = `1`, `hw:cpu_policy` = `dedicated` …
    #[serde(default, deserialize_with = "text::map_of_texts")]
    pub extra_specs: BTreeMap<String, String>,
}

impl Flavor {
    /// An extra spec by its key; `None` if the flavor lacks it.
    #[must_use]
    pub fn extra_spec(&self, key: &str) -> Option<&str> {
        self.extra_specs.get(key).map(String::as_str)
    }

    /// An extra spec by its key, unless it is empty.
    #[must_use]
    pub fn filled_extra_spec(&self, key: &str) -> Option<&str> {
        self.extra_spec(key).filter(|value| !value.is_empty())
    }

    /// Local disk in GiB: ephemeral disks, swap rounded up, and the root disk unless it is a volume.
    #[must_use]
    pub fn disk_gb(&self, boots_from_volume: bool) -> u64 {
        let root_gb = if boots_from_volume { 0 } else { self.root_gb };
        u64::from(self.ephemeral_gb) + u64::from(self.swap_mb.div_ceil(1024)) + u64::from(root_gb)
    }
}

/// The name of an extra spec as a field in error messages.
#[must_use]
pub fn extra_spec_field(key: &str) -> String {
    format!("flavor.extra_specs[{key:?}]")
}
