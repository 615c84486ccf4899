//! The compute services of hosts: list, enable, disable, force down, remove.

use placewright_auth::Rule;
use placewright_conductor::HostId;
use placewright_conductor::super_conductor::{Change, Command, Refusal, Service, is_host_used};
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

/// The name of the program that Nova has for compute services. Clients of OpenStack expect it in the field `binary`.
const BINARY: &str = "nova-compute";

/// The JSON representation of a service.
fn service_json(request: &RoutedRequest<'_>, row: &HostRow<'_>, zone: &str) -> Value {
    if request.version.since(69) && row.is_out_of_reach {
        return json!({"binary": BINARY, "host": row.name, "status": "UNKNOWN"});
    }
    let service = row.service;
    let mut value = json!({
        "id": if request.version.since(53) { json!(row.id) } else { json!(legacy_id(row.id.0)) },
        "binary": BINARY,
        "host": row.name,
        "zone": zone,
        "status": row.status(),
        "state": row.state(),
        "updated_at": row.last_report_at().map(time::format_micros),
        "disabled_reason": service.and_then(|service| service.disabled_reason.as_ref()),
    });
    if request.version.since(11) {
        value["forced_down"] = json!(row.is_forced_down());
    }
    value
}

pub(crate) async fn list(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::ServicesList)?;
    if request.version.since(75) {
        request.query.reject_unknown(&["host", "binary"])?;
    }
    let (host, binary) = (request.query.get("host"), request.query.get("binary"));
    let services = request.read(|control, views| {
        let rows = HostRow::all(control, views).into_iter();
        let rows = rows.filter(|row| {
            host.is_none_or(|host| host == row.name) && binary.is_none_or(|binary| binary == BINARY)
        });
        let values =
            rows.map(|row| service_json(request, &row, zones::zone_of_host(control, row.id)));
        values.collect::<Vec<_>>()
    });
    Reply::value(200, &json!({"services": services.await}))
}

/// Changes what operators have set of a host's service. Retries after concurrent changes.
async fn change_service(
    request: &RoutedRequest<'_>,
    host: HostId,
    change: impl Fn(&mut Service) -> ApiResult<()> + Send + Sync,
) -> ApiResult<()> {
    request
        .submit_with_retry(|control, _| {
            let before = control.conductor.services().get(&host);
            let mut service = before.cloned().unwrap_or_default();
            change(&mut service)?;
            service.updated_at = request.now;
            let command = Command::Guarded {
                expected: vec![Change::Service(host, before.cloned().map(Box::new))],
                command: Box::new(Command::SetService { host, service }),
            };
            Ok((command, ()))
        })
        .await
}

/// Parses the id of the service in the path. A service has the id of its host.
fn parse_host_id(request: &RoutedRequest<'_>) -> ApiResult<HostId> {
    let text = request.parameter("service_id");
    match Uuid::try_parse(text) {
        Ok(id) => Ok(HostId(id)),
        Err(_) => {
            let message = format!("it must be a UUID, not {text:?}");
            Err(ApiError::field("service_id", message))
        }
    }
}

pub(crate) async fn update(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::ServicesUpdate)?;
    if !request.version.since(53) {
        return update_by_name(request).await;
    }
    let host = parse_host_id(request)?;
    let body = request.json()?;
    let mut parser = ObjectParser::of_body(&body)?;
    let status = parser.text("status", 1..=16)?;
    let disabled = match status {
        None => None,
        Some("enabled") => Some(false),
        Some("disabled") => Some(true),
        Some(other) => {
            let message = format!("it must be enabled or disabled, not {other:?}");
            return Err(parser.field_error("status", message));
        }
    };
    let reason = parser.text("disabled_reason", 1..=255)?;
    let forced_down = parser.boolean("forced_down")?;
    if reason.is_some() && disabled != Some(true) {
        let message = "a reason belongs to status disabled";
        return Err(parser.field_error("disabled_reason", message));
    }
    if disabled.is_none() && forced_down.is_none() {
        let message = "The body must have a status or forced_down.";
        return Err(ApiError::bad_request(message));
    }
    parser.finish()?;
    change_service(request, host, |service| {
        if let Some(disabled) = disabled {
            service.disabled = disabled;
            service.disabled_reason = reason.map(str::to_owned);
        }
        service.forced_down = forced_down.unwrap_or(service.forced_down);
        Ok(())
    })
    .await
    .map_err(|error| service_not_found(error, host))?;
    let service = request.try_read(|control, views| {
        let row = HostRow::find(control, views, host);
        let row = row.ok_or_else(|| error::missing("service", &host.to_string()))?;
        Ok(service_json(
            request,
            &row,
            zones::zone_of_host(control, host),
        ))
    });
    Reply::value(200, &json!({"service": service.await?}))
}

