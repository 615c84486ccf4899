//! The compute services of hosts: list, enable, disable, force down, remove.

use placewright_auth::Rule;
use placewright_conductor::HostId;
use placewright_conductor::super_conductor::{Change, Command, Refusal, Service};
use placewright_http::{ApiError, ApiResult, Reply};
use placewright_link::CellOperation;
use serde_json::{Value, json};
use uuid::Uuid;

use super::hosts::HostRow;
use super::{legacy_id, zones};
use crate::error;
use crate::fields::ObjectParser;
use crate::routed_request::RoutedRequest;
use crate::time;

const BINARY: &str = "nova-compute";

/// The JSON representation of a service.
fn shown(call: &RoutedRequest<'_>, row: &HostRow<'_>, zone: &str) -> Value {
    if call.version.since(69) && row.is_out_of_reach {
        return json!({"binary": BINARY, "host": row.name, "status": "UNKNOWN"});
    }
    let service = row.service;
    let mut value = json!({
        "id": if call.version.since(53) { json!(row.id) } else { json!(legacy_id(row.id.0)) },
        "binary": BINARY,
        "host": row.name,
        "zone": zone,
        "status": row.status(),
        "state": row.state(),
        "updated_at": row.heard_at().map(time::micros),
        "disabled_reason": service.and_then(|service| service.disabled_reason.as_ref()),
    });
    if call.version.since(11) {
        value["forced_down"] = json!(row.is_forced_down());
    }
    value
}

pub(crate) async fn list(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::ServicesList)?;
    if call.version.since(75) {
        call.query.only(&["host", "binary"])?;
    }
    let (host, binary) = (call.query.get("host"), call.query.get("binary"));
    let services = call.read(|control, views| {
        let rows = HostRow::all(control, views).into_iter();
        let rows = rows.filter(|row| {
            host.is_none_or(|host| host == row.name) && binary.is_none_or(|one| one == BINARY)
        });
        let values = rows.map(|row| shown(call, &row, zones::of_host(control, row.id)));
        values.collect::<Vec<_>>()
    });
    Reply::value(200, &json!({"services": services.await}))
}

/// Changes an operator's settings of a host's service.
async fn change(
    call: &RoutedRequest<'_>,
    host: HostId,
    change: impl Fn(&mut Service) -> ApiResult<()> + Send + Sync,
) -> ApiResult<()> {
    call.change(|control, _| {
        let before = control.conductor.services().get(&host);
        let mut service = before.cloned().unwrap_or_default();
        change(&mut service)?;
        service.updated_at = call.at;
        let command = Command::Guarded {
            expected: vec![Change::Service(host, before.cloned().map(Box::new))],
            command: Box::new(Command::SetService { host, service }),
        };
        Ok((command, ()))
    })
    .await
}

/// The host of the service in the path.
fn host_of(call: &RoutedRequest<'_>) -> ApiResult<HostId> {
    let text = call.parameter("service_id");
    match Uuid::try_parse(text) {
        Ok(id) => Ok(HostId(id)),
        Err(_) => {
            let message = format!("it must be a UUID, not {text:?}");
            Err(ApiError::field("service_id", message))
        }
    }
}

