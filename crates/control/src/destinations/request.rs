//! A request for destinations.

use std::sync::Arc;

use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::select::rules::hard_group_rules;
use uuid::Uuid;

use super::offered::CommonClaimData;
use crate::placer::Demand;

/// A request for hosts. Its caller has validated it.
#[derive(Clone, Debug)]
pub struct DestinationsRequest {
    /// The request that each instance makes.
    pub request_spec: Arc<RequestSpec>,
    /// The instances: at least one, each once.
    pub instances: Vec<Uuid>,
    /// How many alternates each instance is to have.
    pub alternate_count: usize,
    /// Whether the selected hosts are claimed.
    pub with_claim: bool,
    /// How many instances must find a host, from 1 to all.
    pub least: usize,
    /// Whether the response includes the scores of the best hosts.
    pub explain: bool,
    /// The names or UUIDs of hosts that are explained besides the best ones, whatever their rank.
    pub explain_hosts: Vec<String>,
}

impl DestinationsRequest {
    /// The request in the form that the placer takes.
    pub(super) fn demand(&self) -> Demand {
        let mut demand = Demand::new(Arc::clone(&self.request_spec), self.instances.clone());
        demand.least = self.least;
        demand.alternate_count = self.alternate_count;
        demand.explain = self.explain;
        demand.explain_hosts.clone_from(&self.explain_hosts);
        demand
    }

    /// The data that all claims for the request's instances have in common, whether they are made now or later.
    pub(super) fn claim_data(&self) -> CommonClaimData {
        let request = &self.request_spec;
        let group = request.instance_group.as_ref();
        let image = request.image.as_ref();
        let properties = image.into_iter().flat_map(|image| image.properties.iter());
        CommonClaimData {
            project: request.project_id.clone(),
            user: request.user_id.clone(),
            group: group.map(|group| (group.uuid, hard_group_rules(group))),
            image_properties: properties
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        }
    }
}
