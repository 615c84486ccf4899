//! Hosts as state machines against the cell conductor itself. Messages are duplicated, delayed,
//! reordered or lost, work fails or is cancelled half-way, and agents are killed.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

mod cell;

use std::collections::{BTreeMap, BTreeSet};

use cell::{instance, order};
use placewright_agent::host::{Action, Host, Outcome, PhysicalCapacity, Work, WorkResult};
use placewright_agent::record::{Guest, GuestKey, GuestState};
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

fn host_id(number: usize) -> HostId {
    HostId(Uuid::from_u128(0x1000 + number as u128))
}

#[derive(Clone, Debug)]
enum Packet {
    ToHost(Effect),
    ToCell(Event),
    Answer(InstanceId, u64, ClaimResponse),
}

/// One host: its agent, its record, and the guests that really exist.
struct Machine {
    host: Host,
    record: BTreeMap<GuestKey, Guest>,
    working: Vec<(Work, bool)>,
    really_there: BTreeSet<GuestKey>,
}

struct World {
    cell: State,
    machines: Vec<Machine>,
    network: Vec<Packet>,
    at: Timestamp,
    rng: Rng,
    session: u64,
    migrations: u128,
    /// Whether faults are injected.
    is_rough: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let machine = |number| Machine {
            host: Host::new(host_id(number), [], PhysicalCapacity::default()),
            record: BTreeMap::new(),
            working: Vec::new(),
            really_there: BTreeSet::new(),
        };
        let mut world = Self {
            cell: State::default(),
            machines: (0..HOSTS).map(machine).collect(),
            network: Vec::new(),
            at: Timestamp::from_seconds(1000),
            rng: Rng(seed),
            session: 0,
            migrations: 0,
            is_rough: true,
        };
        for number in 0..HOSTS {
            world.connect(number);
        }
        world.deliver_all();
        world
    }

    fn happen(&mut self, event: &Event) {
        let mut changes = Vec::new();
        let options = Options::default();
        if cell_conductor::decide(&self.cell, event, self.at, &options, &mut changes).is_err() {
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
                Effect::RequestClaim(request) => answer(&request),
                effect => Packet::ToHost(effect),
            });
        }
    }

    fn say(&mut self, message: Message) {
        let sent_at = self.at;
        self.happen(&Event::Message(Envelope { sent_at, message }));
    }

    /// A new connection, perhaps of a restarted agent.
    fn connect(&mut self, number: usize) {
        self.session += 1;
        let start = self.machines[number]
            .host
            .begin_session(self.session, "host");
        self.network.push(Packet::ToCell(Event::AgentStarted {
            host: start.host,
            session: start.session,
            guests: start.guests,
        }));
    }

    /// Kills the agent and starts another one.
    fn kill(&mut self, number: usize) {
        let machine = &mut self.machines[number];
        for (work, _) in machine.working.drain(..) {
            let is_there = self.rng.one_in(2);
            carry_out(&mut machine.really_there, &work, is_there);
        }
        let half = |guest: &Guest| guest.state == GuestState::Making;
        for (key, _) in machine.record.iter().filter(|(_, guest)| half(guest)) {
            machine.really_there.remove(key);
        }
        machine.record.retain(|_, guest| !half(guest));
        let guests = machine.record.clone();
        machine.host = Host::new(host_id(number), guests, PhysicalCapacity::default());
        self.connect(number);
    }

    fn act(&mut self, number: usize, actions: Vec<Action>) {
        let host = host_id(number);
        let machine = &mut self.machines[number];
        for action in actions {
            match action {
                Action::Work(work) => {
                    let same = machine
                        .working
                        .iter()
                        .any(|(one, _)| one.guest == work.guest);
                    assert!(!same, "two things at a time with {work:?}");
                    machine.working.push((work, false));
                }
                Action::Cancel(number) => {
                    for (work, is_cancelled) in &mut machine.working {
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
                    assert!(
                        !machine.really_there.contains(&key),
                        "{key:?} is still there"
                    );
                    self.network.push(Packet::ToCell(Event::Destroyed {
                        host,
                        instance,
                        number,
                    }));
                }
                Action::Keep(key) => {
                    let guest = machine.host.guest(key).unwrap().clone();
                    machine.record.insert(key, guest);
                }
                Action::Erase(key) => drop(machine.record.remove(&key)),
            }
        }
    }

    /// Ends one piece of work, with a random result.
    fn end_work(&mut self, number: usize) {
        let count = self.machines[number].working.len();
        if count == 0 {
            return;
        }
        let chosen = self.rng.below(count);
        let fails = self.is_rough && self.rng.one_in(5);
        let undo_fails = fails && self.rng.one_in(3);
        let is_half_done = self.rng.one_in(2);
        let is_late = self.rng.one_in(4);
        let machine = &mut self.machines[number];
        let (work, is_cancelled) = machine.working.swap_remove(chosen);
        let there = &mut machine.really_there;
        // Work that is cancelled may have been completed already.
        let outcome = if is_cancelled && !is_late {
            carry_out(there, &work, is_half_done);
            Outcome::Cancelled
        } else if fails {
            carry_out(there, &work, is_half_done);
            let was_undone = work.undo_on_failure && !undo_fails;
            if was_undone {
                there.remove(&work.guest);
            }
            let error = DriverError::of_host("it failed");
            Outcome::Failed { error, was_undone }
        } else {
            carry_out(there, &work, true);
            Outcome::Done
        };
        let ending = WorkResult {
            number: work.number,
            guest: work.guest,
            outcome,
        };
        let mut actions = Vec::new();
        machine.host.ended(ending, 0, &mut actions);
        self.act(number, actions);
    }

    fn deliver(&mut self, packet: Packet) {
        match packet {
            Packet::ToCell(event) => self.happen(&event),
            Packet::Answer(instance, number, answer) => self.happen(&Event::ClaimAnswered {
                instance,
                number,
                answer,
            }),
            Packet::ToHost(effect) => {
                let mut actions = Vec::new();
                let of = |id: HostId| usize::try_from(id.0.as_u128() - 0x1000).unwrap();
                let number = match effect {
                    Effect::RequestStep {
                        host,
                        session,
                        order,
                    } => {
                        let machine = &mut self.machines[of(host)];
                        machine.host.order(session, *order, &mut actions);
                        of(host)
                    }
                    Effect::Destroy {
                        host,
                        session,
                        instance,
                        number,
                    } => {
                        let machine = &mut self.machines[of(host)];
                        let key = (instance, number);
                        machine.host.destroy(session, key, 0, &mut actions);
                        of(host)
                    }
                    Effect::RequestClaim(_) => return,
                };
                self.act(number, actions);
            }
        }
    }

    /// Delivers a random message of the network, perhaps twice, perhaps never.
    fn deliver_any(&mut self) {
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
        self.say(Message::Create(Box::new(Create {
            instance: instance(number),
            spec,
            selection: candidate(first),
            alternates: vec![candidate(first + 1), candidate(first + 2)],
            claim_number: 1,
        })));
    }

    fn delete(&mut self, number: u32) {
        self.say(Message::Delete {
            instance: instance(number),
            claim_number: 1,
        });
    }

    fn relocate(&mut self, number: u32, kind: MoveKind) {
        let id = instance(number);
        let Some(row) = self.cell.instances().get(&id) else {
            return;
        };
        let (move_number, claim_number) = (row.move_number + 1, row.claim_number + 1);
        let Some(guest) = row.guest else { return };
        self.migrations += 1;
        let migration = MigrationId(Uuid::from_u128(self.migrations));
        self.say(Message::Reserve {
            instance: id,
            migration,
            kind,
            move_number,
        });
        // A resize may stay on its host.
        let target = match kind {
            MoveKind::Resize => guest.host,
            _ => host_id((0..HOSTS).find(|one| host_id(*one) != guest.host).unwrap()),
        };
        self.say(Message::Move(Box::new(MoveOrder {
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

    fn conclude(&mut self, number: u32, decision: MoveDecision) {
        let id = instance(number);
        let job = self.cell.jobs().get(&id);
        let migration = job
            .filter(|job| job.stage == Stage::Verify)
            .and_then(|job| job.migration);
        if let Some(migration) = migration {
            self.say(Message::ConfirmOrRevert {
                instance: id,
                migration,
                decision,
            });
        }
    }

    fn anything(&mut self) {
        let number = u32::try_from(self.rng.below(6)).unwrap();
        let host = self.rng.below(HOSTS);
        match self.rng.below(40) {
            0..=1 => self.create(number),
            2 => self.delete(number),
            3 => self.relocate(number, MoveKind::ColdMigrate),
            4 => self.relocate(number, MoveKind::LiveMigrate),
            5 => self.relocate(number, MoveKind::Resize),
            6 => self.conclude(number, MoveDecision::Confirm),
            7 => self.conclude(number, MoveDecision::Revert),
            8 => self.kill(host),
            9 => self.connect(host),
            10 => {
                let effects = self.cell.effects();
                self.send(effects);
            }
            11 => self.happen(&Event::HostDown {
                host: host_id(host),
            }),
            12..=20 => self.end_work(host),
            _ => self.deliver_any(),
        }
    }

    /// Stops injecting faults and runs until nothing is left to do.
    fn settle(&mut self) {
        self.is_rough = false;
        for number in 0..HOSTS {
            self.connect(number);
        }
        for _ in 0..200 {
            self.deliver_all();
            for number in 0..HOSTS {
                while !self.machines[number].working.is_empty() {
                    self.end_work(number);
                }
            }
            self.deliver_all();
            for number in 0..6 {
                self.conclude(number, MoveDecision::Confirm);
            }
            self.happen(&Event::Tick);
            let effects = self.cell.effects();
            let is_at_rest = effects.is_empty() && self.network.is_empty();
            self.send(effects);
            if is_at_rest {
                return;
            }
        }
        panic!("never at rest: {:?}", self.cell.jobs());
    }

    fn check(&self) {
        for (number, machine) in self.machines.iter().enumerate() {
            let wanted: BTreeSet<GuestKey> = self
                .cell
                .instances()
                .iter()
                .filter_map(|(id, row)| Some((*id, row.guest?)))
                .filter(|(_, guest)| guest.host == host_id(number))
                .map(|(id, guest)| (id, guest.number))
                .collect();
            let on_record: BTreeSet<GuestKey> = machine.record.keys().copied().collect();
            assert_eq!(
                on_record, machine.really_there,
                "the record of host {number}"
            );
            assert_eq!(on_record, wanted, "the guests of host {number}");
        }
        for (id, row) in self.cell.instances() {
            let job = self.cell.jobs().get(id);
            let is_waiting = job.is_some_and(|job| matches!(job.stage, Stage::Reserved));
            assert!(job.is_none() || is_waiting, "{id} is stuck: {job:?}");
            if row.vm_state == VmState::Active
                && let Some(guest) = row.guest
            {
                let machine = self.machines.iter().find(|one| one.host.id() == guest.host);
                let there = machine.unwrap().host.guest((*id, guest.number)).unwrap();
                assert_eq!(there.state, GuestState::Running, "{id}");
            }
        }
    }
}

/// Applies the effects of work, completed or half done.
fn carry_out(there: &mut BTreeSet<GuestKey>, work: &Work, is_whole: bool) {
    match work.operations.last() {
        Some(Operation::Destroy) if is_whole => drop(there.remove(&work.guest)),
        Some(Operation::Prepare | Operation::Spawn) if is_whole => drop(there.insert(work.guest)),
        _ => {}
    }
}

fn answer(request: &ClaimRequest) -> Packet {
    let answer = match &request.change {
        ClaimChange::Swap { candidates } if candidates.is_empty() => ClaimResponse::NothingFits,
        ClaimChange::Swap { .. } => ClaimResponse::Swapped { index: 0 },
        ClaimChange::Release { .. } | ClaimChange::Settle { .. } => ClaimResponse::Done,
    };
    Packet::Answer(request.instance, request.number, answer)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn whatever_goes_wrong_hosts_have_what_their_cell_wants(seed: u64) {
        let mut world = World::new(seed);
        for _ in 0..400 {
            world.anything();
        }
        world.settle();
        world.check();
    }
}

fn started() -> Host {
    let mut host = Host::new(host_id(0), [], PhysicalCapacity::default());
    host.begin_session(1, "host");
    host
}

fn arrive(attempt: u32, number: u32) -> placewright_conductor::cell_conductor::Order {
    let mut order = order(host_id(0), instance(1), Step::Arrive, 1);
    (order.attempt, order.number) = (attempt, number);
    order
}

fn end(host: &mut Host, number: u64, guest: u32, outcome: Outcome) -> Vec<Action> {
    let ending = WorkResult {
        number,
        guest: (instance(1), guest),
        outcome,
    };
    let mut actions = Vec::new();
    host.ended(ending, 0, &mut actions);
    actions
}

#[test]
fn doubled_and_late_orders_do_nothing_twice() {
    let mut host = started();
    let mut actions = Vec::new();
    host.order(1, arrive(2, 2), &mut actions);
    let works = |actions: &[Action]| {
        let works = actions.iter().filter(|one| matches!(one, Action::Work(_)));
        works.count()
    };
    assert_eq!(works(&actions), 1);
    actions.clear();
    // A duplicate, an earlier attempt, and another session.
    host.order(1, arrive(2, 2), &mut actions);
    host.order(1, arrive(1, 1), &mut actions);
    host.order(2, arrive(3, 3), &mut actions);
    assert_eq!(actions, []);
    let ended = end(&mut host, 1, 2, Outcome::Done);
    assert!(matches!(
        ended.last(),
        Some(Action::StepEnded {
            attempt: 2,
            failure: None,
            ..
        })
    ));
    // Once ended, a second end of the work has no effect, and the order is answered.
    assert_eq!(end(&mut host, 1, 2, Outcome::Done), []);
    host.order(1, arrive(2, 2), &mut actions);
    assert!(matches!(
        actions[..],
        [Action::StepEnded { attempt: 2, .. }]
    ));
}

#[test]
fn what_is_to_be_destroyed_waits_for_what_is_being_done() {
    let mut host = started();
    let mut actions = Vec::new();
    host.order(1, arrive(1, 1), &mut actions);
    actions.clear();
    host.destroy(1, (instance(1), 1), 0, &mut actions);
    assert_eq!(actions, [Action::Cancel(1)]);
    actions.clear();
    host.destroy(1, (instance(1), 1), 0, &mut actions);
    assert_eq!(actions, []);
    // The build was completed before it was cancelled.
    let ended = end(&mut host, 1, 1, Outcome::Done);
    let is_work =
        |one: &Action| matches!(one, Action::Work(work) if work.operations == [Operation::Destroy]);
    assert!(ended.iter().any(is_work), "{ended:?}");
    assert!(
        !ended
            .iter()
            .any(|one| matches!(one, Action::StepEnded { .. }))
    );
    let ended = end(&mut host, 2, 1, Outcome::Done);
    assert!(matches!(
        ended[..],
        [Action::Erase(_), Action::Destroyed { number: 1, .. }]
    ));
    // A delayed order arrives.
    host.order(1, arrive(3, 1), &mut actions);
    assert_eq!(actions, []);
}
