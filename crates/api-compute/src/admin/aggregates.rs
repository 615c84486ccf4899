//! Host aggregates, and the availability zones that they define.

use std::collections::BTreeMap;

use placewright_auth::Rule;
use placewright_conductor::ControlState;
use placewright_conductor::super_conductor::{Aggregate, Change, Command};
use placewright_http::{ApiError, ApiResult, Reply};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{legacy_id, zones};
use crate::error;
use crate::fields::{self, ObjectParser};
use crate::routed_request::RoutedRequest;
use crate::time;

fn shown(call: &RoutedRequest<'_>, control: &ControlState, uuid: Uuid, row: &Aggregate) -> Value {
    let hosts = row.hosts.iter().filter_map(|host| {
        let mapping = control.conductor.hosts().get(host)?;
        Some(mapping.name.as_str())
    });
    let mut value = json!({
        "id": legacy_id(uuid),
        "name": row.name,
        "availability_zone": row.metadata.get(zones::KEY),
        "hosts": hosts.collect::<Vec<_>>(),
        "metadata": row.metadata,
        "created_at": time::micros(row.created_at),
        "updated_at": row.updated_at.map(time::micros),
        "deleted": false,
        "deleted_at": null,
    });
    if call.version.since(41) {
        value["uuid"] = json!(uuid);
    }
    value
}

pub(crate) async fn list(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::HostAggregatesIndex)?;
    let values = call.read(|control, _| {
        let rows = control.conductor.aggregates().iter();
        let values = rows.map(|(uuid, row)| (row.created_at, shown(call, control, *uuid, row)));
        values.collect::<Vec<_>>()
    });
    let mut values = values.await;
    values.sort_by_key(|(at, _)| *at);
    let values: Vec<Value> = values.into_iter().map(|(_, value)| value).collect();
    Reply::value(200, &json!({"aggregates": values}))
}

/// Finds the aggregate of the path by its integer id or UUID.
fn find<'s>(
    call: &RoutedRequest<'_>,
    control: &'s ControlState,
) -> ApiResult<(Uuid, &'s Aggregate)> {
    let text = call.parameter("aggregate_id");
    let mut rows = control.conductor.aggregates().iter();
    let found = match Uuid::try_parse(text) {
        Ok(uuid) => rows.find(|(known, _)| **known == uuid),
        Err(_) => rows.find(|(known, _)| legacy_id(**known).to_string() == text),
    };
    let found = found.ok_or_else(|| error::missing("aggregate", text))?;
    Ok((*found.0, found.1))
}

async fn reply(call: &RoutedRequest<'_>, uuid: Uuid, row: Aggregate) -> ApiResult<Reply> {
    let value = call.read(|control, _| shown(call, control, uuid, &row));
    Reply::value(200, &json!({"aggregate": value.await}))
}

pub(crate) async fn show(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::HostAggregatesShow)?;
    let value = call.try_read(|control, _| {
        let (uuid, row) = find(call, control)?;
        Ok(shown(call, control, uuid, row))
    });
    Reply::value(200, &json!({"aggregate": value.await?}))
}

/// Parses the name and the zone in a body.
fn read(
    call: &RoutedRequest<'_>,
    body: &Value,
) -> ApiResult<(Option<String>, Option<Option<String>>)> {
    let _ = call;
    let mut fields = ObjectParser::of_body(body)?;
    let mut parsed = fields.object("aggregate")?;
    let name = parsed.name("name")?.map(str::to_owned);
    let zone = parsed.nullable_text("availability_zone", 1..=255)?;
    if let Some(Some(zone)) = zone {
        check_zone("aggregate.availability_zone", zone)?;
    }
    parsed.finish()?;
    fields.finish()?;
    Ok((name, zone.map(|zone| zone.map(str::to_owned))))
}

fn check_zone(path: &str, zone: &str) -> ApiResult<()> {
    fields::check_name(path, zone)?;
    if zone.contains(':') {
        return Err(ApiError::field(path, "the name of a zone has no colon"));
    }
    if zone == zones::DEFAULT {
        let message = "it is the zone of hosts that are in no other";
        return Err(ApiError::field(path, message));
    }
    Ok(())
}

fn check_name(control: &ControlState, own: Option<Uuid>, name: &str) -> ApiResult<()> {
    let mut rows = control.conductor.aggregates().iter();
    if rows.any(|(uuid, row)| Some(*uuid) != own && row.name == name) {
        let message = format!("There is an aggregate with the name {name} already.");
        return Err(ApiError::conflict(message));
    }
    Ok(())
}

pub(crate) async fn create(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::HostAggregatesCreate)?;
    let (name, zone) = read(call, &call.json()?)?;
    let name = name.ok_or_else(|| ApiError::field("aggregate.name", "it is missing"))?;
    let zone = zone.flatten();
    let (uuid, row) = call
        .change(|control, _| {
            check_name(control, None, &name)?;
            let mut uuid = Uuid::new_v4();
            let is_taken = |uuid: Uuid| {
                let mut known = control.conductor.aggregates().keys();
                known.any(|known| legacy_id(*known) == legacy_id(uuid))
            };
            while is_taken(uuid) {
                uuid = Uuid::new_v4();
            }
            let metadata = zone
                .iter()
                .map(|zone| (zones::KEY.to_owned(), zone.clone()));
            let row = Aggregate {
                name: name.clone(),
                hosts: Vec::new(),
                metadata: metadata.collect(),
                created_at: call.at,
                updated_at: None,
            };
            Ok((set(uuid, None, &row), (uuid, row)))
        })
        .await?;
    call.note_created([uuid]);
    reply(call, uuid, row).await
}

