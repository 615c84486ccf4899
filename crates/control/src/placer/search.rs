//! One search of hosts for one instance.

use std::sync::Arc;

use placewright_placement::{ConsumerUuid, IntentCandidate, ProviderId, State};
use placewright_scheduler::host_state::HostNames;
use placewright_scheduler::prepare::Prepared;
use placewright_scheduler::rank::Ranked;
use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::select::basis::Basis;
use placewright_scheduler::select::{Mappings, Scheduler, Scope, SelectRefusal};
use uuid::Uuid;

use super::contention::{HOSTS_MIN, spread};
use super::explained::{ExplainedSearch, ScoreExplanation};
use super::{RANKED_FOR_ALTERNATES_MAX, RANKED_PER_ALTERNATE, RANKED_PER_NAMED};

/// The parameters of a search.
#[derive(Clone, Debug)]
pub struct Search<'a> {
    /// The request of the caller, which the filters and weighers read.
    pub request: &'a RequestSpec,
    /// The prepared form of the request.
    pub prepared: &'a Prepared,
    /// The instance that is placed.
    pub instance: Uuid,
    /// How many hosts are wanted.
    pub host_count: usize,
    /// How many more hosts of the best one's cell are wanted, for alternates.
    pub alternate_count: usize,
    /// The most candidates of each host.
    pub candidates_of_host_max: usize,
    /// If set, only hosts of this cell are considered.
    pub cell: Option<Uuid>,
    /// Hosts of these cells are excluded.
    pub excluded_cells: &'a [Uuid],
    /// The slots of hosts that are excluded.
    pub excluded_slots: &'a [u32],
    /// The hosts of instances that will be claimed together with this one.
    pub placed: &'a [(ConsumerUuid, ProviderId)],
    /// The number of this scheduler among those that race for the same hosts.
    pub scheduler_number: usize,
    /// Whether the scores of the hosts are wanted.
    pub explain: bool,
    /// The names or UUIDs of hosts that are explained besides the best ones, whatever their rank.
    pub explain_hosts: &'a [String],
    /// For how many of the best hosts the search also returns the basis of the ranking: the raw values and multipliers
    /// that their order rests on. 0 for no basis.
    pub basis_hosts: usize,
}

/// A feasible host with its candidates.
#[derive(Debug)]
pub struct FeasibleHost {
    /// The slot of the host.
    pub slot: u32,
    /// The score of the host in the ranking.
    pub score: f64,
    /// The UUID of the host's root provider.
    pub provider: Uuid,
    /// The names of the host's compute service and node, and its cell.
    pub names: Arc<HostNames>,
    /// The availability zone of the host, if the host is in one.
    pub zone: Option<String>,
    /// The allocation candidates on the host; at least one.
    pub candidates: Vec<IntentCandidate>,
    /// For each candidate, the providers of each group of the request.
    pub mappings: Vec<Mappings>,
}

/// The result of a search.
#[derive(Debug, Default)]
pub struct CandidatesFound {
    /// The hosts, best first: as many as requested, and alternates of the best host's cell.
    pub hosts: Vec<FeasibleHost>,
    /// Whether `hosts` has all feasible hosts of the best host's cell.
    pub has_all_of_cell: bool,
    /// How the hosts were scored, if that was requested.
    pub score_explanation: Option<ScoreExplanation>,
    /// What the order of the best hosts rests on, if that was requested.
    pub basis: Option<Basis>,
    /// The number of hosts that were ranked.
    pub ranked: usize,
    /// Whether the hosts of cells that are to be avoided were not searched, because hosts of other cells are feasible.
    pub has_avoided_cells: bool,
}

impl FeasibleHost {
    /// The UUID of the cell that the host is in.
    #[must_use]
    pub fn cell(&self) -> Uuid {
        self.names.cell
    }

    /// The candidates of the host, each with the host and its mappings.
    pub(super) fn candidates_with_mappings(
        &self,
    ) -> impl Iterator<Item = (&Self, &IntentCandidate, &Mappings)> {
        let candidates = self.candidates.iter().zip(&self.mappings);
        candidates.map(move |(candidate, mappings)| (self, candidate, mappings))
    }
}

