//! One search of hosts for one instance.

use std::sync::Arc;

use placewright_placement::{ConsumerUuid, IntentCandidate, ProviderId, State};
use placewright_scheduler::host_state::HostNames;
use placewright_scheduler::prepare::Prepared;
use placewright_scheduler::rank::Ranked;
use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::select::{Mappings, Scheduler, Scope, SelectRefusal};
use uuid::Uuid;

use super::contention::{HOSTS_MIN, spread};
use super::explained::{ExplainedSearch, ScoreExplanation};
use super::{RANKED_FOR_ALTERNATES_MAX, RANKED_PER_ALTERNATE, RANKED_PER_NAMED};

/// The parameters of a search.
#[derive(Clone, Debug)]
pub struct Search<'a> {
    /// The request.
    pub request: &'a RequestSpec,
    /// The prepared form of the request.
    pub prepared: &'a Prepared,
    /// The instance that is placed.
    pub instance: Uuid,
    /// How many hosts are wanted.
    pub hosts: usize,
    /// How many more hosts of the best one's cell are wanted, for alternates.
    pub alternates: usize,
    /// The most candidates of each host.
    pub candidates: usize,
    /// If set, only hosts of this cell are considered.
    pub cell: Option<Uuid>,
    /// Hosts of these cells are excluded.
    pub without_cells: &'a [Uuid],
    /// The slots of hosts that are excluded.
    pub without: &'a [u32],
    /// The hosts of instances that will be claimed together with this one.
    pub placed: &'a [(ConsumerUuid, ProviderId)],
    /// The number of this scheduler among those that race for the same hosts.
    pub scheduler: usize,
    /// Whether the scores of the hosts are wanted.
    pub explain: bool,
    /// The names or UUIDs of hosts that are explained too, wherever they are in the ranking.
    pub explain_hosts: &'a [String],
}

/// A feasible host with its candidates.
#[derive(Debug)]
pub struct FeasibleHost {
    /// The slot of the host.
    pub slot: u32,
    /// Its score in the ranking.
    pub score: f64,
    /// Its root provider.
    pub provider: Uuid,
    /// The names of its compute service and node, and its cell.
    pub names: Arc<HostNames>,
    /// Its availability zone.
    pub zone: Option<String>,
    /// The ways of allocating on the host; at least one.
    pub candidates: Vec<IntentCandidate>,
    /// For each candidate, the providers of each group of the request.
    pub mappings: Vec<Mappings>,
}

/// The result of a search.
#[derive(Debug, Default)]
pub struct CandidatesFound {
    /// The hosts, best first: as many as requested, and alternates of the best host's cell.
    pub offers: Vec<FeasibleHost>,
    /// Whether `offers` has all feasible hosts of the best host's cell.
    pub are_all: bool,
    /// How the hosts were scored, if that was requested.
    pub weighing: Option<ScoreExplanation>,
}

impl FeasibleHost {
    /// Its cell.
    #[must_use]
    pub fn cell(&self) -> Uuid {
        self.names.cell
    }
}

impl CandidatesFound {
    /// The index of the offer that has the candidate with this index over all offers, and the index
    /// of the candidate in that offer.
    #[must_use]
    pub fn position(&self, candidate: usize) -> Option<(usize, usize)> {
        let mut rest = candidate;
        for (index, offer) in self.offers.iter().enumerate() {
            if rest < offer.candidates.len() {
                return Some((index, rest));
            }
            rest -= offer.candidates.len();
        }
        None
    }
}

impl<'a> Search<'a> {
    /// A search for one host with one candidate, without restriction to a cell.
    #[must_use]
    pub fn new(request: &'a RequestSpec, prepared: &'a Prepared, instance: Uuid) -> Self {
        Self {
            request,
            prepared,
            instance,
            hosts: 1,
            alternates: 0,
            candidates: 1,
            cell: None,
            without_cells: &[],
            without: &[],
            placed: &[],
            scheduler: 0,
            explain: false,
            explain_hosts: &[],
        }
    }
}

