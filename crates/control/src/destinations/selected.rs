//! What is selected.

use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::offered::{ClaimOwner, OfferedCandidate, Rules};
use super::shared::Shared;
use crate::placer::{CandidatesFound, FeasibleHost, ScoreExplanation};

/// The hosts of a request.
#[derive(Debug)]
pub struct Destinations {
    /// One for each instance, in the order of the request.
    pub selections: Vec<Selection>,
    /// Parts of the request that have no effect, for people.
    pub warnings: Vec<String>,
    /// How long the candidates can be claimed.
    pub kept: Duration,
}

/// The host of one instance.
#[derive(Debug)]
pub struct Selection {
    /// The instance.
    pub instance: Uuid,
    /// Its host; none when there is none and the request allowed that.
    pub selected: Option<Offer>,
    /// Other hosts of the same cell.
    pub alternates: Vec<Offer>,
    /// The scores of the best hosts, if they are wanted.
    pub weighing: Option<ScoreExplanation>,
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
    pub(super) offer: FeasibleHost,
    /// The index of the selected candidate of the host.
    pub(super) chosen: usize,
    pub(super) rules: Arc<Rules>,
    /// Other hosts of the same ranking, best first.
    pub(super) others: Vec<FeasibleHost>,
    /// Whether there are no further hosts in the cell of the first one.
    pub(super) are_all: bool,
    /// The scores, if the request asks for them.
    pub(super) weighing: Option<ScoreExplanation>,
}

impl SelectedHost {
    /// The host of a candidate, whose index counts over all hosts.
    pub(super) fn of(found: CandidatesFound, candidate: usize, rules: Rules) -> Option<Self> {
        let (offer, chosen) = found.position(candidate)?;
        let mut offers = found.offers;
        Some(Self {
            offer: offers.remove(offer),
            chosen,
            rules: Arc::new(rules),
            others: offers,
            are_all: found.are_all,
            weighing: found.weighing,
        })
    }
}

impl Shared {
    /// Keeps the candidates of all instances for later claims.
    pub(super) fn offer(
        &self,
        owner: &Arc<ClaimOwner>,
        instances: &[Uuid],
        places: Vec<Option<SelectedHost>>,
        alternates: Vec<Vec<FeasibleHost>>,
    ) -> Vec<Selection> {
        let mut offered = self.offered.lock();
        let now = Instant::now();
        let mut keep = |host: FeasibleHost, chosen: usize, rules: &Arc<Rules>| {
            let kept = OfferedCandidate {
                owner: Arc::clone(owner),
                rules: Arc::clone(rules),
                candidate: host.candidates.get(chosen)?.clone(),
                mappings: host.mappings.get(chosen)?.clone(),
            };
            let candidate = offered.keep(now, kept);
            Some(Offer {
                candidate,
                host,
                chosen,
            })
        };
        let slots = instances.iter().zip(places).zip(alternates);
        let selections = slots.map(|((instance, place), alternates)| {
            let mut selection = Selection {
                instance: *instance,
                selected: None,
                alternates: Vec::new(),
                weighing: None,
            };
            if let Some(place) = place {
                selection.selected = keep(place.offer, place.chosen, &place.rules);
                let alternates = alternates.into_iter();
                let alternates = alternates.filter_map(|host| keep(host, 0, &place.rules));
                selection.alternates = alternates.collect();
                selection.weighing = place.weighing;
            }
            selection
        });
        selections.collect()
    }
}
