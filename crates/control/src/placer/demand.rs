//! The demand that the placer is to satisfy: instances, and the constraints on their hosts.

use std::sync::Arc;

use placewright_placement::{ConsumerUuid, IntentRule};
use placewright_scheduler::host_state::InstanceReport;
use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::select::rules::hard_topology_rules;
use uuid::Uuid;

/// Instances that need hosts of the same kind, and are claimed together.
#[derive(Clone, Debug)]
pub struct Demand {
    /// The request that each instance makes.
    pub request: Arc<RequestSpec>,
    /// The instances; at least one, each once.
    pub instances: Vec<Uuid>,
    /// How many of the instances must find a host, from 1 to all; with fewer, nothing is claimed.
    pub least: usize,
    /// The server group that the instances are members of.
    pub group: Option<Uuid>,
    /// How many alternates each instance gets: further hosts in the cell of its host.
    pub alternate_count: usize,
    /// If set, only hosts of this cell are considered.
    pub cell: Option<Uuid>,
    /// The slots of hosts that are excluded.
    pub excluded_slots: Vec<u32>,
    /// Whether the instances are to move: they exist, and stay on their hosts meanwhile.
    pub is_move: bool,
    /// Whether the scores of the hosts are wanted.
    pub explain: bool,
    /// The names or UUIDs of hosts that are explained besides the best ones, whatever their rank.
    pub explain_hosts: Vec<String>,
}

impl Demand {
    /// New instances, all of which must find a host, anywhere and without alternates.
    #[must_use]
    pub fn new(request: Arc<RequestSpec>, instances: Vec<Uuid>) -> Self {
        Self {
            group: request.instance_group.as_ref().map(|group| group.uuid),
            least: instances.len(),
            request,
            instances,
            alternate_count: 0,
            cell: None,
            excluded_slots: Vec::new(),
            is_move: false,
            explain: false,
            explain_hosts: Vec::new(),
        }
    }

    /// Whether rules between the hosts of instances may apply.
    pub(super) fn has_rules(&self) -> bool {
        self.group.is_some() || !self.request.topology_rules.is_empty()
    }

    /// The hard topology rules of an instance, as a claim has to satisfy them.
    #[must_use]
    pub fn rules_of(&self, instance: Uuid) -> Vec<IntentRule> {
        let itself = ConsumerUuid::from_uuid(instance);
        let mut rules: Vec<IntentRule> = hard_topology_rules(&self.request).collect();
        for rule in &mut rules {
            rule.others.retain(|other| *other != itself);
        }
        rules
    }

    /// An instance as its host's agent will report it.
    pub(super) fn report(&self, instance: Uuid) -> InstanceReport {
        let image = self.request.image.iter();
        let properties = image.flat_map(|image| image.properties.iter());
        InstanceReport {
            uuid: instance,
            group: self.group,
            image_properties: properties
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        }
    }
}
