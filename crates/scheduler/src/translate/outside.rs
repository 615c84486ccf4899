//! Groups of resources that do not come from the flavor: ports, devices, accelerators.

use std::collections::BTreeSet;

use crate::request::RequestGroup;

/// A group from outside the flavor, and the name of its field in the request.
pub(super) struct Outside {
    pub(super) group: RequestGroup,
    pub(super) field: String,
}

/// All groups from outside the flavor.
#[derive(Default)]
pub(super) struct OutsideGroups {
    pub(super) groups: Vec<Outside>,
    /// Sets of their suffixes for `same_subtree`.
    pub(super) same_subtree: Vec<BTreeSet<String>>,
}
