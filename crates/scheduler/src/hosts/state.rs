//! The soft state of a host as the scheduler holds it, and the updates that change it.

use std::collections::BTreeMap;
use std::sync::Arc;

use placewright_placement::Timestamp;
use uuid::Uuid;

pub use placewright_types::host_state::*;

use crate::hosts::platform::Platform;

/// The soft state of one host.
#[derive(Clone, Debug, Default)]
pub struct HostState {
    /// The compute node's UUID: that of its root provider.
    pub uuid: Uuid,
    /// Names, cell and address of the host.
    pub names: HostNames,
    /// Hardware and hypervisor; shared between all hosts of one platform.
    pub platform: Arc<Platform>,
    /// Further statistics that the host reports, by name.
    pub stats: BTreeMap<String, String>,
    /// The load that the agent reported last.
    pub load: Load,
    /// All measured values, in the order of the report.
    pub metrics: Vec<Metric>,
    /// The reason why no new instance may come; `None` if the host is enabled.
    pub disabled: Option<String>,
    /// Whether an operator declared it down.
    pub is_forced_down: bool,
    /// The time of the last update or heartbeat.
    pub heard_at: Timestamp,
    /// The last update that was applied: incarnation and sequence.
    pub position: (u64, u64),
    /// Instances that it has or that are expected on it, by UUID.
    pub instances: BTreeMap<Uuid, HostInstance>,
}

/// An instance in the state of its host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostInstance {
    /// The server group that it is a member of.
    pub group: Option<Uuid>,
    /// Whether it was claimed for this host and the agent has not reported it yet.
    pub is_pending: bool,
    /// Its image properties, as sorted numbers of the table's dictionary.
    pub(crate) properties: Box<[u32]>,
}

impl HostState {
    /// The number of expected instances that the agent has not reported yet.
    #[must_use]
    pub fn pending_count(&self) -> u32 {
        let expected = self
            .instances
            .values()
            .filter(|instance| instance.is_pending);
        u32::try_from(expected.count()).unwrap_or(u32::MAX)
    }

    /// The value of a metric, if the host reports it.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<f64> {
        // Of several metrics with one name the last counts, as in a dictionary built from the
        // list.
        let found = self.metrics.iter().rfind(|metric| metric.name == name);
        found.map(|metric| metric.value)
    }

    /// Whether an update is the next one of the agent's stream.
    #[must_use]
    pub fn receive(&self, numbered: &NumberedUpdate) -> Receipt {
        numbered.after(self.position)
    }
}
