//! Searches hosts for the instances of a request, each with regard to those selected before it.

use std::ops::Range;

use placewright_placement::{
    ConsumerGeneration, ConsumerUuid, Intent, ProviderId, Rehearsal, State,
};
use placewright_scheduler::prepare::PrepareRefusal;
use placewright_scheduler::select::{Scheduler, SelectRefusal};
use placewright_types::ranking::RANKED_HOSTS_MAX;
use thiserror::Error;
use uuid::Uuid;

use super::super::claim::ClaimConsumer;
use super::super::contention::{Contention, HOSTS_MIN};
use super::super::pending_instances::{
    ExpectedPlacement, apply_corrections, remove_pending_except,
};
use super::super::search::{CandidatesFound, Search};
use super::super::time_slice::TimeSlice;
use super::super::{CANDIDATES_OF_HOST, HOSTS_FACTOR, HOSTS_OF_CLAIM_MAX};
use super::{Placing, Selected, Stage};

/// The scheduler, the state and the options that a search for hosts needs.
pub struct SearchContext<'a> {
    /// The scheduler, which has caught up with the state.
    pub scheduler: &'a mut Scheduler,
    /// The state of placement.
    pub state: &'a State,
    /// An estimate of how often other claims have recently taken the selected hosts first.
    pub contention: Contention,
    /// The number of this scheduler among those that compete for the same hosts, from 0. It decides which
    /// hosts besides the best ones this scheduler's claims name.
    pub scheduler_number: usize,
    /// The cells whose hosts are excluded.
    pub excluded_cells: &'a [Uuid],
    /// The cells whose hosts are considered only if no other is feasible.
    pub avoided_cells: &'a [Uuid],
    /// The number of the last journal entry in `state`, if a record of the ranking is to be kept with each claim;
    /// `None` if no such record is kept.
    pub ranking_record_sequence: Option<u64>,
}

/// The result of the searches in one time slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchResults {
    /// The time slice is over before hosts were searched for all instances.
    Unfinished,
    /// Hosts are found, and are to be claimed.
    Ready,
    /// Fewer instances than the request needs can get a host.
    NoHost {
        /// The index of the instance for which no host was found, so that the request cannot succeed any more.
        index: usize,
    },
    /// There is nothing to claim.
    NothingToClaim,
}

