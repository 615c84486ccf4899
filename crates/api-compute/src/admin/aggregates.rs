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

fn aggregate_json(
    request: &RoutedRequest<'_>,
    control: &ControlState,
    uuid: Uuid,
    aggregate: &Aggregate,
) -> Value {
    let hosts = aggregate.hosts.iter().filter_map(|host| {
        let mapping = control.conductor.hosts().get(host)?;
        Some(mapping.name.as_str())
    });
    let mut value = json!({
        "id": legacy_id(uuid),
        "name": aggregate.name,
        "availability_zone": aggregate.metadata.get(zones::METADATA_KEY),
        "hosts": hosts.collect::<Vec<_>>(),
        "metadata": aggregate.metadata,
        "created_at": time::format_micros(aggregate.created_at),
        "updated_at": aggregate.updated_at.map(time::format_micros),
        "deleted": false,
        "deleted_at": null,
    });
    if request.version.since(41) {
        value["uuid"] = json!(uuid);
    }
    value
}

pub(crate) async fn list(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::HostAggregatesIndex)?;
    let values = request.read(|control, _| {
        let rows = control.conductor.aggregates().iter();
        let values = rows.map(|(uuid, aggregate)| {
            (
                aggregate.created_at,
                aggregate_json(request, control, *uuid, aggregate),
            )
        });
        values.collect::<Vec<_>>()
    });
    let mut values = values.await;
    values.sort_by_key(|(created_at, _)| *created_at);
    let values: Vec<Value> = values.into_iter().map(|(_, value)| value).collect();
    Reply::value(200, &json!({"aggregates": values}))
}

/// Finds the aggregate of the path by its integer id or UUID.
fn find<'s>(
    request: &RoutedRequest<'_>,
    control: &'s ControlState,
) -> ApiResult<(Uuid, &'s Aggregate)> {
    let text = request.parameter("aggregate_id");
    let mut rows = control.conductor.aggregates().iter();
    let row = match Uuid::try_parse(text) {
        Ok(uuid) => rows.find(|(row_uuid, _)| **row_uuid == uuid),
        Err(_) => rows.find(|(row_uuid, _)| legacy_id(**row_uuid).to_string() == text),
    };
    let (uuid, aggregate) = row.ok_or_else(|| error::missing("aggregate", text))?;
    Ok((*uuid, aggregate))
}

async fn reply(request: &RoutedRequest<'_>, uuid: Uuid, aggregate: Aggregate) -> ApiResult<Reply> {
    let value = request.read(|control, _| aggregate_json(request, control, uuid, &aggregate));
    Reply::value(200, &json!({"aggregate": value.await}))
}

pub(crate) async fn show(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::HostAggregatesShow)?;
    let value = request.try_read(|control, _| {
        let (uuid, aggregate) = find(request, control)?;
        Ok(aggregate_json(request, control, uuid, aggregate))
    });
    Reply::value(200, &json!({"aggregate": value.await?}))
}

/// Parses the name and the zone in the body of a request. A zone that is null is `Some(None)`.
fn parse_body(body: &Value) -> ApiResult<(Option<String>, Option<Option<String>>)> {
    let mut body_parser = ObjectParser::of_body(body)?;
    let mut parser = body_parser.object("aggregate")?;
    let name = parser.name("name")?.map(str::to_owned);
    let zone = parser.nullable_text("availability_zone", 1..=255)?;
    if let Some(Some(zone)) = zone {
        check_zone("aggregate.availability_zone", zone)?;
    }
    parser.finish()?;
    body_parser.finish()?;
    Ok((name, zone.map(|zone| zone.map(str::to_owned))))
}

fn check_zone(path: &str, zone: &str) -> ApiResult<()> {
    fields::check_name(path, zone)?;
    if zone.contains(':') {
        return Err(ApiError::field(path, "the name of a zone has no colon"));
    }
    if zone == zones::DEFAULT_ZONE {
        let message = "it is the zone of hosts that are in no other";
        return Err(ApiError::field(path, message));
    }
    Ok(())
}

