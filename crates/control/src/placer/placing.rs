//! The state of one request from its first search for hosts to its last claim.

use std::collections::VecDeque;
use std::sync::Arc;

use placewright_conductor::MigrationId;
use placewright_conductor::super_conductor::Command as ConductorCommand;
use placewright_placement::{
    Command, ConsumerUuid, IntentCandidate, ProviderId, Refusal, State, Timestamp,
};
use placewright_scheduler::prepare::Prepared;
use placewright_scheduler::select::Scheduler;
use uuid::Uuid;

use super::claim::{self, ClaimConsumer};
use super::contention::Contention;
use super::count::{Correction, ExpectedPlacement, correct};
use super::demand::Demand;
use super::search::{CandidatesFound, FeasibleHost};
use super::{HOSTS_FACTOR, HOSTS_OF_CLAIM_MAX, ROUNDS};

mod look;

pub use look::{LookContext, LookRefusal, SearchResults};

/// The instances of one request while they are placed; the [module](super) describes the rounds.
#[derive(Debug)]
pub struct Placing {
    demand: Demand,
    /// The prepared form of the request in this round.
    prepared: Option<Arc<Prepared>>,
    slots: Vec<Slot>,
    /// The indexes of the instances that still need a search in this round.
    open: VecDeque<usize>,
    /// The number of rounds before this one.
    round: u32,
    /// How many hosts a claim names for an instance in this round; `None` before the first search.
    hosts: Option<usize>,
    /// The slots of hosts that the request's own instances will fill.
    full: Vec<u32>,
    /// The hosts of the instances that are found but not claimed, if rules between them may apply.
    placed: Vec<(ConsumerUuid, ProviderId)>,
    /// The slots of hosts that the last instance could use but for the request's other instances.
    refused: Vec<u32>,
    /// The indexes of the instances in the command that is under way, in its order.
    claiming: Vec<usize>,
    /// The slots of hosts that were full when a claim tried them, so that it took another.
    missed: Vec<u32>,
    /// Why the last claim was refused.
    cause: Option<Refusal>,
}

/// An instance of a request.
#[derive(Debug)]
struct Slot {
    instance: Uuid,
    stage: Stage,
}

/// How far an instance has come.
#[derive(Debug)]
enum Stage {
    /// It waits for a search.
    Open,
    /// A host is selected and counted.
    Found(Box<Selected>),
    /// No host is feasible.
    Nowhere,
    /// Its host is claimed.
    Claimed(Box<Selected>),
    /// It is not to be placed any more.
    Gone,
}

/// The host of an instance.
#[derive(Debug)]
pub struct Selected {
    /// The hosts of the search, best first.
    pub found: CandidatesFound,
    /// The index of the candidate that is expected, or claimed, over all hosts.
    pub chosen: usize,
    /// The index of the first candidate that a claim names: those before it have no room beside
    /// the request's other instances.
    first: usize,
    expected: ExpectedPlacement,
}

/// What to do after the answer to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Every instance has a host, or will not get one.
    Done,
    /// Some instances need another search.
    Again,
    /// In every round, other claims took the selected hosts first.
    Lost,
}

impl Selected {
    /// The candidates that a claim names, each with its host.
    fn candidates(&self) -> impl Iterator<Item = (&FeasibleHost, &IntentCandidate)> {
        let offers = self.found.offers.iter();
        let all = offers.flat_map(|offer| offer.candidates.iter().map(move |one| (offer, one)));
        all.skip(self.first)
    }

    /// The slots of the hosts before that of a candidate.
    fn before(&self, candidate: usize) -> Vec<u32> {
        let here = self.found.position(candidate).map_or(0, |(offer, _)| offer);
        let first = self
            .found
            .position(self.first)
            .map_or(0, |(offer, _)| offer);
        let offers = self.found.offers.get(first..here).unwrap_or_default();
        offers.iter().map(|offer| offer.slot).collect()
    }
}

