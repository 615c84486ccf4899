//! `DifferentHostFilter` and `SameHostFilter`: away from, or next to, instances that a hint names.

use uuid::Uuid;

use super::{Context, Filter};
use crate::verdict::Verdict;

/// `DifferentHostFilter`: none of the instances of the hint `different_host` is there.
pub(super) const DIFFERENT: Filter = Filter {
    name: "DifferentHostFilter",
    is_once_per_request: true,
    runs_on_rebuild: false,
    compile: |context| {
        Ok(Verdict::all_but(hosts_of_instances(
            context,
            "different_host",
        )))
    },
};

/// `SameHostFilter`: one of the instances of the hint `same_host` is there.
pub(super) const SAME: Filter = Filter {
    name: "SameHostFilter",
    is_once_per_request: true,
    runs_on_rebuild: false,
    compile: |context| {
        // An empty text is no wish.
        let is_void = match context.request.hints("same_host") {
            [] => true,
            [only] => only.is_empty(),
            _ => false,
        };
        if is_void {
            return Ok(Verdict::All);
        }
        Ok(Verdict::only(hosts_of_instances(context, "same_host")))
    },
};

/// The hosts of the instances that a hint names; what is no UUID is the name of no instance.
fn hosts_of_instances(context: &Context<'_>, hint: &str) -> impl Iterator<Item = u32> {
    let uuids = context.request.hints(hint).iter();
    let uuids = uuids.filter_map(|text| text.parse::<Uuid>().ok());
    uuids.flat_map(|uuid| context.hosts.hosts_of(uuid).iter().copied())
}
