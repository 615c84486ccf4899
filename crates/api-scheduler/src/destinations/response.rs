//! The body of the response to `POST /v1/destinations`.

use placewright_control::placer::{EXPLAINED_MAX, FeasibleHost, ScoreExplanation};
use placewright_scheduler::select::weights::Weight;
use serde::Serialize;
use uuid::Uuid;

use crate::allocation_request::AllocationRequestBody;

/// The response to `POST /v1/destinations`.
#[derive(Serialize)]
pub(super) struct DestinationsBody<'a> {
    /// Whether the selected hosts are claimed.
    pub(super) claimed: bool,
    /// How long the candidates can be claimed, in milliseconds.
    pub(super) kept_ms: u64,
    /// One for each instance, in the order of the request.
    pub(super) selections: Vec<InstanceBody<'a>>,
    /// Parts of the request that have no effect, for people.
    pub(super) warnings: &'a [String],
}

/// The result for one instance.
#[derive(Serialize)]
pub(super) struct InstanceBody<'a> {
    pub(super) instance: Uuid,
    /// The selected host; none when there is none and the request allowed that.
    pub(super) selected: Option<SelectionBody<'a>>,
    pub(super) alternates: Vec<SelectionBody<'a>>,
    /// Why this host was selected, if the request asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) explanation: Option<ScoreExplanationBody<'a>>,
}

/// A [`ScoreExplanation`] in the response.
#[derive(Serialize)]
pub(super) struct ScoreExplanationBody<'a> {
    compared: usize,
    ranking: Vec<ScoredHostBody<'a>>,
}

/// A host with its score, in an explanation.
#[derive(Serialize)]
struct ScoredHostBody<'a> {
    provider: Uuid,
    host: &'a str,
    node: &'a str,
    score: f64,
    /// Whether this is the selected host.
    selected: bool,
    weights: Vec<ContributionBody<'a>>,
}

/// The contribution of one weigher to a host's score.
#[derive(Serialize)]
struct ContributionBody<'a> {
    weigher: &'a str,
    number: f64,
    normalised: f64,
    multiplier: f64,
    share: f64,
}

impl<'a> ScoreExplanationBody<'a> {
    /// The best hosts, and in any case the selected one.
    pub(super) fn new(weighing: &'a ScoreExplanation, selected: u32) -> Self {
        let told = weighing.hosts.iter().enumerate();
        let told = told.filter(|(place, one)| *place < EXPLAINED_MAX || one.slot == selected);
        let ranking = told.map(|(_, one)| ScoredHostBody {
            provider: one.provider,
            host: &one.host,
            node: &one.node,
            score: one.score,
            selected: one.slot == selected,
            weights: one.weights.iter().map(ContributionBody::from).collect(),
        });
        Self {
            compared: weighing.compared,
            ranking: ranking.collect(),
        }
    }
}

impl<'a> From<&'a Weight> for ContributionBody<'a> {
    fn from(weight: &'a Weight) -> Self {
        Self {
            weigher: &weight.weigher,
            number: weight.number,
            normalised: weight.normalised,
            multiplier: weight.multiplier,
            share: weight.share,
        }
    }
}

/// A candidate in the response.
#[derive(Serialize)]
pub(super) struct SelectionBody<'a> {
    candidate: Uuid,
    cell: Uuid,
    host: &'a str,
    node: &'a str,
    provider: Uuid,
    zone: Option<&'a str>,
    score: f64,
    allocation_request: AllocationRequestBody<'a>,
}

impl<'a> SelectionBody<'a> {
    pub(super) fn new(candidate: Uuid, offer: &'a FeasibleHost, chosen: usize) -> Option<Self> {
        Some(Self {
            candidate,
            cell: offer.cell,
            host: &offer.host,
            node: &offer.node,
            provider: offer.provider,
            zone: offer.zone.as_deref(),
            score: offer.score,
            allocation_request: AllocationRequestBody {
                allocations: &offer.candidates.get(chosen)?.allocations,
                mappings: offer.mappings.get(chosen)?,
            },
        })
    }
}
