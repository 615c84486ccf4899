//! `MetricsFilter`: the host has every metric that has a ratio in `[metrics] weight_setting`.

use std::borrow::Cow;

use super::filter::Filter;
use crate::hosts::verdict::Verdict;

/// The filter as registered in [`super::ALL`].
pub(super) const FILTER: Filter = Filter {
    name: "MetricsFilter",
    is_once_per_request: false,
    runs_on_rebuild: false,
    compile: |context| {
        let lacking_hosts = context.hosts.lacking_metrics();
        Ok(Verdict::AllBut(Cow::Borrowed(lacking_hosts)))
    },
};
