//! Servers and migrations: `/servers` and the paths below it, `/os-migrations`.

pub(crate) mod actions;
pub(crate) mod attachments;
pub(crate) mod body;
mod common_fields;
pub(crate) mod create;
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

/// Finds the server of the path, and checks a policy rule.
///
/// # Errors
///
/// 404 when there is none or it belongs to another project; 403 if the rule does not allow it.
pub(crate) fn find<'s>(
    call: &RoutedRequest<'_>,
    control: &'s ControlState,
    views: &'s Views,
    rule: Rule,
) -> ApiResult<ServerView<'s>> {
    let text = call.parameter("server_id");
    let missing = || error::missing("server", text);
    let id = InstanceId(Uuid::try_parse(text).map_err(|_| missing())?);
    let seen = ServerView::find(control, views, id).ok_or_else(missing)?;
    let (project, user) = (&seen.mapping.project, &seen.mapping.user);
    if project != call.project() && !call.sees_all_projects() {
        return Err(missing());
    }
    call.allow_on(rule, project, user)?;
    Ok(seen)
}

/// The same for an operation that a lock forbids.
///
/// # Errors
///
/// Also 409 when the server is locked and the caller is not an administrator.
pub(crate) fn find_unlocked<'s>(
    call: &RoutedRequest<'_>,
    control: &'s ControlState,
    views: &'s Views,
    rule: Rule,
) -> ApiResult<ServerView<'s>> {
    let seen = find(call, control, views, rule)?;
    let is_locked = seen.labels.is_some_and(|labels| labels.lock.is_some());
    if is_locked && !call.sees_all_projects() {
        return Err(ApiError::conflict(format!("Server {} is locked.", seen.id)));
    }
    if seen.mapping.is_deleting {
        return Err(ApiError::conflict(format!(
            "Server {} is being deleted.",
            seen.id
        )));
    }
    Ok(seen)
}
