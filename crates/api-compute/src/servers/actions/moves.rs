//! The actions that move a server, and those that confirm or revert a move.
//!
//! Each move is accepted with one command and carried out later. The server's status, migrations
//! and actions show the result.

use placewright_auth::Rule;
use placewright_conductor::cell_conductor::VmState;
use placewright_conductor::super_conductor::{Change, Command};
use placewright_conductor::{MigrationId, MoveDecision, MoveKind};
use placewright_control::usage_of;
use placewright_http::{ApiError, ApiResult, Reply};
use placewright_link::CellOperation;
use placewright_records::server as server_forms;
use placewright_scheduler::request::Destination;
use placewright_scheduler::translate::translate;
use placewright_types::server::ServerBody;
use serde_json::{Value, json};

use super::super::action_records;
use super::super::body::{self, for_move};
use super::super::common_fields::parse_disk_config;
use super::super::create_request::parse_flavor_ref;
use super::super::find_unlocked;
use super::super::server_view::ServerView;
use super::object_or_empty;
use crate::admin::zones;
use crate::fields::{self, ObjectParser};
use crate::flavors;
use crate::routed_request::RoutedRequest;
use crate::topology::flavor_rules;

/// Starts a move of the server in the path. `prepare` checks the move, and changes the body of the specification to the
/// one with which the server runs after the move.
async fn start_move(
    request: &RoutedRequest<'_>,
    rule: Rule,
    kind: MoveKind,
    prepare: impl Fn(&ServerView<'_>, &mut ServerBody) -> ApiResult<()> + Send + Sync,
) -> ApiResult<()> {
    let migration = MigrationId(request.request_uuid);
    request
        .submit_with_retry(|control, views| {
            let server = find_unlocked(request, control, views, rule)?;
            check_state(&server, kind)?;
            let mut spec = server.stored_spec.clone();
            let mut body = for_move(body::decode(&spec)?);
            let former_flavor = body.request.flavor.clone();
            prepare(&server, &mut body)?;
            if kind == MoveKind::Resize {
                let (field, requested) = ("resize.flavorRef", &mut body.request);
                flavor_rules::exchange(control, field, &former_flavor, requested, &mut spec)?;
            }
            let translation = translate(&body.request, request.api_state.translate_options());
            let translation =
                translation.map_err(|error| ApiError::bad_request(format!("{error}.")))?;
            if kind == MoveKind::Resize {
                spec.usage = usage_of(&body.request.flavor, &translation);
            }
            spec.body = server_forms::write(&body);
            let command = Command::Guarded {
                expected: vec![Change::Spec(
                    server.id,
                    Some(Box::new(server.stored_spec.clone())),
                )],
                command: Box::new(Command::StartMove {
                    migration,
                    instance: server.id,
                    kind,
                    spec: Some(Box::new(spec)),
                }),
            };
            Ok((command, ()))
        })
        .await
}

/// Checks that the state of a server allows a move. The server's cell checks the state again.
fn check_state(server: &ServerView<'_>, kind: MoveKind) -> ApiResult<()> {
    let status = server.status();
    let state = server.view.map(|view| view.vm_state);
    let is_possible = match kind {
        MoveKind::ColdMigrate | MoveKind::Resize | MoveKind::LiveMigrate => {
            state == Some(VmState::Active)
        }
        MoveKind::Evacuate => matches!(state, Some(VmState::Active | VmState::Error)),
        MoveKind::Unshelve => state == Some(VmState::ShelvedOffloaded),
    };
    if is_possible && status.task_state.is_none() && !server.is_out_of_reach {
        return Ok(());
    }
    let action = match kind {
        MoveKind::ColdMigrate => "migrated",
        MoveKind::Resize => "resized",
        MoveKind::LiveMigrate => "migrated live",
        MoveKind::Evacuate => "evacuated",
        MoveKind::Unshelve => "unshelved",
    };
    Err(state_conflict(server, action))
}

fn state_conflict(server: &ServerView<'_>, action: &str) -> ApiError {
    let status = server.status();
    let task = status
        .task_state
        .map(|task| format!(" ({task})"))
        .unwrap_or_default();
    ApiError::conflict(format!(
        "Server {} cannot be {action} while it is {}{task}.",
        server.id, status.name
    ))
}

/// Restricts a move to the host with this name. `field` is the field of the request that names the host.
fn set_destination(
    server: &ServerView<'_>,
    body: &mut ServerBody,
    field: &str,
    host: &str,
) -> ApiResult<()> {
    let conductor = &server.control.conductor;
    let id = conductor.host_names().get(host);
    let cell = id
        .and_then(|id| conductor.hosts().get(id))
        .map(|row| row.cell);
    let Some(cell) = cell else {
        return Err(ApiError::field(field, format!("there is no host {host}")));
    };
    if Some(cell) != server.mapping.cell {
        let message = format!("host {host} is in another cell than the server");
        return Err(ApiError::field(field, message));
    }
    if server.host().is_some_and(|(_, current)| current == host) {
        return Err(ApiError::field(
            field,
            format!("the server is on {host} already"),
        ));
    }
    body.request.requested_destination = Some(Destination {
        host: Some(host.to_owned()),
        ..Destination::default()
    });
    Ok(())
}

pub(super) async fn resize(request: &RoutedRequest<'_>, arguments: &Value) -> ApiResult<Reply> {
    let mut parser = ObjectParser::new("resize", arguments)?;
    let flavor_id = parse_flavor_ref(&mut parser)?;
    let disk_config = parse_disk_config(&mut parser)?;
    parser.finish()?;
    start_move(
        request,
        Rule::ServersResize,
        MoveKind::Resize,
        |server, body| {
            let flavor = flavors::find(request, server.control, &flavor_id).map_err(|_| {
                ApiError::field(
                    "resize.flavorRef",
                    format!("there is no flavor {flavor_id}"),
                )
            })?;
            if body.server.flavor_id == flavor_id {
                let message = "it is the flavor that the server has already";
                return Err(ApiError::field("resize.flavorRef", message));
            }
            body.request.flavor = flavors::for_scheduler(flavor);
            let device_profiles = &request.api_state.options.device_profiles;
            body.request.device_profiles =
                device_profiles.of_flavor(&body.request.flavor, "resize.flavorRef")?;
            body.server.flavor_id.clone_from(&flavor_id);
            if let Some(disk_config) = disk_config {
                disk_config.clone_into(&mut body.server.disk_config);
            }
            Ok(())
        },
    )
    .await?;
    Ok(Reply::empty(202))
}

pub(super) async fn migrate(request: &RoutedRequest<'_>, arguments: &Value) -> ApiResult<Reply> {
    let arguments = object_or_empty(arguments);
    let mut host = None;
    if request.version.since(56) {
        let mut parser = ObjectParser::new("migrate", &arguments)?;
        host = parser.nullable_text("host", 1..=255)?.flatten();
        parser.finish()?;
        if host.is_some() {
            request.authorize(Rule::ServersMigrateHost)?;
        }
    }
    start_move(
        request,
        Rule::ServersMigrate,
        MoveKind::ColdMigrate,
        |server, body| match host {
            Some(host) => set_destination(server, body, "migrate.host", host),
            None => Ok(()),
        },
    )
    .await?;
    Ok(Reply::empty(202))
}

pub(super) async fn live_migrate(
    request: &RoutedRequest<'_>,
    arguments: &Value,
) -> ApiResult<Reply> {
    let mut parser = ObjectParser::new("os-migrateLive", arguments)?;
    // Before version 2.25 the field is required, but may be null.
    let host = parser.nullable_text("host", 1..=255)?;
    if host.is_none() && !request.version.since(25) {
        return Err(parser.field_error("host", "it is missing"));
    }
    // The driver decides how disks are copied; the field is still validated.
    let block_migration = parser.take_required("block_migration")?;
    let is_auto = block_migration == "auto" && request.version.since(25);
    if !is_auto && fields::json_boolean(block_migration).is_none() {
        let path = parser.path_of("block_migration");
        return Err(fields::type_error(
            &path,
            "true, false or auto",
            block_migration,
        ));
    }
    if !request.version.since(25) {
        parser.boolean("disk_over_commit")?;
    }
    parse_force(request, &mut parser, 30)?;
    parser.finish()?;
    let host = host.flatten();
    let kind = MoveKind::LiveMigrate;
    start_move(
        request,
        Rule::ServersMigrateLive,
        kind,
        |server, body| match host {
            Some(host) => set_destination(server, body, "os-migrateLive.host", host),
            None => Ok(()),
        },
    )
    .await?;
    Ok(Reply::empty(202))
}

/// Parses the flag `force`, which the versions from `since` to 2.67 allow. The flag has no effect here.
fn parse_force(
    request: &RoutedRequest<'_>,
    parser: &mut ObjectParser<'_>,
    since: u16,
) -> ApiResult<()> {
    if request.version.since(since) && !request.version.since(68) {
        parser.boolean("force")?;
    }
    Ok(())
}

pub(super) async fn evacuate(request: &RoutedRequest<'_>, arguments: &Value) -> ApiResult<Reply> {
    let mut parser = ObjectParser::new("evacuate", arguments)?;
    let host = parser.nullable_text("host", 1..=255)?.flatten();
    let password = parser.text("adminPass", 0..=255)?;
    if !request.version.since(14) {
        let on_shared_storage = parser.boolean("onSharedStorage")?;
        if on_shared_storage.is_none() {
            return Err(parser.field_error("onSharedStorage", "it is missing"));
        }
    }
    parse_force(request, &mut parser, 29)?;
    parser.finish()?;
    start_move(
        request,
        Rule::ServersEvacuate,
        MoveKind::Evacuate,
        |server, body| {
            if let Some((id, name)) = server.host() {
                let view = server.cell().and_then(|cell| server.views.host(cell, id));
                if view.is_none_or(|view| view.is_up) {
                    let subject = match request.sees_all_projects() {
                        true => format!("Host {name}"),
                        false => "The host".to_owned(),
                    };
                    let message = format!("{subject} of the server is up: migrate it instead.");
                    return Err(ApiError::bad_request(message));
                }
            }
            match host {
                Some(host) => set_destination(server, body, "evacuate.host", host),
                None => Ok(()),
            }
        },
    )
    .await?;
    if request.version.since(14) {
        return Ok(Reply::empty(200));
    }
    Reply::value(200, &json!({"adminPass": password}))
}

pub(super) async fn shelve(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let reading = request.read(|control, views| {
        let server = find_unlocked(request, control, views, Rule::ServersShelve)?;
        let is_active = server
            .view
            .is_some_and(|view| view.vm_state == VmState::Active);
        match server.cell() {
            Some(cell) if is_active && server.status().task_state.is_none() => {
                Ok((cell, server.id))
            }
            _ => Err(state_conflict(&server, "shelved")),
        }
    });
    let (cell, instance) = reading.await?;
    request
        .run_in_cell(
            cell,
            CellOperation::Shelve {
                instance,
                request: Some(request.request_uuid),
            },
        )
        .await?;
    Ok(Reply::empty(202))
}

/// Always refused, because shelving removes a server from its host: no server is shelved and still
/// on a host.
pub(super) async fn shelve_offload(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let reading = request.read(|control, views| {
        let server = find_unlocked(request, control, views, Rule::ServersShelveOffload)?;
        Err(state_conflict(&server, "taken off its host"))
    });
    reading.await
}

pub(super) async fn unshelve(request: &RoutedRequest<'_>, arguments: &Value) -> ApiResult<Reply> {
    let arguments = object_or_empty(arguments);
    // A zone that is null is `Some(None)`: the server is no longer restricted to a zone.
    let (mut zone, mut host) = (None, None);
    if request.version.since(77) {
        let mut parser = ObjectParser::new("unshelve", &arguments)?;
        zone = if request.version.since(91) {
            parser.nullable_text("availability_zone", 1..=255)?
        } else {
            parser.text("availability_zone", 1..=255)?.map(Some)
        };
        if request.version.since(91) {
            host = parser.text("host", 1..=255)?;
        }
        parser.finish()?;
        if host.is_some() {
            request.authorize(Rule::ServersUnshelveToHost)?;
        }
    }
    start_move(
        request,
        Rule::ServersUnshelve,
        MoveKind::Unshelve,
        |server, body| {
            match zone {
                Some(Some(zone)) if !zones::exists(server.control, zone) => {
                    let message = format!("there is no zone {zone}");
                    return Err(ApiError::field("unshelve.availability_zone", message));
                }
                Some(zone) => body.request.availability_zone = zone.map(str::to_owned),
                None => {}
            }
            match host {
                Some(host) => set_destination(server, body, "unshelve.host", host),
                None => Ok(()),
            }
        },
    )
    .await?;
    Ok(Reply::empty(202))
}

pub(super) async fn confirm(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let record = end_move(request, Rule::ServersConfirmResize, MoveDecision::Confirm).await?;
    Ok(Reply::empty(204).with_location(record))
}

pub(super) async fn revert(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let record = end_move(request, Rule::ServersRevertResize, MoveDecision::Revert).await?;
    Ok(Reply::empty(202).with_location(record))
}

/// Confirms or reverts the server's resize or cold migration, which waits for this decision. Returns the link to the
/// record of this action or, if an earlier request has made the same decision, to the record of the earlier action.
async fn end_move(
    request: &RoutedRequest<'_>,
    rule: Rule,
    decision: MoveDecision,
) -> ApiResult<String> {
    let record = request
        .submit_with_retry(|control, views| {
            let server = find_unlocked(request, control, views, rule)?;
            let status = server.status();
            let latest_id = server.mapping.migrations.last().copied();
            let latest_move =
                latest_id.and_then(|id| Some((id, control.conductor.moves().get(&id)?)));
            let waits = status.name == "VERIFY_RESIZE" && status.task_state.is_none();
            let Some((migration, row)) = latest_move.filter(|_| waits) else {
                return Err(state_conflict(&server, "confirmed or reverted"));
            };
            let is_repeated = row.decision == Some(decision);
            let earlier_request = row.decision_request.filter(|_| is_repeated);
            let command = Command::Guarded {
                expected: vec![Change::Move(migration, Some(Box::new(row.clone())))],
                command: Box::new(Command::ConfirmOrRevert {
                    migration,
                    decision,
                    request: Some(request.request_uuid),
                }),
            };
            Ok((command, earlier_request.unwrap_or(request.request_uuid)))
        })
        .await?;
    Ok(action_records::link(request, record))
}
