//! Simulations of the state machines of hosts together with the cell conductor. Messages are
//! duplicated, delayed, reordered or lost, work fails or is cancelled, and agents are killed.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

mod cell;

use std::collections::{BTreeMap, BTreeSet};

use cell::{instance, order};
use placewright_agent::guest_log::{Guest, GuestKey, GuestState};
use placewright_agent::host::{Action, Host, Outcome, PhysicalCapacity, Work, WorkResult};
use placewright_agent::{DriverError, Operation};
use placewright_conductor::cell_conductor::{
    self, Effect, Event, Options, Stage, State, Step, VmState,
};
use placewright_conductor::message::{Create, Envelope, MoveOrder};
use placewright_conductor::{
    Amounts, Candidate, ClaimChange, ClaimRequest, ClaimResponse, HostId, InstanceId, Message,
    MigrationId, MoveDecision, MoveKind,
};
use placewright_placement::Timestamp;
use placewright_testing::random::Rng;
use proptest::prelude::*;
use uuid::Uuid;

const HOSTS: usize = 3;
const INSTANCES: u32 = 6;
const FIRST_HOST_ID: u128 = 0x1000;

fn host_id(number: usize) -> HostId {
    HostId(Uuid::from_u128(FIRST_HOST_ID + number as u128))
}

#[derive(Clone, Debug)]
enum Packet {
    ToHost(Effect),
    ToCell(Event),
    Claim(InstanceId, u64, ClaimResponse),
}

/// One host: its state machine, its guest log, and the guests that exist on it.
struct SimulatedHost {
    host: Host,
    guest_log: BTreeMap<GuestKey, Guest>,
    /// The pieces of work under way, each with whether it is cancelled.
    work: Vec<(Work, bool)>,
    existing: BTreeSet<GuestKey>,
}

