//! The request body of `POST /v1/destinations`.

use placewright_types::request::RequestSpec;
use serde::{Serialize, Serializer};
use uuid::Uuid;

/// A request for hosts for one or more equal instances.
#[derive(Clone, Debug, Serialize)]
pub struct DestinationsRequest {
    /// The requirements of each instance.
    pub request: RequestSpec,
    /// The UUIDs of the instances: 1 to 1000.
    pub instances: Vec<Uuid>,
    /// How many alternate hosts to return for each instance, at most 100.
    pub alternates: usize,
    /// Whether the selected hosts are claimed.
    pub claim: bool,
    /// How many instances must find a host.
    pub minimum: Minimum,
    /// Whether to explain the selection: see
    /// [`InstanceResult::explanation`](crate::InstanceResult::explanation).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub explain: bool,
    /// Further hosts to explain, by name or UUID, whatever their ranks; at most 10.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub explain_hosts: Vec<String>,
}

/// How many instances must find a host; with fewer, nothing is claimed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Minimum {
    /// Every instance must find a host.
    #[default]
    All,
    /// At least this many instances must find a host.
    AtLeast(usize),
}

impl DestinationsRequest {
    /// A request that claims hosts for all instances or for none.
    #[must_use]
    pub fn claim(request: RequestSpec, instances: Vec<Uuid>) -> Self {
        Self {
            request,
            instances,
            alternates: 0,
            claim: true,
            minimum: Minimum::All,
            explain: false,
            explain_hosts: Vec::new(),
        }
    }

    /// A request that selects hosts and claims nothing.
    #[must_use]
    pub fn without_claim(request: RequestSpec, instances: Vec<Uuid>) -> Self {
        Self {
            claim: false,
            ..Self::claim(request, instances)
        }
    }

    /// Sets the number of alternates for each instance.
    #[must_use]
    pub fn with_alternates(self, alternates: usize) -> Self {
        Self { alternates, ..self }
    }

    /// Sets how many instances must find a host.
    #[must_use]
    pub fn with_minimum(self, minimum: Minimum) -> Self {
        Self { minimum, ..self }
    }

    /// Requests an explanation of each selection. The scheduler computes all scores anew for it,
    /// which takes longer in a large fleet.
    #[must_use]
    pub fn with_explanation(self) -> Self {
        Self {
            explain: true,
            ..self
        }
    }

    /// Requests an explanation of each selection that includes these hosts, by name or UUID: their
    /// ranks, or what excluded them.
    #[must_use]
    pub fn with_explained_hosts(self, hosts: Vec<String>) -> Self {
        Self {
            explain_hosts: hosts,
            ..self.with_explanation()
        }
    }
}

impl Serialize for Minimum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_str("all"),
            Self::AtLeast(minimum) => minimum.serialize(serializer),
        }
    }
}
