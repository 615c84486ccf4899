//! The result of translating a request.

use super::numa::GuestTopology;
use super::resource_request::ResourceRequest;
use super::rule::CandidateRule;
use crate::error::Warning;

/// A request in placement's terms, with the conditions that a query to placement cannot express.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Translation {
    /// The groups to request from placement.
    pub request: ResourceRequest,
    /// As `request`, with VCPU in place of PCPU, for the fallback query.
    pub fallback: Option<ResourceRequest>,
    /// The guest's NUMA topology, if it has one.
    pub numa: Option<GuestTopology>,
    /// The suffixes of the groups of PCI devices.
    pub pci_groups: Vec<String>,
    /// Rules for allocation candidates that a query cannot express.
    pub rules: Vec<CandidateRule>,
    /// Further rules, each for the hosts of the cells in which no compute service has a version before this one.
    pub rules_since: Vec<(u32, CandidateRule)>,
    /// Warnings about parts of the request that were ignored.
    pub warnings: Vec<Warning>,
}

impl Translation {
    /// Whether there are rules that no query expresses, for whichever hosts.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        !self.rules.is_empty() || !self.rules_since.is_empty()
    }
}
