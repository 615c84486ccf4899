//! `/v1/decisions/{instance}`: why an instance is where it is, as it was decided.

use placewright_conductor::super_conductor::{BuildStage, Mapping};
use placewright_conductor::{CellId, ControlState, Decision, HostId, InstanceId, claims};
use placewright_http::Reply;
use placewright_placement::Timestamp;
use placewright_records::ranking;
use placewright_types::ranking::{RankedHost, Ranking};
use serde::Serialize;
use uuid::Uuid;

use crate::error_response::{ErrorResponse, HandlerResult, code};
use crate::shared::{RoutedRequest, json_reply};

/// The body of the response.
#[derive(Serialize)]
struct DecisionsBody {
    instance: Uuid,
    project: String,
    /// The cell of the instance; none before a host is claimed, and for an instance without a host.
    cell: Option<Uuid>,
    /// The host that the instance's claim is on now.
    host: Option<HostBody>,
    /// Whether a host is still searched for.
    waiting: bool,
    /// Why no host was found, if none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<FaultBody>,
    /// The decisions that led to a host, the latest first.
    decisions: Vec<DecisionBody>,
}

/// Why no host was found.
#[derive(Serialize)]
struct FaultBody {
    message: String,
    /// An explanation as errors of `POST /v1/destinations` have it, or a text.
    details: serde_json::Value,
    at: String,
}

/// A host: its root provider, and its name as long as it exists.
#[derive(Clone, Serialize)]
struct HostBody {
    provider: Uuid,
    host: Option<String>,
}

/// One decision.
#[derive(Serialize)]
struct DecisionBody {
    /// `build` or `move`.
    kind: &'static str,
    /// The UUID of the move.
    #[serde(skip_serializing_if = "Option::is_none")]
    migration: Option<Uuid>,
    at: String,
    /// The host that was claimed.
    #[serde(flatten)]
    host: HostBody,
    /// Whether the instance's claim is on this host now.
    is_present: bool,
    /// Hosts that came before the claimed one, and did not fit any more when they were claimed.
    fallen: Vec<FallenBody>,
    /// How many of them there were.
    fallen_count: u32,
    /// How many alternates the cell may try if the build fails.
    alternates: u32,
    /// How hosts were ranked; none if it was decided by a release that did not keep it.
    #[serde(skip_serializing_if = "Option::is_none")]
    search: Option<SearchBody>,
}

/// A host that did not fit any more.
#[derive(Serialize)]
struct FallenBody {
    #[serde(flatten)]
    host: HostBody,
    /// Empty if other instances of the same request took it.
    reason: String,
}

/// The search that ranked the hosts.
#[derive(Serialize)]
struct SearchBody {
    /// The last entry of the journal in the state that was ranked.
    sequence: u64,
    /// How many earlier searches of the request lost all their hosts to other claims.
    round: u32,
    /// For how many other instances of the request hosts were found before.
    siblings: u32,
    known_hosts: u32,
    /// Null if the search ended before it had seen all feasible hosts.
    feasible: Option<u32>,
    ranked: u32,
    named: u32,
    excluded: u32,
    /// Whether no host satisfied the request itself, but one its fallback.
    from_fallback: bool,
    avoided_cells: Vec<Uuid>,
    /// The best hosts, best first.
    ranking: Vec<RankedBody>,
    /// Hosts that earlier searches of the request lost to other claims.
    lost: Vec<HostBody>,
    #[serde(skip_serializing_if = "String::is_empty")]
    last_refusal: String,
}

/// One of the best hosts.
#[derive(Serialize)]
struct RankedBody {
    #[serde(flatten)]
    host: HostBody,
    score: f64,
    /// Whether this is the host that was claimed.
    selected: bool,
    weights: Vec<PartBody>,
}

/// The part of a weigher in a score, as in the explanations of `POST /v1/destinations`.
#[derive(Serialize)]
struct PartBody {
    weigher: String,
    number: f64,
    normalised: f64,
    multiplier: f64,
    share: f64,
}

