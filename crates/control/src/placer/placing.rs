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
use super::demand::Demand;
use super::pending_instances::{Correction, ExpectedPlacement, apply_corrections};
use super::search::{CandidatesFound, FeasibleHost};
use super::{HOSTS_FACTOR, HOSTS_OF_CLAIM_MAX, ROUNDS};

mod find_hosts;

pub use find_hosts::{SearchContext, SearchRefusal, SearchResults};

/// The instances of one request while they are placed; the [module](super) describes the rounds.
#[derive(Debug)]
pub struct Placing {
    demand: Demand,
    /// The prepared form of the request in this round.
    prepared: Option<Arc<Prepared>>,
    instances: Vec<InstanceProgress>,
    /// The indexes of the instances that still need a search in this round.
    open: VecDeque<usize>,
    /// The number of rounds before this one.
    round: u32,
    /// How many hosts a claim names for an instance in this round; `None` before the first search.
    hosts: Option<usize>,
    /// The slots of hosts that the request's own instances will fill.
    full_slots: Vec<u32>,
    /// The hosts of the instances that are found but not claimed, if rules between them may apply.
    placed: Vec<(ConsumerUuid, ProviderId)>,
    /// The slots of hosts that were feasible for the last instance but for the room that other
    /// instances of the request take.
    taken_slots: Vec<u32>,
    /// The indexes of the instances in the command that is under way, in its order.
    claiming: Vec<usize>,
    /// The slots of hosts that were full when a claim tried them, so that it took another.
    missed_slots: Vec<u32>,
    /// Why the last claim was refused.
    cause: Option<Refusal>,
}

/// An instance of a request, and how far its placement has come.
#[derive(Debug)]
struct InstanceProgress {
    instance: Uuid,
    stage: Stage,
}

/// How far an instance has come.
#[derive(Debug)]
enum Stage {
    /// A search has to find a host for it.
    Open,
    /// A host is selected and counted.
    Found(Box<Selected>),
    /// No host is feasible for it.
    NoHost,
    /// Its host is claimed.
    Claimed(Box<Selected>),
    /// It was removed from the request.
    Gone,
}

/// The host of an instance.
#[derive(Debug)]
pub struct Selected {
    /// The hosts of the search, best first.
    pub found: CandidatesFound,
    /// The index of the candidate that is expected, or claimed, over all hosts.
    pub chosen: usize,
    /// The index of the first candidate that a claim names: those before it have no room together with
    /// the request's other instances.
    first: usize,
    expected: ExpectedPlacement,
}

/// What follows after a round of searches and claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundEnd {
    /// Every instance has a host, or will not get one.
    Done,
    /// Some instances need another search: the next round has begun.
    SearchAgain,
    /// In every round, other claims took the selected hosts first.
    RoundsExhausted,
}

impl Selected {
    /// The candidates that a claim names, each with its host.
    fn candidates(&self) -> impl Iterator<Item = (&FeasibleHost, &IntentCandidate)> {
        let hosts = self.found.hosts.iter();
        let all = hosts.flat_map(|host| {
            host.candidates
                .iter()
                .map(move |candidate| (host, candidate))
        });
        all.skip(self.first)
    }

    /// The slots of the hosts before that of a candidate.
    fn slots_before(&self, candidate: usize) -> Vec<u32> {
        let here = self.found.position(candidate).map_or(0, |(host, _)| host);
        let first = self.found.position(self.first).map_or(0, |(host, _)| host);
        let hosts = self.found.hosts.get(first..here).unwrap_or_default();
        hosts.iter().map(|host| host.slot).collect()
    }
}

impl Placing {
    /// A request before its first search.
    #[must_use]
    pub fn new(demand: Demand) -> Self {
        let instances = demand.instances.iter().map(|instance| InstanceProgress {
            instance: *instance,
            stage: Stage::Open,
        });
        Self {
            instances: instances.collect(),
            open: (0..demand.instances.len()).collect(),
            prepared: None,
            round: 0,
            hosts: None,
            full_slots: Vec::new(),
            placed: Vec::new(),
            taken_slots: Vec::new(),
            claiming: Vec::new(),
            missed_slots: Vec::new(),
            cause: None,
            demand,
        }
    }

    /// The instances and their constraints, as the caller gave them.
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

    /// The slots of hosts that were feasible for the last instance but for the room that other
    /// instances of the request take.
    #[must_use]
    pub fn taken_slots(&self) -> &[u32] {
        &self.taken_slots
    }

    /// The slots of hosts that claims found full before they got another: on a state that does not
    /// show that yet, they are not to be named again.
    #[must_use]
    pub fn missed_slots(&self) -> &[u32] {
        &self.missed_slots
    }

    /// How many instances have a host, claimed or not.
    #[must_use]
    pub fn placed_count(&self) -> usize {
        self.count(|stage| matches!(stage, Stage::Found(_) | Stage::Claimed(_)))
    }

