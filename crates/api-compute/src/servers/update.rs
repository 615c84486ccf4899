//! Changes of a server's name and of other fields that have no effect on placement.

use placewright_auth::Rule;
use placewright_conductor::super_conductor::{Change, Command};
use placewright_http::{ApiError, ApiResult, Reply};
use placewright_records::server as server_forms;
use placewright_types::server::ServerBody;
use serde_json::json;

use super::body;
use super::common_fields::{check_hostname, parse_address, parse_disk_config};
use super::show::{self, Visibility};
use super::{find, find_unlocked, labels};
use crate::fields::ObjectParser;
use crate::routed_request::RoutedRequest;

pub(crate) async fn update(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let body = request.json()?;
    let mut body_parser = ObjectParser::of_body(&body)?;
    let mut parser = body_parser.object("server")?;
    let name = parser.name("name")?;
    let description = match request.version.since(19) {
        true => parser.nullable_text("description", 0..=255)?,
        false => None,
    };
    let hostname = match request.version.since(90) {
        true => parser.text("hostname", 2..=255)?,
        false => None,
    };
    if let Some(hostname) = hostname {
        check_hostname(request, "server.hostname", hostname)?;
    }
    let address_v4 = parse_address(&mut parser, "accessIPv4")?;
    let address_v6 = parse_address(&mut parser, "accessIPv6")?;
    let disk_config = parse_disk_config(&mut parser)?;
    parser.finish()?;
    body_parser.finish()?;

    if address_v4.is_some() || address_v6.is_some() || disk_config.is_some() {
        change_body(request, |body| {
            let server_fields = &mut body.server;
            if let Some(address) = &address_v4 {
                server_fields.access_ip_v4.clone_from(address);
            }
            if let Some(address) = &address_v6 {
                server_fields.access_ip_v6.clone_from(address);
            }
            if let Some(disk_config) = disk_config {
                disk_config.clone_into(&mut server_fields.disk_config);
            }
        })
        .await?;
    }
    labels::change(request, Rule::ServersUpdate, |labels| {
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
    let visibility = Visibility::of_caller(request);
    let value = request.try_read(|control, views| {
        let server = find(request, control, views, Rule::ServersUpdate)?;
        let mut value = show::full_json(request, &server, visibility);
        if !request.version.since(75) {
            remove_newer_fields(&mut value);
        }
        Ok(value)
    });
    Reply::value(200, &json!({"server": value.await?}))
}

/// Removes the fields that responses to updates and rebuilds do not have before version 2.75.
pub(crate) fn remove_newer_fields(value: &mut serde_json::Value) {
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

/// Changes the body of the specification of the server in the path. Refused while the server is moved or
/// rebuilt, because the specification of that move or rebuild would replace the changed one.
async fn change_body(
    request: &RoutedRequest<'_>,
    change: impl Fn(&mut ServerBody) + Send + Sync,
) -> ApiResult<()> {
    request
        .submit_with_retry(|control, views| {
            let server = find_unlocked(request, control, views, Rule::ServersUpdate)?;
            let latest_id = server.mapping.migrations.last();
            let moves = control.conductor.moves();
            if latest_id.is_some_and(|latest_id| moves.contains_key(latest_id)) {
                let message = format!("Server {} is being moved.", server.id);
                return Err(ApiError::conflict(message));
            }
            if server.rebuild.is_some() {
                let message = format!("Server {} is being rebuilt.", server.id);
                return Err(ApiError::conflict(message));
            }
            let mut spec = server.stored_spec.clone();
            let mut body = body::decode(&spec)?;
            change(&mut body);
            spec.body = server_forms::write(&body);
            let command = Command::Guarded {
                expected: vec![Change::Spec(
                    server.id,
                    Some(Box::new(server.stored_spec.clone())),
                )],
                command: Box::new(Command::SetSpec {
                    instance: server.id,
                    spec: Box::new(spec),
                }),
            };
            Ok((command, ()))
        })
        .await
}
