//! Searches hosts for the instances of a request, each with regard to those selected before it.

use placewright_placement::{
    ConsumerGeneration, ConsumerUuid, Intent, ProviderId, Rehearsal, State,
};
use placewright_scheduler::prepare::PrepareRefusal;
use placewright_scheduler::select::{Scheduler, SelectRefusal};
use thiserror::Error;
use uuid::Uuid;

use super::super::claim::ClaimConsumer;
use super::super::contention::{Contention, HOSTS_MIN};
use super::super::count::{ExpectedPlacement, leave};
use super::super::search::{CandidatesFound, Search};
use super::super::turn::TimeSlice;
use super::super::{CANDIDATES_OF_HOST, HOSTS_FACTOR, HOSTS_OF_CLAIM_MAX};
use super::{Placing, Selected, Stage};

/// What a search for hosts reads and changes.
pub struct LookContext<'a> {
    /// The scheduler, which has caught up with the state.
    pub scheduler: &'a mut Scheduler,
    /// The state of placement.
    pub state: &'a State,
    /// How often other claims took the selected hosts first, lately.
    pub contention: Contention,
    /// The number of this scheduler among those that compete for the same hosts.
    pub number: usize,
    /// The cells whose hosts are excluded.
    pub closed: &'a [Uuid],
    /// The cells whose hosts are considered only if no other is feasible.
    pub avoided: &'a [Uuid],
}

/// The result of the searches in one time slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchResults {
    /// The time slice is over, and some instances are still to be looked at.
    Unfinished,
    /// Hosts are found, and are to be claimed.
    Ready,
    /// Fewer instances than the request needs can get a host. This is the index of the first
    /// instance after which that is certain.
    Nowhere(usize),
    /// There is nothing to claim.
    Over,
}

