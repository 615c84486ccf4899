//! A small world: control, cells and agents, and a simulated network between them.

pub mod agent;
pub mod check;
mod scheduling;

use std::collections::BTreeMap;

use agent::Agent;
use placewright_conductor::cell_conductor::{self, EffectPosition, Event, Options};
use placewright_conductor::control::{Change, Command, ControlState, Outcome, Refusal};
use placewright_conductor::message::Envelope;
use placewright_conductor::super_conductor::{self, Effect, NewBuild};
use placewright_conductor::{
    Amounts, Candidate, CellId, ClaimRequest, ClaimResponse, Fault, HostId, InstanceId, Message,
    MigrationId, Reply, Rules, Spec, Usage,
};
use placewright_placement::{self as placement, Inventory, Timestamp};
use placewright_records as records;
use uuid::Uuid;

use crate::random::Rng;

/// The changes of about one command or event in this many are undone and applied again: those before which the state of
/// [`World::rng`] is a multiple of this number.
const UNDO_ONE_IN: u64 = 64;

const CPU: &str = "CUSTOM_CPU";
const RAM: &str = "CUSTOM_RAM";

/// A message on its way from one role to another.
#[derive(Clone, Debug)]
pub enum Packet {
    /// An effect for control's scheduler.
    Work(Effect),
    ToCell(CellId, Envelope),
    /// A cell's reply to a message, with that message.
    ToControl(Message, Reply),
    ToAgent(HostId, cell_conductor::Effect),
    /// An event that an agent sends to its cell.
    FromAgent(CellId, Event),
    ClaimRequest(CellId, ClaimRequest),
    /// The response to the instance's claim request with this number.
    ClaimResponse(CellId, InstanceId, u64, ClaimResponse),
}

/// The states of all roles, and the messages under way between them.
#[derive(Clone)]
pub struct World {
    pub control: ControlState,
    pub cells: BTreeMap<CellId, cell_conductor::State>,
    pub agents: BTreeMap<HostId, Agent>,
    pub network: Vec<Packet>,
    /// The present time of the world.
    pub at: Timestamp,
    pub rng: Rng,
    /// Whether the scheduler ranks the hosts in random order.
    pub shuffles: bool,
    /// One in this many steps fails at random; 0 if none does.
    pub fails_one_in: usize,
    /// The hosts on which all steps fail.
    pub failing: Vec<HostId>,
    /// How many alternates each ranking asks for.
    pub alternates: usize,
    /// Whether instances may be built in another cell if theirs cannot.
    pub may_reschedule: bool,
    pub options: Options,
}

pub fn host(cell: u32, number: u32) -> HostId {
    HostId(Uuid::from_u128(
        0x1000_0000 + u128::from(cell) * 1000 + u128::from(number),
    ))
}

pub fn cell(number: u32) -> CellId {
    CellId(Uuid::from_u128(0xce11_0000 + u128::from(number)))
}

pub fn instance(number: usize) -> InstanceId {
    InstanceId(Uuid::from_u128(0x1057_0000_0000 + number as u128))
}

pub fn migration(number: usize) -> MigrationId {
    MigrationId(Uuid::from_u128(0x314_0000_0000 + number as u128))
}

pub fn spec(at: Timestamp) -> Spec {
    Spec {
        name: "vm".into(),
        project: "p".into(),
        user: "u".into(),
        group: None,
        rules: Rules::default(),
        body: r#"{"flavor": "small"}"#.into(),
        created_at: at,
        usage: Usage::default(),
        build_secrets: Default::default(),
        secrets: Default::default(),
    }
}

pub fn candidate(host: HostId, vcpus: i64) -> Candidate {
    Candidate {
        host,
        zone: Some("nova".into()),
        amounts: vec![Amounts {
            provider: host.0,
            resources: vec![(CPU.into(), vcpus), (RAM.into(), 512 * vcpus)],
        }],
        mappings: agent::mappings_on(host),
    }
}

