//! What is asked of `POST /v1/destinations`.

use placewright_scheduler::request::RequestSpec;
use serde::{Serialize, Serializer};
use uuid::Uuid;

/// Hosts for instances.
#[derive(Clone, Debug, Serialize)]
pub struct Ask {
    /// What each instance is to be.
    pub request: RequestSpec,
    /// The instances, 1 to 1000.
    pub instances: Vec<Uuid>,
    /// How many other hosts to name for each, at most 100.
    pub alternates: usize,
    /// Whether the selected hosts are claimed.
    pub claim: bool,
    /// How many instances must find a host.
    pub minimum: Minimum,
    /// Whether to say why these hosts: see [`Slot::explanation`](crate::Slot::explanation).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub explain: bool,
}

/// How many instances must find a host; with fewer, nothing is claimed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Minimum {
    /// All of them.
    #[default]
    All,
    /// This many.
    AtLeast(usize),
}

impl Ask {
    /// Claims hosts for all instances or none.
    #[must_use]
    pub fn claim(request: RequestSpec, instances: Vec<Uuid>) -> Self {
        Self {
            request,
            instances,
            alternates: 0,
            claim: true,
            minimum: Minimum::All,
            explain: false,
        }
    }

    /// Only looks: nothing changes.
    #[must_use]
    pub fn look(request: RequestSpec, instances: Vec<Uuid>) -> Self {
        Self {
            claim: false,
            ..Self::claim(request, instances)
        }
    }

    /// The same with so many alternates for each instance.
    #[must_use]
    pub fn with_alternates(self, alternates: usize) -> Self {
        Self { alternates, ..self }
    }

    /// The same where fewer instances may do.
    #[must_use]
    pub fn with_minimum(self, minimum: Minimum) -> Self {
        Self { minimum, ..self }
    }

    /// The same with the reasons for each host. Every host is weighed anew for it, so it takes longer
    /// in a large fleet.
    #[must_use]
    pub fn with_explanation(self) -> Self {
        Self {
            explain: true,
            ..self
        }
    }
}

impl Serialize for Minimum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_str("all"),
            Self::AtLeast(least) => least.serialize(serializer),
        }
    }
}
