//! Migrations: the moves of all servers, and a server's live migrations under way.

use std::ops::Bound;

use placewright_auth::Rule;
use placewright_conductor::super_conductor::{Migration, MigrationStatus};
use placewright_conductor::{ControlState, HostId, MigrationId, MoveKind};
use placewright_control::Views;
use placewright_http::{ApiError, ApiResult, Reply};
use serde_json::{Value, json};

use super::server_view::ServerView;
use super::{body, find};
use crate::admin::legacy_id;
use crate::routed_request::RoutedRequest;
use crate::slices::SliceResult;
use crate::{error, page, time};

/// A migration with what is shown of its server and hosts.
struct Row {
    id: MigrationId,
    record: Migration,
    project: String,
    user: String,
    status: &'static str,
    is_under_way: bool,
    source: Option<String>,
    target: Option<String>,
    old_flavor: String,
    new_flavor: String,
}

impl Row {
    fn of(
        control: &ControlState,
        views: &Views,
        id: MigrationId,
        record: &Migration,
    ) -> Option<Self> {
        let conductor = &control.conductor;
        let seen = ServerView::find(control, views, record.instance)?;
        let name = |host: Option<HostId>| {
            let host = host?;
            Some(conductor.hosts().get(&host)?.name.clone())
        };
        let under_way = conductor.moves().get(&id);
        let flavor = body::shown(seen.stored).server.flavor_id;
        let new_flavor = under_way
            .and_then(|one| one.spec.as_ref())
            .map(|spec| body::shown(spec).server.flavor_id);
        Some(Self {
            id,
            record: record.clone(),
            project: seen.mapping.project.clone(),
            user: seen.mapping.user.clone(),
            status: status(record, &seen),
            is_under_way: under_way.is_some(),
            source: name(record.source),
            target: name(record.target),
            new_flavor: new_flavor.unwrap_or_else(|| flavor.clone()),
            old_flavor: flavor,
        })
    }

    fn kind(&self) -> &'static str {
        match self.record.kind {
            MoveKind::ColdMigrate => "migration",
            MoveKind::Resize => "resize",
            MoveKind::LiveMigrate => "live-migration",
            MoveKind::Evacuate => "evacuation",
            MoveKind::Unshelve => "unshelve",
        }
    }

    /// Its integer id for old clients.
    fn number(&self) -> u32 {
        legacy_id(self.id.0)
    }

    fn has_id(&self, text: &str) -> bool {
        self.id.to_string() == text || self.number().to_string() == text
    }
}

/// The status of a migration, in the terms of the compute API.
fn status(record: &Migration, seen: &ServerView<'_>) -> &'static str {
    let is_live = matches!(record.kind, MoveKind::LiveMigrate);
    match record.status {
        MigrationStatus::Accepted => "accepted",
        MigrationStatus::Running if is_live => "running",
        MigrationStatus::Running => match seen.status().status {
            "VERIFY_RESIZE" => "finished",
            _ => "migrating",
        },
        MigrationStatus::Confirmed => match record.kind {
            MoveKind::ColdMigrate | MoveKind::Resize => "confirmed",
            MoveKind::Evacuate => "done",
            MoveKind::LiveMigrate | MoveKind::Unshelve => "completed",
        },
        MigrationStatus::Reverted => "reverted",
        MigrationStatus::Error => "error",
    }
}

fn shown(call: &RoutedRequest<'_>, row: &Row) -> Value {
    let mut value = json!({
        "id": row.number(),
        "instance_uuid": row.record.instance,
        "source_node": row.source,
        "source_compute": row.source,
        "dest_node": row.target,
        "dest_compute": row.target,
        "dest_host": null,
        "status": row.status,
        "old_instance_type_id": row.old_flavor,
        "new_instance_type_id": row.new_flavor,
        "created_at": time::micros(row.record.created_at),
        "updated_at": time::micros(row.record.updated_at),
    });
    if call.version.since(23) {
        value["migration_type"] = json!(row.kind());
        if row.is_under_way && matches!(row.record.kind, MoveKind::LiveMigrate) {
            let path = format!(
                "/servers/{}/migrations/{}",
                row.record.instance,
                row.number()
            );
            value["links"] = call.links(&path);
        }
    }
    if call.version.since(59) {
        value["uuid"] = json!(row.id);
    }
    if call.version.since(80) {
        value["user_id"] = json!(row.user);
        value["project_id"] = json!(row.project);
    }
    value
}

/// Unshelving is a move here but not in the compute API, where it appears among the actions only.
fn is_listed(record: &Migration) -> bool {
    record.kind != MoveKind::Unshelve
}

pub(crate) async fn list(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::MigrationsIndex)?;
    let query = &call.query;
    let since = match call.version.since(59) {
        true => query.time("changes-since")?,
        false => None,
    };
    let before = match call.version.since(66) {
        true => query.time("changes-before")?,
        false => None,
    };
    let wants =
        |key, value: Option<&str>| query.get(key).is_none_or(|wanted| value == Some(wanted));
    let takes = |row: &Row| {
        let on_host = query.get("host").is_none_or(|host| {
            row.source.as_deref() == Some(host) || row.target.as_deref() == Some(host)
        });
        let of_owner = !call.version.since(80)
            || (wants("user_id", Some(&row.user)) && wants("project_id", Some(&row.project)));
        on_host
            && of_owner
            && wants("status", Some(row.status))
            && wants("source_compute", row.source.as_deref())
            && wants("instance_uuid", Some(&row.record.instance.to_string()))
            && wants("migration_type", Some(row.kind()))
            && since.is_none_or(|since| row.record.updated_at >= since)
            && before.is_none_or(|before| row.record.updated_at <= before)
    };
    let rows = call.gather(|control, views, after: Option<&MigrationId>| {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let all = control
            .conductor
            .migrations()
            .range((after, Bound::Unbounded));
        SliceResult::look(all.map(|(id, record)| (*id, record)), |id, record| {
            let listed = is_listed(record).then_some(record)?;
            let row = Row::of(control, views, *id, listed)?;
            takes(&row).then_some(row)
        })
    });
    let mut rows = rows.await;
    rows.sort_by(|one, other| {
        let one = (one.record.created_at, one.id);
        (other.record.created_at, other.id).cmp(&one)
    });
    if call.version.since(59) {
        rows = page::cut(call, rows, Row::has_id)?;
    }
    let values: Vec<Value> = rows.iter().map(|row| shown(call, row)).collect();
    let mut body = json!({"migrations": values});
    if call.version.since(59) {
        let last = rows
            .last()
            .map(|row| row.id.to_string())
            .unwrap_or_default();
        if let Some(links) = page::next(call, "/os-migrations", rows.len(), &last)? {
            body["migrations_links"] = links;
        }
    }
    Reply::value(200, &body)
}

