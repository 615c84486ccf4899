//! Simulations of the state machines of hosts together with the cell conductor. Messages are
//! duplicated, delayed, reordered or lost, work fails or is cancelled, and agents are killed.

use std::collections::{BTreeMap, BTreeSet};

use crate::cell::{candidate, instance, order};
use placewright_agent::guest_log::{Guest, GuestKey, GuestState};
use placewright_agent::host::{Action, Host, Outcome, PhysicalCapacity, Work, WorkResult};
use placewright_agent::{DriverError, Operation};
use placewright_conductor::cell_conductor::{
    self, Effect, Event, Options, Stage, State, Step, VmState,
};
use placewright_conductor::message::{Create, Envelope, MoveOrder};
use placewright_conductor::{
    Amounts, ClaimChange, ClaimRequest, ClaimResponse, HostId, InstanceId, Message, MigrationId,
    MoveDecision, MoveKind,
};
use placewright_placement::Timestamp;
use placewright_testing::random::Rng;
use proptest::prelude::*;
use uuid::Uuid;

const HOSTS: usize = 3;
const INSTANCES: u32 = 6;
const FIRST_HOST_ID: u128 = 0x1000;

/// The time of all calls: the test does not depend on when destroyed guests are forgotten.
const NOW_MS: u64 = 0;

fn host_id(host_number: usize) -> HostId {
    HostId(Uuid::from_u128(FIRST_HOST_ID + host_number as u128))
}

