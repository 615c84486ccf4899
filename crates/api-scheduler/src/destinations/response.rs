//! The body of the response to `POST /v1/destinations`.

use placewright_control::destinations::{Destinations, Offer, Selection};
use placewright_control::placer::{
    AskedHost, EXPLAINED_MAX, Exclusion, ScoreExplanation, Standing,
};
use placewright_scheduler::select::weights::Weight;
use serde::Serialize;
use uuid::Uuid;

use crate::allocation_request::AllocationRequestBody;

/// The response to `POST /v1/destinations`.
#[derive(Serialize)]
pub(super) struct DestinationsBody<'a> {
    /// Whether the selected hosts are claimed.
    claimed: bool,
    /// How long the candidates can be claimed, in milliseconds.
    kept_ms: u64,
    /// One for each instance, in the order of the request.
    selections: Vec<InstanceBody<'a>>,
    /// Parts of the request that have no effect, for people.
    warnings: &'a [String],
}

impl<'a> DestinationsBody<'a> {
    pub(super) fn new(found: &'a Destinations, claimed: bool) -> Self {
        Self {
            claimed,
            kept_ms: u64::try_from(found.kept.as_millis()).unwrap_or(u64::MAX),
            selections: found.selections.iter().map(InstanceBody::from).collect(),
            warnings: &found.warnings,
        }
    }
}

/// The result for one instance.
#[derive(Serialize)]
struct InstanceBody<'a> {
    instance: Uuid,
    /// The selected host; none when there is none and the request allowed that.
    selected: Option<SelectionBody<'a>>,
    alternates: Vec<SelectionBody<'a>>,
    /// Why this host was selected, if the request asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<ScoreExplanationBody<'a>>,
}

impl<'a> From<&'a Selection> for InstanceBody<'a> {
    fn from(selection: &'a Selection) -> Self {
        let selected = selection.selected.as_ref();
        let weighing = selection.weighing.as_ref().zip(selected);
        Self {
            instance: selection.instance,
            selected: selected.and_then(SelectionBody::of),
            alternates: selection
                .alternates
                .iter()
                .filter_map(SelectionBody::of)
                .collect(),
            explanation: weighing
                .map(|(weighing, offer)| ScoreExplanationBody::new(weighing, offer.host.slot)),
        }
    }
}

/// A [`ScoreExplanation`] in the response.
#[derive(Serialize)]
struct ScoreExplanationBody<'a> {
    compared: usize,
    ranking: Vec<ScoredHostBody<'a>>,
    /// The hosts of `explain_hosts`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hosts: Vec<AskedHostBody<'a>>,
}

/// A host of `explain_hosts`: its place in the ranking, or what excluded it.
#[derive(Serialize)]
struct AskedHostBody<'a> {
    /// As the request names it.
    asked: &'a str,
    provider: Option<Uuid>,
    host: Option<&'a str>,
    node: Option<&'a str>,
    #[serde(flatten)]
    standing: StandingBody<'a>,
}

/// What became of a host.
#[derive(Serialize)]
#[serde(untagged)]
enum StandingBody<'a> {
    Ranked {
        rank: usize,
        score: f64,
        selected: bool,
        weights: Vec<ContributionBody<'a>>,
    },
    Excluded {
        excluded: ExclusionBody<'a>,
    },
}

/// What excluded a host first.
#[derive(Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
enum ExclusionBody<'a> {
    Unknown,
    Placement { constraint: &'a str },
    Filter { filter: &'a str },
    Rule,
    Search,
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
    fn new(weighing: &'a ScoreExplanation, selected: u32) -> Self {
        let told = weighing.hosts.iter().enumerate();
        let told = told.filter(|(place, one)| *place < EXPLAINED_MAX || one.host.slot == selected);
        let ranking = told.map(|(_, one)| ScoredHostBody {
            provider: one.host.provider,
            host: &one.host.host,
            node: &one.host.node,
            score: one.score,
            selected: one.host.slot == selected,
            weights: one.weights.iter().map(ContributionBody::from).collect(),
        });
        Self {
            compared: weighing.compared,
            ranking: ranking.collect(),
            hosts: (weighing.asked.iter())
                .map(|asked| AskedHostBody::new(asked, selected))
                .collect(),
        }
    }
}

impl<'a> AskedHostBody<'a> {
    fn new(asked: &'a AskedHost, selected: u32) -> Self {
        let host = asked.host.as_ref();
        Self {
            asked: &asked.asked,
            provider: host.map(|host| host.provider),
            host: host.map(|host| host.host.as_str()),
            node: host.map(|host| host.node.as_str()),
            standing: match &asked.standing {
                Standing::Ranked {
                    rank,
                    score,
                    weights,
                } => StandingBody::Ranked {
                    rank: *rank,
                    score: *score,
                    selected: host.is_some_and(|host| host.slot == selected),
                    weights: weights.iter().map(ContributionBody::from).collect(),
                },
                Standing::Excluded(why) => StandingBody::Excluded {
                    excluded: why.into(),
                },
            },
        }
    }
}

impl<'a> From<&'a Exclusion> for ExclusionBody<'a> {
    fn from(why: &'a Exclusion) -> Self {
        match why {
            Exclusion::Unknown => Self::Unknown,
            Exclusion::Placement(constraint) => Self::Placement { constraint },
            Exclusion::Filter(filter) => Self::Filter { filter },
            Exclusion::Rule => Self::Rule,
            Exclusion::Search => Self::Search,
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
struct SelectionBody<'a> {
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
    fn of(offer: &'a Offer) -> Option<Self> {
        let host = &offer.host;
        Some(Self {
            candidate: offer.candidate,
            cell: host.cell,
            host: &host.host,
            node: &host.node,
            provider: host.provider,
            zone: host.zone.as_deref(),
            score: host.score,
            allocation_request: AllocationRequestBody {
                allocations: &host.candidates.get(offer.chosen)?.allocations,
                mappings: host.mappings.get(offer.chosen)?,
            },
        })
    }
}
