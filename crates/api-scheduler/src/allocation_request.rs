//! Allocation requests in the JSON form of the Placement API.

use std::borrow::Cow;
use std::collections::BTreeMap;

use placewright_placement::AllocationRequest;
use serde::{Serialize, Serializer};
use uuid::Uuid;

/// The amounts to allocate, by provider, and the providers of each group, as `GET
/// /allocation_candidates` shows them.
pub(crate) struct AllocationRequestBody<'a> {
    pub(crate) allocations: &'a [AllocationRequest],
    /// Empty for a request without suffixed groups.
    pub(crate) mappings: Cow<'a, [(String, Vec<Uuid>)]>,
}

impl Serialize for AllocationRequestBody<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Default, Serialize)]
        struct Resources<'a> {
            resources: BTreeMap<&'a str, i64>,
        }
        #[derive(Serialize)]
        struct Body<'a> {
            allocations: BTreeMap<Uuid, Resources<'a>>,
            #[serde(skip_serializing_if = "BTreeMap::is_empty")]
            mappings: BTreeMap<&'a str, &'a [Uuid]>,
        }
        let mut allocations: BTreeMap<Uuid, Resources<'_>> = BTreeMap::new();
        for request in self.allocations {
            let resources = &mut allocations.entry(request.provider).or_default().resources;
            for (class, amount) in &request.resources {
                *resources.entry(class).or_default() += amount;
            }
        }
        let mappings = self.mappings.iter();
        let mappings = mappings.map(|(group, providers)| (group.as_str(), providers.as_slice()));
        let body = Body {
            allocations,
            mappings: mappings.collect(),
        };
        body.serialize(serializer)
    }
}