#[derive(Clone, Debug)]
enum Packet {
    ToHost(Effect),
    ToCell(Event),
    /// The response to the claim request with this number.
    ClaimAnswer {
        instance: InstanceId,
        number: u64,
        response: ClaimResponse,
    },
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
    latest_session: u64,
    migration_count: u128,
    /// Whether faults are injected.
    has_faults: bool,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let host = |host_number| SimulatedHost {
            host: Host::new(host_id(host_number), [], PhysicalCapacity::default()),
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
            latest_session: 0,
            migration_count: 0,
            has_faults: true,
        };
        for host_number in 0..HOSTS {
            simulation.connect(host_number);
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

    /// Connects the agent of a host to the cell, in a new session.
    fn connect(&mut self, host_number: usize) {
        self.latest_session += 1;
        let start = self.hosts[host_number]
            .host
            .begin_session(self.latest_session, "host");
        self.network.push(Packet::ToCell(Event::AgentStarted {
            host: start.host,
            session: start.session,
            guests: start.guests,
        }));
    }

    /// Kills the agent and starts another one.
    fn kill(&mut self, host_number: usize) {
        let simulated = &mut self.hosts[host_number];
        for (work, _) in simulated.work.drain(..) {
            let takes_effect = self.rng.one_in(2);
            carry_out(&mut simulated.existing, &work, takes_effect);
        }
        // When it starts, the new agent destroys the guests whose build or removal was incomplete.
        let is_incomplete = |guest: &Guest| guest.state == GuestState::Incomplete;
        let log = &mut simulated.guest_log;
        for (key, _) in log.iter().filter(|(_, guest)| is_incomplete(guest)) {
            simulated.existing.remove(key);
        }
        log.retain(|_, guest| !is_incomplete(guest));
        let guests = log.clone();
        simulated.host = Host::new(host_id(host_number), guests, PhysicalCapacity::default());
        self.connect(host_number);
    }

    fn carry_out_actions(&mut self, host_number: usize, actions: Vec<Action>) {
        let host = host_id(host_number);
        let simulated = &mut self.hosts[host_number];
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
                Action::Cancel(work_number) => {
                    for (work, is_cancelled) in &mut simulated.work {
                        *is_cancelled |= work.number == work_number;
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
                Action::Destroyed {
                    instance,
                    number: guest_number,
                } => {
                    let key = (instance, guest_number);
                    assert!(!simulated.existing.contains(&key), "{key:?} still exists");
                    self.network.push(Packet::ToCell(Event::Destroyed {
                        host,
                        instance,
                        number: guest_number,
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
    fn end_work(&mut self, host_number: usize) {
        let count = self.hosts[host_number].work.len();
        if count == 0 {
            return;
        }
        let chosen = self.rng.below(count);
        let fails = self.has_faults && self.rng.one_in(5);
        let undo_fails = fails && self.rng.one_in(3);
        let takes_effect = self.rng.one_in(2);
        let is_cancelled_too_late = self.rng.one_in(4);
        let simulated = &mut self.hosts[host_number];
        let (work, is_cancelled) = simulated.work.swap_remove(chosen);
        let existing = &mut simulated.existing;
        // The work may have been completed before its cancellation arrived.
        let outcome = if is_cancelled && !is_cancelled_too_late {
            carry_out(existing, &work, takes_effect);
            Outcome::Cancelled
        } else if fails {
            carry_out(existing, &work, takes_effect);
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
        simulated.host.end_work(result, NOW_MS, &mut actions);
        self.carry_out_actions(host_number, actions);
    }

    fn deliver(&mut self, packet: Packet) {
        match packet {
            Packet::ToCell(event) => self.handle_event(&event),
            Packet::ClaimAnswer {
                instance,
                number,
                response,
            } => self.handle_event(&Event::ClaimAnswered {
                instance,
                number,
                response,
            }),
            Packet::ToHost(effect) => {
                let mut actions = Vec::new();
                let number_of =
                    |id: HostId| usize::try_from(id.0.as_u128() - FIRST_HOST_ID).unwrap();
                let host_number = match effect {
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
                        number: guest_number,
                    } => {
                        let simulated = &mut self.hosts[number_of(host)];
                        let key = (instance, guest_number);
                        simulated
                            .host
                            .handle_destroy(session, key, NOW_MS, &mut actions);
                        number_of(host)
                    }
                    Effect::RequestClaim(_) => return,
                };
                self.carry_out_actions(host_number, actions);
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
                // The start of a session is never lost: the connection on which it is sent would end
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

    fn create(&mut self, instance_number: u32) {
        let spec = order(host_id(0), instance(instance_number), Step::Arrive, 1).spec;
        let first = self.rng.below(HOSTS);
        let candidate = |host_number: usize| {
            let amounts = Amounts {
                provider: host_id(host_number % HOSTS).0,
                resources: vec![("VCPU".into(), 1)],
            };
            candidate(host_id(host_number % HOSTS), vec![amounts])
        };
        self.send_message(Message::Create(Box::new(Create {
            instance: instance(instance_number),
            spec,
            selection: candidate(first).into(),
            alternates: vec![candidate(first + 1), candidate(first + 2)].into(),
            claim_number: 1,
        })));
    }

    fn delete(&mut self, instance_number: u32) {
        self.send_message(Message::Delete {
            instance: instance(instance_number),
            // Control may know only an earlier claim number. The cell keeps its own number if that is greater.
            claim_number: 1,
        });
    }

    fn move_instance(&mut self, instance_number: u32, kind: MoveKind) {
        let id = instance(instance_number);
        let Some(row) = self.cell.instances().get(&id) else {
            return;
        };
        let (move_number, claim_number) = (row.move_number + 1, row.claim_number + 1);
        let Some(guest) = row.guest else { return };
        self.migration_count += 1;
        let migration = MigrationId(Uuid::from_u128(self.migration_count));
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
            selection: candidate(target, Vec::new()).into(),
            alternates: std::sync::Arc::default(),
            spec: None,
            claim_number,
        })));
    }

    /// Confirms or reverts the move of an instance, if it waits for that.
    fn confirm_or_revert(&mut self, instance_number: u32, decision: MoveDecision) {
        let id = instance(instance_number);
        let job = self.cell.jobs().get(&id);
        let job = job.filter(|job| job.stage == Stage::Verify);
        if let Some(migration) = job.and_then(|job| job.migration) {
            self.send_message(Message::ConfirmOrRevert {
                instance: id,
                migration,
                decision,
                request: None,
            });
        }
    }

    fn random_event(&mut self) {
        let instance_number = u32::try_from(self.rng.below(INSTANCES as usize)).unwrap();
        let host_number = self.rng.below(HOSTS);
        match self.rng.below(40) {
            0..=1 => self.create(instance_number),
            2 => self.delete(instance_number),
            3 => self.move_instance(instance_number, MoveKind::ColdMigrate),
            4 => self.move_instance(instance_number, MoveKind::LiveMigrate),
            5 => self.move_instance(instance_number, MoveKind::Resize),
            6 => self.confirm_or_revert(instance_number, MoveDecision::Confirm),
            7 => self.confirm_or_revert(instance_number, MoveDecision::Revert),
            8 => self.kill(host_number),
            9 => self.connect(host_number),
            // Effects are sent again until an answer removes their reason.
            10 => {
                let effects = self.cell.effects();
                self.send(effects);
            }
            11 => self.handle_event(&Event::HostDown {
                host: host_id(host_number),
            }),
            12..=20 => self.end_work(host_number),
            _ => self.deliver_random(),
        }
    }

    /// Stops injecting faults and runs until no effect or message is left.
    fn run_until_idle(&mut self) {
        self.has_faults = false;
        for host_number in 0..HOSTS {
            self.connect(host_number);
        }
        for _ in 0..200 {
            self.deliver_all();
            for host_number in 0..HOSTS {
                while !self.hosts[host_number].work.is_empty() {
                    self.end_work(host_number);
                }
            }
            self.deliver_all();
            for instance_number in 0..INSTANCES {
                self.confirm_or_revert(instance_number, MoveDecision::Confirm);
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
        for (host_number, simulated) in self.hosts.iter().enumerate() {
            let wanted: BTreeSet<GuestKey> = self
                .cell
                .instances()
                .iter()
                .filter_map(|(id, row)| Some((*id, row.guest?)))
                .filter(|(_, guest)| guest.host == host_id(host_number))
                .map(|(id, guest)| (id, guest.number))
                .collect();
            let logged: BTreeSet<GuestKey> = simulated.guest_log.keys().copied().collect();
            assert_eq!(
                logged, simulated.existing,
                "the guest log of host {host_number}"
            );
            assert_eq!(logged, wanted, "the guests of host {host_number}");
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

/// Applies the last operation of a piece of work to the guests that exist on its host, if `takes_effect`. Work that is
/// cancelled or fails may end before or after its last operation took effect.
fn carry_out(existing: &mut BTreeSet<GuestKey>, work: &Work, takes_effect: bool) {
    match work.operations.last() {
        Some(Operation::Destroy) if takes_effect => {
            existing.remove(&work.guest);
        }
        Some(Operation::Prepare | Operation::Spawn) if takes_effect => {
            existing.insert(work.guest);
        }
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
    Packet::ClaimAnswer {
        instance: request.instance,
        number: request.number,
        response,
    }
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