/// Rejects a name that another aggregate has. `own` is the aggregate to which the name is given; `None` for a
/// new aggregate.
fn check_name_is_free(control: &ControlState, own: Option<Uuid>, name: &str) -> ApiResult<()> {
    let mut rows = control.conductor.aggregates().iter();
    if rows.any(|(uuid, aggregate)| Some(*uuid) != own && aggregate.name == name) {
        let message = format!("There is an aggregate with the name {name} already.");
        return Err(ApiError::conflict(message));
    }
    Ok(())
}

pub(crate) async fn create(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::HostAggregatesCreate)?;
    let (name, zone) = parse_body(&request.json()?)?;
    let name = name.ok_or_else(|| ApiError::field("aggregate.name", "it is missing"))?;
    let zone = zone.flatten();
    let (uuid, aggregate) = request
        .submit_with_retry(|control, _| {
            check_name_is_free(control, None, &name)?;
            let mut uuid = Uuid::new_v4();
            let is_legacy_id_taken = |uuid: Uuid| {
                let mut uuids = control.conductor.aggregates().keys();
                uuids.any(|other| legacy_id(*other) == legacy_id(uuid))
            };
            // Paths name aggregates by this id, so it has to be unique.
            while is_legacy_id_taken(uuid) {
                uuid = Uuid::new_v4();
            }
            let metadata = zone
                .iter()
                .map(|zone| (zones::METADATA_KEY.to_owned(), zone.clone()));
            let aggregate = Aggregate {
                name: name.clone(),
                hosts: Vec::new(),
                metadata: metadata.collect(),
                created_at: request.now,
                updated_at: None,
            };
            Ok((
                set_command(uuid, None, Some(aggregate.clone())),
                (uuid, aggregate),
            ))
        })
        .await?;
    request.note_created([uuid]);
    reply(request, uuid, aggregate).await
}

/// The command that sets an aggregate, or removes it if `row` is `None`. The command is refused if the stored aggregate
/// is no longer `before`.
fn set_command(uuid: Uuid, before: Option<&Aggregate>, row: Option<Aggregate>) -> Command {
    Command::Guarded {
        expected: vec![Change::Aggregate(uuid, before.cloned().map(Box::new))],
        command: Box::new(Command::SetAggregate {
            aggregate: uuid,
            row,
        }),
    }
}

/// Changes the aggregate of the path, and returns the response with it. Retries after concurrent changes.
async fn change_aggregate(
    request: &RoutedRequest<'_>,
    change: impl Fn(&ControlState, Uuid, &mut Aggregate) -> ApiResult<()> + Send + Sync,
) -> ApiResult<Reply> {
    let (uuid, aggregate) = request
        .submit_with_retry(|control, _| {
            let (uuid, before) = find(request, control)?;
            let mut aggregate = before.clone();
            change(control, uuid, &mut aggregate)?;
            aggregate.updated_at = Some(request.now);
            check_single_zone(control, uuid, &aggregate)?;
            Ok((
                set_command(uuid, Some(before), Some(aggregate.clone())),
                (uuid, aggregate),
            ))
        })
        .await?;
    reply(request, uuid, aggregate).await
}

/// Rejects an aggregate that would put one of its hosts into a second availability zone.
fn check_single_zone(
    control: &ControlState,
    aggregate_uuid: Uuid,
    aggregate: &Aggregate,
) -> ApiResult<()> {
    let Some(zone) = aggregate.metadata.get(zones::METADATA_KEY) else {
        return Ok(());
    };
    for (uuid, other) in control.conductor.aggregates() {
        let zone_differs = other
            .metadata
            .get(zones::METADATA_KEY)
            .is_some_and(|other_zone| other_zone != zone);
        let shared_host = aggregate
            .hosts
            .iter()
            .find(|host| other.hosts.contains(host));
        if let Some(host) = shared_host
            && zone_differs
            && *uuid != aggregate_uuid
        {
            let mapping = control.conductor.hosts().get(host);
            let host_name = mapping.map_or("", |mapping| mapping.name.as_str());
            let message = format!(
                "Host {host_name} is in another zone already, by {}.",
                other.name
            );
            return Err(ApiError::conflict(message));
        }
    }
    Ok(())
}