    /// The instances whose hosts are claimed.
    pub fn claimed(&self) -> impl Iterator<Item = Uuid> + '_ {
        let instances = self.instances.iter();
        let claimed = instances.filter(|progress| matches!(progress.stage, Stage::Claimed(_)));
        claimed.map(|progress| progress.instance)
    }

    /// How many hosts the next claim names.
    #[must_use]
    pub fn named_hosts(&self) -> usize {
        let instances = self.instances.iter();
        let found = instances.filter_map(|progress| match &progress.stage {
            Stage::Found(selected) => Some(selected.found.hosts.len()),
            _ => None,
        });
        found.sum()
    }

    /// The instances in the command that is under way.
    pub fn claiming(&self) -> impl Iterator<Item = Uuid> + '_ {
        self.claiming
            .iter()
            .map(|index| self.instances[*index].instance)
    }

    /// The instances that have no claimed host, and may still get one.
    #[must_use]
    pub fn waiting(&self) -> Vec<Uuid> {
        let instances = self.instances.iter();
        let waiting =
            instances.filter(|progress| matches!(progress.stage, Stage::Open | Stage::Found(_)));
        waiting.map(|progress| progress.instance).collect()
    }

    /// The instances that are not placed and not gone.
    #[must_use]
    pub fn unplaced(&self) -> Vec<Uuid> {
        let instances = self.instances.iter();
        let unplaced =
            instances.filter(|progress| !matches!(progress.stage, Stage::Claimed(_) | Stage::Gone));
        unplaced.map(|progress| progress.instance).collect()
    }

    /// Takes the instances for which no host is feasible out of the request.
    pub fn remove_without_host(&mut self) -> Vec<Uuid> {
        let instances = self.instances.iter_mut();
        let without_host = instances.filter(|progress| matches!(progress.stage, Stage::NoHost));
        without_host
            .map(|progress| {
                progress.stage = Stage::Gone;
                progress.instance
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
        for progress in &mut self.instances {
            let is_unclaimed = !matches!(progress.stage, Stage::Claimed(_) | Stage::Gone);
            if is_unclaimed && !waits(progress.instance) {
                let before = std::mem::replace(&mut progress.stage, Stage::Gone);
                if let Stage::Found(selected) = before {
                    selected.expected.remove(scheduler, state);
                }
                gone.push(progress.instance);
            }
        }
        let instances = &self.instances;
        self.open
            .retain(|index| matches!(instances[*index].stage, Stage::Open));
        gone
    }

    /// The selected host of each instance whose host is claimed, in the order of the instances.
    pub fn into_selected(self) -> impl Iterator<Item = Option<Selected>> {
        self.instances
            .into_iter()
            .map(|progress| match progress.stage {
                Stage::Claimed(selected) => Some(*selected),
                Stage::Open | Stage::Found(_) | Stage::NoHost | Stage::Gone => None,
            })
    }

    fn count(&self, is_counted: impl Fn(&Stage) -> bool) -> usize {
        let instances = self.instances.iter();
        instances
            .filter(|progress| is_counted(&progress.stage))
            .count()
    }

    /// How many more instances have to be claimed.
    fn needed(&self) -> usize {
        let gone = self.count(|stage| matches!(stage, Stage::Gone));
        let rest = self.instances.len() - gone;
        let claimed = self.count(|stage| matches!(stage, Stage::Claimed(_)));
        self.demand.least.min(rest).saturating_sub(claimed)
    }

    /// Begins the claim of all hosts that are found.
    fn begin_claim(&mut self) -> usize {
        let instances = self.instances.iter().enumerate();
        let found = instances.filter(|(_, progress)| matches!(progress.stage, Stage::Found(_)));
        self.claiming = found.map(|(index, _)| index).collect();
        self.placed.clear();
        self.needed().max(1)
    }

    /// The found hosts of the command under way, with their instances.
    fn named(&self) -> impl Iterator<Item = (Uuid, &Selected)> {
        let instances = self.claiming.iter().map(|index| &self.instances[*index]);
        instances.filter_map(|progress| match &progress.stage {
            Stage::Found(selected) => Some((progress.instance, &**selected)),
            _ => None,
        })
    }

    /// The command that claims the found hosts for consumers that hold nothing, all at once.
    pub fn claim(&mut self, project: &str, user: &str, at: Timestamp) -> Command {
        let least = self.begin_claim();
        let intents = self.named().map(|(instance, selected)| {
            let candidates = selected
                .candidates()
                .map(|(_, candidate)| candidate.clone());
            let rules = self.demand.rules_of(instance);
            let consumer = ClaimConsumer::new(instance, project, user);
            consumer.intent(self.demand.group, rules, candidates.collect())
        });
        let intents = intents.collect();
        claim::claim_first(intents, least, at)
    }

    /// The command that claims the found hosts for builds, all at once.
    pub fn place_builds(&mut self) -> ConductorCommand {
        let least = self.begin_claim();
        let ranked_candidates = self.named().map(|(instance, selected)| {
            let candidates = conductor_candidates(selected);
            claim::ranked_candidates(instance, candidates, self.demand.alternates)
        });
        claim::place_builds(ranked_candidates.collect(), least)
    }

    /// The command that claims the found host for a move.
    pub fn place_move(&mut self, migration: MigrationId) -> ConductorCommand {
        self.begin_claim();
        let named = self.named().map(|(_, selected)| selected);
        let candidates = named.flat_map(conductor_candidates).collect();
        claim::place_move(migration, candidates, self.demand.alternates)
    }

    /// Applies the response to a claim that was accepted: the candidate that each instance of the
    /// command got. Pass what it returns to [`apply_corrections`] before [`Self::end_round`].
    #[must_use]
    pub fn apply_claimed(
        &mut self,
        chosen: &[Option<u32>],
        contention: &mut Contention,
    ) -> Vec<Correction> {
        let mut corrections = Vec::new();
        let claiming = std::mem::take(&mut self.claiming);
        for (number, index) in claiming.into_iter().enumerate() {
            let progress = &mut self.instances[index];
            let Stage::Found(mut selected) = std::mem::replace(&mut progress.stage, Stage::Open)
            else {
                continue;
            };
            let chosen = chosen.get(number).copied().flatten();
            let chosen = chosen.map(|chosen| selected.first + chosen as usize);
            let position = chosen.and_then(|chosen| selected.found.position(chosen));
            let (Some(chosen), Some((host, _))) = (chosen, position) else {
                self.open.push_back(index);
                corrections.push(Correction {
                    expected: selected.expected,
                    host: None,
                });
                continue;
            };
            let host = selected.found.hosts[host].provider;
            if host != selected.expected.host {
                corrections.push(Correction {
                    expected: selected.expected.clone(),
                    host: Some(host),
                });
            }
            let missed = selected.slots_before(chosen);
            contention.record(missed.len());
            self.missed_slots.extend(missed);
            selected.chosen = chosen;
            progress.stage = Stage::Claimed(selected);
        }
        if !self.open.is_empty() {
            contention.record_failure();
        }
        corrections
    }

    /// Applies the response to a claim that was refused because too few found a host. Pass what it
    /// returns to [`apply_corrections`] before [`Self::end_round`].
    #[must_use]
    pub fn apply_refused(
        &mut self,
        cause: Option<Refusal>,
        contention: &mut Contention,
    ) -> Vec<Correction> {
        self.cause = cause;
        // A single instance was refused by the hosts themselves. Of several, some took the hosts
        // from the others, so these hosts stay eligible.
        if let [index] = self.claiming[..]
            && let Stage::Found(selected) = &self.instances[index].stage
        {
            let hosts = selected.found.hosts.iter();
            self.demand
                .excluded_slots
                .extend(hosts.map(|host| host.slot));
        }
        contention.record_failure();
        self.reopen_claiming()
    }

    /// Searches again for the instances of a claim that was not decided, or was refused for a
    /// reason that has nothing to do with hosts. Pass what it returns to [`apply_corrections`]; the
    /// same round may be repeated.
    #[must_use]
    pub fn reopen_claiming(&mut self) -> Vec<Correction> {
        let mut corrections = Vec::new();
        for index in std::mem::take(&mut self.claiming) {
            let progress = &mut self.instances[index];
            if let Stage::Found(selected) = std::mem::replace(&mut progress.stage, Stage::Open) {
                corrections.push(Correction {
                    expected: selected.expected,
                    host: None,
                });
            }
            self.open.push_back(index);
        }
        corrections
    }

    /// Drops the hosts that are found but not claimed, and no longer counts the instances there.
    pub fn discard_found(&mut self, scheduler: &mut Scheduler, state: &State) {
        let instances = self.instances.iter().enumerate();
        let found = instances.filter(|(_, progress)| matches!(progress.stage, Stage::Found(_)));
        self.claiming = found.map(|(index, _)| index).collect();
        self.placed.clear();
        let corrections = self.reopen_claiming();
        apply_corrections(scheduler, state, &corrections);
    }

    /// Ends a round after the response to its claim was applied. If another round follows, it
    /// begins here.
    pub fn end_round(&mut self) -> RoundEnd {
        if self.open.is_empty() {
            return RoundEnd::Done;
        }
        if self.round + 1 >= ROUNDS {
            return RoundEnd::RoundsExhausted;
        }
        self.round += 1;
        let hosts = self.hosts.map(|hosts| hosts.saturating_mul(HOSTS_FACTOR));
        self.hosts = hosts.map(|hosts| hosts.min(HOSTS_OF_CLAIM_MAX));
        self.clear_round();
        RoundEnd::SearchAgain
    }

    /// Drops what was derived from the state of the last round.
    fn clear_round(&mut self) {
        self.prepared = None;
        self.full_slots.clear();
    }
}

fn conductor_candidates(selected: &Selected) -> Vec<placewright_conductor::Candidate> {
    let candidates = selected.candidates();
    let converted =
        candidates.map(|(host, candidate)| claim::candidate(host.zone.as_deref(), candidate));
    converted.collect()
}
