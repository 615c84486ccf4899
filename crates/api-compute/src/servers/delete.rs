//! Deletion of servers.

use placewright_auth::Rule;
use placewright_conductor::super_conductor::Command;
use placewright_http::{ApiResult, Reply};

use super::{find, find_unlocked};
use crate::routed_request::RoutedRequest;

pub(crate) async fn delete(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    delete_server(request, Rule::ServersDelete).await?;
    Ok(Reply::empty(204))
}

/// Begins the deletion of the server of the path, unless it has begun already.
pub(crate) async fn delete_server(request: &RoutedRequest<'_>, rule: Rule) -> ApiResult<()> {
    let reading = request.try_read(|control, views| {
        let server = find(request, control, views, rule)?;
        if server.mapping.is_deleting {
            return Ok(None);
        }
        Ok(Some(find_unlocked(request, control, views, rule)?.id))
    });
    if let Some(instance) = reading.await? {
        request.execute(Command::Delete { instance }).await?;
    }
    Ok(())
}