pub(crate) async fn update(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::HostAggregatesUpdate)?;
    let (name, zone) = parse_body(&request.json()?)?;
    if name.is_none() && zone.is_none() {
        return Err(ApiError::field("aggregate", "a name or a zone is needed"));
    }
    change_aggregate(request, |control, uuid, aggregate| {
        if let Some(name) = &name {
            check_name_is_free(control, Some(uuid), name)?;
            aggregate.name.clone_from(name);
        }
        match &zone {
            Some(Some(zone)) => drop(
                aggregate
                    .metadata
                    .insert(zones::METADATA_KEY.to_owned(), zone.clone()),
            ),
            Some(None) => drop(aggregate.metadata.remove(zones::METADATA_KEY)),
            None => {}
        }
        Ok(())
    })
    .await
}

pub(crate) async fn delete(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::HostAggregatesDelete)?;
    request
        .submit_with_retry(|control, _| {
            let (uuid, aggregate) = find(request, control)?;
            if aggregate.hosts.is_empty() {
                return Ok((set_command(uuid, Some(aggregate), None), ()));
            }
            let message = format!(
                "Aggregate {} has hosts: take them out first.",
                aggregate.name
            );
            Err(ApiError::conflict(message))
        })
        .await?;
    Ok(Reply::empty(200))
}

pub(crate) async fn action(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let body = request.json()?;
    let mut body_parser = ObjectParser::of_body(&body)?;
    if body_parser.contains("set_metadata") {
        request.note_action("set_metadata");
        request.authorize(Rule::HostAggregatesSetMetadata)?;
        let mut parser = body_parser.object("set_metadata")?;
        let changes = parse_metadata(parser.take_required("metadata")?)?;
        parser.finish()?;
        body_parser.finish()?;
        return change_aggregate(request, |_, _, aggregate| {
            for (key, value) in &changes {
                match value {
                    Some(value) => drop(aggregate.metadata.insert(key.clone(), value.clone())),
                    None => drop(aggregate.metadata.remove(key)),
                }
            }
            Ok(())
        })
        .await;
    }
    let adds_host = body_parser.contains("add_host");
    let (key, rule) = if adds_host {
        ("add_host", Rule::HostAggregatesAddHost)
    } else {
        ("remove_host", Rule::HostAggregatesRemoveHost)
    };
    request.note_action(key);
    let mut parser = body_parser.object(key)?;
    let name = parser.required_text("host", 1..=255)?;
    parser.finish()?;
    body_parser.finish()?;
    request.authorize(rule)?;
    change_aggregate(request, |control, _, aggregate| {
        let host = control.conductor.host_names().get(name);
        let host = host.ok_or_else(|| error::missing("host", name))?;
        match (adds_host, aggregate.hosts.binary_search(host)) {
            (true, Err(index)) => aggregate.hosts.insert(index, *host),
            (false, Ok(index)) => drop(aggregate.hosts.remove(index)),
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

/// Parses the metadata to set. A null value becomes `None`, and removes its key.
fn parse_metadata(value: &Value) -> ApiResult<BTreeMap<String, Option<String>>> {
    let path = "set_metadata.metadata";
    let map = value.as_object();
    let map = map.ok_or_else(|| fields::type_error(path, "an object", value))?;
    let mut changes = BTreeMap::new();
    for (key, value) in map {
        let path = format!("{path}[{key:?}]");
        let text = match value {
            Value::Null => None,
            Value::String(text) if text.chars().count() <= 255 => Some(text.clone()),
            other => {
                return Err(fields::type_error(
                    &path,
                    "null or a text of up to 255",
                    other,
                ));
            }
        };
        if !fields::is_key(key) {
            let message = "a key has 1 to 255 letters, digits, blanks and - _ : .";
            return Err(ApiError::field(&path, message));
        }
        if let (zones::METADATA_KEY, Some(zone)) = (key.as_str(), &text) {
            check_zone(&path, zone)?;
        }
        changes.insert(key.clone(), text);
    }
    Ok(changes)
}
