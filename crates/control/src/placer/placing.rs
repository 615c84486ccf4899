//! The state of one request from its first search for hosts to its last claim.

use std::collections::VecDeque;
use std::sync::Arc;

use placewright_conductor::super_conductor::Command as ConductorCommand;
use placewright_conductor::{MigrationId, RankingRecord};
use placewright_placement::{
    Command, ConsumerUuid, IntentCandidate, ProviderId, Refusal, State, Timestamp,
};
use placewright_scheduler::prepare::Prepared;
use placewright_scheduler::select::{Mappings, Scheduler};
use uuid::Uuid;

use super::claim::{self, ClaimConsumer};
use super::contention::Contention;
use super::demand::Demand;
use super::pending_instances::{Correction, ExpectedPlacement};
use super::search::{CandidatesFound, FeasibleHost};
use super::{HOSTS_FACTOR, HOSTS_OF_CLAIM_MAX, ROUNDS};

mod find_hosts;
mod kept_ranking;

use kept_ranking::add_lost;

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
    /// How many hosts a claim names for each instance in this round; `None` before the first search.
    host_count: Option<usize>,
    /// The slots of hosts that the request's own instances will fill.
    full_slots: Vec<u32>,
    /// The hosts of the instances that are found but not claimed, if rules between them may apply.
    found_hosts: Vec<(ConsumerUuid, ProviderId)>,
    /// The slots of the hosts that would have been feasible for the last instance if other instances of the request
    /// did not take their room.
    taken_slots: Vec<u32>,
    /// The indexes of the instances in the claim that is under way, in the order of its command.
    claiming: Vec<usize>,
    /// The slots of fallen hosts: they were full when a claim tried them, so that it took another.
    fallen_slots: Vec<u32>,
    /// Why the last claim was refused, if it was.
    last_refusal: Option<Refusal>,
    /// For how many instances a search found a host since the last claim.
    found_count: u32,
}

/// An instance of a request, and how far its placement has come.
#[derive(Debug)]
struct InstanceProgress {
    instance: Uuid,
    stage: Stage,
    /// Hosts that other claims took first, as far as they are kept.
    lost_hosts: Vec<Uuid>,
}

/// How far an instance has come.
#[derive(Debug)]
enum Stage {
    /// A search has to find a host for the instance.
    Open,
    /// A host is selected and counted.
    Found(Box<Selected>),
    /// No host is feasible for the instance.
    NoHost,
    /// The host of the instance is claimed.
    Claimed(Box<Selected>),
    /// The instance was removed from the request.
    Gone,
}

/// The host of an instance.
#[derive(Debug)]
pub struct Selected {
    /// The hosts of the search, best first.
    pub found: CandidatesFound,
    /// The index of the candidate that a claim is expected to get, and later of the one that it got. It
    /// counts through the candidates of all hosts in `found`.
    pub chosen: usize,
    /// The index of the first candidate that a claim names, counted in the same way: the candidates before
    /// it have no room for this instance together with the request's other instances.
    first_named: usize,
    /// How the hosts were ranked; empty unless it is to be kept with the claim.
    ranking: RankingRecord,
    expected: ExpectedPlacement,
}

