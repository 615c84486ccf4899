//! Migrations: those of all servers, and the live migrations of one server that are under way.

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

/// A migration with those data of its server and hosts that are shown: hosts by their names, flavors
/// by their ids.
struct MigrationRow {
    id: MigrationId,
    migration: Migration,
    project: String,
    user: String,
    status: &'static str,
    is_under_way: bool,
    source: Option<String>,
    target: Option<String>,
    old_flavor: String,
    new_flavor: String,
}

impl MigrationRow {
    fn new(
        control: &ControlState,
        views: &Views,
        id: MigrationId,
        migration: &Migration,
    ) -> Option<Self> {
        let conductor = &control.conductor;
        let server = ServerView::find(control, views, migration.instance)?;
        let host_name = |host: Option<HostId>| {
            let host = host?;
            Some(conductor.hosts().get(&host)?.name.clone())
        };
        let move_under_way = conductor.moves().get(&id);
        // Until a resize is confirmed, the stored specification has the old flavor, and the move has the new one. After
        // the move has ended, only the present flavor of the server is known. It is shown as the old and the new one.
        let flavor = body::decode_or_default(server.stored_spec).server.flavor_id;
        let new_flavor = move_under_way
            .and_then(|row| row.spec.as_ref())
            .map(|spec| body::decode_or_default(spec).server.flavor_id);
        Some(Self {
            id,
            migration: migration.clone(),
            project: server.mapping.project.clone(),
            user: server.mapping.user.clone(),
            status: status(migration, &server),
            is_under_way: move_under_way.is_some(),
            source: host_name(migration.source),
            target: host_name(migration.target),
            new_flavor: new_flavor.unwrap_or_else(|| flavor.clone()),
            old_flavor: flavor,
        })
    }

    fn kind(&self) -> &'static str {
        match self.migration.kind {
            MoveKind::ColdMigrate => "migration",
            MoveKind::Resize => "resize",
            MoveKind::LiveMigrate => "live-migration",
            MoveKind::Evacuate => "evacuation",
            MoveKind::Unshelve => "unshelve",
        }
    }

    /// The integer that the API shows as the migration's `id`, as Nova does; from 2.59 on the UUID is shown beside it.
    fn legacy_id(&self) -> u32 {
        legacy_id(self.id.0)
    }

    fn has_id(&self, text: &str) -> bool {
        self.id.to_string() == text || self.legacy_id().to_string() == text
    }
}

/// The status of a migration in the compute API.
fn status(migration: &Migration, server: &ServerView<'_>) -> &'static str {
    let is_live = matches!(migration.kind, MoveKind::LiveMigrate);
    match migration.status {
        MigrationStatus::Accepted => "accepted",
        MigrationStatus::Running if is_live => "running",
        MigrationStatus::Running => match server.status().name {
            "VERIFY_RESIZE" => "finished",
            _ => "migrating",
        },
        MigrationStatus::Confirmed => match migration.kind {
            MoveKind::ColdMigrate | MoveKind::Resize => "confirmed",
            MoveKind::Evacuate => "done",
            MoveKind::LiveMigrate | MoveKind::Unshelve => "completed",
        },
        MigrationStatus::Reverted => "reverted",
        MigrationStatus::Error => "error",
    }
}

fn migration_json(request: &RoutedRequest<'_>, row: &MigrationRow) -> Value {
    let mut value = json!({
        "id": row.legacy_id(),
        "instance_uuid": row.migration.instance,
        "source_node": row.source,
        "source_compute": row.source,
        "dest_node": row.target,
        "dest_compute": row.target,
        "dest_host": null,
        "status": row.status,
        "old_instance_type_id": row.old_flavor,
        "new_instance_type_id": row.new_flavor,
        "created_at": time::format_micros(row.migration.created_at),
        "updated_at": time::format_micros(row.migration.updated_at),
    });
    if request.version.since(23) {
        value["migration_type"] = json!(row.kind());
        if row.is_under_way && matches!(row.migration.kind, MoveKind::LiveMigrate) {
            let path = format!(
                "/servers/{}/migrations/{}",
                row.migration.instance,
                row.legacy_id()
            );
            value["links"] = request.links(&path);
        }
    }
    if request.version.since(59) {
        value["uuid"] = json!(row.id);
    }
    if request.version.since(80) {
        value["user_id"] = json!(row.user);
        value["project_id"] = json!(row.project);
    }
    value
}

/// Whether the compute API lists a migration. Unshelving is a migration here, but only an action in
/// the API.
fn is_listed(migration: &Migration) -> bool {
    migration.kind != MoveKind::Unshelve
}

pub(crate) async fn list(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::MigrationsIndex)?;
    let query = &request.query;
    let changed_since = match request.version.since(59) {
        true => query.time("changes-since")?,
        false => None,
    };
    let changed_before = match request.version.since(66) {
        true => query.time("changes-before")?,
        false => None,
    };
    let matches_query =
        |key, value: Option<&str>| query.get(key).is_none_or(|wanted| value == Some(wanted));
    let is_wanted = |row: &MigrationRow| {
        let matches_host = query.get("host").is_none_or(|host| {
            row.source.as_deref() == Some(host) || row.target.as_deref() == Some(host)
        });
        let matches_owner = !request.version.since(80)
            || (matches_query("user_id", Some(&row.user))
                && matches_query("project_id", Some(&row.project)));
        matches_host
            && matches_owner
            && matches_query("status", Some(row.status))
            && matches_query("source_compute", row.source.as_deref())
            && matches_query("instance_uuid", Some(&row.migration.instance.to_string()))
            && matches_query("migration_type", Some(row.kind()))
            && changed_since.is_none_or(|since| row.migration.updated_at >= since)
            && changed_before.is_none_or(|before| row.migration.updated_at <= before)
    };
    let rows = request.collect_slices(|control, views, after: Option<&MigrationId>| {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let migrations = control
            .conductor
            .migrations()
            .range((after, Bound::Unbounded));
        SliceResult::collect(
            migrations.map(|(id, migration)| (*id, migration)),
            |id, migration| {
                if !is_listed(migration) {
                    return None;
                }
                let row = MigrationRow::new(control, views, *id, migration)?;
                is_wanted(&row).then_some(row)
            },
        )
    });
    let mut rows = rows.await;
    rows.sort_by(|left, right| {
        let left = (left.migration.created_at, left.id);
        (right.migration.created_at, right.id).cmp(&left)
    });
    if request.version.since(59) {
        rows = page::paginate(request, rows, MigrationRow::has_id)?;
    }
    let values: Vec<Value> = rows
        .iter()
        .map(|row| migration_json(request, row))
        .collect();
    let mut body = json!({"migrations": values});
    if request.version.since(59) {
        let last_id = rows
            .last()
            .map(|row| row.id.to_string())
            .unwrap_or_default();
        if let Some(links) = page::next_link(request, "/os-migrations", rows.len(), &last_id)? {
            body["migrations_links"] = links;
        }
    }
    Reply::value(200, &body)
}

