//! What a request is translated to.

use super::numa::GuestTopology;
use super::resource_request::ResourceRequest;
use super::rule::CandidateRule;
use crate::error::Warning;

/// The result of translating a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Translation {
    /// The groups to request from placement.
    pub request: ResourceRequest,
    /// The same with VCPU in place of PCPU, searched when the first has no candidates.
    pub fallback: Option<ResourceRequest>,
    /// The guest's NUMA cells, where it has any.
    pub numa: Option<GuestTopology>,
    /// The suffixes of the groups that are PCI devices.
    pub pci_groups: Vec<String>,
    /// Rules for candidates that a query cannot express.
    pub rules: Vec<CandidateRule>,
    /// Parts of the request that were ignored.
    pub warnings: Vec<Warning>,
}
