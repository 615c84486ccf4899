//! Changes of a server's name and of other fields without effect on placement.

use placewright_auth::Rule;
use placewright_conductor::super_conductor::{Change, Command};
use placewright_http::{ApiError, ApiResult, Reply};
use placewright_records::server;
use placewright_types::server::ServerBody;
use serde_json::json;

use super::body;
use super::common_fields::{access_address, check_hostname, disk_config};
use super::show::{self, Visibility};
use super::{find, find_unlocked, labels};
use crate::fields::ObjectParser;
use crate::routed_request::RoutedRequest;

pub(crate) async fn update(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let body = call.json()?;
    let mut fields = ObjectParser::of_body(&body)?;
    let mut parsed = fields.object("server")?;
    let name = parsed.name("name")?;
    let description = match call.version.since(19) {
        true => parsed.nullable_text("description", 0..=255)?,
        false => None,
    };
    let hostname = match call.version.since(90) {
        true => parsed.text("hostname", 2..=255)?,
        false => None,
    };
    if let Some(hostname) = hostname {
        check_hostname(call, "server.hostname", hostname)?;
    }
    let v4 = access_address(&mut parsed, "accessIPv4")?;
    let v6 = access_address(&mut parsed, "accessIPv6")?;
    let disk = disk_config(&mut parsed)?;
    parsed.finish()?;
    fields.finish()?;

    if v4.is_some() || v6.is_some() || disk.is_some() {
        change_body(call, |body| {
            let server = &mut body.server;
            if let Some(address) = &v4 {
                server.access_ip_v4.clone_from(address);
            }
            if let Some(address) = &v6 {
                server.access_ip_v6.clone_from(address);
            }
            if let Some(disk) = disk {
                disk.clone_into(&mut server.disk_config);
            }
        })
        .await?;
    }
    labels::change(call, Rule::ServersUpdate, |labels| {
        if let Some(name) = name {
            name.clone_into(&mut labels.name);
        }
        if let Some(description) = description {
            labels.description = description.map(str::to_owned);
        }
        if let Some(hostname) = hostname {
            hostname.clone_into(&mut labels.hostname);
        }
        Ok(())
    })
    .await?;
    let sight = Visibility::of(call);
    let server = call.try_read(|control, views| {
        let seen = find(call, control, views, Rule::ServersUpdate)?;
        let mut value = show::whole(call, &seen, sight);
        if !call.version.since(75) {
            withhold_newer(&mut value);
        }
        Ok(value)
    });
    Reply::value(200, &json!({"server": server.await?}))
}

/// Removes newer fields: before version 2.75 the responses to updates and rebuilds had fewer of
/// them.
pub(crate) fn withhold_newer(value: &mut serde_json::Value) {
    if let Some(map) = value.as_object_mut() {
        map.retain(|key, _| {
            !key.starts_with("OS-EXT-")
                && !key.starts_with("OS-SRV-USG")
                && !key.starts_with("os-extended-volumes")
                && !matches!(
                    key.as_str(),
                    "config_drive" | "host_status" | "key_name" | "security_groups"
                )
        });
    }
}

async fn change_body(
    call: &RoutedRequest<'_>,
    change: impl Fn(&mut ServerBody) + Send + Sync,
) -> ApiResult<()> {
    call.change(|control, views| {
        let seen = find_unlocked(call, control, views, Rule::ServersUpdate)?;
        let latest = seen.mapping.migrations.last();
        let moves = control.conductor.moves();
        if latest.is_some_and(|latest| moves.contains_key(latest)) {
            let message = format!("Server {} is being moved.", seen.id);
            return Err(ApiError::conflict(message));
        }
        if seen.rebuild.is_some() {
            let message = format!("Server {} is being rebuilt.", seen.id);
            return Err(ApiError::conflict(message));
        }
        let mut spec = seen.stored.clone();
        let mut body = body::of(&spec)?;
        change(&mut body);
        spec.body = server::write(&body);
        let command = Command::Guarded {
            expected: vec![Change::Spec(seen.id, Some(Box::new(seen.stored.clone())))],
            command: Box::new(Command::SetSpec {
                instance: seen.id,
                spec: Box::new(spec),
            }),
        };
        Ok((command, ()))
    })
    .await
}