impl World {
    /// `cells` cells with `hosts` hosts of `vcpus` virtual processors each.
    pub fn new(cells: u32, hosts: u32, vcpus: i32) -> Self {
        let mut world = Self {
            control: ControlState::default(),
            cells: BTreeMap::new(),
            agents: BTreeMap::new(),
            network: Vec::new(),
            at: Timestamp::from_seconds(1_000_000),
            rng: Rng(1),
            shuffles: false,
            fails_one_in: 0,
            failing: Vec::new(),
            alternates: 2,
            may_reschedule: false,
            options: Options::default(),
        };
        let at = world.at;
        for name in [CPU, RAM] {
            let (name, exist_ok) = (name.into(), false);
            world.placement(placement::Command::CreateClass { name, exist_ok, at });
        }
        for cell_number in 0..cells {
            world.conduct(super_conductor::Command::SetCell {
                cell: cell(cell_number),
                name: format!("cell{cell_number}"),
                disabled: false,
            });
            let mut state = cell_conductor::State::default();
            let mut host_names = Vec::new();
            for host_number in 0..hosts {
                let id = host(cell_number, host_number);
                world.add_provider(id, vcpus);
                host_names.push((id, format!("host-{cell_number}-{host_number}")));
                let agent = Agent::new(id);
                let mut changes = Vec::new();
                let options = world.options;
                cell_conductor::decide(&state, &agent.started(), at, &options, &mut changes)
                    .unwrap();
                for change in &changes {
                    state.apply(change);
                }
                world.agents.insert(id, agent);
            }
            world.cells.insert(cell(cell_number), state);
            world.conduct(super_conductor::Command::MapHosts {
                cell: cell(cell_number),
                hosts: host_names,
            });
        }
        world
    }

    fn add_provider(&mut self, id: HostId, vcpus: i32) {
        let at = self.at;
        self.placement(placement::Command::CreateProvider {
            uuid: id.0,
            name: id.to_string(),
            parent: None,
            at,
        });
        let inventory = |total| Inventory::new(total, 1.0);
        self.placement(placement::Command::SetInventories {
            provider: id.0,
            generation: None,
            inventories: vec![
                (CPU.into(), inventory(vcpus)),
                (RAM.into(), inventory(512 * vcpus)),
            ],
            may_reserve_all: true,
            at,
        });
    }

    /// Submits a command of placement, which must be accepted.
    pub fn placement(&mut self, command: placement::Command) {
        self.submit(&Command::Placement(command)).unwrap();
    }

    /// Submits a command of the super conductor, which must be accepted.
    pub fn conduct(&mut self, command: super_conductor::Command) {
        self.try_conduct(command).unwrap();
    }

    /// Submits a command of the super conductor.
    pub fn try_conduct(
        &mut self,
        command: super_conductor::Command,
    ) -> Result<super_conductor::Outcome, Refusal> {
        let at = self.at;
        match self.submit(&Command::Conductor { command, at })? {
            Outcome::Conductor(outcome) => Ok(outcome),
            Outcome::Placement(_) => unreachable!("the conductor was asked"),
        }
    }

    /// Decides a command, encodes, decodes and applies the changes, and sends the effects. Now and then it
    /// also undoes the changes and applies them again.
    fn submit(&mut self, command: &Command) -> Result<Outcome, Refusal> {
        let mut changes = Vec::new();
        let outcome = self.control.decide(command, &mut changes)?;
        if changes.is_empty() {
            return Ok(outcome);
        }
        let mut encoded = Vec::new();
        records::control::encode(&changes, &mut encoded);
        let changes: Vec<Change> = records::control::decode(&encoded).unwrap();
        let digest_before = self
            .rng
            .0
            .is_multiple_of(UNDO_ONE_IN)
            .then(|| records::control::digest(&self.control));
        let mut undos: Vec<_> = changes
            .iter()
            .map(|change| self.control.apply(change))
            .collect();
        if let Some(digest_before) = digest_before {
            while let Some(undo) = undos.pop() {
                self.control.undo(undo);
            }
            assert_eq!(
                records::control::digest(&self.control),
                digest_before,
                "undone: {command:?}"
            );
            for change in &changes {
                self.control.apply(change);
            }
        }
        let effects = self.control.effects_of(&changes);
        self.send_effects(effects);
        Ok(outcome)
    }