/// The server's live migrations that are under way.
async fn live_migrations(request: &RoutedRequest<'_>, rule: Rule) -> ApiResult<Vec<MigrationRow>> {
    let reading = request.read(|control, views| {
        let server = find(request, control, views, rule)?;
        let conductor = &control.conductor;
        let ids = server.mapping.migrations.iter();
        let ids = ids.filter(|id| conductor.moves().contains_key(id));
        let rows = ids.filter_map(|id| {
            let migration = conductor.migrations().get(id)?;
            MigrationRow::new(control, views, *id, migration)
        });
        let rows = rows.filter(|row| matches!(row.migration.kind, MoveKind::LiveMigrate));
        Ok(rows.collect())
    });
    reading.await
}

fn live_migration_json(request: &RoutedRequest<'_>, row: &MigrationRow) -> Value {
    let mut value = json!({
        "id": row.legacy_id(),
        "server_uuid": row.migration.instance,
        "source_node": row.source,
        "source_compute": row.source,
        "dest_node": row.target,
        "dest_compute": row.target,
        "dest_host": null,
        "status": row.status,
        "created_at": time::format_micros(row.migration.created_at),
        "updated_at": time::format_micros(row.migration.updated_at),
        "memory_total_bytes": null,
        "memory_processed_bytes": null,
        "memory_remaining_bytes": null,
        "disk_total_bytes": null,
        "disk_processed_bytes": null,
        "disk_remaining_bytes": null,
    });
    if request.version.since(59) {
        value["uuid"] = json!(row.id);
    }
    if request.version.since(80) {
        value["user_id"] = json!(row.user);
        value["project_id"] = json!(row.project);
    }
    value
}

pub(crate) async fn list_of_server(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let rows = live_migrations(request, Rule::ServerMigrationsIndex).await?;
    let values: Vec<Value> = rows
        .iter()
        .map(|row| live_migration_json(request, row))
        .collect();
    Reply::value(200, &json!({"migrations": values}))
}

pub(crate) async fn show(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let row = find_live(request).await?;
    Reply::value(
        200,
        &json!({"migration": live_migration_json(request, &row)}),
    )
}

/// The live migration of the path. The rule for showing live migrations is also the one for requests to abort or to
/// force one: these are refused to everybody, so their callers learn only what showing tells.
async fn find_live(request: &RoutedRequest<'_>) -> ApiResult<MigrationRow> {
    let id = request.parameter("migration_id");
    let rows = live_migrations(request, Rule::ServerMigrationsShow).await?;
    let row = rows.into_iter().find(|row| row.has_id(id));
    row.ok_or_else(|| error::missing("live migration under way", id))
}

pub(crate) async fn abort(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    find_live(request).await?;
    let message = "Live migrations cannot be broken off: they end, or fail, by themselves.";
    Err(ApiError::not_implemented(message))
}

pub(crate) async fn force(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    find_live(request).await?;
    let message = "Live migrations cannot be forced to end: how they run is the driver's business.";
    Err(ApiError::not_implemented(message))
}