impl Placing {
    /// A request before its first search.
    #[must_use]
    pub fn new(demand: Demand) -> Self {
        let slots = demand.instances.iter().map(|instance| Slot {
            instance: *instance,
            stage: Stage::Open,
        });
        Self {
            slots: slots.collect(),
            open: (0..demand.instances.len()).collect(),
            prepared: None,
            round: 0,
            hosts: None,
            full: Vec::new(),
            placed: Vec::new(),
            refused: Vec::new(),
            claiming: Vec::new(),
            missed: Vec::new(),
            cause: None,
            demand,
        }
    }

    /// What is placed.
    #[must_use]
    pub fn demand(&self) -> &Demand {
        &self.demand
    }

    /// The prepared form of the request, after a search.
    #[must_use]
    pub fn prepared(&self) -> Option<&Arc<Prepared>> {
        self.prepared.as_ref()
    }

    /// Why the last claim was refused, if one was.
    #[must_use]
    pub fn cause(&self) -> Option<&Refusal> {
        self.cause.as_ref()
    }

    /// The hosts of the instances that are found but not claimed, if rules between them may apply.
    #[must_use]
    pub fn placed(&self) -> &[(ConsumerUuid, ProviderId)] {
        &self.placed
    }

    /// The slots of hosts that the last instance could use but for the request's other instances.
    #[must_use]
    pub fn refused_beside(&self) -> &[u32] {
        &self.refused
    }

    /// The slots of hosts that claims found full before they got another: on a state that does not
    /// show that yet, they are not to be named again.
    #[must_use]
    pub fn missed(&self) -> &[u32] {
        &self.missed
    }

    /// How many instances have a host, claimed or not.
    #[must_use]
    pub fn placed_count(&self) -> usize {
        self.count(|stage| matches!(stage, Stage::Found(_) | Stage::Claimed(_)))
    }

