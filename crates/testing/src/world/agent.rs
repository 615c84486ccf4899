//! An agent that fulfils the contract with the cell conductor.

use std::collections::{BTreeMap, BTreeSet};

use placewright_conductor::cell_conductor::{Effect, Event, Failure, Order, Step};
use placewright_conductor::{Amounts, GroupMapping, HostId, InstanceId};

/// The mappings of each candidate on a host: a part of the host serves a group.
pub(super) fn mappings_on(host: HostId) -> Vec<GroupMapping> {
    vec![GroupMapping {
        suffix: "_PART".into(),
        providers: vec![Amounts {
            provider: host.0,
            resources: Vec::new(),
        }],
    }]
}

/// Checks that the order of a step, if the effect is one, has the mappings that candidates on the host have.
pub(super) fn check_mappings(host: HostId, effect: &Effect) {
    if let Effect::RequestStep { order, .. } = effect {
        assert_eq!(order.mappings, mappings_on(host), "{:?}", order.step);
    }
}

/// An agent with the guests of its host.
#[derive(Clone, Debug)]
pub struct Agent {
    pub host: HostId,
    /// The number of the agent's present session.
    pub session: u64,
    pub is_up: bool,
    /// The guests of the host, and whether each runs. Outlives the agent's sessions.
    pub guests: BTreeMap<(InstanceId, u32), bool>,
    /// The guests that the agent was ordered to destroy since its start.
    destroyed: BTreeSet<(InstanceId, u32)>,
    /// For each instance the latest attempt, and why it failed; `None` if it succeeded.
    ended_steps: BTreeMap<InstanceId, (u32, Option<Failure>)>,
}

impl Agent {
    pub fn new(host: HostId) -> Self {
        Self {
            host,
            session: 1,
            is_up: true,
            guests: BTreeMap::new(),
            destroyed: BTreeSet::new(),
            ended_steps: BTreeMap::new(),
        }
    }

    pub fn restart(&mut self) {
        self.session += 1;
        self.is_up = true;
        self.destroyed.clear();
        self.ended_steps.clear();
    }

    /// The event by which the agent begins its session.
    pub fn started(&self) -> Event {
        Event::AgentStarted {
            host: self.host,
            session: self.session,
            guests: self.guests.keys().copied().collect(),
        }
    }

    /// Carries out an effect. If `fails` is set, every step fails except [`Step::Offload`] and [`Step::Return`], which
    /// fail only if the guest is missing. Returns the event that the agent sends, if it sends one.
    pub fn carry_out(&mut self, effect: &Effect, fails: bool) -> Option<Event> {
        match effect {
            Effect::RequestStep { session, order, .. } => {
                if *session != self.session || !self.is_up {
                    return None;
                }
                self.carry_out_order(order, fails)
            }
            Effect::Destroy {
                session,
                instance,
                number,
                ..
            } => {
                if *session != self.session || !self.is_up {
                    return None;
                }
                self.guests.remove(&(*instance, *number));
                self.destroyed.insert((*instance, *number));
                Some(Event::Destroyed {
                    host: self.host,
                    instance: *instance,
                    number: *number,
                })
            }
            Effect::RequestClaim(_) => None,
        }
    }

    fn carry_out_order(&mut self, order: &Order, fails: bool) -> Option<Event> {
        let failure = match self.ended_steps.get(&order.instance) {
            Some((attempt, _)) if *attempt > order.attempt => return None,
            Some((attempt, failure)) if *attempt == order.attempt => failure.clone(),
            _ => {
                let failure = self.run_step(order, fails)?.err();
                let ended_step = (order.attempt, failure.clone());
                self.ended_steps.insert(order.instance, ended_step);
                failure
            }
        };
        Some(Event::StepEnded {
            host: self.host,
            instance: order.instance,
            session: self.session,
            attempt: order.attempt,
            failure,
        })
    }

    /// Runs a step; `None` if the agent has already been ordered to destroy the step's guest.
    fn run_step(&mut self, order: &Order, fails: bool) -> Option<Result<(), Failure>> {
        let key = (order.instance, order.guest_number);
        if self.destroyed.contains(&key) {
            return None;
        }
        let step_failure = |message: &str| {
            Some(Err(Failure {
                message: message.into(),
                may_retry: true,
            }))
        };
        match order.step {
            Step::Prepare | Step::Arrive if fails => return step_failure("the driver failed"),
            Step::Prepare | Step::Arrive => {
                let is_arriving = order.step == Step::Arrive;
                *self.guests.entry(key).or_default() |= is_arriving;
            }
            Step::Leave | Step::Rebuild if fails => return step_failure("the driver failed"),
            Step::Leave | Step::Offload | Step::Return | Step::Rebuild => {
                let is_running = matches!(order.step, Step::Return | Step::Rebuild);
                match self.guests.get_mut(&key) {
                    Some(guest_runs) => *guest_runs = is_running,
                    None => return step_failure("no such guest"),
                }
            }
        }
        Some(Ok(()))
    }
}