/// The server's live migrations that are under way.
async fn live(call: &RoutedRequest<'_>, rule: Rule) -> ApiResult<Vec<Row>> {
    let read = call.read(|control, views| {
        let seen = find(call, control, views, rule)?;
        let conductor = &control.conductor;
        let ids = seen.mapping.migrations.iter();
        let under_way = ids.filter(|id| conductor.moves().contains_key(id));
        let rows = under_way.filter_map(|id| {
            let record = conductor.migrations().get(id)?;
            Row::of(control, views, *id, record)
        });
        let rows = rows.filter(|row| matches!(row.record.kind, MoveKind::LiveMigrate));
        Ok(rows.collect())
    });
    read.await
}

fn shown_live(call: &RoutedRequest<'_>, row: &Row) -> Value {
    let mut value = json!({
        "id": row.number(),
        "server_uuid": row.record.instance,
        "source_node": row.source,
        "source_compute": row.source,
        "dest_node": row.target,
        "dest_compute": row.target,
        "dest_host": null,
        "status": row.status,
        "created_at": time::micros(row.record.created_at),
        "updated_at": time::micros(row.record.updated_at),
        "memory_total_bytes": null,
        "memory_processed_bytes": null,
        "memory_remaining_bytes": null,
        "disk_total_bytes": null,
        "disk_processed_bytes": null,
        "disk_remaining_bytes": null,
    });
    if call.version.since(59) {
        value["uuid"] = json!(row.id);
    }
    if call.version.since(80) {
        value["user_id"] = json!(row.user);
        value["project_id"] = json!(row.project);
    }
    value
}

pub(crate) async fn of_server(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let rows = live(call, Rule::ServerMigrationsIndex).await?;
    let values: Vec<Value> = rows.iter().map(|row| shown_live(call, row)).collect();
    Reply::value(200, &json!({"migrations": values}))
}

pub(crate) async fn show(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let row = one(call).await?;
    Reply::value(200, &json!({"migration": shown_live(call, &row)}))
}

async fn one(call: &RoutedRequest<'_>) -> ApiResult<Row> {
    let wanted = call.parameter("migration_id");
    let rows = live(call, Rule::ServerMigrationsShow).await?;
    let found = rows.into_iter().find(|row| row.has_id(wanted));
    found.ok_or_else(|| error::missing("live migration under way", wanted))
}

pub(crate) async fn abort(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    one(call).await?;
    let message = "Live migrations cannot be broken off: they end, or fail, by themselves.";
    Err(ApiError::not_implemented(message))
}

pub(crate) async fn force(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    one(call).await?;
    let message = "Live migrations cannot be forced to end: how they run is the driver's business.";
    Err(ApiError::not_implemented(message))
}