    /// The instances whose hosts are claimed.
    pub fn claimed(&self) -> impl Iterator<Item = Uuid> + '_ {
        let slots = self.slots.iter();
        let claimed = slots.filter(|slot| matches!(slot.stage, Stage::Claimed(_)));
        claimed.map(|slot| slot.instance)
    }

    /// How many hosts the next claim names.
    #[must_use]
    pub fn named_hosts(&self) -> usize {
        let slots = self.slots.iter();
        let found = slots.filter_map(|slot| match &slot.stage {
            Stage::Found(selected) => Some(selected.found.offers.len()),
            _ => None,
        });
        found.sum()
    }

    /// The instances in the command that is under way.
    pub fn claiming(&self) -> impl Iterator<Item = Uuid> + '_ {
        self.claiming
            .iter()
            .map(|index| self.slots[*index].instance)
    }

    /// The instances that have no claimed host, and may still get one.
    #[must_use]
    pub fn waiting(&self) -> Vec<Uuid> {
        let slots = self.slots.iter();
        let waiting = slots.filter(|slot| matches!(slot.stage, Stage::Open | Stage::Found(_)));
        waiting.map(|slot| slot.instance).collect()
    }

    /// The instances that are not placed and not gone.
    #[must_use]
    pub fn unplaced(&self) -> Vec<Uuid> {
        let slots = self.slots.iter();
        let unplaced = slots.filter(|slot| !matches!(slot.stage, Stage::Claimed(_) | Stage::Gone));
        unplaced.map(|slot| slot.instance).collect()
    }

    /// Takes the instances for which no host is feasible out of the request.
    pub fn take_nowhere(&mut self) -> Vec<Uuid> {
        let slots = self.slots.iter_mut();
        let nowhere = slots.filter(|slot| matches!(slot.stage, Stage::Nowhere));
        nowhere
            .map(|slot| {
                slot.stage = Stage::Gone;
                slot.instance
            })
            .collect()
    }

    /// Takes the instances that wait no longer out of the request, and returns them.
    pub fn retain(
        &mut self,
        scheduler: &mut Scheduler,
        state: &State,
        waits: impl Fn(Uuid) -> bool,
    ) -> Vec<Uuid> {
        let mut gone = Vec::new();
        for slot in &mut self.slots {
            let is_in_question = !matches!(slot.stage, Stage::Claimed(_) | Stage::Gone);
            if is_in_question && !waits(slot.instance) {
                let before = std::mem::replace(&mut slot.stage, Stage::Gone);
                if let Stage::Found(selected) = before {
                    selected.expected.forget(scheduler, state);
                }
                gone.push(slot.instance);
            }
        }
        let slots = &self.slots;
        self.open
            .retain(|index| matches!(slots[*index].stage, Stage::Open));
        gone
    }

    /// The selected host of each instance whose host is claimed, in the order of the instances.
    pub fn into_selected(self) -> impl Iterator<Item = Option<Selected>> {
        self.slots.into_iter().map(|slot| match slot.stage {
            Stage::Claimed(selected) => Some(*selected),
            Stage::Open | Stage::Found(_) | Stage::Nowhere | Stage::Gone => None,
        })
    }

    fn count(&self, is_one: impl Fn(&Stage) -> bool) -> usize {
        let slots = self.slots.iter();
        slots.filter(|slot| is_one(&slot.stage)).count()
    }

    /// How many more instances have to be claimed.
    fn needed(&self) -> usize {
        let gone = self.count(|stage| matches!(stage, Stage::Gone));
        let rest = self.slots.len() - gone;
        let claimed = self.count(|stage| matches!(stage, Stage::Claimed(_)));
        self.demand.least.min(rest).saturating_sub(claimed)
    }

    /// Begins the claim of all hosts that are found.
    fn begin_claim(&mut self) -> usize {
        let slots = self.slots.iter().enumerate();
        let found = slots.filter(|(_, slot)| matches!(slot.stage, Stage::Found(_)));
        self.claiming = found.map(|(index, _)| index).collect();
        self.placed.clear();
        self.needed().max(1)
    }

    /// The found hosts of the command under way, with their instances.
    fn named(&self) -> impl Iterator<Item = (Uuid, &Selected)> {
        let slots = self.claiming.iter().map(|index| &self.slots[*index]);
        slots.filter_map(|slot| match &slot.stage {
            Stage::Found(selected) => Some((slot.instance, &**selected)),
            _ => None,
        })
    }

    /// The command that claims the found hosts for consumers that hold nothing, all at once.
    pub fn claim(&mut self, project: &str, user: &str, at: Timestamp) -> Command {
        let least = self.begin_claim();
        let intents = self.named().map(|(instance, selected)| {
            let candidates = selected.candidates().map(|(_, one)| one.clone());
            let rules = self.demand.rules_of(instance);
            let claimant = ClaimConsumer::new(instance, project, user);
            claimant.intent(self.demand.group, rules, candidates.collect())
        });
        let intents = intents.collect();
        claim::first_that_fit(intents, least, at)
    }

    /// The command that claims the found hosts for builds, all at once.
    pub fn place(&mut self) -> ConductorCommand {
        let least = self.begin_claim();
        let ranked_candidates = self.named().map(|(instance, selected)| {
            let candidates = in_conductors_form(selected);
            claim::ranked(instance, candidates, self.demand.alternates)
        });
        claim::for_builds(ranked_candidates.collect(), least)
    }

    /// The command that claims the found host for a move.
    pub fn place_move(&mut self, migration: MigrationId) -> ConductorCommand {
        self.begin_claim();
        let named = self.named().map(|(_, selected)| selected);
        let candidates = named.flat_map(in_conductors_form).collect();
        claim::for_move(migration, candidates, self.demand.alternates)
    }

    /// Takes the answer to a claim that was accepted: the candidate that each instance of the
    /// command got. Pass what it returns to [`correct`] before [`Self::go_on`].
    #[must_use]
    pub fn decided(
        &mut self,
        chosen: &[Option<u32>],
        contention: &mut Contention,
    ) -> Vec<Correction> {
        let mut corrections = Vec::new();
        let claiming = std::mem::take(&mut self.claiming);
        for (position, index) in claiming.into_iter().enumerate() {
            let slot = &mut self.slots[index];
            let Stage::Found(mut selected) = std::mem::replace(&mut slot.stage, Stage::Open) else {
                continue;
            };
            let chosen = chosen.get(position).copied().flatten();
            let chosen = chosen.map(|chosen| selected.first + chosen as usize);
            let place = chosen.and_then(|chosen| selected.found.position(chosen));
            let (Some(chosen), Some((offer, _))) = (chosen, place) else {
                self.open.push_back(index);
                corrections.push(Correction {
                    expected: selected.expected,
                    host: None,
                });
                continue;
            };
            let host = selected.found.offers[offer].provider;
            if host != selected.expected.host {
                corrections.push(Correction {
                    expected: selected.expected.clone(),
                    host: Some(host),
                });
            }
            let missed = selected.before(chosen);
            contention.note(missed.len());
            self.missed.extend(missed);
            selected.chosen = chosen;
            slot.stage = Stage::Claimed(selected);
        }
        if !self.open.is_empty() {
            contention.note_failed();
        }
        corrections
    }

    /// Takes the answer to a claim that was refused because too few found a host. Pass what it
    /// returns to [`correct`] before [`Self::go_on`].
    #[must_use]
    pub fn refused(
        &mut self,
        why: Option<Refusal>,
        contention: &mut Contention,
    ) -> Vec<Correction> {
        self.cause = why;
        // A single instance was refused by the hosts themselves. Of several, some took the hosts
        // from the others, so these hosts stay eligible.
        if let [index] = self.claiming[..]
            && let Stage::Found(selected) = &self.slots[index].stage
        {
            let offers = selected.found.offers.iter();
            self.demand.without.extend(offers.map(|offer| offer.slot));
        }
        contention.note_failed();
        self.reopened()
    }

    /// Takes back a claim that was not decided, or was refused for a reason that has nothing to do
    /// with hosts. Pass what it returns to [`correct`]; the same round may begin anew.
    #[must_use]
    pub fn reopened(&mut self) -> Vec<Correction> {
        let mut corrections = Vec::new();
        for index in std::mem::take(&mut self.claiming) {
            let slot = &mut self.slots[index];
            if let Stage::Found(selected) = std::mem::replace(&mut slot.stage, Stage::Open) {
                corrections.push(Correction {
                    expected: selected.expected,
                    host: None,
                });
            }
            self.open.push_back(index);
        }
        corrections
    }

    /// No longer counts the hosts that are found but not claimed.
    pub fn give_up(&mut self, scheduler: &mut Scheduler, state: &State) {
        let slots = self.slots.iter().enumerate();
        let found = slots.filter(|(_, slot)| matches!(slot.stage, Stage::Found(_)));
        self.claiming = found.map(|(index, _)| index).collect();
        self.placed.clear();
        let corrections = self.reopened();
        correct(scheduler, state, &corrections);
    }

    /// What to do after the answer to a claim. If another round follows, it begins here.
    pub fn go_on(&mut self) -> Next {
        if self.open.is_empty() {
            return Next::Done;
        }
        if self.round + 1 >= ROUNDS {
            return Next::Lost;
        }
        self.round += 1;
        let hosts = self.hosts.map(|hosts| hosts.saturating_mul(HOSTS_FACTOR));
        self.hosts = hosts.map(|hosts| hosts.min(HOSTS_OF_CLAIM_MAX));
        self.begin_anew();
        Next::Again
    }

    /// Drops what was derived from the state of the last round.
    fn begin_anew(&mut self) {
        self.prepared = None;
        self.full.clear();
    }
}

fn in_conductors_form(selected: &Selected) -> Vec<placewright_conductor::Candidate> {
    let candidates = selected.candidates();
    let formed = candidates.map(|(offer, one)| claim::candidate(offer.zone.as_deref(), one));
    formed.collect()
}