/// Replaces the 404 of an unknown host by a 404 that names the service.
fn service_not_found(error: ApiError, host: HostId) -> ApiError {
    match error.status() {
        404 => error::missing("service", &host.to_string()),
        _ => error,
    }
}

/// Updates a service before version 2.53: the path names the operation, and the body the host.
async fn update_by_name(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let body = request.json()?;
    let mut parser = ObjectParser::of_body(&body)?;
    let name = parser.required_text("host", 1..=255)?;
    let binary = parser.required_text("binary", 1..=255)?;
    let (mut reason, mut forced_down) = (None, None);
    let action = request.parameter("service_id");
    match action {
        "enable" | "disable" => {}
        "disable-log-reason" => reason = Some(parser.required_text("disabled_reason", 1..=255)?),
        "force-down" if request.version.since(11) => {
            forced_down = Some(parser.boolean("forced_down")?.unwrap_or(true));
        }
        _ => return Err(error::path_not_found()),
    }
    parser.finish()?;
    let reading = request.read(|control, _| control.conductor.host_names().get(name).copied());
    let host = reading.await.filter(|_| binary == BINARY);
    let host = host.ok_or_else(|| error::missing("service", &format!("{binary} on {name}")))?;
    change_service(request, host, |service| {
        match forced_down {
            Some(is_forced) => service.forced_down = is_forced,
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
        Some(is_forced) => value["forced_down"] = json!(is_forced),
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

/// Removes the service of a host that was taken out of use. The host's resource provider is not
/// removed: that has to be done through the Placement API.
pub(crate) async fn delete(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::ServicesDelete)?;
    let text = request.parameter("service_id");
    let reading = request.read(|control, views| {
        let rows = HostRow::all(control, views);
        let has_id = |row: &HostRow<'_>| match request.version.since(53) {
            true => row.id.to_string() == text,
            false => legacy_id(row.id.0).to_string() == text,
        };
        let row = rows.into_iter().find(has_id);
        row.map(|row| (row.id, row.cell, row.name.to_owned(), row.is_up()))
    });
    let host_row = reading.await;
    let (host, cell, name, is_up) = host_row.ok_or_else(|| error::missing("service", text))?;
    if is_up {
        let message = format!("Host {name} is up: its agent would bring the service back.");
        return Err(ApiError::conflict(message));
    }
    let in_use = || {
        ApiError::conflict(format!(
            "Servers or moves still hold something of host {name}."
        ))
    };
    let is_used = request.read(|control, _| is_host_used(&control.placement, host));
    if is_used.await {
        return Err(in_use());
    }
    // The cell comes first: if it cannot be reached, or refuses, the request can be repeated. A cell that is not
    // configured any more has nothing to remove.
    if request.api_state.control.has_link(cell) {
        request
            .run_in_cell(cell, CellOperation::RemoveHost { host })
            .await?;
    }
    match request.submit(Command::UnmapHost { host }).await? {
        // The cell has told control of the removal, which has unmapped the host.
        Ok(_) | Err(Refusal::NotFound { .. }) => Ok(Reply::empty(204)),
        Err(Refusal::InUse { .. }) => Err(in_use()),
        Err(refusal) => Err(error::from_refusal(refusal)),
    }
}
