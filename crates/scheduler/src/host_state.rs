//! What is known of a host besides its inventories: is it up, how busy is it, what runs on it.
//!
//! This is *soft* state: it comes from the host's agent and is lost without harm, because the agent
//! says it again. Capacity and usage are not part of it: they are placement's, and are read from
//! there, so nothing is counted twice.
//!
//! A [`HostUpdate`] is the only thing that changes it.

use std::collections::BTreeMap;
use std::sync::Arc;

use placewright_placement::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::platform::Platform;

/// The names and addresses of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostNames {
    /// The name of the service that looks after the host. One service may look after many nodes.
    pub service_host: String,
    /// The name of the node: that of the root provider.
    pub node: String,
    /// The cell that the host belongs to.
    pub cell: Uuid,
    /// Its address, as text.
    pub ip: Option<String>,
    /// The name that the hypervisor has for itself.
    pub hypervisor_hostname: Option<String>,
}

/// What hardly ever changes about a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostFacts {
    /// Its names and addresses.
    pub names: HostNames,
    /// Its hardware and hypervisor.
    pub platform: Platform,
    /// Whatever else the host says of itself, by name.
    pub stats: BTreeMap<String, String>,
}

/// How busy a host is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Load {
    /// Instances that are being built, resized, rebuilt, copied, rescued or unshelved.
    pub io_ops: u32,
    /// Builds under way.
    pub running_builds: u32,
    /// Builds that failed since the last one that did not.
    pub failed_builds: u32,
}

/// One measured number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Its name: `cpu.user.percent`.
    pub name: String,
    /// Its value.
    pub value: f64,
}

/// An instance on a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InstanceReport {
    /// Its UUID.
    pub uuid: Uuid,
    /// The server group that it is a member of.
    pub group: Option<Uuid>,
    /// The properties of the image that it runs: name and value as text.
    pub image_properties: BTreeMap<String, String>,
}

/// Everything that an agent knows of its host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostReport {
    /// What hardly ever changes.
    pub facts: HostFacts,
    /// How busy it is.
    pub load: Load,
    /// What is measured.
    pub metrics: Vec<Metric>,
    /// What runs on it.
    pub instances: Vec<InstanceReport>,
    /// Why no new instance may come, if none may.
    pub disabled: Option<String>,
    /// Whether somebody said that it is down, whatever it says itself.
    pub is_forced_down: bool,
}

/// A change of a host's soft state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostUpdate {
    /// Everything: the first thing an agent sends, and what it sends after a gap.
    Full(Box<HostReport>),
    /// It is still there.
    Alive,
    /// Something changed that hardly ever does.
    Facts(Box<HostFacts>),
    /// How busy it is now.
    Load(Load),
    /// What is measured now; replaces all earlier metrics.
    Metrics(Vec<Metric>),
    /// An instance came, and how busy the host is with it.
    InstanceCame(Box<InstanceReport>, Load),
    /// An instance went, and how busy the host is without it.
    InstanceWent(Uuid, Load),
    /// New instances may not come for this reason; may come again if there is none.
    Disabled(Option<String>),
    /// Whether somebody said that it is down, whatever it says itself.
    ForcedDown(bool),
    /// It is no host any more.
    Gone,
}

/// An update with its place in the stream of one agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NumberedUpdate {
    /// Grows with every start of the agent.
    pub incarnation: u64,
    /// Counts the agent's updates since it started, from 1, without gaps.
    pub sequence: u64,
    /// The change.
    pub update: HostUpdate,
}

/// What became of a numbered update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// It is part of the state now.
    Applied,
    /// It, or something newer, was there already.
    Stale,
    /// Something before it is missing. Nothing changed; the agent must send everything.
    Gap,
}

/// The soft state of one host.
#[derive(Clone, Debug, Default)]
pub struct HostState {
    /// The compute node's UUID: that of its root provider.
    pub uuid: Uuid,
    /// Its names and addresses.
    pub names: HostNames,
    /// Its hardware and hypervisor; hosts of one make share it.
    pub platform: Arc<Platform>,
    /// Whatever else the host says of itself, by name.
    pub stats: BTreeMap<String, String>,
    /// How busy it is.
    pub load: Load,
    /// What is measured, by name.
    pub metrics: Vec<Metric>,
    /// Why no new instance may come, if none may.
    pub disabled: Option<String>,
    /// Whether somebody said that it is down.
    pub is_forced_down: bool,
    /// When it was last heard of.
    pub heard_at: Timestamp,
    /// The last update taken from the agent's stream: incarnation and sequence.
    pub position: (u64, u64),
    /// What runs on it or was sent to it, by UUID.
    pub instances: BTreeMap<Uuid, HostInstance>,
}

/// An instance, as its host's state keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostInstance {
    /// The server group that it is a member of.
    pub group: Option<Uuid>,
    /// Whether a claim put it here and the agent has not spoken of it yet.
    pub is_expected: bool,
    /// Its image properties, as numbers of the table's dictionary; in rising order.
    pub(crate) properties: Box<[u32]>,
}

impl HostState {
    /// How many instances were sent here of which the agent has not spoken yet.
    #[must_use]
    pub fn expected_count(&self) -> u32 {
        let expected = self
            .instances
            .values()
            .filter(|instance| instance.is_expected);
        u32::try_from(expected.count()).unwrap_or(u32::MAX)
    }

    /// A metric's value.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<f64> {
        // The last of several with one name counts, as in a dictionary built from the list.
        let found = self.metrics.iter().rfind(|metric| metric.name == name);
        found.map(|metric| metric.value)
    }

    /// Whether an update comes next in the agent's stream.
    #[must_use]
    pub fn receive(&self, numbered: &NumberedUpdate) -> Receipt {
        let (incarnation, sequence) = self.position;
        let is_full = matches!(numbered.update, HostUpdate::Full(_));
        if (numbered.incarnation, numbered.sequence) <= (incarnation, sequence) {
            Receipt::Stale
        } else if is_full
            || (numbered.incarnation == incarnation && numbered.sequence == sequence + 1)
        {
            Receipt::Applied
        } else {
            Receipt::Gap
        }
    }
}
