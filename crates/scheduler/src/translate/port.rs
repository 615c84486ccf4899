//! The resources that ports request.

use super::outside::{Outside, OutsideGroups};
use crate::error::BadRequest;
use crate::request::{PortResourceRequest, RequestGroup, RequestSpec};

/// Adds the groups of all ports: one a port with the port's UUID for a suffix, or several with
/// identifiers of their own that lie under one provider.
pub(super) fn add_groups(
    spec: &RequestSpec,
    outside: &mut OutsideGroups,
) -> Result<(), BadRequest> {
    for (index, nic) in spec.requested_networks.iter().enumerate() {
        let Some(asked) = &nic.resource_request else {
            continue;
        };
        let field = format!("requested_networks[{index}]");
        check(asked, &field)?;
        if let Some(groups) = &asked.request_groups {
            for (number, group) in groups.iter().enumerate() {
                outside.groups.push(Outside {
                    group: RequestGroup {
                        requester_id: group.id.clone(),
                        resources: group.resources.clone(),
                        required_traits: group.required.clone(),
                        ..RequestGroup::default()
                    },
                    field: format!("{field}.resource_request.request_groups[{number}].id"),
                });
            }
            if !asked.same_subtree.is_empty() {
                outside.same_subtree.push(asked.same_subtree.clone());
            }
            continue;
        }
        if asked.resources.is_empty() {
            continue;
        }
        let Some(port) = nic.port_id else {
            return Err(BadRequest::missing(
                format!("{field}.port_id"),
                "its resource request is known by it",
            ));
        };
        outside.groups.push(Outside {
            group: RequestGroup {
                requester_id: port.to_string(),
                resources: asked.resources.clone(),
                required_traits: asked.required.clone(),
                ..RequestGroup::default()
            },
            field: format!("{field}.port_id"),
        });
    }
    Ok(())
}

fn check(asked: &PortResourceRequest, nic: &str) -> Result<(), BadRequest> {
    let field = |name| format!("{nic}.resource_request.{name}");
    let Some(groups) = &asked.request_groups else {
        if !asked.same_subtree.is_empty() {
            return Err(BadRequest::missing(
                field("request_groups"),
                "same_subtree names groups",
            ));
        }
        if asked.resources.is_empty() && !asked.required.is_empty() {
            return Err(BadRequest::missing(
                field("resources"),
                "traits alone choose no provider",
            ));
        }
        return Ok(());
    };
    if !asked.resources.is_empty() || !asked.required.is_empty() {
        return Err(BadRequest::conflict(
            field("resources"),
            field("request_groups"),
            "use one format or the other",
        ));
    }
    for id in &asked.same_subtree {
        if !groups.iter().any(|group| group.id == *id) {
            return Err(BadRequest::invalid(
                field("same_subtree"),
                format!("there is no group {id:?}"),
            ));
        }
    }
    Ok(())
}