/// Why a request cannot be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LookRefusal {
    /// It cannot be prepared.
    #[error(transparent)]
    Prepare(#[from] PrepareRefusal),
    /// It cannot be searched.
    #[error(transparent)]
    Select(#[from] SelectRefusal),
}

impl Placing {
    /// Looks for hosts until the time slice is over. What is found is counted at once.
    ///
    /// # Errors
    ///
    /// [`LookRefusal`] for a request that is wrong or that a pre-filter refuses; nothing is counted
    /// then.
    pub fn look(
        &mut self,
        context: &mut LookContext<'_>,
        turn: &TimeSlice,
    ) -> Result<SearchResults, LookRefusal> {
        let looked = self.look_at_all(context, turn);
        if looked.is_err() {
            self.give_up(context.scheduler, context.state);
        }
        looked
    }

    fn look_at_all(
        &mut self,
        context: &mut LookContext<'_>,
        turn: &TimeSlice,
    ) -> Result<SearchResults, LookRefusal> {
        self.prepare(context)?;
        let mut rehearsal = self.rehearse(context);
        while let Some(index) = self.open.pop_front() {
            match self.find(context, index, rehearsal.as_mut())? {
                Some(selected) => self.slots[index].stage = Stage::Found(Box::new(selected)),
                None => {
                    self.slots[index].stage = Stage::Nowhere;
                    let found = self.count(|stage| matches!(stage, Stage::Found(_)));
                    if found + self.open.len() < self.needed() {
                        return Ok(SearchResults::Nowhere(index));
                    }
                }
            }
            if !self.open.is_empty() && turn.is_over() {
                return Ok(SearchResults::Unfinished);
            }
        }
        let has_found = self.slots.iter();
        let mut has_found = has_found.map(|slot| matches!(slot.stage, Stage::Found(_)));
        if has_found.any(|is_found| is_found) {
            Ok(SearchResults::Ready)
        } else {
            Ok(SearchResults::Over)
        }
    }

    fn prepare(&mut self, context: &mut LookContext<'_>) -> Result<(), PrepareRefusal> {
        if self.prepared.is_some() {
            return Ok(());
        }
        let request = &self.demand.request;
        let mut prepared = context.scheduler.prepare_cached(context.state, request)?;
        if self.open.len() > 1 && prepared.class.is_some_and(|class| !class.is_repeated) {
            // Rankings are kept for requests that come more than once, as this one will.
            prepared = context.scheduler.prepare_cached(context.state, request)?;
        }
        self.prepared = Some(prepared);
        let claims = self.slots.len();
        self.hosts.get_or_insert_with(|| {
            // The instances of one claim do not compete with each other, and of many that lose to
            // others only the losers are searched again.
            context.contention.hosts().div_ceil(claims).max(HOSTS_MIN)
        });
        Ok(())
    }

    /// Rehearses the claims for the hosts that earlier time slices found. An instance whose host has
    /// no room any more is searched again. A single instance needs no rehearsal.
    fn rehearse<'a>(&mut self, context: &mut LookContext<'a>) -> Option<Rehearsal<'a>> {
        if self.slots.len() < 2 {
            return None;
        }
        let state: &'a State = context.state;
        let mut rehearsal = Rehearsal::new(state);
        self.placed.clear();
        for index in 0..self.slots.len() {
            let slot = &self.slots[index];
            let Stage::Found(selected) = &slot.stage else {
                continue;
            };
            let intent = self.intent(state, slot.instance, &selected.found, selected.chosen, 1);
            if rehearsal.add(&intent).is_some() {
                if self.demand.has_rules() {
                    let host = ProviderId(selected.expected.slot);
                    let consumer = ConsumerUuid::from_uuid(slot.instance);
                    self.placed.push((consumer, host));
                }
                continue;
            }
            selected.expected.forget(context.scheduler, state);
            self.slots[index].stage = Stage::Open;
            self.open.push_back(index);
        }
        Some(rehearsal)
    }

    /// An intent for the rehearsal, with `most` of the candidates from `first` on.
    fn intent(
        &self,
        state: &State,
        instance: Uuid,
        found: &CandidatesFound,
        first: usize,
        most: usize,
    ) -> Intent {
        let all = found.offers.iter().flat_map(|offer| &offer.candidates);
        let candidates = all.skip(first).take(most).cloned().collect();
        // The rules of a group that placement does not know yet are the request's, which the
        // ranking keeps.
        let group = self
            .demand
            .group
            .filter(|group| state.group(*group).is_some());
        let rules = self.demand.rules_of(instance);
        let claimant = ClaimConsumer {
            generation: ConsumerGeneration::Any,
            ..ClaimConsumer::new(instance, "", "")
        };
        claimant.intent(group, rules, candidates)
    }

    /// Finds a host for an instance, beside those that were found before, and counts it there.
    fn find(
        &mut self,
        context: &mut LookContext<'_>,
        index: usize,
        mut rehearsal: Option<&mut Rehearsal<'_>>,
    ) -> Result<Option<Selected>, SelectRefusal> {
        let instance = self.slots[index].instance;
        let mut hosts = self.hosts.unwrap_or(HOSTS_MIN);
        let mut without = self.demand.without.clone();
        without.extend(&self.full);
        self.refused.clone_from(&self.full);
        // Each search excludes the hosts of those before it, so this ends.
        loop {
            let found = self.search(context, instance, hosts, &without)?;
            if found.offers.is_empty() {
                return Ok(None);
            }
            let Some(rehearsal) = rehearsal.as_mut() else {
                return Ok(self.select(context, instance, found, 0));
            };
            let intent = self.intent(context.state, instance, &found, 0, usize::MAX);
            let chosen = rehearsal.add(&intent).map(|chosen| chosen as usize);
            let place = chosen.and_then(|chosen| found.position(chosen));
            let refused = place.map_or(found.offers.len(), |(offer, _)| offer);
            let refused = found.offers[..refused].iter().map(|offer| offer.slot);
            without.extend(refused.clone());
            self.refused.extend(refused.clone());
            if !self.demand.has_rules() {
                // A rule may refuse a host now that it allows later.
                self.full.extend(refused);
            }
            if let Some(chosen) = chosen {
                return Ok(self.select(context, instance, found, chosen));
            }
            hosts = hosts.saturating_mul(HOSTS_FACTOR).min(HOSTS_OF_CLAIM_MAX);
        }
    }

    /// One search; the avoided cells are considered if there are no hosts elsewhere.
    fn search(
        &self,
        context: &mut LookContext<'_>,
        instance: Uuid,
        hosts: usize,
        without: &[u32],
    ) -> Result<CandidatesFound, SelectRefusal> {
        let Some(prepared) = &self.prepared else {
            return Ok(CandidatesFound::default());
        };
        let mut without_cells = context.closed.to_vec();
        without_cells.extend(context.avoided);
        let search = Search {
            request: &self.demand.request,
            prepared,
            instance,
            hosts,
            alternates: self.demand.alternates,
            candidates: CANDIDATES_OF_HOST,
            cell: self.demand.cell,
            without_cells: &without_cells,
            without,
            placed: &self.placed,
            scheduler: context.number,
            explain: self.demand.explain,
            explain_hosts: &self.demand.explain_hosts,
        };
        let found = search.run(context.scheduler, context.state)?;
        if !found.offers.is_empty() || context.avoided.is_empty() {
            return Ok(found);
        }
        let everywhere = Search {
            without_cells: context.closed,
            ..search
        };
        everywhere.run(context.scheduler, context.state)
    }

    /// Selects a candidate for an instance, and counts it there.
    fn select(
        &mut self,
        context: &mut LookContext<'_>,
        instance: Uuid,
        found: CandidatesFound,
        chosen: usize,
    ) -> Option<Selected> {
        let (offer, candidate) = found.position(chosen)?;
        let offer = &found.offers[offer];
        let report = self.demand.report(instance);
        let hosts = context.scheduler.hosts_mut();
        if !self.demand.is_move {
            leave(hosts, instance, Some(offer.provider));
        }
        let expected = ExpectedPlacement::count(hosts, offer, &offer.candidates[candidate], report);
        if self.demand.has_rules() {
            let host = ProviderId(expected.slot);
            self.placed.push((ConsumerUuid::from_uuid(instance), host));
        }
        Some(Selected {
            found,
            chosen,
            first: chosen,
            expected,
        })
    }
}