struct Simulation {
    cell: State,
    hosts: Vec<SimulatedHost>,
    network: Vec<Packet>,
    now: Timestamp,
    rng: Rng,
    session: u64,
    migrations: u128,
    /// Whether faults are injected.
    has_faults: bool,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let host = |number| SimulatedHost {
            host: Host::new(host_id(number), [], PhysicalCapacity::default()),
            guest_log: BTreeMap::new(),
            work: Vec::new(),
            existing: BTreeSet::new(),
        };
        let mut simulation = Self {
            cell: State::default(),
            hosts: (0..HOSTS).map(host).collect(),
            network: Vec::new(),
            now: Timestamp::from_seconds(1000),
            rng: Rng(seed),
            session: 0,
            migrations: 0,
            has_faults: true,
        };
        for number in 0..HOSTS {
            simulation.connect(number);
        }
        simulation.deliver_all();
        simulation
    }

    fn handle_event(&mut self, event: &Event) {
        let mut changes = Vec::new();
        let options = Options::default();
        if cell_conductor::decide(&self.cell, event, self.now, &options, &mut changes).is_err() {
            return;
        }
        for change in &changes {
            self.cell.apply(change);
        }
        let effects = self.cell.effects_of(&changes);
        self.send(effects);
    }

    fn send(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            self.network.push(match effect {
                Effect::RequestClaim(request) => claim_response(&request),
                effect => Packet::ToHost(effect),
            });
        }
    }

    fn send_message(&mut self, message: Message) {
        let sent_at = self.now;
        self.handle_event(&Event::Message(Envelope { sent_at, message }));
    }

    /// Begins a new connection.
    fn connect(&mut self, number: usize) {
        self.session += 1;
        let start = self.hosts[number].host.begin_session(self.session, "host");
        self.network.push(Packet::ToCell(Event::AgentStarted {
            host: start.host,
            session: start.session,
            guests: start.guests,
        }));
    }

    /// Kills the agent and starts another one.
    fn kill(&mut self, number: usize) {
        let simulated = &mut self.hosts[number];
        for (work, _) in simulated.work.drain(..) {
            let is_done = self.rng.one_in(2);
            carry_out(&mut simulated.existing, &work, is_done);
        }
        let is_incomplete = |guest: &Guest| guest.state == GuestState::Incomplete;
        let log = &mut simulated.guest_log;
        for (key, _) in log.iter().filter(|(_, guest)| is_incomplete(guest)) {
            simulated.existing.remove(key);
        }
        log.retain(|_, guest| !is_incomplete(guest));
        let guests = log.clone();
        simulated.host = Host::new(host_id(number), guests, PhysicalCapacity::default());
        self.connect(number);
    }

    fn carry_out_actions(&mut self, number: usize, actions: Vec<Action>) {
        let host = host_id(number);
        let simulated = &mut self.hosts[number];
        for action in actions {
            match action {
                Action::Work(work) => {
                    let is_busy = simulated
                        .work
                        .iter()
                        .any(|(other, _)| other.guest == work.guest);
                    assert!(!is_busy, "two pieces of work at a time on {work:?}");
                    simulated.work.push((work, false));
                }
                Action::Cancel(number) => {
                    for (work, is_cancelled) in &mut simulated.work {
                        *is_cancelled |= work.number == number;
                    }
                }
                Action::StepEnded {
                    instance,
                    session,
                    attempt,
                    failure,
                } => self.network.push(Packet::ToCell(Event::StepEnded {
                    host,
                    instance,
                    session,
                    attempt,
                    failure,
                })),
                Action::Destroyed { instance, number } => {
                    let key = (instance, number);
                    assert!(!simulated.existing.contains(&key), "{key:?} still exists");
                    self.network.push(Packet::ToCell(Event::Destroyed {
                        host,
                        instance,
                        number,
                    }));
                }
                Action::LogGuest(key) => {
                    let guest = simulated.host.guest(key).unwrap().clone();
                    simulated.guest_log.insert(key, guest);
                }
                Action::EraseGuest(key) => drop(simulated.guest_log.remove(&key)),
            }
        }
    }

    /// Ends one piece of work, with a random result.
    fn end_work(&mut self, number: usize) {
        let count = self.hosts[number].work.len();
        if count == 0 {
            return;
        }
        let chosen = self.rng.below(count);
        let fails = self.has_faults && self.rng.one_in(5);
        let undo_fails = fails && self.rng.one_in(3);
        let is_half_done = self.rng.one_in(2);
        let is_late = self.rng.one_in(4);
        let simulated = &mut self.hosts[number];
        let (work, is_cancelled) = simulated.work.swap_remove(chosen);
        let existing = &mut simulated.existing;
        // Work that is cancelled may have been completed already.
        let outcome = if is_cancelled && !is_late {
            carry_out(existing, &work, is_half_done);
            Outcome::Cancelled
        } else if fails {
            carry_out(existing, &work, is_half_done);
            let was_undone = work.makes_guest && !undo_fails;
            if was_undone {
                existing.remove(&work.guest);
            }
            let error = DriverError::retriable("it failed");
            Outcome::Failed { error, was_undone }
        } else {
            carry_out(existing, &work, true);
            Outcome::Done
        };
        let result = WorkResult {
            number: work.number,
            guest: work.guest,
            outcome,
        };
        let mut actions = Vec::new();
        simulated.host.end_work(result, 0, &mut actions);
        self.carry_out_actions(number, actions);
    }

    fn deliver(&mut self, packet: Packet) {
        match packet {
            Packet::ToCell(event) => self.handle_event(&event),
            Packet::Claim(instance, number, response) => self.handle_event(&Event::ClaimAnswered {
                instance,
                number,
                response,
            }),
            Packet::ToHost(effect) => {
                let mut actions = Vec::new();
                let number_of =
                    |id: HostId| usize::try_from(id.0.as_u128() - FIRST_HOST_ID).unwrap();
                let number = match effect {
                    Effect::RequestStep {
                        host,
                        session,
                        order,
                    } => {
                        let simulated = &mut self.hosts[number_of(host)];
                        simulated.host.handle_order(session, *order, &mut actions);
                        number_of(host)
                    }
                    Effect::Destroy {
                        host,
                        session,
                        instance,
                        number,
                    } => {
                        let simulated = &mut self.hosts[number_of(host)];
                        let key = (instance, number);
                        simulated.host.handle_destroy(session, key, 0, &mut actions);
                        number_of(host)
                    }
                    Effect::RequestClaim(_) => return,
                };
                self.carry_out_actions(number, actions);
            }
        }
    }

    /// Delivers a random message of the network. It may be duplicated or lost.
    fn deliver_random(&mut self) {
        if self.network.is_empty() {
            return;
        }
        let chosen = self.rng.below(self.network.len());
        let packet = match self.rng.below(8) {
            0 => self.network[chosen].clone(),
            1 => {
                // The start of a session is never lost or duplicated: the connection would end
                // instead.
                if matches!(
                    &self.network[chosen],
                    Packet::ToCell(Event::AgentStarted { .. })
                ) {
                    return;
                }
                self.network.swap_remove(chosen);
                return;
            }
            _ => self.network.swap_remove(chosen),
        };
        self.deliver(packet);
    }

    fn deliver_all(&mut self) {
        while !self.network.is_empty() {
            let packet = self.network.remove(0);
            self.deliver(packet);
        }
    }

    fn create(&mut self, number: u32) {
        let spec = order(host_id(0), instance(number), Step::Arrive, 1).spec;
        let first = self.rng.below(HOSTS);
        let candidate = |number: usize| Candidate {
            host: host_id(number % HOSTS),
            zone: None,
            amounts: vec![Amounts {
                provider: host_id(number % HOSTS).0,
                resources: vec![("VCPU".into(), 1)],
            }],
        };
        self.send_message(Message::Create(Box::new(Create {
            instance: instance(number),
            spec,
            selection: candidate(first),
            alternates: vec![candidate(first + 1), candidate(first + 2)],
            claim_number: 1,
        })));
    }

    fn delete(&mut self, number: u32) {
        self.send_message(Message::Delete {
            instance: instance(number),
            claim_number: 1,
        });
    }

    fn move_instance(&mut self, number: u32, kind: MoveKind) {
        let id = instance(number);
        let Some(row) = self.cell.instances().get(&id) else {
            return;
        };
        let (move_number, claim_number) = (row.move_number + 1, row.claim_number + 1);
        let Some(guest) = row.guest else { return };
        self.migrations += 1;
        let migration = MigrationId(Uuid::from_u128(self.migrations));
        self.send_message(Message::Reserve {
            instance: id,
            migration,
            kind,
            move_number,
        });
        let other_host = (0..HOSTS).map(host_id).find(|host| *host != guest.host);
        let target = match kind {
            // A resize may stay on its host.
            MoveKind::Resize => guest.host,
            _ => other_host.unwrap(),
        };
        self.send_message(Message::Move(Box::new(MoveOrder {
            instance: id,
            migration,
            selection: Candidate {
                host: target,
                zone: None,
                amounts: Vec::new(),
            },
            alternates: Vec::new(),
            spec: None,
            claim_number,
        })));
    }

    /// Confirms or reverts the move of an instance, if it waits for that.
    fn confirm_or_revert(&mut self, number: u32, decision: MoveDecision) {
        let id = instance(number);
        let job = self.cell.jobs().get(&id);
        let job = job.filter(|job| job.stage == Stage::Verify);
        let migration = job.and_then(|job| job.migration);
        if let Some(migration) = migration {
            self.send_message(Message::ConfirmOrRevert {
                instance: id,
                migration,
                decision,
            });
        }
    }

    fn random_event(&mut self) {
        let number = u32::try_from(self.rng.below(INSTANCES as usize)).unwrap();
        let host = self.rng.below(HOSTS);
        match self.rng.below(40) {
            0..=1 => self.create(number),
            2 => self.delete(number),
            3 => self.move_instance(number, MoveKind::ColdMigrate),
            4 => self.move_instance(number, MoveKind::LiveMigrate),
            5 => self.move_instance(number, MoveKind::Resize),
            6 => self.confirm_or_revert(number, MoveDecision::Confirm),
            7 => self.confirm_or_revert(number, MoveDecision::Revert),
            8 => self.kill(host),
            9 => self.connect(host),
            // The effects that stand are sent again.
            10 => {
                let effects = self.cell.effects();
                self.send(effects);
            }
            11 => self.handle_event(&Event::HostDown {
                host: host_id(host),
            }),
            12..=20 => self.end_work(host),
            _ => self.deliver_random(),
        }
    }

    /// Stops injecting faults and runs until no effect or message is left.
    fn run_until_idle(&mut self) {
        self.has_faults = false;
        for number in 0..HOSTS {
            self.connect(number);
        }
        for _ in 0..200 {
            self.deliver_all();
            for number in 0..HOSTS {
                while !self.hosts[number].work.is_empty() {
                    self.end_work(number);
                }
            }
            self.deliver_all();
            for number in 0..INSTANCES {
                self.confirm_or_revert(number, MoveDecision::Confirm);
            }
            self.handle_event(&Event::Tick);
            let effects = self.cell.effects();
            let is_idle = effects.is_empty() && self.network.is_empty();
            self.send(effects);
            if is_idle {
                return;
            }
        }
        panic!("never idle: {:?}", self.cell.jobs());
    }

    fn assert_consistent(&self) {
        for (number, simulated) in self.hosts.iter().enumerate() {
            let wanted: BTreeSet<GuestKey> = self
                .cell
                .instances()
                .iter()
                .filter_map(|(id, row)| Some((*id, row.guest?)))
                .filter(|(_, guest)| guest.host == host_id(number))
                .map(|(id, guest)| (id, guest.number))
                .collect();
            let logged: BTreeSet<GuestKey> = simulated.guest_log.keys().copied().collect();
            assert_eq!(logged, simulated.existing, "the guest log of host {number}");
            assert_eq!(logged, wanted, "the guests of host {number}");
        }
        for (id, row) in self.cell.instances() {
            let job = self.cell.jobs().get(id);
            let is_waiting = job.is_some_and(|job| matches!(job.stage, Stage::Reserved));
            assert!(job.is_none() || is_waiting, "{id} is stuck: {job:?}");
            if row.vm_state == VmState::Active
                && let Some(guest) = row.guest
            {
                let mut simulated = self.hosts.iter();
                let simulated = simulated.find(|simulated| simulated.host.id() == guest.host);
                let guest = simulated.unwrap().host.guest((*id, guest.number)).unwrap();
                assert_eq!(guest.state, GuestState::Running, "{id}");
            }
        }
    }
}

