//! Locks: only administrators may change a locked server.

use placewright_auth::Rule;
use placewright_conductor::super_conductor::Lock;
use placewright_http::{ApiResult, Reply};
use serde_json::Value;

use super::super::{find, labels};
use super::nullable;
use crate::fields::ObjectParser;
use crate::routed_request::RoutedRequest;

pub(super) async fn lock(call: &RoutedRequest<'_>, parsed: &Value) -> ApiResult<Reply> {
    let parsed = nullable(parsed);
    let mut reason = None;
    if call.version.since(73) {
        let mut parsed = ObjectParser::new("lock", &parsed)?;
        reason = parsed.text("locked_reason", 1..=255)?.map(str::to_owned);
        parsed.finish()?;
    }
    call.change(|control, views| {
        let seen = find(call, control, views, Rule::ServersLock)?;
        let by_owner = seen.mapping.project == call.project() && !call.sees_all_projects();
        let mut labels = labels::of(&seen);
        let was_by_other = labels.lock.as_ref().is_some_and(|lock| !lock.by_owner);
        labels.lock = Some(Lock {
            by_owner: by_owner && !was_by_other,
            reason: reason.clone(),
        });
        labels.updated_at = call.at;
        Ok((labels::command(call, &seen, &labels), ()))
    })
    .await?;
    Ok(Reply::empty(202))
}

pub(super) async fn unlock(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.change(|control, views| {
        let seen = find(call, control, views, Rule::ServersUnlock)?;
        let mut labels = labels::of(&seen);
        if labels.lock.as_ref().is_some_and(|lock| !lock.by_owner) {
            let (project, user) = (&seen.mapping.project, &seen.mapping.user);
            call.allow_on(Rule::ServersUnlockOverride, project, user)?;
        }
        labels.lock = None;
        labels.updated_at = call.at;
        Ok((labels::command(call, &seen, &labels), ()))
    })
    .await?;
    Ok(Reply::empty(202))
}