    fn send_effects(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            let packet = match effect {
                Effect::Send { cell, message } => {
                    let sent_at = self.at;
                    Packet::ToCell(cell, Envelope { sent_at, message })
                }
                effect @ (Effect::Schedule { .. } | Effect::ScheduleMove { .. }) => {
                    Packet::Work(effect)
                }
            };
            self.network.push(packet);
        }
    }

    fn send_cell_effects(&mut self, cell: CellId, effects: Vec<cell_conductor::Effect>) {
        for effect in effects {
            self.network.push(match effect {
                cell_conductor::Effect::RequestClaim(request) => {
                    Packet::ClaimRequest(cell, request)
                }
                effect @ cell_conductor::Effect::RequestStep { host, .. }
                | effect @ cell_conductor::Effect::Destroy { host, .. } => {
                    Packet::ToAgent(host, effect)
                }
            });
        }
    }

    /// Sends all pending effects (again), and announces the session of each running agent if the agent's cell does not
    /// know that session.
    pub fn send_all(&mut self) {
        let effects = self.control.conductor.effects();
        self.send_effects(effects);
        let cells: Vec<CellId> = self.cells.keys().copied().collect();
        for id in cells {
            let effects = self.cells[&id].effects();
            assert_eq!(effects_in_parts(&self.cells[&id]), effects);
            self.send_cell_effects(id, effects);
        }
        for agent in self.agents.values().filter(|agent| agent.is_up) {
            let cell = self.control.conductor.hosts()[&agent.host].cell;
            let known_host = self.cells[&cell].hosts().get(&agent.host);
            if known_host.is_none_or(|host| host.session < agent.session) {
                self.network.push(Packet::FromAgent(cell, agent.started()));
            }
        }
    }

    /// Decides an event of a cell, and handles its changes as [`Self::submit`] handles those of a command. `None` if
    /// the cell refuses the event.
    pub fn decide_event(&mut self, cell: CellId, event: &Event) -> Option<Reply> {
        let state = self.cells.get_mut(&cell).unwrap();
        let mut changes = Vec::new();
        let decided = cell_conductor::decide(state, event, self.at, &self.options, &mut changes);
        let reply = decided.ok()?;
        let mut encoded = Vec::new();
        records::cell::encode(&changes, &mut encoded);
        let changes: Vec<cell_conductor::Change> = records::cell::decode(&encoded).unwrap();
        let digest_before = self
            .rng
            .0
            .is_multiple_of(UNDO_ONE_IN)
            .then(|| records::cell::digest(state));
        let mut undos: Vec<_> = changes.iter().map(|change| state.apply(change)).collect();
        if let Some(digest_before) = digest_before {
            while let Some(undo) = undos.pop() {
                state.undo(undo);
            }
            assert_eq!(
                records::cell::digest(state),
                digest_before,
                "undone: {event:?}"
            );
            for change in &changes {
                state.apply(change);
            }
        }
        let effects = state.effects_of(&changes);
        self.send_cell_effects(cell, effects);
        Some(reply)
    }

    /// Lets the receiver of a packet handle it, and sends what follows from that.
    pub fn deliver(&mut self, packet: Packet) {
        match packet {
            Packet::Work(effect) => self.schedule(effect),
            Packet::ToCell(cell, envelope) => {
                let message = envelope.message.clone();
                if let Some(reply) = self.decide_event(cell, &Event::Message(envelope)) {
                    self.network.push(Packet::ToControl(message, reply));
                }
            }
            Packet::ToControl(message, reply) => self.handle_reply(&message, reply),
            Packet::ToAgent(host, effect) => {
                agent::check_mappings(host, &effect);
                let fails_at_random = self.fails_one_in > 0 && self.rng.one_in(self.fails_one_in);
                let fails = fails_at_random || self.failing.contains(&host);
                let agent = self.agents.get_mut(&host).unwrap();
                if let Some(event) = agent.carry_out(&effect, fails) {
                    let cell = self.control.conductor.hosts()[&host].cell;
                    self.network.push(Packet::FromAgent(cell, event));
                }
            }
            Packet::FromAgent(cell, event) => drop(self.decide_event(cell, &event)),
            Packet::ClaimRequest(cell, request) => {
                let (instance, number) = (request.instance, request.number);
                let outcome = self.try_conduct(super_conductor::Command::RequestClaim(request));
                if let Ok(super_conductor::Outcome::ClaimAnswered(response)) = outcome {
                    self.network
                        .push(Packet::ClaimResponse(cell, instance, number, response));
                }
            }
            Packet::ClaimResponse(cell, instance, number, response) => {
                let event = Event::ClaimAnswered {
                    instance,
                    number,
                    response,
                };
                self.decide_event(cell, &event);
            }
        }
    }

    /// Submits the command that follows from a cell's reply to a message.
    fn handle_reply(&mut self, message: &Message, reply: Reply) {
        use super_conductor::Command;
        let command = match (message, reply) {
            (Message::Create(create), Reply::Accepted) => Command::CreateAccepted {
                instance: create.instance,
                claim_number: create.claim_number,
                is_built: false,
            },
            (Message::Reserve { migration, .. }, Reply::Accepted) => Command::MoveReserved {
                migration: *migration,
            },
            (Message::Move(order), Reply::Accepted) => Command::MoveAccepted {
                migration: order.migration,
            },
            (Message::Cancel { migration, .. }, Reply::Accepted) => Command::MoveCancelled {
                migration: *migration,
            },
            (Message::Reserve { migration, .. }, Reply::Refused(reason)) => Command::MoveRefused {
                migration: *migration,
                fault: self.fault(&reason),
            },
            (Message::Move(order), Reply::Refused(reason)) => Command::MoveRefused {
                migration: order.migration,
                fault: self.fault(&reason),
            },
            _ => return,
        };
        self.conduct(command);
    }

    pub fn fault(&self, message: &str) -> Fault {
        Fault {
            code: 500,
            message: message.into(),
            details: String::new(),
            at: self.at,
        }
    }

    /// Requests the builds of the instances with these numbers, in one reservation.
    pub fn create(&mut self, numbers: &[usize]) {
        let at = self.at;
        let builds = numbers.iter().map(|number| NewBuild {
            instance: instance(*number),
            spec: spec(at),
        });
        let command = super_conductor::Command::CreateBuilds {
            reservation: Uuid::from_u128(numbers[0] as u128),
            builds: builds.collect(),
        };
        self.conduct(command);
    }

    /// Delivers all packets in order, until nothing is under way and no effect is pending.
    pub fn come_to_rest(&mut self) {
        for _ in 0..200 {
            self.send_all();
            if self.network.is_empty() {
                return;
            }
            let mut deliveries_left = 100_000;
            while !self.network.is_empty() {
                let packet = self.network.remove(0);
                self.deliver(packet);
                deliveries_left -= 1;
                assert!(
                    deliveries_left > 0,
                    "messages cause messages without end: {:?}",
                    self.network
                );
            }
            let cells: Vec<CellId> = self.cells.keys().copied().collect();
            for id in cells {
                self.decide_event(id, &Event::Tick);
            }
        }
        panic!("never at rest: {:?}", {
            self.send_all();
            &self.network
        });
    }

    /// Kills and restarts control and the cells. The packets under way are lost; the agents keep running.
    pub fn crash(&mut self) {
        self.network.clear();
        self.reload();
        self.send_all();
    }

    /// Replaces the states of control and of the cells by those that are read from their snapshots.
    pub fn reload(&mut self) {
        let mut bytes = Vec::new();
        records::control::save(&self.control, &mut bytes).unwrap();
        let digest = records::control::digest(&self.control);
        self.control = records::control::load(&mut bytes.as_slice()).unwrap();
        assert_eq!(records::control::digest(&self.control), digest);
        for state in self.cells.values_mut() {
            let mut bytes = Vec::new();
            records::cell::save(state, &mut bytes).unwrap();
            let loaded = records::cell::load(&mut bytes.as_slice()).unwrap();
            assert_eq!(loaded, *state);
            *state = loaded;
        }
    }

    /// The cell of an instance; `None` if it has none or is in cell0.
    pub fn cell_of(&self, id: InstanceId) -> Option<CellId> {
        let cell = self.control.conductor.mappings().get(&id)?.cell;
        cell.filter(|cell| *cell != CellId::CELL0)
    }
}

/// All effects of a cell, read in parts of three rows, whatever their time is.
fn effects_in_parts(state: &cell_conductor::State) -> Vec<cell_conductor::Effect> {
    let (mut effects, mut next) = (Vec::new(), Some(EffectPosition::Start));
    while let Some(position) = next {
        let (mut part, following) = state.effects_from(position, 3, |_| true);
        effects.append(&mut part);
        next = following;
    }
    effects
}
