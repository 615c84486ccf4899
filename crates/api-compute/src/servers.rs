//! Servers and migrations: `/servers` and the paths below it, `/os-migrations`.

mod action_records;
pub(crate) mod actions;
pub(crate) mod attachments;
pub(crate) mod body;
mod common_fields;
pub(crate) mod create;
mod create_request;
pub(crate) mod delete;
mod devices;
mod fault;
mod filter;
mod hints;
pub(crate) mod instance_actions;
mod labels;
pub(crate) mod list;
pub(crate) mod metadata;
pub(crate) mod migrations;
mod pattern;
mod secrets;
pub(crate) mod server_view;
pub(crate) mod show;
mod sort;
pub(crate) mod status;
pub(crate) mod tags;
pub(crate) mod update;

use placewright_auth::Rule;
use placewright_conductor::{ControlState, InstanceId};
use placewright_control::Views;
use placewright_http::{ApiError, ApiResult};
use server_view::ServerView;
use uuid::Uuid;

use crate::error;
use crate::routed_request::RoutedRequest;

/// Finds the server of the path, and checks a policy rule for it.
///
/// # Errors
///
/// 404 when the server does not exist or belongs to another project; 403 if the rule does not allow the
/// operation.
pub(crate) fn find<'s>(
    request: &RoutedRequest<'_>,
    control: &'s ControlState,
    views: &'s Views,
    rule: Rule,
) -> ApiResult<ServerView<'s>> {
    let text = request.parameter("server_id");
    let missing = || error::missing("server", text);
    let id = InstanceId(Uuid::try_parse(text).map_err(|_| missing())?);
    let server = ServerView::find(control, views, id).ok_or_else(missing)?;
    let (project, user) = (&server.mapping.project, &server.mapping.user);
    if project != request.project() && !request.sees_all_projects() {
        return Err(missing());
    }
    request.authorize_for(rule, project, user)?;
    Ok(server)
}

/// Finds the server of the path for an operation that a lock forbids, and checks a policy rule for it.
///
/// # Errors
///
/// The errors of [`find`]; and 409 when the server is being deleted, or is locked and the caller is no administrator.
pub(crate) fn find_unlocked<'s>(
    request: &RoutedRequest<'_>,
    control: &'s ControlState,
    views: &'s Views,
    rule: Rule,
) -> ApiResult<ServerView<'s>> {
    let server = find(request, control, views, rule)?;
    let is_locked = server.labels.is_some_and(|labels| labels.lock.is_some());
    if is_locked && !request.sees_all_projects() {
        return Err(ApiError::conflict(format!(
            "Server {} is locked.",
            server.id
        )));
    }
    if server.mapping.is_deleting {
        return Err(ApiError::conflict(format!(
            "Server {} is being deleted.",
            server.id
        )));
    }
    Ok(server)
}
