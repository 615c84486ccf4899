//! The selected hosts, and their candidates offered for later claims.

use std::sync::Arc;
use std::time::{Duration, Instant};

use placewright_scheduler::select::providers_of_groups;
use uuid::Uuid;

use super::offered::{CommonClaimData, IntentRules, OfferedCandidate};
use super::shared::Shared;
use crate::placer::{CandidatesFound, FeasibleHost, ScoreExplanation};

/// The hosts of a request.
#[derive(Debug)]
pub struct Destinations {
    /// The selection of each instance, in the order of the request.
    pub selections: Vec<Selection>,
    /// Parts of the request that have no effect, for people.
    pub warnings: Vec<String>,
    /// How long the candidates can be claimed after they were offered.
    pub expires_after: Duration,
}

/// The host of one instance.
#[derive(Debug)]
pub struct Selection {
    /// The UUID of the instance as the request names it.
    pub instance: Uuid,
    /// The host of the instance; `None` if no host is feasible and the request allows that.
    pub selected: Option<Offer>,
    /// Alternates: other hosts of the same cell.
    pub alternates: Vec<Offer>,
    /// The scores of the best hosts, if the request asks for them.
    pub score_explanation: Option<ScoreExplanation>,
}

/// A host with a candidate that can be claimed.
#[derive(Debug)]
pub struct Offer {
    /// The UUID by which the candidate can be claimed.
    pub candidate: Uuid,
    /// The host with all its candidates.
    pub host: FeasibleHost,
    /// The index of the candidate among those of the host.
    pub chosen: usize,
}

/// The selected host of an instance, before it is offered.
#[derive(Debug)]
pub(super) struct SelectedHost {
    pub(super) host: FeasibleHost,
    /// The index of the selected candidate of the host.
    pub(super) chosen: usize,
    pub(super) rules: Arc<IntentRules>,
    /// Other hosts of the same ranking, best first.
    pub(super) others: Vec<FeasibleHost>,
    /// Whether `host` and `others` have all feasible hosts of the cell of `host`.
    pub(super) has_all_of_cell: bool,
    /// The scores, if the request asks for them.
    pub(super) score_explanation: Option<ScoreExplanation>,
}

impl SelectedHost {
    /// The host of the candidate with this index; the index counts through the candidates of all hosts. `None` if there
    /// is no such candidate.
    pub(super) fn of(
        found: CandidatesFound,
        candidate_index: usize,
        rules: IntentRules,
    ) -> Option<Self> {
        let (index, chosen) = found.position(candidate_index)?;
        let mut hosts = found.hosts;
        Some(Self {
            host: hosts.remove(index),
            chosen,
            rules: Arc::new(rules),
            others: hosts,
            has_all_of_cell: found.has_all_of_cell,
            score_explanation: found.score_explanation,
        })
    }
}

impl Shared {
    /// Offers the candidates of all instances for later claims.
    pub(super) fn offer(
        &self,
        claim_data: &Arc<CommonClaimData>,
        instances: &[Uuid],
        selected: Vec<Option<SelectedHost>>,
        alternates: Vec<Vec<FeasibleHost>>,
    ) -> Vec<Selection> {
        let mut offered = self.offered.lock();
        let now = Instant::now();
        let mut offer = |host: FeasibleHost, chosen: usize, rules: &Arc<IntentRules>| {
            let candidate = OfferedCandidate {
                claim_data: Arc::clone(claim_data),
                rules: Arc::clone(rules),
                candidate: host.candidates.get(chosen)?.clone(),
                mappings: providers_of_groups(host.mappings.get(chosen)?),
            };
            let candidate = offered.keep(now, candidate);
            Some(Offer {
                candidate,
                host,
                chosen,
            })
        };
        let all = instances.iter().zip(selected).zip(alternates);
        let selections = all.map(|((instance, selected_host), alternates)| {
            let mut selection = Selection {
                instance: *instance,
                selected: None,
                alternates: Vec::new(),
                score_explanation: None,
            };
            if let Some(selected_host) = selected_host {
                selection.selected = offer(
                    selected_host.host,
                    selected_host.chosen,
                    &selected_host.rules,
                );
                let first_candidate = 0;
                let alternates = alternates
                    .into_iter()
                    .filter_map(|host| offer(host, first_candidate, &selected_host.rules));
                selection.alternates = alternates.collect();
                selection.score_explanation = selected_host.score_explanation;
            }
            selection
        });
        selections.collect()
    }
}
