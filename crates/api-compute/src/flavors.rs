//! Flavors: `/flavors` and the paths below it.

pub(crate) mod access;
pub(crate) mod catalog;
pub(crate) mod extra_specs;

use placewright_auth::Rule;
use placewright_conductor::ControlState;
use placewright_conductor::super_conductor::{Change, Command, Flavor};
use placewright_http::ApiResult;

use crate::error;
use crate::routed_request::RoutedRequest;

/// Finds a flavor that the caller may see.
pub(crate) fn find<'s>(
    call: &RoutedRequest<'_>,
    control: &'s ControlState,
    id: &str,
) -> ApiResult<&'s Flavor> {
    let flavor = control.conductor.flavors().get(id);
    flavor
        .filter(|flavor| is_visible(call, flavor))
        .ok_or_else(|| error::missing("flavor", id))
}

/// Whether the caller may see and use a flavor.
pub(crate) fn is_visible(call: &RoutedRequest<'_>, flavor: &Flavor) -> bool {
    flavor.is_public
        || flavor
            .projects
            .iter()
            .any(|project| project == call.project())
        || call.is_allowed(Rule::FlavorAccessList)
}

/// Replaces a flavor by what `change` makes of it, with a retry after concurrent changes.
async fn replace(
    call: &RoutedRequest<'_>,
    change: impl Fn(&mut Flavor) -> ApiResult<()> + Send + Sync,
) -> ApiResult<Flavor> {
    let id = call.parameter("flavor_id");
    call.change(|control, _| {
        let before = find(call, control, id)?;
        let mut after = before.clone();
        change(&mut after)?;
        let command = Command::Guarded {
            expected: vec![Change::Flavor(
                id.to_owned(),
                Some(Box::new(before.clone())),
            )],
            command: Box::new(Command::SetFlavor {
                id: id.to_owned(),
                flavor: Some(after.clone()),
            }),
        };
        Ok((command, after))
    })
    .await
}
