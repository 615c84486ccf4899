//! Estimates how many more instances of a request fit, by simulating the scheduler's decisions on a
//! copy.

use std::collections::{BTreeMap, BTreeSet};

use placewright_placement::{
    Command, ConsumerGeneration, ConsumerUuid, Intent, Outcome, State, Timestamp, decide,
};
use uuid::Uuid;

use super::Scheduler;
use super::rules::{hard_group_rules, hard_topology_rules};
use super::scope::{Scope, SelectRefusal};
use crate::hosts::state::InstanceReport;
use crate::rank::indexed::SharedScores;
use crate::request::RequestSpec;
use crate::translate::prepare::Prepared;

/// The maximum number of candidates of each host in a claim.
const CANDIDATES_PER_HOST: usize = 4;
/// The maximum number of hosts in a claim.
const HOSTS_PER_CLAIM: usize = 8;

/// How many instances of a request would find a host now, if they were requested one
/// after another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// The number of instances placed.
    pub count: usize,
    /// Whether the limit was reached and at least one more would fit.
    pub has_more: bool,
    /// The number of hosts that got at least one instance.
    pub host_count: usize,
    /// The number of instances by cell.
    pub by_cell: BTreeMap<Uuid, usize>,
}

impl Scheduler {
    /// An independent copy of the scheduler with empty caches, for simulations.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self {
            policy: self.policy.clone(),
            options: self.options.clone(),
            hosts: self.hosts.clone(),
            class_cache: self.class_cache.fork(),
            scores: SharedScores::default(),
            compute_version_min: self.compute_version_min,
        }
    }

    /// Claims up to `limit` instances of a request, until one finds no host. Call it on a
    /// [`Self::fork`] with a copy of the state, because both are changed.
    ///
    /// Each instance is ranked and claimed as a real one would be, so the result takes account of
    /// filters, weights, groups and topology.
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
        let mut used_slots = BTreeSet::new();
        let mut capacity = Capacity::default();
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
            if capacity.count == limit {
                capacity.has_more = true;
                break;
            }
            capacity.count += 1;
            used_slots.insert(slot);
            if !request.topology_rules.is_empty() {
                request.siblings.insert(instance);
            }
            if let Some(host) = self.hosts.get(slot) {
                *capacity.by_cell.entry(host.names.cell).or_default() += 1;
            }
        }
        capacity.host_count = used_slots.len();
        Ok(capacity)
    }
}

/// Creates the request's server group in placement if it does not exist, as before a real claim.
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

/// Decides and applies a command; `None` if it is refused.
fn execute(state: &mut State, command: &Command) -> Option<Outcome> {
    let mut changes = Vec::new();
    let outcome = decide(state, command, &mut changes).ok()?;
    for change in &changes {
        drop(state.apply(change));
    }
    Some(outcome)
}

impl Scheduler {
    /// Claims the best host for an instance and returns its slot. If placement refuses the claim on all of
    /// the best hosts, the next ones are tried.
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
            let intent = Intent {
                consumer: ConsumerUuid::from_uuid(instance),
                generation: ConsumerGeneration::Is(None),
                project: "what-if".to_owned(),
                user: "what-if".to_owned(),
                consumer_type: None,
                group: request.instance_group.as_ref().map(|group| group.uuid),
                rules: hard_topology_rules(request).collect(),
                candidates,
                alongside: Vec::new(),
            };
            let command = Command::ClaimFirst {
                intents: vec![intent],
                least: 1,
                at,
            };
            let Some(Outcome::Claimed(chosen_candidates)) = execute(state, &command) else {
                excluded_slots.extend(ranked.iter().map(|host| host.slot));
                continue;
            };
            let chosen = chosen_candidates.first().copied().flatten();
            let host = chosen.and_then(|index| hosts.get(index as usize));
            let slot = host
                .and_then(|host| self.hosts.by_uuid(*host))
                .map(|(slot, _)| slot);
            if let Some(slot) = slot {
                let group = request.instance_group.as_ref().map(|group| group.uuid);
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
