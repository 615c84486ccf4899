//! Request groups that do not come from the flavor: of ports, PCI devices and accelerators.

use std::collections::BTreeSet;

use crate::request::RequestGroup;

/// A request group that does not come from the flavor.
pub(super) struct ExtraGroup {
    pub(super) group: RequestGroup,
    /// The field of the request from which the group comes, for error messages.
    pub(super) field: String,
}

/// All request groups that do not come from the flavor.
#[derive(Default)]
pub(super) struct ExtraGroups {
    pub(super) groups: Vec<ExtraGroup>,
    /// Sets of suffixes whose providers must be in one subtree.
    pub(super) same_subtree: Vec<BTreeSet<String>>,
}