/// Why hosts cannot be searched for a request.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SearchRefusal {
    /// The request cannot be prepared.
    #[error(transparent)]
    Prepare(#[from] PrepareRefusal),
    /// The prepared request cannot be searched for.
    #[error(transparent)]
    Select(#[from] SelectRefusal),
}

impl Placing {
    /// Searches for hosts until the time slice is over. An instance for which a host was found is
    /// counted on that host from then on.
    ///
    /// # Errors
    ///
    /// [`SearchRefusal`] for a request that is wrong or that a pre-filter refuses; nothing is counted
    /// then.
    pub fn find_hosts(
        &mut self,
        context: &mut SearchContext<'_>,
        slice: &TimeSlice,
    ) -> Result<SearchResults, SearchRefusal> {
        let results = self.search_for_open(context, slice);
        if results.is_err() {
            let corrections = self.discard_found();
            apply_corrections(context.scheduler, context.state, &corrections);
        }
        results
    }

    /// Searches for hosts for the instances that still need one.
    fn search_for_open(
        &mut self,
        context: &mut SearchContext<'_>,
        slice: &TimeSlice,
    ) -> Result<SearchResults, SearchRefusal> {
        self.prepare(context)?;
        let mut rehearsal = self.rehearse(context);
        let slice = slice.restarted();
        let found_count = self.count(|stage| matches!(stage, Stage::Found(_)));
        self.found_count = u32::try_from(found_count).unwrap_or(u32::MAX);
        while let Some(index) = self.open.pop_front() {
            match self.find_host(context, index, rehearsal.as_mut())? {
                Some(selected) => {
                    self.instances[index].stage = Stage::Found(Box::new(selected));
                    self.found_count += 1;
                }
                None => {
                    self.instances[index].stage = Stage::NoHost;
                    let found_count = self.count(|stage| matches!(stage, Stage::Found(_)));
                    if found_count + self.open.len() < self.needed_count() {
                        return Ok(SearchResults::NoHost { index });
                    }
                }
            }
            if !self.open.is_empty() && slice.is_over() {
                return Ok(SearchResults::Unfinished);
            }
        }
        if self.count(|stage| matches!(stage, Stage::Found(_))) > 0 {
            Ok(SearchResults::Ready)
        } else {
            Ok(SearchResults::NothingToClaim)
        }
    }

    fn prepare(&mut self, context: &mut SearchContext<'_>) -> Result<(), PrepareRefusal> {
        if self.prepared.is_some() {
            return Ok(());
        }
        let request = &self.demand.request;
        let mut prepared = context.scheduler.prepare_cached(context.state, request)?;
        if self.open.len() > 1 && prepared.class.is_some_and(|class| !class.is_repeated) {
            // Rankings are cached only for requests that come more than once. This request counts as one of these,
            // because it is searched once for each of its instances.
            prepared = context.scheduler.prepare_cached(context.state, request)?;
        }
        self.prepared = Some(prepared);
        let instances = self.instances.len();
        self.host_count.get_or_insert_with(|| {
            // The instances of one claim do not compete with each other, and only those whose hosts
            // other claims take are searched again.
            context
                .contention
                .host_count()
                .div_ceil(instances)
                .max(HOSTS_MIN)
        });
        Ok(())
    }

    /// Rehearses the claims for the hosts that earlier time slices found. An instance whose host has no room any more
    /// is opened again, so that another host is searched. `None` for a single instance, which needs no rehearsal.
    fn rehearse<'a>(&mut self, context: &mut SearchContext<'a>) -> Option<Rehearsal<'a>> {
        if self.instances.len() < 2 {
            return None;
        }
        let state: &'a State = context.state;
        let mut rehearsal = Rehearsal::new(state);
        self.found_hosts.clear();
        for index in 0..self.instances.len() {
            let progress = &self.instances[index];
            let Stage::Found(selected) = &progress.stage else {
                continue;
            };
            let (instance, found) = (progress.instance, &selected.found);
            let only_chosen = selected.chosen..selected.chosen + 1;
            let intent = self.rehearsal_intent(state, instance, found, only_chosen);
            if rehearsal.add(&intent).is_some() {
                if self.demand.has_rules() {
                    let host = ProviderId(selected.expected.slot);
                    let consumer = ConsumerUuid::from_uuid(progress.instance);
                    self.found_hosts.push((consumer, host));
                }
                continue;
            }
            selected.expected.stop_counting(context.scheduler, state);
            self.instances[index].stage = Stage::Open;
            self.open.push_back(index);
        }
        Some(rehearsal)
    }

    /// An intent for the rehearsal, with the candidates that have these indexes over all hosts.
    fn rehearsal_intent(
        &self,
        state: &State,
        instance: Uuid,
        found: &CandidatesFound,
        indexes: Range<usize>,
    ) -> Intent {
        let all = found.hosts.iter().flat_map(|host| &host.candidates);
        let candidates = all.skip(indexes.start).take(indexes.len());
        let candidates = candidates.cloned().collect();
        // If placement does not have the group yet, its rules are those of the request, which the
        // ranking already applied.
        let group = self
            .demand
            .group
            .filter(|group| state.group(*group).is_some());
        let rules = self.demand.rules_of(instance);
        // A rehearsal needs no project and no user.
        let consumer = ClaimConsumer {
            generation: ConsumerGeneration::Any,
            ..ClaimConsumer::new(instance, "", "")
        };
        consumer.intent(group, rules, candidates)
    }

    /// Finds a host for an instance, given the hosts of the instances before it, and counts it there.
    fn find_host(
        &mut self,
        context: &mut SearchContext<'_>,
        index: usize,
        mut rehearsal: Option<&mut Rehearsal<'_>>,
    ) -> Result<Option<Selected>, SelectRefusal> {
        let instance = self.instances[index].instance;
        let mut host_count = self.host_count.unwrap_or(HOSTS_MIN);
        let mut excluded_slots = self.demand.excluded_slots.clone();
        excluded_slots.extend(&self.full_slots);
        self.taken_slots.clone_from(&self.full_slots);
        // Each search excludes the hosts that earlier searches found, so the loop ends.
        loop {
            let found = self.search(context, instance, host_count, &excluded_slots)?;
            if found.hosts.is_empty() {
                return Ok(None);
            }
            let Some(rehearsal) = rehearsal.as_mut() else {
                let best_candidate = 0;
                let excluded_count = excluded_slots.len();
                return Ok(self.select(context, index, found, best_candidate, excluded_count));
            };
            let all_candidates = 0..usize::MAX;
            let intent = self.rehearsal_intent(context.state, instance, &found, all_candidates);
            let chosen = rehearsal.add(&intent).map(|chosen| chosen as usize);
            let position = chosen.and_then(|chosen| found.position(chosen));
            let refused_count = position.map_or(found.hosts.len(), |(host_index, _)| host_index);
            let refused_slots = found.hosts[..refused_count].iter().map(|host| host.slot);
            excluded_slots.extend(refused_slots.clone());
            self.taken_slots.extend(refused_slots.clone());
            if !self.demand.has_rules() {
                // With rules, a refused host need not be full: a rule may allow it later.
                self.full_slots.extend(refused_slots);
            }
            if let Some(chosen) = chosen {
                let excluded_count = excluded_slots.len();
                return Ok(self.select(context, index, found, chosen, excluded_count));
            }
            host_count = host_count
                .saturating_mul(HOSTS_FACTOR)
                .min(HOSTS_OF_CLAIM_MAX);
        }
    }

    /// Searches once. If no host of another cell is feasible, searches again with the avoided cells.
    fn search(
        &self,
        context: &mut SearchContext<'_>,
        instance: Uuid,
        host_count: usize,
        excluded_slots: &[u32],
    ) -> Result<CandidatesFound, SelectRefusal> {
        let Some(prepared) = &self.prepared else {
            return Ok(CandidatesFound::default());
        };
        let mut excluded_cells = context.excluded_cells.to_vec();
        excluded_cells.extend(context.avoided_cells);
        let search = Search {
            request: &self.demand.request,
            prepared,
            instance,
            host_count,
            alternate_count: self.demand.alternate_count,
            candidates_of_host_max: CANDIDATES_OF_HOST,
            cell: self.demand.cell,
            excluded_cells: &excluded_cells,
            excluded_slots,
            placed: &self.found_hosts,
            scheduler_number: context.scheduler_number,
            explain: self.demand.explain,
            explain_hosts: &self.demand.explain_hosts,
            basis_hosts: self.basis_hosts(context, host_count),
        };
        let mut found = search.run(context.scheduler, context.state)?;
        if !found.hosts.is_empty() || context.avoided_cells.is_empty() {
            found.has_avoided_cells = !context.avoided_cells.is_empty();
            return Ok(found);
        }
        let everywhere = Search {
            excluded_cells: context.excluded_cells,
            ..search
        };
        everywhere.run(context.scheduler, context.state)
    }

    /// For how many of the best hosts the search also returns what their ranking rests on; 0 if no record of it is
    /// kept. With several instances these are more hosts than are kept, because those that other instances fill are
    /// left out of the record.
    fn basis_hosts(&self, context: &SearchContext<'_>, host_count: usize) -> usize {
        match (context.ranking_record_sequence, self.instances.len()) {
            (None, _) => 0,
            (Some(_), 1) => RANKED_HOSTS_MAX,
            (Some(_), _) => RANKED_HOSTS_MAX + host_count,
        }
    }

    /// Selects the candidate `chosen` for the instance at `index`, and counts the instance on the candidate's host.
    /// `chosen` counts through the candidates of all hosts in `found`; `excluded_count` is the number of hosts that the
    /// search left out. `None` if there is no such candidate.
    fn select(
        &mut self,
        context: &mut SearchContext<'_>,
        index: usize,
        found: CandidatesFound,
        chosen: usize,
        excluded_count: usize,
    ) -> Option<Selected> {
        let instance = self.instances[index].instance;
        let (host_index, candidate_index) = found.position(chosen)?;
        let ranking = self.kept_ranking(context, index, &found, (host_index, excluded_count));
        let feasible = &found.hosts[host_index];
        let candidate = &feasible.candidates[candidate_index];
        let report = self.demand.report(instance);
        let hosts = context.scheduler.hosts_mut();
        // An instance that is to move stays on its present host meanwhile, and is counted there, too.
        if !self.demand.is_move {
            remove_pending_except(hosts, instance, feasible.provider);
        }
        let expected = ExpectedPlacement::begin_counting(hosts, feasible, candidate, report);
        if self.demand.has_rules() {
            let host = ProviderId(expected.slot);
            self.found_hosts
                .push((ConsumerUuid::from_uuid(instance), host));
        }
        Some(Selected {
            found,
            chosen,
            first_named: chosen,
            ranking,
            expected,
        })
    }
}
