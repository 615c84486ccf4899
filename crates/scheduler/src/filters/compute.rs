//! `ComputeFilter`: the host is enabled and up.

use std::borrow::Cow;

use super::filter::Filter;
use crate::hosts::verdict::Verdict;

/// The filter as registered in [`super::ALL`].
pub(super) const FILTER: Filter = Filter {
    name: "ComputeFilter",
    is_once_per_request: true,
    runs_on_rebuild: false,
    compile: |context| Ok(Verdict::Within(Cow::Borrowed(context.hosts.usable()))),
};
