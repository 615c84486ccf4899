//! The body of the response to `POST /v1/destinations`.

use placewright_control::destinations::{Destinations, Offer, Selection};
use placewright_control::placer::{
    EXPLAINED_MAX, Exclusion, HostStanding, RequestedHost, ScoreExplanation,
};
use placewright_scheduler::select::providers_of_groups;
use placewright_scheduler::select::weights::Weight;
use serde::Serialize;
use uuid::Uuid;

use crate::allocation_request::AllocationRequestBody;

/// The response to `POST /v1/destinations`.
#[derive(Serialize)]
pub(super) struct DestinationsResponse<'a> {
    /// Whether the selected hosts are claimed.
    claimed: bool,
    /// How long the candidates can be claimed, in milliseconds.
    kept_ms: u64,
    /// One for each instance, in the order of the request.
    selections: Vec<InstanceBody<'a>>,
    /// Parts of the request that have no effect, for people.
    warnings: &'a [String],
}

impl<'a> DestinationsResponse<'a> {
    /// If `is_brief`, alternates come without their allocations.
    pub(super) fn new(destinations: &'a Destinations, is_claimed: bool, is_brief: bool) -> Self {
        let selections = destinations.selections.iter();
        Self {
            claimed: is_claimed,
            kept_ms: u64::try_from(destinations.expires_after.as_millis()).unwrap_or(u64::MAX),
            selections: selections
                .map(|selection| InstanceBody::new(selection, is_brief))
                .collect(),
            warnings: &destinations.warnings,
        }
    }
}

/// The result for one instance.
#[derive(Serialize)]
struct InstanceBody<'a> {
    instance: Uuid,
    /// The selected host; `None` if no host was found and the request allows that.
    selected: Option<CandidateBody<'a>>,
    alternates: Vec<CandidateBody<'a>>,
    /// Why this host was selected, if the request asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<ScoreExplanationBody<'a>>,
}

impl<'a> InstanceBody<'a> {
    fn new(selection: &'a Selection, is_brief: bool) -> Self {
        let selected = selection.selected.as_ref();
        let score_explanation = selection.score_explanation.as_ref().zip(selected);
        Self {
            instance: selection.instance,
            // The selected host comes with its allocations, also in a brief response.
            selected: selected.and_then(|offer| CandidateBody::from_offer(offer, false)),
            alternates: selection
                .alternates
                .iter()
                .filter_map(|offer| CandidateBody::from_offer(offer, is_brief))
                .collect(),
            explanation: score_explanation.map(|(score_explanation, offer)| {
                ScoreExplanationBody::new(score_explanation, offer.host.slot)
            }),
        }
    }
}

/// A [`ScoreExplanation`] in the response.
#[derive(Serialize)]
struct ScoreExplanationBody<'a> {
    /// How many hosts were feasible, and were compared.
    compared: usize,
    ranking: Vec<ScoredHostBody<'a>>,
    /// The hosts of `explain_hosts`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hosts: Vec<RequestedHostBody<'a>>,
}

/// A host of `explain_hosts`: its rank, or what excluded it. `provider`, `host` and `node` are `None` if no such host
/// is known.
#[derive(Serialize)]
struct RequestedHostBody<'a> {
    /// The name or UUID in the request.
    asked: &'a str,
    provider: Option<Uuid>,
    host: Option<&'a str>,
    node: Option<&'a str>,
    #[serde(flatten)]
    standing: StandingBody<'a>,
}

/// The rank and score of a host, or what excluded it.
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

/// The first check that excluded a host.
#[derive(Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
enum ExclusionBody<'a> {
    /// No host of this name is known.
    Unknown,
    Placement {
        constraint: &'a str,
    },
    Filter {
        filter: &'a str,
    },
    /// A hard rule of the server group or of the topology.
    Rule,
    /// The scope of this search: its cell, or the hosts of the request's other instances.
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
    /// The raw value of the host.
    number: f64,
    /// The raw value after scaling to 0 to 1.
    normalised: f64,
    multiplier: f64,
    /// The weigher's part of the score.
    share: f64,
}

impl<'a> ScoreExplanationBody<'a> {
    /// The explanation with the best hosts and, whatever its rank, the selected host.
    fn new(score_explanation: &'a ScoreExplanation, selected_slot: u32) -> Self {
        let shown_hosts = score_explanation.hosts.iter().enumerate();
        let shown_hosts = shown_hosts
            .filter(|(index, scored)| *index < EXPLAINED_MAX || scored.host.slot == selected_slot);
        let ranking = shown_hosts.map(|(_, scored)| ScoredHostBody {
            provider: scored.host.provider,
            host: &scored.host.service_host,
            node: &scored.host.node,
            score: scored.score,
            selected: scored.host.slot == selected_slot,
            weights: scored.weights.iter().map(ContributionBody::from).collect(),
        });
        Self {
            compared: score_explanation.compared,
            ranking: ranking.collect(),
            hosts: (score_explanation.requested.iter())
                .map(|requested| RequestedHostBody::new(requested, selected_slot))
                .collect(),
        }
    }
}

impl<'a> RequestedHostBody<'a> {
    fn new(requested: &'a RequestedHost, selected_slot: u32) -> Self {
        let host = requested.host.as_ref();
        Self {
            asked: &requested.name,
            provider: host.map(|host| host.provider),
            host: host.map(|host| host.service_host.as_str()),
            node: host.map(|host| host.node.as_str()),
            standing: match &requested.standing {
                HostStanding::Ranked {
                    rank,
                    score,
                    weights,
                } => StandingBody::Ranked {
                    rank: *rank,
                    score: *score,
                    selected: host.is_some_and(|host| host.slot == selected_slot),
                    weights: weights.iter().map(ContributionBody::from).collect(),
                },
                HostStanding::Excluded(exclusion) => StandingBody::Excluded {
                    excluded: exclusion.into(),
                },
            },
        }
    }
}

impl<'a> From<&'a Exclusion> for ExclusionBody<'a> {
    fn from(exclusion: &'a Exclusion) -> Self {
        match exclusion {
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
            number: weight.raw_value,
            normalised: weight.normalised,
            multiplier: weight.multiplier,
            share: weight.share,
        }
    }
}

/// A candidate in the response.
#[derive(Serialize)]
struct CandidateBody<'a> {
    candidate: Uuid,
    cell: Uuid,
    host: &'a str,
    node: &'a str,
    provider: Uuid,
    zone: Option<&'a str>,
    score: f64,
    /// Left out of an alternate of a brief response.
    #[serde(skip_serializing_if = "Option::is_none")]
    allocation_request: Option<AllocationRequestBody<'a>>,
}

impl<'a> CandidateBody<'a> {
    /// `None` if the offer has no candidate at the index `chosen`, which would be a bug.
    fn from_offer(offer: &'a Offer, is_brief: bool) -> Option<Self> {
        let host = &offer.host;
        let allocation_request = AllocationRequestBody {
            allocations: &host.candidates.get(offer.chosen)?.allocations,
            mappings: providers_of_groups(host.mappings.get(offer.chosen)?).into(),
        };
        Some(Self {
            candidate: offer.candidate,
            cell: host.cell(),
            host: &host.names.service_host,
            node: &host.names.node,
            provider: host.provider,
            zone: host.zone.as_deref(),
            score: host.score,
            allocation_request: (!is_brief).then_some(allocation_request),
        })
    }
}