/// Applies the effects of work, completed or half done.
fn carry_out(existing: &mut BTreeSet<GuestKey>, work: &Work, is_done: bool) {
    match work.operations.last() {
        Some(Operation::Destroy) if is_done => drop(existing.remove(&work.guest)),
        Some(Operation::Prepare | Operation::Spawn) if is_done => drop(existing.insert(work.guest)),
        _ => {}
    }
}

/// The response of placement, which has unlimited capacity.
fn claim_response(request: &ClaimRequest) -> Packet {
    let response = match &request.change {
        ClaimChange::Swap { candidates } if candidates.is_empty() => ClaimResponse::NothingFits,
        ClaimChange::Swap { .. } => ClaimResponse::Swapped { index: 0 },
        ClaimChange::Release { .. } | ClaimChange::Settle { .. } => ClaimResponse::Done,
    };
    Packet::Claim(request.instance, request.number, response)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn hosts_end_with_the_guests_of_their_cell_whatever_fails(seed: u64) {
        let mut simulation = Simulation::new(seed);
        for _ in 0..400 {
            simulation.random_event();
        }
        simulation.run_until_idle();
        simulation.assert_consistent();
    }
}

fn host_with_session() -> Host {
    let mut host = Host::new(host_id(0), [], PhysicalCapacity::default());
    host.begin_session(1, "host");
    host
}

