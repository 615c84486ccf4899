//! The addresses, ports, volumes and security groups of a server. They belong to other services. The volumes and
//! security groups that a request names are stored and passed on. Addresses and ports are not known, so their listings
//! are empty, except that the listing of addresses may have the key `no-network` with an empty list.

use placewright_auth::Rule;
use placewright_http::{ApiResult, Reply};
use serde_json::json;

use super::{find, show};
use crate::routed_request::RoutedRequest;

pub(crate) async fn addresses(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let reading = request.try_read(|control, views| {
        let server = find(request, control, views, Rule::ServersShow)?;
        Ok(show::addresses_json(request, &server.body().server))
    });
    Reply::value(200, &json!({"addresses": reading.await?}))
}

pub(crate) async fn interfaces(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    check_exists(request, Rule::ServerInterfacesList).await?;
    Reply::value(200, &json!({"interfaceAttachments": []}))
}

pub(crate) async fn volumes(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let server_id = request.parameter("server_id");
    let reading = request.try_read(|control, views| {
        let server = find(request, control, views, Rule::ServerVolumesList)?;
        Ok(show::volumes_json(
            request,
            &server.body().server.block_device_mapping_v2,
        ))
    });
    let mut volumes = reading.await?;
    for volume in volumes.as_array_mut().into_iter().flatten() {
        let id = volume["id"].clone();
        *volume = json!({"id": id, "volumeId": id, "serverId": server_id, "device": null});
    }
    Reply::value(200, &json!({"volumeAttachments": volumes}))
}

pub(crate) async fn security_groups(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let reading = request.try_read(|control, views| {
        let server = find(request, control, views, Rule::ServersShow)?;
        Ok(server.body().server.security_groups)
    });
    let groups = reading.await?;
    let groups: Vec<_> = groups.iter().map(|name| json!({"name": name})).collect();
    Reply::value(200, &json!({"security_groups": groups}))
}

async fn check_exists(request: &RoutedRequest<'_>, rule: Rule) -> ApiResult<()> {
    let reading = request.read(|control, views| find(request, control, views, rule).map(|_| ()));
    reading.await
}
