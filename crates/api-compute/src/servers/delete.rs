//! Deletion of servers.

use placewright_auth::Rule;
use placewright_conductor::super_conductor::Command;
use placewright_http::{ApiResult, Reply};

use super::{find, find_unlocked};
use crate::routed_request::RoutedRequest;

pub(crate) async fn delete(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    now(call, Rule::ServersDelete).await?;
    Ok(Reply::empty(204))
}

/// Deletes the server of the path. If its deletion is under way already, nothing is done.
pub(crate) async fn now(call: &RoutedRequest<'_>, rule: Rule) -> ApiResult<()> {
    let read = call.try_read(|control, views| {
        let seen = find(call, control, views, rule)?;
        if seen.mapping.is_deleting {
            return Ok(None);
        }
        Ok(Some(find_unlocked(call, control, views, rule)?.id))
    });
    if let Some(instance) = read.await? {
        call.carry_out(Command::Delete { instance }).await?;
    }
    Ok(())
}
