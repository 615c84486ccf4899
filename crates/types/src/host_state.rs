//! The soft state of a host, besides its inventories: whether it is up, its load, its instances.
//!
//! It comes from the host's agent and may be lost without harm, because the agent reports it
//! again. Capacity and usage are not part of it: they are read from placement, so nothing is
//! counted twice.
//!
//! It is changed by [`HostUpdate`]s only, which agents number so that a lost one is noticed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::platform::Platform;

/// The names and addresses of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostNames {
    /// The name of the compute service that manages the host. One service may manage many nodes.
    pub service_host: String,
    /// The name of the node, which is also that of its root provider.
    pub node: String,
    /// The cell that the host belongs to.
    pub cell: Uuid,
    /// Its address, as text.
    pub ip: Option<String>,
    /// The name that the hypervisor reports for itself.
    pub hypervisor_hostname: Option<String>,
}

/// The part of a report that rarely changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostFacts {
    /// Names, cell and address of the host.
    pub names: HostNames,
    /// Hardware and hypervisor of the host.
    pub platform: Platform,
    /// Further statistics that the host reports, by name.
    pub stats: BTreeMap<String, String>,
}

/// The load of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Load {
    /// Instances that are being built, resized, rebuilt, copied, rescued or unshelved.
    pub io_ops: u32,
    /// Builds in progress on the host.
    pub running_builds: u32,
    /// Consecutive failed builds since the last successful one.
    pub failed_builds: u32,
}

/// A measured value, such as CPU utilisation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// The metric's name, such as `cpu.user.percent`.
    pub name: String,
    /// The last measured value, in the metric's own unit.
    pub value: f64,
}

/// An instance on a host, as its agent reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InstanceReport {
    /// The UUID of the instance.
    pub uuid: Uuid,
    /// The server group that it is a member of.
    pub group: Option<Uuid>,
    /// The properties of the image that it runs: name and value as text.
    pub image_properties: BTreeMap<String, String>,
}

/// The complete report of an agent on one of its hosts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostReport {
    /// Names, platform and statistics.
    pub facts: HostFacts,
    /// The load at the time of the report.
    pub load: Load,
    /// All values that the agent measures.
    pub metrics: Vec<Metric>,
    /// All instances on the host.
    pub instances: Vec<InstanceReport>,
    /// The reason why no new instance may come; `None` if the host is enabled.
    pub disabled: Option<String>,
    /// Whether an operator declared it down, whatever the agent reports.
    pub is_forced_down: bool,
}

/// A change of a host's soft state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostUpdate {
    /// The complete state: the first update of an agent, and the one after a gap.
    Full(Box<HostReport>),
    /// A heartbeat without a change.
    Alive,
    /// The facts changed; these are the new ones.
    Facts(Box<HostFacts>),
    /// The load changed; this is the new one.
    Load(Load),
    /// The measured values; they replace all earlier ones.
    Metrics(Vec<Metric>),
    /// An instance was added, with the load that includes it.
    InstanceCame(Box<InstanceReport>, Load),
    /// An instance was removed, with the load without it.
    InstanceWent(Uuid, Load),
    /// The host was disabled for this reason, or enabled again (`None`).
    Disabled(Option<String>),
    /// Whether an operator declared it down, whatever the agent reports.
    ForcedDown(bool),
    /// The host no longer exists.
    Gone,
}

/// An update with its position in the stream of one agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NumberedUpdate {
    /// Increases with every start of the agent.
    pub incarnation: u64,
    /// Counts the agent's updates since it started, from 1, without gaps.
    pub sequence: u64,
    /// The update at this position.
    pub update: HostUpdate,
}

impl NumberedUpdate {
    /// Whether this update may be applied to a state whose last applied update had this incarnation
    /// and this sequence.
    #[must_use]
    pub fn after(&self, (incarnation, sequence): (u64, u64)) -> Receipt {
        let is_full = matches!(self.update, HostUpdate::Full(_));
        if (self.incarnation, self.sequence) <= (incarnation, sequence) {
            Receipt::Stale
        } else if is_full || (self.incarnation == incarnation && self.sequence == sequence + 1) {
            Receipt::Applied
        } else {
            Receipt::Gap
        }
    }
}

/// The outcome of a numbered update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// The update was applied.
    Applied,
    /// The update, or a newer one, had been applied before.
    Stale,
    /// An update before it is missing. Nothing changed; the agent must send the complete state.
    Gap,
}
