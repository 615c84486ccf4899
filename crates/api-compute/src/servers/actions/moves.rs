//! Moves of a server, and their confirmation or reversal.
//!
//! Each is accepted as one command and carried out afterwards; the server's status, migrations and
//! actions show the result.

use placewright_auth::Rule;
use placewright_conductor::cell_conductor::VmState;
use placewright_conductor::super_conductor::{Change, Command};
use placewright_conductor::{ControlState, MigrationId, MoveDecision, MoveKind};
use placewright_control::{Views, usage_of};
use placewright_http::{ApiError, ApiResult, Reply};
use placewright_link::CellOperation;
use placewright_records::server;
use placewright_scheduler::request::Destination;
use placewright_scheduler::translate::translate;
use placewright_types::server::ServerBody;
use serde_json::{Value, json};
use uuid::Uuid;

use super::super::body::{self, for_move};
use super::super::common_fields::disk_config;
use super::super::create::{flavor_of, flavor_ref};
use super::super::find_unlocked;
use super::super::server_view::ServerView;
use super::nullable;
use crate::admin::zones;
use crate::fields::{self, ObjectParser};
use crate::routed_request::RoutedRequest;

/// Accepts a move of the server in the path. `prepare` checks it, and returns the new
/// specification.
async fn start(
    call: &RoutedRequest<'_>,
    rule: Rule,
    kind: MoveKind,
    prepare: impl Fn(&ServerView<'_>, &mut ServerBody) -> ApiResult<()> + Send + Sync,
) -> ApiResult<()> {
    let migration = MigrationId(Uuid::new_v4());
    call.change(|control, views| {
        let seen = find_unlocked(call, control, views, rule)?;
        check_state(&seen, kind)?;
        let mut spec = seen.stored.clone();
        let mut body = for_move(body::of(&spec)?);
        prepare(&seen, &mut body)?;
        let translation = translate(&body.request, call.core.translate());
        let translation =
            translation.map_err(|error| ApiError::bad_request(format!("{error}.")))?;
        if kind == MoveKind::Resize {
            spec.usage = usage_of(&body.request.flavor, &translation);
        }
        spec.body = server::write(&body);
        let command = Command::Guarded {
            expected: vec![Change::Spec(seen.id, Some(Box::new(seen.stored.clone())))],
            command: Box::new(Command::StartMove {
                migration,
                instance: seen.id,
                kind,
                spec: Some(Box::new(spec)),
            }),
        };
        Ok((command, ()))
    })
    .await
}

/// Whether a server's state allows a move; its cell decides finally.
fn check_state(seen: &ServerView<'_>, kind: MoveKind) -> ApiResult<()> {
    let status = seen.status();
    let state = seen.view.map(|view| view.vm_state);
    let can = match kind {
        MoveKind::ColdMigrate | MoveKind::Resize | MoveKind::LiveMigrate => {
            state == Some(VmState::Active)
        }
        MoveKind::Evacuate => matches!(state, Some(VmState::Active | VmState::Error)),
        MoveKind::Unshelve => state == Some(VmState::ShelvedOffloaded),
    };
    if can && status.task.is_none() && !seen.is_out_of_reach {
        return Ok(());
    }
    let what = match kind {
        MoveKind::ColdMigrate => "migrated",
        MoveKind::Resize => "resized",
        MoveKind::LiveMigrate => "migrated live",
        MoveKind::Evacuate => "evacuated",
        MoveKind::Unshelve => "unshelved",
    };
    Err(busy(seen, what))
}

fn busy(seen: &ServerView<'_>, what: &str) -> ApiError {
    let status = seen.status();
    let task = status
        .task
        .map(|task| format!(" ({task})"))
        .unwrap_or_default();
    ApiError::conflict(format!(
        "Server {} cannot be {what} while it is {}{task}.",
        seen.id, status.status
    ))
}

/// Restricts a move to the host with this name.
fn destine(seen: &ServerView<'_>, body: &mut ServerBody, field: &str, host: &str) -> ApiResult<()> {
    let conductor = &seen.control.conductor;
    let id = conductor.host_names().get(host);
    let cell = id
        .and_then(|id| conductor.hosts().get(id))
        .map(|row| row.cell);
    let Some(cell) = cell else {
        return Err(ApiError::field(field, format!("there is no host {host}")));
    };
    if Some(cell) != seen.mapping.cell {
        let message = format!("host {host} is in another cell than the server");
        return Err(ApiError::field(field, message));
    }
    if seen.host().is_some_and(|(_, own)| own == host) {
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

pub(super) async fn resize(call: &RoutedRequest<'_>, parsed: &Value) -> ApiResult<Reply> {
    let mut fields = ObjectParser::new("resize", parsed)?;
    let id = flavor_ref(&mut fields)?;
    let disk = disk_config(&mut fields)?;
    fields.finish()?;
    start(call, Rule::ServersResize, MoveKind::Resize, |seen, body| {
        let flavor = crate::flavors::find(call, seen.control, &id)
            .map_err(|_| ApiError::field("resize.flavorRef", format!("there is no flavor {id}")))?;
        if body.server.flavor_id == id {
            let message = "it is the flavor that the server has already";
            return Err(ApiError::field("resize.flavorRef", message));
        }
        body.request.flavor = flavor_of(flavor);
        body.server.flavor_id.clone_from(&id);
        if let Some(disk) = disk {
            disk.clone_into(&mut body.server.disk_config);
        }
        Ok(())
    })
    .await?;
    Ok(Reply::empty(202))
}

pub(super) async fn migrate(call: &RoutedRequest<'_>, parsed: &Value) -> ApiResult<Reply> {
    let parsed = nullable(parsed);
    let mut host = None;
    if call.version.since(56) {
        let mut fields = ObjectParser::new("migrate", &parsed)?;
        host = fields.nullable_text("host", 1..=255)?.flatten();
        fields.finish()?;
        if host.is_some() {
            call.allow(Rule::ServersMigrateHost)?;
        }
    }
    start(
        call,
        Rule::ServersMigrate,
        MoveKind::ColdMigrate,
        |seen, body| match host {
            Some(host) => destine(seen, body, "migrate.host", host),
            None => Ok(()),
        },
    )
    .await?;
    Ok(Reply::empty(202))
}

pub(super) async fn live_migrate(call: &RoutedRequest<'_>, parsed: &Value) -> ApiResult<Reply> {
    let mut fields = ObjectParser::new("os-migrateLive", parsed)?;
    let host = fields.nullable_text("host", 1..=255)?;
    if host.is_none() && !call.version.since(25) {
        return Err(fields.wrong("host", "it is missing"));
    }
    // The driver decides how disks are copied; the field is still validated.
    let block = fields.need("block_migration")?;
    let is_auto = block == "auto" && call.version.since(25);
    if !is_auto && fields::boolean(block).is_none() {
        let path = fields.path_of("block_migration");
        return Err(fields::wrong(&path, "true, false or auto", block));
    }
    if !call.version.since(25) {
        fields.boolean("disk_over_commit")?;
    }
    read_force(call, &mut fields, 30)?;
    fields.finish()?;
    let host = host.flatten();
    let kind = MoveKind::LiveMigrate;
    start(
        call,
        Rule::ServersMigrateLive,
        kind,
        |seen, body| match host {
            Some(host) => destine(seen, body, "os-migrateLive.host", host),
            None => Ok(()),
        },
    )
    .await?;
    Ok(Reply::empty(202))
}

/// Parses the flag that skips checks, which has no effect here; some versions allow it.
fn read_force(
    call: &RoutedRequest<'_>,
    fields: &mut ObjectParser<'_>,
    since: u16,
) -> ApiResult<()> {
    if call.version.since(since) && !call.version.since(68) {
        fields.boolean("force")?;
    }
    Ok(())
}

pub(super) async fn evacuate(call: &RoutedRequest<'_>, parsed: &Value) -> ApiResult<Reply> {
    let mut fields = ObjectParser::new("evacuate", parsed)?;
    let host = fields.nullable_text("host", 1..=255)?.flatten();
    let password = fields.text("adminPass", 0..=255)?;
    if !call.version.since(14) {
        let shared = fields.boolean("onSharedStorage")?;
        if shared.is_none() {
            return Err(fields.wrong("onSharedStorage", "it is missing"));
        }
    }
    read_force(call, &mut fields, 29)?;
    fields.finish()?;
    start(
        call,
        Rule::ServersEvacuate,
        MoveKind::Evacuate,
        |seen, body| {
            if let Some((id, name)) = seen.host() {
                let view = seen.cell().and_then(|cell| seen.views.host(cell, id));
                if view.is_none_or(|view| view.is_up) {
                    let name = match call.sees_all_projects() {
                        true => format!("Host {name}"),
                        false => "The host".to_owned(),
                    };
                    let message = format!("{name} of the server is up: migrate it instead.");
                    return Err(ApiError::bad_request(message));
                }
            }
            match host {
                Some(host) => destine(seen, body, "evacuate.host", host),
                None => Ok(()),
            }
        },
    )
    .await?;
    if call.version.since(14) {
        return Ok(Reply::empty(200));
    }
    Reply::value(200, &json!({"adminPass": password}))
}

pub(super) async fn shelve(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let read = call.read(|control, views| {
        let seen = find_unlocked(call, control, views, Rule::ServersShelve)?;
        let is_active = seen
            .view
            .is_some_and(|view| view.vm_state == VmState::Active);
        match seen.cell() {
            Some(cell) if is_active && seen.status().task.is_none() => Ok((cell, seen.id)),
            _ => Err(busy(&seen, "shelved")),
        }
    });
    let (cell, instance) = read.await?;
    call.act(cell, CellOperation::Shelve { instance }).await?;
    Ok(Reply::empty(202))
}

/// Always refused: shelving removes a server from its host at once, so that no server is shelved
/// and still on a host.
pub(super) async fn shelve_offload(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let read = call.read(|control, views| {
        let seen = find_unlocked(call, control, views, Rule::ServersShelveOffload)?;
        Err(busy(&seen, "taken off its host"))
    });
    read.await
}

pub(super) async fn unshelve(call: &RoutedRequest<'_>, parsed: &Value) -> ApiResult<Reply> {
    let parsed = nullable(parsed);
    let (mut zone, mut host) = (None, None);
    if call.version.since(77) {
        let mut fields = ObjectParser::new("unshelve", &parsed)?;
        zone = if call.version.since(91) {
            fields.nullable_text("availability_zone", 1..=255)?
        } else {
            fields.text("availability_zone", 1..=255)?.map(Some)
        };
        if call.version.since(91) {
            host = fields.text("host", 1..=255)?;
        }
        fields.finish()?;
        if host.is_some() {
            call.allow(Rule::ServersUnshelveToHost)?;
        }
    }
    start(
        call,
        Rule::ServersUnshelve,
        MoveKind::Unshelve,
        |seen, body| {
            match zone {
                Some(Some(zone)) if !zones::exists(seen.control, zone) => {
                    let message = format!("there is no zone {zone}");
                    return Err(ApiError::field("unshelve.availability_zone", message));
                }
                Some(zone) => body.request.availability_zone = zone.map(str::to_owned),
                None => {}
            }
            match host {
                Some(host) => destine(seen, body, "unshelve.host", host),
                None => Ok(()),
            }
        },
    )
    .await?;
    Ok(Reply::empty(202))
}

pub(super) async fn confirm(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    conclude(call, Rule::ServersConfirmResize, MoveDecision::Confirm).await?;
    Ok(Reply::empty(204))
}

pub(super) async fn revert(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    conclude(call, Rule::ServersRevertResize, MoveDecision::Revert).await?;
    Ok(Reply::empty(202))
}

async fn conclude(call: &RoutedRequest<'_>, rule: Rule, decision: MoveDecision) -> ApiResult<()> {
    let find = |control: &ControlState, views: &Views| {
        let seen = find_unlocked(call, control, views, rule)?;
        let status = seen.status();
        let latest = seen.mapping.migrations.last().copied();
        let latest = latest.filter(|latest| control.conductor.moves().contains_key(latest));
        match latest {
            Some(latest) if status.status == "VERIFY_RESIZE" && status.task.is_none() => Ok(latest),
            _ => Err(busy(&seen, "confirmed or reverted")),
        }
    };
    let migration = call.read(find).await?;
    call.carry_out(Command::Conclude {
        migration,
        decision,
    })
    .await?;
    Ok(())
}
