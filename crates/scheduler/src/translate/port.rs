//! The resource requests of ports.

use super::extra_groups::{ExtraGroup, ExtraGroups};
use crate::error::BadRequest;
use crate::request::{PortResourceRequest, RequestGroup, RequestSpec};

/// Adds the groups of all ports. In the old format a port has one group, whose suffix is the port's
/// UUID; in the new format it has any number of groups with separate suffixes.
pub(super) fn add_groups(
    spec: &RequestSpec,
    extra_groups: &mut ExtraGroups,
) -> Result<(), BadRequest> {
    for (index, nic) in spec.requested_networks.iter().enumerate() {
        let Some(resource_request) = &nic.resource_request else {
            continue;
        };
        let field = format!("requested_networks[{index}]");
        check(resource_request, &field)?;
        if let Some(groups) = &resource_request.request_groups {
            for (number, group) in groups.iter().enumerate() {
                extra_groups.groups.push(ExtraGroup {
                    group: RequestGroup {
                        requester_id: group.id.clone(),
                        resources: group.resources.clone(),
                        required_traits: group.required.clone(),
                        ..RequestGroup::default()
                    },
                    field: format!("{field}.resource_request.request_groups[{number}].id"),
                });
            }
            if !resource_request.same_subtree.is_empty() {
                extra_groups
                    .same_subtree
                    .push(resource_request.same_subtree.clone());
            }
            continue;
        }
        if resource_request.resources.is_empty() {
            continue;
        }
        let Some(port) = nic.port_id else {
            return Err(BadRequest::missing(
                format!("{field}.port_id"),
                "the group of its resource request is named after it",
            ));
        };
        extra_groups.groups.push(ExtraGroup {
            group: RequestGroup {
                requester_id: port.to_string(),
                resources: resource_request.resources.clone(),
                required_traits: resource_request.required.clone(),
                ..RequestGroup::default()
            },
            field: format!("{field}.port_id"),
        });
    }
    Ok(())
}

/// Checks that a resource request does not mix the formats and is complete. `nic_field` is the field of the port, for
/// error messages.
///
/// # Errors
///
/// [`BadRequest`] names the field that is wrong.
pub fn check(resource_request: &PortResourceRequest, nic_field: &str) -> Result<(), BadRequest> {
    let field = |name| format!("{nic_field}.resource_request.{name}");
    let Some(groups) = &resource_request.request_groups else {
        if !resource_request.same_subtree.is_empty() {
            return Err(BadRequest::missing(
                field("request_groups"),
                "same_subtree names groups",
            ));
        }
        if resource_request.resources.is_empty() && !resource_request.required.is_empty() {
            return Err(BadRequest::missing(
                field("resources"),
                "traits alone choose no provider",
            ));
        }
        return Ok(());
    };
    if !resource_request.resources.is_empty() || !resource_request.required.is_empty() {
        return Err(BadRequest::conflict(
            field("resources"),
            field("request_groups"),
            "use one format or the other",
        ));
    }
    for id in &resource_request.same_subtree {
        if !groups.iter().any(|group| group.id == *id) {
            return Err(BadRequest::invalid(
                field("same_subtree"),
                format!("there is no group {id:?}"),
            ));
        }
    }
    Ok(())
}