pub(crate) async fn update(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::ServicesUpdate)?;
    if !call.version.since(53) {
        return update_by_name(call).await;
    }
    let host = host_of(call)?;
    let body = call.json()?;
    let mut fields = ObjectParser::of_body(&body)?;
    let status = fields.text("status", 1..=16)?;
    let disabled = match status {
        None => None,
        Some("enabled") => Some(false),
        Some("disabled") => Some(true),
        Some(other) => {
            let message = format!("it must be enabled or disabled, not {other:?}");
            return Err(fields.wrong("status", message));
        }
    };
    let reason = fields.text("disabled_reason", 1..=255)?;
    let forced_down = fields.boolean("forced_down")?;
    if reason.is_some() && disabled != Some(true) {
        let message = "a reason belongs to status disabled";
        return Err(fields.wrong("disabled_reason", message));
    }
    if disabled.is_none() && forced_down.is_none() {
        let message = "The body must have a status or forced_down.";
        return Err(ApiError::bad_request(message));
    }
    fields.finish()?;
    change(call, host, |service| {
        if let Some(disabled) = disabled {
            service.disabled = disabled;
            service.disabled_reason = reason.map(str::to_owned);
        }
        service.forced_down = forced_down.unwrap_or(service.forced_down);
        Ok(())
    })
    .await
    .map_err(|error| no_service(error, host))?;
    let service = call.try_read(|control, views| {
        let row = HostRow::find(control, views, host);
        let row = row.ok_or_else(|| error::missing("service", &host.to_string()))?;
        Ok(shown(call, &row, zones::of_host(control, host)))
    });
    Reply::value(200, &json!({"service": service.await?}))
}

fn no_service(error: ApiError, host: HostId) -> ApiError {
    match error.status() {
        404 => error::missing("service", &host.to_string()),
        _ => error,
    }
}

/// Before version 2.53 the path names the operation, and the body the host.
async fn update_by_name(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let body = call.json()?;
    let mut fields = ObjectParser::of_body(&body)?;
    let name = fields.needed_text("host", 1..=255)?;
    let binary = fields.needed_text("binary", 1..=255)?;
    let (mut reason, mut forced_down) = (None, None);
    let action = call.parameter("service_id");
    match action {
        "enable" | "disable" => {}
        "disable-log-reason" => reason = Some(fields.needed_text("disabled_reason", 1..=255)?),
        "force-down" if call.version.since(11) => {
            forced_down = Some(fields.boolean("forced_down")?.unwrap_or(true));
        }
        _ => return Err(error::nothing_here()),
    }
    fields.finish()?;
    let host = call.read(|control, _| control.conductor.host_names().get(name).copied());
    let host = host.await.filter(|_| binary == BINARY);
    let host = host.ok_or_else(|| error::missing("service", &format!("{binary} on {name}")))?;
    change(call, host, |service| {
        match forced_down {
            Some(forced) => service.forced_down = forced,
            None => {
                service.disabled = action != "enable";
                service.disabled_reason = reason.map(str::to_owned);
            }
        }
        Ok(())
    })
    .await?;
    let mut value = json!({"binary": binary, "host": name});
    match forced_down {
        Some(forced) => value["forced_down"] = json!(forced),
        None => {
            let status = if action == "enable" {
                "enabled"
            } else {
                "disabled"
            };
            value["status"] = json!(status);
        }
    }
    if let Some(reason) = reason {
        value["disabled_reason"] = json!(reason);
    }
    Reply::value(200, &json!({"service": value}))
}

/// Removes the service of a host that will not come back. Its provider in placement has to be
/// removed there.
pub(crate) async fn delete(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::ServicesDelete)?;
    let text = call.parameter("service_id");
    let found = call.read(|control, views| {
        let rows = HostRow::all(control, views);
        let is_wanted = |row: &HostRow<'_>| match call.version.since(53) {
            true => row.id.to_string() == text,
            false => legacy_id(row.id.0).to_string() == text,
        };
        let row = rows.into_iter().find(is_wanted);
        row.map(|row| (row.id, row.cell, row.name.to_owned(), row.is_up()))
    });
    let found = found.await;
    let (host, cell, name, is_up) = found.ok_or_else(|| error::missing("service", text))?;
    if is_up {
        let message = format!("Host {name} is up: its agent would bring the service back.");
        return Err(ApiError::conflict(message));
    }
    match call.submit(Command::UnmapHost { host }).await? {
        Ok(_) => {}
        Err(Refusal::InUse { .. }) => {
            let message = format!("Servers or moves still hold something of host {name}.");
            return Err(ApiError::conflict(message));
        }
        Err(refusal) => return Err(error::of_refusal(refusal)),
    }
    call.act(cell, CellOperation::RemoveHost { host }).await?;
    Ok(Reply::empty(204))
}