impl Search<'_> {
    /// Ranks hosts, and selects those that a claim names.
    ///
    /// # Errors
    ///
    /// The errors of [`Scheduler::rank`]. That no host is feasible is not an error.
    pub fn run(
        &self,
        scheduler: &mut Scheduler,
        state: &State,
    ) -> Result<CandidatesFound, SelectRefusal> {
        // As long as a claim names the minimum of hosts, there is no contention, and the best hosts
        // are named.
        let does_spread = self.hosts > HOSTS_MIN;
        let alternates = self.alternates * RANKED_PER_ALTERNATE;
        let with_alternates = self.hosts + alternates.min(RANKED_FOR_ALTERNATES_MAX);
        let scope = Scope {
            instance: self.instance,
            count: if does_spread {
                with_alternates.max(self.hosts * RANKED_PER_NAMED)
            } else {
                with_alternates
            },
            cell: self.cell,
            excluded_cells: self.without_cells.to_vec(),
            excluded_slots: self.without.to_vec(),
            placed: self.placed.to_vec(),
        };
        let (ranked, weighing) = if self.explain {
            let search = ExplainedSearch {
                request: self.request,
                prepared: self.prepared,
                scope: &scope,
                asked: self.explain_hosts,
            };
            let (ranked, weighing) = search.weigh(scheduler, state)?;
            (ranked, Some(weighing))
        } else {
            let ranked = scheduler.rank(state, self.request, self.prepared, &scope)?;
            (ranked, None)
        };
        let named = if does_spread {
            Some(spread(&ranked, self.hosts, self.scheduler))
        } else {
            None
        };
        let (mut offers, is_cut) = self.offers(scheduler, state, &ranked, named)?;
        let mut are_all = ranked.len() < scope.count && !is_cut;
        if !are_all && self.cell.is_none() {
            are_all = self.add_alternates(scheduler, state, &ranked, scope, &mut offers)?;
        }
        Ok(CandidatesFound {
            offers,
            are_all,
            weighing,
        })
    }

    /// The hosts of a ranking that the claim names, and alternates in the cell of the first; and
    /// whether alternates were left out.
    fn offers(
        &self,
        scheduler: &Scheduler,
        state: &State,
        ranked: &[Ranked],
        named: Option<Vec<Ranked>>,
    ) -> Result<(Vec<FeasibleHost>, bool), SelectRefusal> {
        let mut named = named.map(|named| named.into_iter().peekable());
        let mut offers: Vec<FeasibleHost> =
            Vec::with_capacity((self.hosts + self.alternates).min(ranked.len()));
        let (mut mates, mut is_cut) = (0, false);
        for one in ranked {
            let is_named = match &mut named {
                Some(named) => named.next_if(|next| next.slot == one.slot).is_some(),
                None => offers.len() < self.hosts,
            };
            let first = offers.first().map(FeasibleHost::cell);
            let host = scheduler.hosts().get(one.slot);
            let is_mate = host.map(|host| host.names.cell) == first;
            if !is_named {
                if mates >= self.alternates {
                    is_cut = true;
                    if named.is_none() {
                        break;
                    }
                    continue;
                }
                if !is_mate {
                    continue;
                }
            }
            let offer = self.offer(scheduler, state, *one)?;
            mates += usize::from(is_mate && offer.is_some());
            offers.extend(offer);
        }
        Ok((offers, is_cut))
    }

    /// Ranks further hosts of the first host's cell if there are too few alternates in it. Returns
    /// whether that cell has no further hosts.
    fn add_alternates(
        &self,
        scheduler: &mut Scheduler,
        state: &State,
        ranked: &[Ranked],
        mut scope: Scope,
        offers: &mut Vec<FeasibleHost>,
    ) -> Result<bool, SelectRefusal> {
        let Some(cell) = offers.first().map(FeasibleHost::cell) else {
            return Ok(false);
        };
        let there = offers.iter().filter(|offer| offer.cell() == cell).count();
        let wanted = self.alternates.saturating_add(1);
        if there >= wanted || self.alternates == 0 {
            return Ok(false);
        }
        scope.cell = Some(cell);
        scope.count = wanted - there;
        scope
            .excluded_slots
            .extend(ranked.iter().map(|one| one.slot));
        let more = scheduler.rank(state, self.request, self.prepared, &scope)?;
        for one in &more {
            offers.extend(self.offer(scheduler, state, *one)?);
        }
        Ok(more.len() < scope.count)
    }

    /// A host with its candidates, if it has any.
    fn offer(
        &self,
        scheduler: &Scheduler,
        state: &State,
        one: Ranked,
    ) -> Result<Option<FeasibleHost>, SelectRefusal> {
        let ways =
            scheduler.candidates_with_mappings(state, self.prepared, one.slot, self.candidates)?;
        let hosts = scheduler.hosts();
        let Some(host) = hosts.get(one.slot).filter(|_| !ways.is_empty()) else {
            return Ok(None);
        };
        let (candidates, mappings) = ways.into_iter().unzip();
        Ok(Some(FeasibleHost {
            slot: one.slot,
            score: one.score,
            provider: host.uuid,
            names: Arc::clone(&host.names),
            zone: hosts.aggregates().zone(one.slot).map(str::to_owned),
            candidates,
            mappings,
        }))
    }
}
