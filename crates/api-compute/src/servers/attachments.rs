//! A server's ports and volumes. They belong to other services and are only passed on, so the
//! listings are empty.

use placewright_auth::Rule;
use placewright_http::{ApiResult, Reply};
use serde_json::json;

use super::{find, show};
use crate::routed_request::RoutedRequest;

pub(crate) async fn addresses(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    exists(call, Rule::ServersShow).await?;
    Reply::value(200, &json!({"addresses": {}}))
}

pub(crate) async fn interfaces(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    exists(call, Rule::ServerInterfacesList).await?;
    Reply::value(200, &json!({"interfaceAttachments": []}))
}

pub(crate) async fn volumes(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let server = call.parameter("server_id");
    let read = call.try_read(|control, views| {
        let seen = find(call, control, views, Rule::ServerVolumesList)?;
        Ok(show::volumes(
            call,
            &seen.shown().server.block_device_mapping_v2,
        ))
    });
    let mut volumes = read.await?;
    for volume in volumes.as_array_mut().into_iter().flatten() {
        let id = volume["id"].clone();
        *volume = json!({"id": id, "volumeId": id, "serverId": server, "device": null});
    }
    Reply::value(200, &json!({"volumeAttachments": volumes}))
}

pub(crate) async fn security_groups(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let read = call.try_read(|control, views| {
        let seen = find(call, control, views, Rule::ServersShow)?;
        Ok(seen.shown().server.security_groups)
    });
    let groups = read.await?;
    let groups: Vec<_> = groups.iter().map(|name| json!({"name": name})).collect();
    Reply::value(200, &json!({"security_groups": groups}))
}

async fn exists(call: &RoutedRequest<'_>, rule: Rule) -> ApiResult<()> {
    let read = call.read(|control, views| find(call, control, views, rule).map(|_| ()));
    read.await
}
