//! The actions lock and unlock: only administrators may change a locked server.

use placewright_auth::Rule;
use placewright_conductor::super_conductor::Lock;
use placewright_http::{ApiResult, Reply};
use serde_json::Value;

use super::super::{find, labels};
use super::object_or_empty;
use crate::fields::ObjectParser;
use crate::routed_request::RoutedRequest;

pub(super) async fn lock(request: &RoutedRequest<'_>, arguments: &Value) -> ApiResult<Reply> {
    let arguments = object_or_empty(arguments);
    let mut reason = None;
    if request.version.since(73) {
        let mut parser = ObjectParser::new("lock", &arguments)?;
        reason = parser.text("locked_reason", 1..=255)?.map(str::to_owned);
        parser.finish()?;
    }
    request
        .submit_with_retry(|control, views| {
            let server = find(request, control, views, Rule::ServersLock)?;
            // As in Nova, everybody in the server's project counts as its owner, even an administrator. An owner who
            // locks a server that is locked already changes nothing, not even the reason.
            let is_owner = server.mapping.project == request.project();
            let mut labels = labels::of_server(&server);
            if labels.lock.is_none() || !is_owner {
                labels.lock = Some(Lock {
                    by_owner: is_owner,
                    reason: reason.clone(),
                });
                labels.updated_at = request.now;
            }
            Ok((labels::change_command(request, &server, &labels), ()))
        })
        .await?;
    Ok(Reply::empty(202))
}

pub(super) async fn unlock(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request
        .submit_with_retry(|control, views| {
            let server = find(request, control, views, Rule::ServersUnlock)?;
            let mut labels = labels::of_server(&server);
            if labels.lock.as_ref().is_some_and(|lock| !lock.by_owner) {
                let (project, user) = (&server.mapping.project, &server.mapping.user);
                request.authorize_for(Rule::ServersUnlockOverride, project, user)?;
            }
            labels.lock = None;
            labels.updated_at = request.now;
            Ok((labels::change_command(request, &server, &labels), ()))
        })
        .await?;
    Ok(Reply::empty(202))
}
