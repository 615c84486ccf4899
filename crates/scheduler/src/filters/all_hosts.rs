//! `AllHostsFilter`: every host passes.

use super::filter::Filter;
use crate::hosts::verdict::Verdict;

/// The filter as registered in [`super::ALL`].
pub(super) const FILTER: Filter = Filter {
    name: "AllHostsFilter",
    is_once_per_request: true,
    runs_on_rebuild: false,
    compile: |_| Ok(Verdict::All),
};
