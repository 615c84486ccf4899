//! `IsolatedHostsFilter`: some hosts are dedicated to some images.

use super::filter::Filter;
use crate::hosts::verdict::Verdict;

/// The filter as registered in [`super::ALL`].
pub(super) const FILTER: Filter = Filter {
    name: "IsolatedHostsFilter",
    is_once_per_request: true,
    runs_on_rebuild: true,
    compile: |context| {
        let config = context.config;
        let is_strict = config.restrict_isolated_hosts_to_isolated_images;
        let isolated_hosts = || {
            let names = config.isolated_hosts.iter();
            names.flat_map(|name| context.hosts.nodes_of(name))
        };
        let image = context.request.image.as_ref();
        let image = image.and_then(|image| image.id.as_ref());
        let is_isolated = image.is_some_and(|image| config.isolated_images.contains(image));
        Ok(if is_isolated {
            Verdict::only(isolated_hosts())
        } else if is_strict {
            Verdict::all_but(isolated_hosts())
        } else {
            Verdict::All
        })
    },
};
