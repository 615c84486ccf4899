//! The simulation: instance after instance is ranked and claimed, on copies of the scheduler and of the state.

use placewright_placement::{
    Command, ConsumerGeneration, ConsumerUuid, Intent, IntentCandidate, IntentRule, Outcome, State,
    Timestamp, decide,
};
use uuid::Uuid;

use super::host_counts::HostCounts;
use super::{Capacity, Scheduler};
use crate::hosts::state::InstanceReport;
use crate::request::RequestSpec;
use crate::select::rules::{hard_group_rules, hard_topology_rules};
use crate::select::scope::{Scope, SelectRefusal};
use crate::translate::prepare::Prepared;

/// The maximum number of candidates of each host in a claim.
pub(super) const CANDIDATES_PER_HOST: usize = 4;
/// The maximum number of hosts in a claim.
const HOSTS_PER_CLAIM: usize = 8;

impl Scheduler {
    /// Claims up to `limit` instances of a request, until one finds no host. Call it on a
    /// [`Self::fork`] with a copy of the state, because both are changed.
    ///
    /// Each instance is ranked and claimed as a real one would be, so the result takes account of
    /// filters, weights, groups and topology. This function defines the result of
    /// [`CapacityCount`](super::CapacityCount).
    ///
    /// # Errors
    ///
    /// As [`Self::rank`].
    pub fn capacity(
        mut self,
        mut state: State,
        request: &RequestSpec,
        prepared: &Prepared,
        limit: usize,
        at: Timestamp,
    ) -> Result<Capacity, SelectRefusal> {
        create_group(&mut state, request);
        let mut request = request.clone();
        let mut counts = HostCounts::default();
        let (mut claimed_count, mut has_more) = (0, false);
        // Simulated instances get the lowest UUIDs that no consumer has.
        for number in 1.. {
            let instance = Uuid::from_u128(number);
            if state.consumer(ConsumerUuid::from_uuid(instance)).is_some() {
                continue;
            }
            self.observe(&state, at);
            let Some(slot) = self.claim_best_host(&mut state, &request, prepared, instance, at)?
            else {
                break;
            };
            if claimed_count == limit {
                has_more = true;
                break;
            }
            claimed_count += 1;
            counts.add(slot, 1);
            if !request.topology_rules.is_empty() {
                request.siblings.insert(instance);
            }
        }
        if !has_more {
            self.find_limiting_factors(&state, &request, prepared, &mut counts)?;
        }
        counts.add_to_sums(&self, &state, 0..self.hosts.slot_count());
        Ok(counts.summarize(&self, &state, has_more))
    }
}

/// Creates the request's server group in placement if it does not exist, as is done before a real claim.
fn create_group(state: &mut State, request: &RequestSpec) {
    let Some(group) = &request.instance_group else {
        return;
    };
    if state.group(group.uuid).is_none() {
        let command = Command::SetGroup {
            group: group.uuid,
            rules: hard_group_rules(group),
        };
        execute(state, &command);
    }
}

/// A claim of an instance that does not exist, in a copy of the state.
pub(super) struct SimulatedClaim {
    pub(super) instance: Uuid,
    /// The server group of the instance.
    pub(super) group: Option<Uuid>,
    pub(super) rules: Vec<IntentRule>,
    /// The candidates, best first.
    pub(super) candidates: Vec<IntentCandidate>,
    pub(super) at: Timestamp,
}

impl SimulatedClaim {
    /// Claims the first candidate that fits; `None` if no candidate fits.
    pub(super) fn execute(self, state: &mut State) -> Option<Outcome> {
        let intent = Intent {
            consumer: ConsumerUuid::from_uuid(self.instance),
            // The consumer does not exist yet.
            generation: ConsumerGeneration::Is(None),
            project: "what-if".to_owned(),
            user: "what-if".to_owned(),
            consumer_type: None,
            group: self.group,
            rules: self.rules,
            candidates: self.candidates,
            alongside: Vec::new(),
        };
        let command = Command::ClaimFirst {
            intents: vec![intent],
            least: 1,
            at: self.at,
        };
        execute(state, &command)
    }
}

/// Decides and applies a command; `None` if it is refused.
fn execute(state: &mut State, command: &Command) -> Option<Outcome> {
    let mut changes = Vec::new();
    let outcome = decide(state, command, &mut changes).ok()?;
    for change in &changes {
        // `apply` returns the data that would take the change back; nothing is taken back in this copy.
        drop(state.apply(change));
    }
    Some(outcome)
}

impl Scheduler {
    /// Claims the best host for an instance, and returns the host's slot. If placement refuses the claim on all of the
    /// best hosts, the next best ones are tried. `None` if no host is left.
    fn claim_best_host(
        &mut self,
        state: &mut State,
        request: &RequestSpec,
        prepared: &Prepared,
        instance: Uuid,
        at: Timestamp,
    ) -> Result<Option<u32>, SelectRefusal> {
        let mut excluded_slots = Vec::new();
        loop {
            let scope = Scope {
                instance,
                count: HOSTS_PER_CLAIM,
                excluded_slots: excluded_slots.clone(),
                ..Scope::default()
            };
            let ranked = self.rank(state, request, prepared, &scope)?;
            if ranked.is_empty() {
                return Ok(None);
            }
            let mut candidates = Vec::new();
            for host in &ranked {
                let slot = host.slot;
                candidates.extend(self.candidates(state, prepared, slot, CANDIDATES_PER_HOST)?);
            }
            let hosts: Vec<Uuid> = candidates.iter().map(|candidate| candidate.host).collect();
            let rules = hard_topology_rules(request).collect();
            let group = request.instance_group.as_ref().map(|group| group.uuid);
            let claim = SimulatedClaim {
                instance,
                group,
                rules,
                candidates,
                at,
            };
            let Some(Outcome::Claimed(chosen_candidates)) = claim.execute(state) else {
                excluded_slots.extend(ranked.iter().map(|host| host.slot));
                continue;
            };
            let chosen = chosen_candidates.first().copied().flatten();
            let host = chosen.and_then(|index| hosts.get(index as usize));
            let slot = host
                .and_then(|host| self.hosts.by_uuid(*host))
                .map(|(slot, _)| slot);
            if let Some(slot) = slot {
                let properties = request
                    .image
                    .iter()
                    .flat_map(|image| image.properties.iter());
                let report = InstanceReport {
                    uuid: instance,
                    group,
                    image_properties: properties
                        .map(|(name, value)| (name.to_owned(), value.to_owned()))
                        .collect(),
                };
                self.hosts.add_pending_instance(slot, &report);
            }
            return Ok(slot);
        }
    }
}