pub(crate) async fn show(request: &RoutedRequest<'_>, instance: Uuid) -> HandlerResult<Reply> {
    let engine = request.api_state.scheduler.engine();
    let found = engine.read(move |machine| {
        let control = &machine.state;
        let mapping = control.conductor.mappings().get(&InstanceId(instance))?;
        Some(body_of(control, InstanceId(instance), mapping))
    });
    match found.await {
        None => Err(ErrorResponse::not_found(format!(
            "There is no server {instance}, or it was not built by this installation."
        ))),
        Some(Ok(body)) => json_reply(200, &body),
        Some(Err(why)) => Err(ErrorResponse::new(500, code::INTERNAL, why)),
    }
}

fn body_of(
    control: &ControlState,
    instance: InstanceId,
    mapping: &Mapping,
) -> Result<DecisionsBody, String> {
    let state = &control.conductor;
    let present = claims::host_of(&control.placement, instance);
    let build = state.builds().get(&instance);
    let buried = state.buried().get(&instance);
    let decisions = mapping.decisions.iter().rev();
    Ok(DecisionsBody {
        instance: instance.0,
        project: mapping.project.clone(),
        cell: mapping
            .cell
            .filter(|cell| *cell != CellId::CELL0)
            .map(|cell| cell.0),
        host: present.map(|host| host_body(control, host.0)),
        waiting: build.is_some_and(|build| build.stage == BuildStage::Waiting),
        fault: buried.map(|buried| FaultBody {
            message: buried.fault.message.clone(),
            details: serde_json::from_str(&buried.fault.details)
                .unwrap_or_else(|_| buried.fault.details.clone().into()),
            at: time(buried.fault.at),
        }),
        decisions: decisions
            .map(|decision| decision_body(control, decision, present))
            .collect::<Result<_, _>>()?,
    })
}

fn decision_body(
    control: &ControlState,
    decision: &Decision,
    present: Option<HostId>,
) -> Result<DecisionBody, String> {
    let bytes = &decision.ranking.0;
    let search = match bytes.is_empty() {
        true => None,
        false => Some(
            ranking::decode(bytes).map_err(|why| format!("The record of the ranking: {why}."))?,
        ),
    };
    let fallen = decision.fallen.iter().map(|fallen| FallenBody {
        host: host_body(control, fallen.host.0),
        reason: fallen.reason.clone(),
    });
    Ok(DecisionBody {
        kind: match decision.migration {
            None => "build",
            Some(_) => "move",
        },
        migration: decision.migration.map(|migration| migration.0),
        at: time(decision.at),
        host: host_body(control, decision.host.0),
        is_present: present == Some(decision.host),
        fallen: fallen.collect(),
        fallen_count: decision.fallen_count,
        alternates: decision.alternate_count,
        search: search.map(|ranking| search_body(control, ranking, decision.host)),
    })
}

fn search_body(control: &ControlState, ranking: Ranking, claimed: HostId) -> SearchBody {
    let ranked = ranking.hosts.iter().map(|host| RankedBody {
        host: host_body(control, host.host),
        score: ranking.score(host),
        selected: host.host == claimed.0,
        weights: parts(&ranking, host),
    });
    let lost = ranking.lost_hosts.iter();
    SearchBody {
        sequence: ranking.sequence,
        round: ranking.round,
        siblings: ranking.siblings,
        known_hosts: ranking.known_hosts,
        feasible: ranking.feasible,
        ranked: ranking.ranked,
        named: ranking.named,
        excluded: ranking.excluded,
        from_fallback: ranking.is_from_fallback,
        ranking: ranked.collect(),
        lost: lost.map(|host| host_body(control, *host)).collect(),
        avoided_cells: ranking.avoided_cells,
        last_refusal: ranking.last_refusal,
    }
}

fn parts(ranking: &Ranking, host: &RankedHost) -> Vec<PartBody> {
    let parts = ranking.score_parts(host);
    let bodies = parts.map(|part| PartBody {
        weigher: part.weigher.to_owned(),
        number: part.raw_value,
        normalised: part.normalised,
        multiplier: part.multiplier,
        share: part.share,
    });
    bodies.collect()
}

fn host_body(control: &ControlState, provider: Uuid) -> HostBody {
    let host = control.conductor.hosts().get(&HostId(provider));
    HostBody {
        provider,
        host: host.map(|host| host.name.clone()),
    }
}

/// A time as ISO 8601, in UTC.
fn time(time: Timestamp) -> String {
    let time = jiff::Timestamp::from_microsecond(time.0).unwrap_or_default();
    time.to_string()
}
