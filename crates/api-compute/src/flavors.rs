//! Flavors: `/flavors` and the paths below it.

pub(crate) mod access;
pub(crate) mod catalog;
pub(crate) mod extra_specs;

use placewright_auth::Rule;
use placewright_conductor::ControlState;
use placewright_conductor::super_conductor::{Change, Command, Flavor};
use placewright_http::ApiResult;
use placewright_scheduler::flavor::Flavor as RequestedFlavor;

use crate::error;
use crate::routed_request::RoutedRequest;

/// Finds a flavor that the caller may see.
pub(crate) fn find<'s>(
    request: &RoutedRequest<'_>,
    control: &'s ControlState,
    id: &str,
) -> ApiResult<&'s Flavor> {
    let flavor = control.conductor.flavors().get(id);
    flavor
        .filter(|flavor| is_visible(request, flavor))
        .ok_or_else(|| error::missing("flavor", id))
}

/// Whether the caller may see and use a flavor.
pub(crate) fn is_visible(request: &RoutedRequest<'_>, flavor: &Flavor) -> bool {
    flavor.is_public
        || flavor
            .projects
            .iter()
            .any(|project| project == request.project())
        || request.is_allowed(Rule::FlavorAccessList)
}

/// A flavor in the form that the scheduler needs.
pub(crate) fn for_scheduler(flavor: &Flavor) -> RequestedFlavor {
    RequestedFlavor {
        name: flavor.name.clone(),
        vcpus: flavor.vcpus,
        memory_mb: flavor.memory_mb,
        root_gb: flavor.root_gb,
        ephemeral_gb: flavor.ephemeral_gb,
        swap_mb: flavor.swap_mb,
        extra_specs: flavor.extra_specs.clone(),
    }
}

/// Changes the flavor of the path, and returns it as changed. Retries after concurrent changes.
async fn change_flavor(
    request: &RoutedRequest<'_>,
    change: impl Fn(&mut Flavor) -> ApiResult<()> + Send + Sync,
) -> ApiResult<Flavor> {
    let id = request.parameter("flavor_id");
    request
        .submit_with_retry(|control, _| {
            let before = find(request, control, id)?;
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