/// The next step after a round of searches and claims.
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
    /// The candidates that a claim names, each with its host and its mappings.
    fn named_candidates(
        &self,
    ) -> impl Iterator<Item = (&FeasibleHost, &IntentCandidate, &Mappings)> {
        let hosts = self.found.hosts.iter();
        hosts
            .flat_map(FeasibleHost::candidates_with_mappings)
            .skip(self.first_named)
    }

    /// The slots of the hosts that a claim tries before it comes to the host of a candidate.
    fn slots_tried_before(&self, candidate: usize) -> Vec<u32> {
        let host_index = |candidate| self.found.position(candidate).map_or(0, |(host, _)| host);
        let (first, end) = (host_index(self.first_named), host_index(candidate));
        let hosts = self.found.hosts.get(first..end).unwrap_or_default();
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
            lost_hosts: Vec::new(),
        });
        Self {
            instances: instances.collect(),
            open: (0..demand.instances.len()).collect(),
            prepared: None,
            round: 0,
            host_count: None,
            full_slots: Vec::new(),
            found_hosts: Vec::new(),
            taken_slots: Vec::new(),
            claiming: Vec::new(),
            fallen_slots: Vec::new(),
            last_refusal: None,
            found_count: 0,
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
    pub fn last_refusal(&self) -> Option<&Refusal> {
        self.last_refusal.as_ref()
    }

    /// The hosts of the instances that are found but not claimed, if rules between them may apply.
    #[must_use]
    pub fn found_hosts(&self) -> &[(ConsumerUuid, ProviderId)] {
        &self.found_hosts
    }

    /// The slots of the hosts that would have been feasible for the last instance if other instances of the request
    /// did not take their room.
    #[must_use]
    pub fn taken_slots(&self) -> &[u32] {
        &self.taken_slots
    }

    /// The slots of hosts that claims found full before they got another: on a state that does not
    /// show that yet, they are not to be named again.
    #[must_use]
    pub fn fallen_slots(&self) -> &[u32] {
        &self.fallen_slots
    }

    /// How many instances have a host, claimed or not.
    #[must_use]
    pub fn selected_count(&self) -> usize {
        self.count(|stage| matches!(stage, Stage::Found(_) | Stage::Claimed(_)))
    }

    /// The instances whose hosts are claimed.
    pub fn claimed(&self) -> impl Iterator<Item = Uuid> + '_ {
        let instances = self.instances.iter();
        let claimed = instances.filter(|progress| matches!(progress.stage, Stage::Claimed(_)));
        claimed.map(|progress| progress.instance)
    }

    /// How many hosts the next claim names, for all instances together.
    #[must_use]
    pub fn named_host_count(&self) -> usize {
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

    /// The instances that have no claimed host, also those for which none is feasible. Instances that
    /// were removed from the request are left out.
    #[must_use]
    pub fn unclaimed(&self) -> Vec<Uuid> {
        let instances = self.instances.iter();
        let unclaimed =
            instances.filter(|progress| !matches!(progress.stage, Stage::Claimed(_) | Stage::Gone));
        unclaimed.map(|progress| progress.instance).collect()
    }

    /// Removes the instances for which no host is feasible from the request, and returns them.
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

    /// Removes the instances that have no claimed host and do not wait for one any more, and returns
    /// them.
    pub fn remove_not_waiting(
        &mut self,
        scheduler: &mut Scheduler,
        state: &State,
        still_waits: impl Fn(Uuid) -> bool,
    ) -> Vec<Uuid> {
        let mut gone = Vec::new();
        for progress in &mut self.instances {
            let is_unclaimed = !matches!(progress.stage, Stage::Claimed(_) | Stage::Gone);
            if is_unclaimed && !still_waits(progress.instance) {
                let before = std::mem::replace(&mut progress.stage, Stage::Gone);
                if let Stage::Found(selected) = before {
                    selected.expected.stop_counting(scheduler, state);
                }
                gone.push(progress.instance);
            }
        }
        let instances = &self.instances;
        self.open
            .retain(|index| matches!(instances[*index].stage, Stage::Open));
        gone
    }

    /// The claimed host of each instance, in the order of the instances; `None` for those without one.
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

    /// How many more instances must get a claimed host, so that the request has as many as [`Demand::least`] says.
    fn needed_count(&self) -> usize {
        let gone_count = self.count(|stage| matches!(stage, Stage::Gone));
        let instance_count = self.instances.len() - gone_count;
        let claimed_count = self.count(|stage| matches!(stage, Stage::Claimed(_)));
        let least = self.demand.least.min(instance_count);
        least.saturating_sub(claimed_count)
    }

    /// Begins the claim of all hosts that are found. Returns how many of the instances must get one.
    fn begin_claim(&mut self) -> usize {
        let instances = self.instances.iter().enumerate();
        let found = instances.filter(|(_, progress)| matches!(progress.stage, Stage::Found(_)));
        self.claiming = found.map(|(index, _)| index).collect();
        self.found_hosts.clear();
        self.found_count = 0;
        self.needed_count().max(1)
    }

    /// The instances of the claim under way, with their found hosts.
    fn claiming_selected(&self) -> impl Iterator<Item = (Uuid, &Selected)> {
        let instances = self.claiming.iter().map(|index| &self.instances[*index]);
        instances.filter_map(|progress| match &progress.stage {
            Stage::Found(selected) => Some((progress.instance, &**selected)),
            _ => None,
        })
    }

    /// Begins a claim: returns the command that claims the found hosts for consumers that hold nothing,
    /// all at once.
    pub fn claim(&mut self, project: &str, user: &str, at: Timestamp) -> Command {
        let least = self.begin_claim();
        let intents = self.claiming_selected().map(|(instance, selected)| {
            let candidates = selected
                .named_candidates()
                .map(|(_, candidate, _)| candidate.clone());
            let rules = self.demand.rules_of(instance);
            let consumer = ClaimConsumer::new(instance, project, user);
            consumer.intent(self.demand.group, rules, candidates.collect())
        });
        let intents = intents.collect();
        claim::claim_first(intents, least, at)
    }

    /// Begins a claim: returns the command that claims the found hosts for builds; see [`ConductorCommand::Place`].
    pub fn place_builds(&mut self, may_reschedule: bool) -> ConductorCommand {
        let least = self.begin_claim();
        let ranked_candidates = self.claiming_selected().map(|(instance, selected)| {
            let candidates = conductor_candidates(selected);
            let ranking = selected.ranking.clone();
            claim::ranked_candidates(instance, candidates, self.demand.alternate_count, ranking)
        });
        claim::place_builds(ranked_candidates.collect(), least, may_reschedule)
    }

    /// Begins a claim: returns the command that claims the found host for a move.
    pub fn place_move(&mut self, migration: MigrationId) -> ConductorCommand {
        self.begin_claim();
        let mut selected = self.claiming_selected().map(|(_, selected)| selected);
        // A move is of one instance.
        let selected = selected.next();
        let candidates = selected.map(conductor_candidates).unwrap_or_default();
        let ranking = selected.map(|selected| selected.ranking.clone());
        let (alternates, ranking) = (self.demand.alternate_count, ranking.unwrap_or_default());
        claim::place_move(migration, candidates, alternates, ranking)
    }

    /// Applies the response to a claim that was accepted: for each instance of the command, the index of the candidate
    /// that it got, among those that the command named for it. Pass the returned corrections to
    /// [`super::apply_corrections`] before [`Self::end_round`].
    #[must_use]
    pub fn apply_claimed(
        &mut self,
        chosen: &[Option<u32>],
        contention: &mut Contention,
    ) -> Vec<Correction> {
        self.last_refusal = None;
        let mut corrections = Vec::new();
        let claiming = std::mem::take(&mut self.claiming);
        for (intent_index, index) in claiming.into_iter().enumerate() {
            let progress = &mut self.instances[index];
            let Stage::Found(mut selected) = std::mem::replace(&mut progress.stage, Stage::Open)
            else {
                continue;
            };
            let among_named = chosen.get(intent_index).copied().flatten();
            let candidate = among_named.map(|chosen| selected.first_named + chosen as usize);
            let position = candidate.and_then(|candidate| selected.found.position(candidate));
            let (Some(candidate), Some((host_index, _))) = (candidate, position) else {
                self.open.push_back(index);
                add_lost(&mut progress.lost_hosts, &selected);
                corrections.push(Correction {
                    expected: selected.expected,
                    host: None,
                });
                continue;
            };
            let host = selected.found.hosts[host_index].provider;
            if host != selected.expected.host {
                corrections.push(Correction {
                    expected: selected.expected.clone(),
                    host: Some(host),
                });
            }
            let fallen = selected.slots_tried_before(candidate);
            contention.record(fallen.len());
            self.fallen_slots.extend(fallen);
            selected.chosen = candidate;
            progress.stage = Stage::Claimed(selected);
        }
        if !self.open.is_empty() {
            contention.record_failure();
        }
        corrections
    }

    /// Applies the refusal of a claim for which too few instances got a host; `None` if the reason is not known. Pass
    /// the returned corrections to [`super::apply_corrections`] before [`Self::end_round`].
    #[must_use]
    pub fn apply_refused(
        &mut self,
        refusal: Option<Refusal>,
        contention: &mut Contention,
    ) -> Vec<Correction> {
        self.last_refusal = refusal;
        for index in &self.claiming {
            let progress = &mut self.instances[*index];
            if let Stage::Found(selected) = &progress.stage {
                add_lost(&mut progress.lost_hosts, selected);
            }
        }
        // If a single instance is refused, its hosts have no room. Of several instances, some may only have taken the
        // hosts from the others, so these hosts stay eligible.
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

    /// Searches again for the instances of a claim that was not decided, or was refused for a reason that has nothing
    /// to do with hosts. Pass the corrections to [`super::apply_corrections`]. The same round may be repeated.
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

    /// Drops the hosts that are found but not claimed. Pass the corrections to [`super::apply_corrections`].
    #[must_use]
    pub fn discard_found(&mut self) -> Vec<Correction> {
        let instances = self.instances.iter().enumerate();
        let found = instances.filter(|(_, progress)| matches!(progress.stage, Stage::Found(_)));
        self.claiming = found.map(|(index, _)| index).collect();
        self.found_hosts.clear();
        self.reopen_claiming()
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
        let raised = |count: usize| count.saturating_mul(HOSTS_FACTOR).min(HOSTS_OF_CLAIM_MAX);
        self.host_count = self.host_count.map(raised);
        self.clear_round();
        RoundEnd::SearchAgain
    }

    /// Drops the values that were derived from the state of the last round.
    fn clear_round(&mut self) {
        self.prepared = None;
        self.full_slots.clear();
    }
}

fn conductor_candidates(selected: &Selected) -> Vec<placewright_conductor::Candidate> {
    let candidates = selected.named_candidates();
    let converted = candidates.map(|(host, candidate, mappings)| {
        claim::candidate(host.zone.as_deref(), candidate, mappings)
    });
    converted.collect()
}