fn arrive_order(attempt: u32, guest_number: u32) -> placewright_conductor::cell_conductor::Order {
    let mut order = order(host_id(0), instance(1), Step::Arrive, 1);
    (order.attempt, order.guest_number) = (attempt, guest_number);
    order
}

fn end_work(host: &mut Host, number: u64, guest_number: u32, outcome: Outcome) -> Vec<Action> {
    let result = WorkResult {
        number,
        guest: (instance(1), guest_number),
        outcome,
    };
    let mut actions = Vec::new();
    host.end_work(result, 0, &mut actions);
    actions
}

#[test]
fn duplicated_and_late_orders_start_no_second_work() {
    let mut host = host_with_session();
    let mut actions = Vec::new();
    host.handle_order(1, arrive_order(2, 2), &mut actions);
    let is_work = |action: &&Action| matches!(action, Action::Work(_));
    assert_eq!(actions.iter().filter(is_work).count(), 1);
    actions.clear();
    // A duplicate, an earlier attempt, and another session.
    host.handle_order(1, arrive_order(2, 2), &mut actions);
    host.handle_order(1, arrive_order(1, 1), &mut actions);
    host.handle_order(2, arrive_order(3, 3), &mut actions);
    assert_eq!(actions, []);
    let actions_after_end = end_work(&mut host, 1, 2, Outcome::Done);
    assert!(matches!(
        actions_after_end.last(),
        Some(Action::StepEnded {
            attempt: 2,
            failure: None,
            ..
        })
    ));
    // A second end of the same work has no effect, and a duplicate order gets the response.
    assert_eq!(end_work(&mut host, 1, 2, Outcome::Done), []);
    host.handle_order(1, arrive_order(2, 2), &mut actions);
    assert!(matches!(
        actions[..],
        [Action::StepEnded { attempt: 2, .. }]
    ));
}

#[test]
fn a_destruction_waits_until_work_under_way_has_ended() {
    let mut host = host_with_session();
    let mut actions = Vec::new();
    host.handle_order(1, arrive_order(1, 1), &mut actions);
    actions.clear();
    host.handle_destroy(1, (instance(1), 1), 0, &mut actions);
    assert_eq!(actions, [Action::Cancel(1)]);
    actions.clear();
    host.handle_destroy(1, (instance(1), 1), 0, &mut actions);
    assert_eq!(actions, []);
    // The build was completed before it was cancelled.
    let ended = end_work(&mut host, 1, 1, Outcome::Done);
    let is_destroy_work = |action: &Action| matches!(action, Action::Work(work) if work.operations == [Operation::Destroy]);
    assert!(ended.iter().any(is_destroy_work), "{ended:?}");
    assert!(
        !ended
            .iter()
            .any(|action| matches!(action, Action::StepEnded { .. }))
    );
    let ended = end_work(&mut host, 2, 1, Outcome::Done);
    let [Action::EraseGuest(_), Action::Destroyed { number: 1, .. }] = &ended[..] else {
        panic!("{ended:?}");
    };
    // A delayed order arrives.
    host.handle_order(1, arrive_order(3, 1), &mut actions);
    assert_eq!(actions, []);
}