fn set(aggregate: Uuid, before: Option<&Aggregate>, row: &Aggregate) -> Command {
    Command::Guarded {
        expected: vec![Change::Aggregate(aggregate, before.cloned().map(Box::new))],
        command: Box::new(Command::SetAggregate {
            aggregate,
            row: Some(row.clone()),
        }),
    }
}

/// Replaces the aggregate of the path by what `change` makes of it.
async fn replace(
    call: &RoutedRequest<'_>,
    change: impl Fn(&ControlState, Uuid, &mut Aggregate) -> ApiResult<()> + Send + Sync,
) -> ApiResult<Reply> {
    let (uuid, row) = call
        .change(|control, _| {
            let (uuid, before) = find(call, control)?;
            let mut row = before.clone();
            change(control, uuid, &mut row)?;
            row.updated_at = Some(call.at);
            check_zones(control, uuid, &row)?;
            Ok((set(uuid, Some(before), &row), (uuid, row)))
        })
        .await?;
    reply(call, uuid, row).await
}

/// Rejects an aggregate that would put a host into two availability zones.
fn check_zones(control: &ControlState, own: Uuid, row: &Aggregate) -> ApiResult<()> {
    let Some(zone) = row.metadata.get(zones::KEY) else {
        return Ok(());
    };
    for (uuid, other) in control.conductor.aggregates() {
        let differs = other
            .metadata
            .get(zones::KEY)
            .is_some_and(|known| known != zone);
        let shared = row.hosts.iter().find(|host| other.hosts.contains(host));
        if let Some(host) = shared
            && differs
            && *uuid != own
        {
            let mapping = control.conductor.hosts().get(host);
            let host = mapping.map_or("", |mapping| mapping.name.as_str());
            let message = format!("Host {host} is in another zone already, by {}.", other.name);
            return Err(ApiError::conflict(message));
        }
    }
    Ok(())
}

pub(crate) async fn update(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::HostAggregatesUpdate)?;
    let (name, zone) = read(call, &call.json()?)?;
    if name.is_none() && zone.is_none() {
        return Err(ApiError::field("aggregate", "a name or a zone is needed"));
    }
    replace(call, |control, uuid, row| {
        if let Some(name) = &name {
            check_name(control, Some(uuid), name)?;
            row.name.clone_from(name);
        }
        match &zone {
            Some(Some(zone)) => drop(row.metadata.insert(zones::KEY.to_owned(), zone.clone())),
            Some(None) => drop(row.metadata.remove(zones::KEY)),
            None => {}
        }
        Ok(())
    })
    .await
}

pub(crate) async fn delete(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::HostAggregatesDelete)?;
    let aggregate = call.read(|control, _| {
        let (uuid, row) = find(call, control)?;
        if row.hosts.is_empty() {
            return Ok(uuid);
        }
        let message = format!("Aggregate {} has hosts: take them out first.", row.name);
        Err(ApiError::conflict(message))
    });
    let aggregate = aggregate.await?;
    call.carry_out(Command::SetAggregate {
        aggregate,
        row: None,
    })
    .await?;
    Ok(Reply::empty(200))
}

pub(crate) async fn action(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let body = call.json()?;
    let mut fields = ObjectParser::of_body(&body)?;
    if fields.has("set_metadata") {
        call.note_action("set_metadata");
        call.allow(Rule::HostAggregatesSetMetadata)?;
        let mut parsed = fields.object("set_metadata")?;
        let changes = read_metadata(parsed.need("metadata")?)?;
        parsed.finish()?;
        fields.finish()?;
        return replace(call, |_, _, row| {
            for (key, value) in &changes {
                match value {
                    Some(value) => drop(row.metadata.insert(key.clone(), value.clone())),
                    None => drop(row.metadata.remove(key)),
                }
            }
            Ok(())
        })
        .await;
    }
    let is_added = fields.has("add_host");
    let (key, rule) = if is_added {
        ("add_host", Rule::HostAggregatesAddHost)
    } else {
        ("remove_host", Rule::HostAggregatesRemoveHost)
    };
    call.note_action(key);
    let mut parsed = fields.object(key)?;
    let name = parsed.needed_text("host", 1..=255)?;
    parsed.finish()?;
    fields.finish()?;
    call.allow(rule)?;
    replace(call, |control, _, row| {
        let host = control.conductor.host_names().get(name);
        let host = host.ok_or_else(|| error::missing("host", name))?;
        match (is_added, row.hosts.binary_search(host)) {
            (true, Err(place)) => row.hosts.insert(place, *host),
            (false, Ok(place)) => drop(row.hosts.remove(place)),
            (true, Ok(_)) => {
                let message = format!("Host {name} is in the aggregate already.");
                return Err(ApiError::conflict(message));
            }
            (false, Err(_)) => return Err(error::missing("host in the aggregate", name)),
        }
        Ok(())
    })
    .await
}

/// Metadata to set; null removes a key.
fn read_metadata(value: &Value) -> ApiResult<BTreeMap<String, Option<String>>> {
    let path = "set_metadata.metadata";
    let map = value.as_object();
    let map = map.ok_or_else(|| fields::wrong(path, "an object", value))?;
    let mut changes = BTreeMap::new();
    for (key, value) in map {
        let path = format!("{path}[{key:?}]");
        let text = match value {
            Value::Null => None,
            Value::String(text) if text.chars().count() <= 255 => Some(text.clone()),
            other => return Err(fields::wrong(&path, "null or a text of up to 255", other)),
        };
        if !fields::is_key(key) {
            let message = "a key has 1 to 255 letters, digits, blanks and - _ : .";
            return Err(ApiError::field(&path, message));
        }
        if let (zones::KEY, Some(zone)) = (key.as_str(), &text) {
            check_zone(&path, zone)?;
        }
        changes.insert(key.clone(), text);
    }
    Ok(changes)
}
