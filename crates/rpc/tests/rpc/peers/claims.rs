//! What is claimed for an instance.

use placewright_conductor::{Amounts, Candidate, GroupMapping};
use uuid::Uuid;

/// A candidate with the mapping of one group.
pub(crate) fn candidate() -> Candidate {
    Candidate {
        host: super::host(),
        zone: None,
        amounts: Vec::new(),
        mappings: vec![GroupMapping {
            suffix: "_GPU".into(),
            providers: vec![Amounts {
                provider: Uuid::from_u128(6),
                resources: vec![("CUSTOM_GPU".into(), 1)],
            }],
        }],
    }
}
