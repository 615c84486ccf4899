//! `/v1/aggregates`: names and metadata of host aggregates. `/v1/topology`: the levels of the
//! topology.

use std::collections::{BTreeMap, BTreeSet};

use placewright_http::Reply;
use placewright_placement::group::{Distance, Level};
use placewright_placement::{Command, Refusal};
use placewright_scheduler::aggregate::{Aggregate, ZONE_KEY};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error_response::{ErrorResponse, HandlerResult};
use crate::shared::{RoutedRequest, json_reply};

/// The body of `PUT /v1/aggregates/{uuid}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AggregateBody {
    name: String,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    /// The zone, which may also be given as metadata `availability_zone`.
    #[serde(default)]
    zone: Option<String>,
}

/// The body of the response to `GET /v1/aggregates`.
#[derive(Serialize)]
struct AggregatesResponse<'a> {
    aggregates: Vec<AggregateEntry<'a>>,
}

/// An aggregate in an [`AggregatesResponse`].
#[derive(Serialize)]
struct AggregateEntry<'a> {
    uuid: Uuid,
    name: &'a str,
    zone: Option<&'a str>,
    metadata: &'a BTreeMap<String, String>,
}

/// The body of `PUT /v1/topology`, and of the response to `GET`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct TopologyBody {
    levels: Vec<LevelBody>,
    #[serde(default)]
    distances: Vec<DistanceBody>,
}

/// The distance between two aggregates of one level, in the operator's own unit.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct DistanceBody {
    from: Uuid,
    to: Uuid,
    distance: u32,
}

/// A level of the topology in a body.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct LevelBody {
    name: String,
    aggregates: BTreeSet<Uuid>,
    /// The names of places, by aggregate.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    names: BTreeMap<Uuid, String>,
}

/// The longest name of a place, in bytes.
const PLACE_NAME_BYTES_MAX: usize = 255;

pub(crate) fn list_aggregates(request: &RoutedRequest<'_>) -> HandlerResult<Reply> {
    request.api_state.scheduler.read_hosts(|hosts| {
        let aggregates = hosts.aggregates().iter();
        let aggregates = aggregates.map(|(uuid, aggregate)| AggregateEntry {
            uuid,
            name: &aggregate.name,
            zone: aggregate.metadata.get(ZONE_KEY).map(String::as_str),
            metadata: &aggregate.metadata,
        });
        let aggregates = aggregates.collect();
        json_reply(200, &AggregatesResponse { aggregates })
    })
}

pub(crate) fn put_aggregate(request: &RoutedRequest<'_>, uuid: Uuid) -> HandlerResult<Reply> {
    let mut body: AggregateBody = request.parse_body()?;
    if let Some(zone) = body.zone {
        let metadata_zone = body.metadata.entry(ZONE_KEY.to_owned());
        if *metadata_zone.or_insert_with(|| zone.clone()) != zone {
            let detail = format!("zone: metadata.{ZONE_KEY} says something else");
            return Err(ErrorResponse::field("zone", detail));
        }
    }
    let aggregate = Aggregate {
        name: body.name,
        metadata: body.metadata,
    };
    request
        .api_state
        .change_hosts(|hosts| hosts.aggregates_mut().put([(uuid, aggregate)]));
    Ok(Reply::empty(204))
}

pub(crate) fn remove_aggregate(request: &RoutedRequest<'_>, uuid: Uuid) -> HandlerResult<Reply> {
    request.api_state.change_hosts(|hosts| {
        let aggregates = hosts.aggregates_mut();
        if aggregates.get(uuid).is_none() {
            return Err(ErrorResponse::not_found(format!(
                "There is no aggregate {uuid}."
            )));
        }
        aggregates.remove(uuid);
        Ok(Reply::empty(204))
    })
}

pub(crate) async fn show_topology(request: &RoutedRequest<'_>) -> HandlerResult<Reply> {
    let topology = request.api_state.placement.read(|state| {
        let levels = state.levels().iter().map(|level| LevelBody {
            name: level.name.clone(),
            aggregates: level
                .aggregates
                .iter()
                .filter_map(|uuid| uuid.parse().ok())
                .collect(),
            names: level
                .names
                .iter()
                .filter_map(|(uuid, name)| Some((uuid.parse().ok()?, name.clone())))
                .collect(),
        });
        let distances = state.distances().iter().filter_map(|distance| {
            Some(DistanceBody {
                from: distance.from.parse().ok()?,
                to: distance.to.parse().ok()?,
                distance: distance.distance,
            })
        });
        TopologyBody {
            levels: levels.collect(),
            distances: distances.collect(),
        }
    });
    json_reply(200, &topology.await)
}

pub(crate) async fn put_topology(request: &RoutedRequest<'_>) -> HandlerResult<Reply> {
    let body: TopologyBody = request.parse_body()?;
    check_names(&body.levels)?;
    let levels = body.levels.into_iter().map(|level| Level {
        name: level.name,
        aggregates: level.aggregates.iter().map(Uuid::to_string).collect(),
        names: (level.names.into_iter())
            .map(|(uuid, name)| (uuid.to_string(), name))
            .collect(),
    });
    let distances = body.distances.iter().map(|distance| Distance {
        from: distance.from.to_string(),
        to: distance.to.to_string(),
        distance: distance.distance,
    });
    let command = Command::SetLevels {
        levels: levels.collect(),
        distances: distances.collect(),
    };
    match request.api_state.submit(command).await? {
        Ok(_) => Ok(Reply::empty(204)),
        Err(refusal) => {
            let field = match refusal {
                Refusal::PlaceNotFound { .. }
                | Refusal::DistanceTwice { .. }
                | Refusal::DistanceAcrossLevels { .. } => "distances",
                _ => "levels",
            };
            Err(ErrorResponse::field(field, format!("{field}: {refusal}")))
        }
    }
}

/// Refuses names of aggregates that are no places of their level, names that are empty or too long, and names that
/// several places of a level have.
fn check_names(levels: &[LevelBody]) -> HandlerResult<()> {
    for (index, level) in levels.iter().enumerate() {
        let refused = |field: String, reason: String| {
            let detail = format!("{field}: {reason}");
            Err(ErrorResponse::field(field, detail))
        };
        let mut distinct = BTreeSet::new();
        for (uuid, name) in &level.names {
            let names = format!("levels[{index}].names");
            if !level.aggregates.contains(uuid) {
                // Either list may be the wrong one.
                let reason = format!("names has {uuid}, which is not among the aggregates");
                return refused(format!("levels[{index}]"), reason);
            }
            if !(1..=PLACE_NAME_BYTES_MAX).contains(&name.len()) {
                let reason = format!("a name has 1 to {PLACE_NAME_BYTES_MAX} bytes");
                return refused(names, reason);
            }
            if !distinct.insert(name) {
                return refused(names, format!("{name:?} is there twice"));
            }
        }
    }
    Ok(())
}
