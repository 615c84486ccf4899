//! The platform of a host: its hardware and hypervisor.

use serde::{Deserialize, Serialize};

/// The hardware and the hypervisor of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Platform {
    /// The hypervisor or service that runs the instances: `QEMU`, `ironic`, …
    pub hypervisor_type: Option<String>,
    /// The hypervisor's version as one number: 6002001 for 6.2.1.
    pub hypervisor_version: Option<i32>,
    /// The CPU's description, a JSON object as text.
    pub cpu_info: Option<String>,
    /// The kinds of instances that the host can run: architecture, hypervisor type and VM mode (`hvm`, `xen`, …) of
    /// each.
    pub supported_instances: Vec<[String; 3]>,
}
