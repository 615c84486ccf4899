//! Rows with mappings, which say which providers serve which request group.

use placewright_conductor::cell_conductor::{Change, Instance, Job};
use placewright_conductor::{Amounts, Candidate, GroupMapping};

use super::OTHER;

/// The mapping of a group.
pub(crate) fn group_mapping() -> GroupMapping {
    GroupMapping {
        suffix: "_GPU".into(),
        providers: vec![Amounts {
            provider: OTHER,
            resources: vec![("CUSTOM_GPU".into(), 1)],
        }],
    }
}

/// A candidate with mappings.
pub(crate) fn candidate() -> Candidate {
    Candidate {
        mappings: vec![group_mapping()],
        ..super::candidate()
    }
}

/// An instance with mappings.
pub(crate) fn instance() -> Instance {
    let instance = super::cell_changes().into_iter().find_map(|row| match row {
        Change::Instance(_, row) => row.map(|row| *row),
        _ => None,
    });
    Instance {
        mappings: vec![group_mapping()],
        ..instance.expect("the changes have an instance")
    }
}

/// A job with mappings.
pub(crate) fn job() -> Job {
    let job = super::cell_changes().into_iter().find_map(|row| match row {
        Change::Job(_, row) => row.map(|row| *row),
        _ => None,
    });
    Job {
        origin_mappings: vec![group_mapping()],
        // The last field of the row.
        may_go_elsewhere: true,
        ..job.expect("the changes have a job")
    }
}