impl CandidatesFound {
    /// The index of the host that has the candidate with this index over all hosts, and the index of
    /// the candidate among those of that host.
    #[must_use]
    pub fn position(&self, candidate: usize) -> Option<(usize, usize)> {
        let mut index_from_host = candidate;
        for (index, host) in self.hosts.iter().enumerate() {
            if index_from_host < host.candidates.len() {
                return Some((index, index_from_host));
            }
            index_from_host -= host.candidates.len();
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
            host_count: 1,
            alternate_count: 0,
            candidates_of_host_max: 1,
            cell: None,
            excluded_cells: &[],
            excluded_slots: &[],
            placed: &[],
            scheduler_number: 0,
            explain: false,
            explain_hosts: &[],
            basis_hosts: 0,
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
        let is_spread = self.host_count > HOSTS_MIN;
        let for_alternates =
            (self.alternate_count * RANKED_PER_ALTERNATE).min(RANKED_FOR_ALTERNATES_MAX);
        let with_alternates = self.host_count + for_alternates;
        let scope = Scope {
            instance: self.instance,
            count: if is_spread {
                with_alternates.max(self.host_count * RANKED_PER_NAMED)
            } else {
                with_alternates
            },
            cell: self.cell,
            excluded_cells: self.excluded_cells.to_vec(),
            excluded_slots: self.excluded_slots.to_vec(),
            placed: self.placed.to_vec(),
        };
        let mut basis = None;
        let (ranked, score_explanation) = if self.explain {
            let search = ExplainedSearch {
                request: self.request,
                prepared: self.prepared,
                scope: &scope,
                requested_names: self.explain_hosts,
            };
            let (ranked, score_explanation) = search.rank(scheduler, state)?;
            (ranked, Some(score_explanation))
        } else if self.basis_hosts > 0 {
            let (request, prepared) = (self.request, self.prepared);
            let result =
                scheduler.rank_with_basis(state, request, prepared, &scope, self.basis_hosts)?;
            basis = Some(result.1);
            (result.0, None)
        } else {
            let ranked = scheduler.rank(state, self.request, self.prepared, &scope)?;
            (ranked, None)
        };
        let named = if is_spread {
            Some(spread(&ranked, self.host_count, self.scheduler_number))
        } else {
            None
        };
        let (mut hosts, is_cut) = self.feasible_hosts(scheduler, state, &ranked, named)?;
        let mut has_all_of_cell = ranked.len() < scope.count && !is_cut;
        if !has_all_of_cell && self.cell.is_none() {
            has_all_of_cell = self.add_alternates(scheduler, state, &ranked, scope, &mut hosts)?;
        }
        Ok(CandidatesFound {
            hosts,
            has_all_of_cell,
            score_explanation,
            basis,
            ranked: ranked.len(),
            has_avoided_cells: false,
        })
    }

    /// The hosts of a ranking that the claim names, and alternates in the cell of the first of them; and
    /// whether possible alternates were left out. With `named` as `None`, the claim names the first hosts
    /// of the ranking.
    fn feasible_hosts(
        &self,
        scheduler: &Scheduler,
        state: &State,
        ranked: &[Ranked],
        named: Option<Vec<Ranked>>,
    ) -> Result<(Vec<FeasibleHost>, bool), SelectRefusal> {
        let mut named = named.map(|named| named.into_iter().peekable());
        let mut hosts: Vec<FeasibleHost> =
            Vec::with_capacity((self.host_count + self.alternate_count).min(ranked.len()));
        let (mut alternate_count, mut is_cut) = (0, false);
        for ranked_host in ranked {
            let is_named = match &mut named {
                Some(named) => named
                    .next_if(|named_host| named_host.slot == ranked_host.slot)
                    .is_some(),
                None => hosts.len() < self.host_count,
            };
            let first_cell = hosts.first().map(FeasibleHost::cell);
            let host = scheduler.hosts().get(ranked_host.slot);
            let is_in_first_cell = host.map(|host| host.names.cell) == first_cell;
            if !is_named {
                if alternate_count >= self.alternate_count {
                    is_cut = true;
                    if named.is_none() {
                        break;
                    }
                    continue;
                }
                if !is_in_first_cell {
                    continue;
                }
            }
            let feasible = self.feasible_host(scheduler, state, *ranked_host)?;
            alternate_count += usize::from(is_in_first_cell && feasible.is_some());
            hosts.extend(feasible);
        }
        Ok((hosts, is_cut))
    }

    /// Ranks further hosts of the first host's cell if there are too few alternates in it. Returns true if that cell is
    /// known to have no further feasible hosts.
    fn add_alternates(
        &self,
        scheduler: &mut Scheduler,
        state: &State,
        ranked: &[Ranked],
        mut scope: Scope,
        hosts: &mut Vec<FeasibleHost>,
    ) -> Result<bool, SelectRefusal> {
        let Some(cell) = hosts.first().map(FeasibleHost::cell) else {
            return Ok(false);
        };
        let count_in_cell = hosts.iter().filter(|host| host.cell() == cell).count();
        let wanted = self.alternate_count.saturating_add(1);
        if count_in_cell >= wanted || self.alternate_count == 0 {
            return Ok(false);
        }
        scope.cell = Some(cell);
        scope.count = wanted - count_in_cell;
        scope
            .excluded_slots
            .extend(ranked.iter().map(|host| host.slot));
        let more = scheduler.rank(state, self.request, self.prepared, &scope)?;
        for ranked_host in &more {
            hosts.extend(self.feasible_host(scheduler, state, *ranked_host)?);
        }
        Ok(more.len() < scope.count)
    }

    /// A host with its candidates, if it has any.
    fn feasible_host(
        &self,
        scheduler: &Scheduler,
        state: &State,
        ranked: Ranked,
    ) -> Result<Option<FeasibleHost>, SelectRefusal> {
        let found = scheduler.candidates_with_mappings(
            state,
            self.prepared,
            ranked.slot,
            self.candidates_of_host_max,
        )?;
        let hosts = scheduler.hosts();
        let Some(host) = hosts.get(ranked.slot).filter(|_| !found.is_empty()) else {
            return Ok(None);
        };
        let (candidates, mappings) = found.into_iter().unzip();
        Ok(Some(FeasibleHost {
            slot: ranked.slot,
            score: ranked.score,
            provider: host.uuid,
            names: Arc::clone(&host.names),
            zone: hosts.aggregates().zone(ranked.slot).map(str::to_owned),
            candidates,
            mappings,
        }))
    }
}
