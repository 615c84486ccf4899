//! The soft state of a host in the scheduler.

use std::collections::BTreeMap;
use std::sync::Arc;

use placewright_placement::Timestamp;
use uuid::Uuid;

pub use placewright_types::host_state::*;

use crate::hosts::platform::Platform;

/// The soft state of one host.
#[derive(Clone, Debug, Default)]
pub struct HostState {
    /// The UUID of the compute node, which is also that of its root provider.
    pub uuid: Uuid,
    /// The names, cell and address of the host; shared with the answers that name it.
    pub names: Arc<HostNames>,
    /// The hardware and hypervisor, shared by all hosts of the platform.
    pub platform: Arc<Platform>,
    /// Further statistics that the host reports, by name.
    pub stats: BTreeMap<String, String>,
    /// The version of the host's compute service; 0 if the service reported none.
    pub service_version: u32,
    /// The load that the agent reported last.
    pub load: Load,
    /// The metrics, in the order of the report.
    pub metrics: Vec<Metric>,
    /// The reason why the host is disabled; `None` if it is enabled.
    pub disabled: Option<String>,
    /// Whether the host counts as down whatever it reports: an operator, its agent, or its cell because the agent is
    /// silent, declared it down.
    pub is_forced_down: bool,
    /// The time of the last update or heartbeat.
    pub reported_at: Timestamp,
    /// The incarnation and sequence of the last update that was applied.
    pub position: (u64, u64),
    /// By UUID: the instances on the host, and the pending ones.
    pub instances: BTreeMap<Uuid, HostInstance>,
    /// How many of `instances` are pending.
    pub(crate) pending_count: u32,
}

/// An instance in the state of its host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostInstance {
    /// The server group that the instance is a member of.
    pub group: Option<Uuid>,
    /// Whether the instance was claimed for this host and the agent has not reported it yet.
    pub is_pending: bool,
    /// The instance's image properties, as numbers of the table's `PropertyCounts`.
    pub(crate) properties: Box<[u32]>,
}

impl HostState {
    /// The number of pending instances.
    #[must_use]
    pub const fn pending_count(&self) -> u32 {
        self.pending_count
    }

    /// The value of a metric, if the host reports it.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<f64> {
        // Of several metrics with the same name the last counts, as in the reference.
        let last_reported = self.metrics.iter().rfind(|metric| metric.name == name);
        last_reported.map(|metric| metric.value)
    }

    /// The receipt that an update gets, without applying it. [`Receipt::Applied`] says that it is to be applied: it is
    /// the next one of the agent's stream, or a newer one with the full state.
    #[must_use]
    pub fn receipt_of(&self, numbered: &NumberedUpdate) -> Receipt {
        numbered.receipt_after(self.position)
    }
}
