//! `ComputeFilter`: the host is enabled and was heard of lately.

use std::borrow::Cow;

use super::Filter;
use crate::verdict::Verdict;

/// The filter.
pub(super) const FILTER: Filter = Filter {
    name: "ComputeFilter",
    is_once_per_request: true,
    runs_on_rebuild: false,
    compile: |context| Ok(Verdict::Within(Cow::Borrowed(context.hosts.usable()))),
};
