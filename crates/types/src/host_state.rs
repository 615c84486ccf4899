//! The soft state of a host: whether it is up, its load, its instances, and facts about it.
//!
//! The agent of the host reports this state, and reports all of it anew when a receiver has missed an update. Capacity
//! and usage are not part of the state, because placement has them.
//!
//! The state is changed only by [`HostUpdate`]s, which agents number so that a lost one is detected.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::platform::Platform;

/// The versions of the compute service that begin to do something new, in rising order. Others may rely on what a
/// version brings only once no compute service of the cell has an earlier version.
pub const SERVICE_VERSIONS: [u32; 1] = [OWNER_TRAIT_SINCE];

/// The version of this release's compute service: the last one of [`SERVICE_VERSIONS`].
pub const SERVICE_VERSION: u32 = SERVICE_VERSIONS[SERVICE_VERSIONS.len() - 1];

/// The first version of the compute service that sets [`OWNER_TRAIT`]; the number is Nova's.
pub const OWNER_TRAIT_SINCE: u32 = 73;

/// The trait of the providers that belong to the compute service, and not to another service of the same host.
pub const OWNER_TRAIT: &str = "OWNER_NOVA";

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
    /// The IP address of the host, as text.
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
    /// The version of the compute service that manages the host. The service reports it once it has written to
    /// placement what the version brings, such as [`OWNER_TRAIT`]. Before that it reports 0, as earlier releases do.
    #[serde(skip_serializing_if = "is_zero")]
    pub service_version: u32,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The load of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Load {
    /// The number of operations under way on the guests of the host, except removals.
    pub io_ops: u32,
    /// The number of builds in progress on the host.
    pub running_builds: u32,
    /// The number of builds that failed in a row since the last successful one.
    pub failed_builds: u32,
}

/// The latest value of a metric, such as CPU utilisation.
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
    /// The server group that the instance is a member of.
    pub group: Option<Uuid>,
    /// The properties of the image that the instance runs: name and value as text.
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
    /// The metrics of the host.
    pub metrics: Vec<Metric>,
    /// All instances on the host.
    pub instances: Vec<InstanceReport>,
    /// Why the host is disabled for new instances; `None` if it is enabled.
    pub disabled: Option<String>,
    /// Whether the host counts as down although its agent reports. An agent of a cell sends false. Control replaces it
    /// before the scheduler applies the report: true also if an operator has forced the host down, or its cell reports
    /// its agent as silent.
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
    /// The metrics; they replace all earlier ones.
    Metrics(Vec<Metric>),
    /// An instance was added, with the load that includes it.
    InstanceCame(Box<InstanceReport>, Load),
    /// An instance was removed, with the load without it.
    InstanceWent(Uuid, Load),
    /// The host was disabled for this reason, or enabled again (`None`).
    Disabled(Option<String>),
    /// Whether the host counts as down although its agent reports; see [`HostReport::is_forced_down`].
    ForcedDown(bool),
    /// The host no longer exists.
    Gone,
}

/// An update with its position in the stream of updates of a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NumberedUpdate {
    /// The number of the stream of updates; it increases with each stream that the agent begins.
    pub incarnation: u64,
    /// The number of the update in its stream, counted from 1 without gaps.
    pub sequence: u64,
    /// The update at this position.
    pub update: HostUpdate,
}

impl NumberedUpdate {
    /// The outcome of this update for a receiver whose last applied update has this incarnation and this sequence.
    #[must_use]
    pub fn receipt_after(&self, (incarnation, sequence): (u64, u64)) -> Receipt {
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
