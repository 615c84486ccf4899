//! Why an instance is where it is, as it was decided: in the form that `GET /v1/decisions/{instance}` shows, and the
//! page for states of the past.

use placewright_conductor::super_conductor::{BuildStage, LeftCell, Mapping};
use placewright_conductor::{CellId, ControlState, Decision, HostId, InstanceId, claims};
use placewright_placement::Timestamp;
use placewright_records::ranking;
use placewright_types::ranking::{RankedHost, Ranking};
use serde::Serialize;
use uuid::Uuid;

/// Why an instance is where it is, with names instead of ids.
#[derive(Debug, Serialize)]
pub struct ShownDecisions {
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
    /// The cell that the instance was taken from, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_cell: Option<LeftCellBody>,
}

/// A cell that the instance was taken from, because its build failed on every host that the cell might try.
#[derive(Debug, Serialize)]
struct LeftCellBody {
    cell: Uuid,
    at: String,
    /// The attempts, each with its host and why it failed.
    attempts: Vec<FallenBody>,
}

/// Why no host was found.
#[derive(Debug, Serialize)]
struct FaultBody {
    message: String,
    /// An explanation as errors of `POST /v1/destinations` have it, or a text.
    details: serde_json::Value,
    at: String,
}

/// A host: its root provider, and its name as long as it exists.
#[derive(Clone, Debug, Serialize)]
struct HostBody {
    provider: Uuid,
    host: Option<String>,
}

#[derive(Debug, Serialize)]
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
    /// The first of the hosts that the claim named before the claimed one, and that did not fit any more.
    fallen: Vec<FallenBody>,
    /// How many hosts the claim named before the claimed one.
    fallen_count: u32,
    /// How many alternates the cell may try if the build fails.
    alternates: u32,
    /// How hosts were ranked; `None` if the decision was made by a release that kept no record of the ranking.
    #[serde(skip_serializing_if = "Option::is_none")]
    search: Option<SearchBody>,
}

/// A host that did not fit any more, or on which an attempt failed.
#[derive(Debug, Serialize)]
struct FallenBody {
    #[serde(flatten)]
    host: HostBody,
    /// Why the host did not fit, or why the attempt failed. Empty if other instances of the same request took the
    /// host's room.
    reason: String,
}

/// The search that ranked the hosts, as [`Ranking`] has it.
#[derive(Debug, Serialize)]
struct SearchBody {
    /// The last entry of the journal in the state that was ranked.
    sequence: u64,
    /// How many earlier searches of the request lost all their hosts to other claims.
    round: u32,
    /// For how many other instances of the request hosts were found before.
    siblings: u32,
    /// How many hosts the scheduler knew.
    known_hosts: u32,
    /// How many hosts were feasible; null if the search ended before it had seen all of them.
    feasible: Option<u32>,
    /// How many of the best hosts were ranked, and how many of these the claim named.
    ranked: u32,
    named: u32,
    /// How many hosts were left out: the host that the instance is to leave, and those that siblings or other claims
    /// have filled.
    excluded: u32,
    /// Whether the hosts satisfy the fallback query only, because none satisfied the first one.
    from_fallback: bool,
    /// Silent cells whose hosts were left out, because others were feasible.
    avoided_cells: Vec<Uuid>,
    /// The best hosts, best first.
    ranking: Vec<RankedBody>,
    /// Hosts that earlier searches of the request lost to other claims.
    lost: Vec<HostBody>,
    /// Why the claim after the previous search was refused; empty if none was refused.
    #[serde(skip_serializing_if = "String::is_empty")]
    last_refusal: String,
}

/// One of the best hosts.
#[derive(Debug, Serialize)]
struct RankedBody {
    #[serde(flatten)]
    host: HostBody,
    score: f64,
    /// Whether this is the host that was claimed.
    selected: bool,
    weights: Vec<PartBody>,
}

/// The part of a weigher in a score, as in the explanations of `POST /v1/destinations`.
#[derive(Debug, Serialize)]
struct PartBody {
    weigher: String,
    number: f64,
    normalised: f64,
    multiplier: f64,
    share: f64,
}

/// Why an instance is where it is, as it was decided; `None` if there is no such instance in this state.
///
/// # Errors
///
/// The record of a ranking cannot be read.
pub fn shown_decisions(
    control: &ControlState,
    instance: InstanceId,
) -> Option<Result<ShownDecisions, String>> {
    let mapping = control.conductor.mappings().get(&instance)?;
    Some(body_of(control, instance, mapping))
}

fn body_of(
    control: &ControlState,
    instance: InstanceId,
    mapping: &Mapping,
) -> Result<ShownDecisions, String> {
    let state = &control.conductor;
    let present = claims::host_of(&control.placement, instance);
    let build = state.builds().get(&instance);
    let buried = state.buried().get(&instance);
    let decisions = mapping.decisions.iter().rev();
    Ok(ShownDecisions {
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
            at: time_text(buried.fault.at),
        }),
        decisions: decisions
            .map(|decision| decision_body(control, decision, present))
            .collect::<Result<_, _>>()?,
        left_cell: mapping
            .left_cell()
            .map(|left| left_cell_body(control, left)),
    })
}

fn left_cell_body(control: &ControlState, left: &LeftCell) -> LeftCellBody {
    let attempts = left.attempts.iter().map(|attempt| FallenBody {
        host: host_body(control, attempt.host.0),
        reason: attempt.failure.clone().unwrap_or_default(),
    });
    LeftCellBody {
        cell: left.cell.0,
        at: time_text(left.at),
        attempts: attempts.collect(),
    }
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
        at: time_text(decision.at),
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
pub(crate) fn time_text(time: Timestamp) -> String {
    let time = jiff::Timestamp::from_microsecond(time.0).unwrap_or_default();
    time.to_string()
}
