//! A small installation: real cells, with control and agents in memory. Control and agents are those of the simulated
//! world that the conductors' own tests use, which also checks that nothing is lost or left over.

#![allow(unreachable_pub, reason = "only this test program uses it")]

pub mod replicas;
pub mod requests;
pub mod session;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use placewright_cell::{Cell, Options};
use placewright_conductor::super_conductor::{self, Command};
use placewright_conductor::{CellId, ClaimRequest, ClaimResponse, HostId, InstanceId};
use placewright_journal::{Journal, MemoryJournal};
use placewright_link::{AgentLink, CellLink as _, LinkError, LinkFuture, PlacementLink};
use placewright_placement::Timestamp;
use placewright_testing::agents;
use placewright_testing::random::Rng;
use placewright_testing::world::{Packet, World, cell};
use tokio::task::JoinHandle;

pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp(i64::try_from(since.as_micros()).unwrap())
}

/// Control in memory. A cell can reach only its placement.
#[derive(Clone)]
pub struct Control {
    pub world: Arc<Mutex<World>>,
    pub faults: Arc<Mutex<PlacementFaults>>,
}

/// The faults of placement's answers, and counts of the calls so far.
#[derive(Debug, Default)]
pub struct PlacementFaults {
    /// Whether placement cannot be reached.
    pub is_down: bool,
    /// Each call loses its response with a probability of one in this number, after it was carried out; 0 for never.
    pub loses_one_in: usize,
    pub calls: usize,
    pub claim_requests: usize,
    /// Decides which responses are lost; `None` for a generator with a fixed seed.
    pub rng: Option<Rng>,
}

impl PlacementLink for Control {
    fn request_claims(&self, requests: Vec<ClaimRequest>) -> LinkFuture<'_, Vec<ClaimResponse>> {
        let unreachable = || LinkError::Unreachable {
            peer: "placement".into(),
            why: "the test says so".into(),
        };
        Box::pin(async move {
            let is_lost = {
                let mut faults = self.faults.lock();
                faults.calls += 1;
                faults.claim_requests += requests.len();
                if faults.is_down {
                    return Err(unreachable());
                }
                let loses = faults.loses_one_in;
                let rng = faults.rng.get_or_insert(Rng(7));
                loses > 0 && rng.one_in(loses)
            };
            let mut responses = Vec::new();
            {
                let mut world = self.world.lock();
                world.at = now();
                for request in requests {
                    match world.try_conduct(Command::RequestClaim(request)) {
                        Ok(super_conductor::Outcome::ClaimAnswered(response)) => {
                            responses.push(response);
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
            if is_lost {
                Err(unreachable())
            } else {
                Ok(responses)
            }
        })
    }
}

/// An installation with running cells and agents, and control in memory.
pub struct Site {
    pub control: Control,
    pub cells: BTreeMap<CellId, Arc<Cell>>,
    /// Finds the replica that works as the cell, in tests with several replicas of one cell. While this finds none,
    /// control calls the one in `cells`.
    pub leader: Option<Box<dyn Fn() -> Option<Arc<Cell>> + Send + Sync>>,
    agents: Vec<JoinHandle<()>>,
}

/// Options of a cell with short intervals, for tests.
pub fn options(id: CellId) -> Options {
    Options {
        host_timeout: Duration::from_secs(2),
        resend_after: Duration::from_millis(300),
        resend_max: Duration::from_secs(1),
        placement_retry_max: Duration::from_millis(300),
        follower_timeout: Duration::from_secs(60),
        confirmation_timeout: Duration::from_secs(1),
        ..Options::new(id)
    }
}

impl Site {
    /// Creates a control that knows `cells` cells with `hosts` hosts each, of `vcpus` processors; none of
    /// the cells runs yet.
    pub fn new(cells: u32, hosts: u32, vcpus: i32) -> Self {
        let mut world = World::new(cells, hosts, vcpus);
        // Real cells replace the cells and the network of the simulated world.
        world.cells.clear();
        world.network.clear();
        // The scheduler ranks the hosts in random order, so that builds do not all go to the same hosts.
        world.shuffles = true;
        let control = Control {
            world: Arc::new(Mutex::new(world)),
            faults: Arc::default(),
        };
        Self {
            control,
            cells: BTreeMap::new(),
            leader: None,
            agents: Vec::new(),
        }
    }

    pub async fn open(&mut self, id: CellId, journal: impl Journal + 'static) {
        let placement = Arc::new(self.control.clone());
        let opened = Cell::open_on(journal, options(id), (), placement).await;
        self.cells.insert(id, opened.unwrap());
    }

    /// Starts this many cells, with journals in memory, and all their agents.
    pub async fn start(&mut self, cells: u32) {
        for number in 0..cells {
            self.open(cell(number), MemoryJournal::new()).await;
            self.start_agents(cell(number));
        }
    }

    pub fn hosts_of(&self, id: CellId) -> Vec<HostId> {
        let world = self.control.world.lock();
        let hosts = world.control.conductor.hosts();
        let of_cell = hosts.iter().filter(|(_, host)| host.cell == id);
        of_cell.map(|(host, _)| *host).collect()
    }

    /// Starts all agents of a cell on one connection.
    pub fn start_agents(&mut self, id: CellId) {
        let hosts = self.hosts_of(id);
        self.start_agents_of(id, hosts);
    }

    pub fn start_agents_of(&mut self, id: CellId, hosts: Vec<HostId>) {
        let link: Arc<dyn AgentLink> = Arc::clone(&self.cells[&id]) as _;
        self.start_agents_on(link, hosts);
    }

    /// Starts agents that reach their cell through the given link.
    pub fn start_agents_on(&mut self, link: Arc<dyn AgentLink>, hosts: Vec<HostId>) {
        let world = Arc::clone(&self.control.world);
        self.agents
            .push(tokio::spawn(agents::run(link, hosts, world)));
    }

    /// Stops the agents and waits for their end: a host never has two agents at once.
    pub async fn stop_agents(&mut self) {
        for agents in self.agents.drain(..) {
            agents.abort();
            // An error means that the task was aborted.
            let _ = agents.await;
        }
    }

    /// Ends a cell without notice, and the agents of all cells.
    pub async fn kill(&mut self, id: CellId) {
        // The agents hold links to their cells, which would keep the cell alive.
        self.stop_agents().await;
        self.cells.remove(&id);
    }

    /// The cell that control calls, if it runs.
    fn cell(&self, id: CellId) -> Option<Arc<Cell>> {
        let leader = self.leader.as_ref().and_then(|find| find());
        leader.or_else(|| self.cells.get(&id).cloned())
    }

    /// Delivers control's messages, and schedules the instances that wait in control; each once.
    pub async fn drive(&self) {
        let to_cells = {
            let mut world = self.control.world.lock();
            world.at = now();
            // Messages that the simulated world sent by itself are dropped: `effects` repeats them.
            world.network.clear();
            let effects = world.control.conductor.effects();
            let mut to_cells: BTreeMap<CellId, Vec<_>> = BTreeMap::new();
            for effect in effects {
                match effect {
                    super_conductor::Effect::Send { cell, message } => {
                        to_cells.entry(cell).or_default().push(message);
                    }
                    effect @ (super_conductor::Effect::Schedule { .. }
                    | super_conductor::Effect::ScheduleMove { .. }) => {
                        world.deliver(Packet::Work(effect));
                    }
                }
            }
            to_cells
        };
        for (id, messages) in to_cells {
            let Some(cell) = self.cell(id) else {
                continue;
            };
            let sent_at = now();
            let envelope = |message: &placewright_conductor::Message| {
                placewright_conductor::message::Envelope {
                    sent_at,
                    message: message.clone(),
                }
            };
            let delivered = cell.deliver(messages.iter().map(envelope).collect()).await;
            let Ok(replies) = delivered else { continue };
            let mut world = self.control.world.lock();
            for (message, reply) in messages.into_iter().zip(replies) {
                world.deliver(Packet::ToControl(message, reply));
            }
        }
    }

    /// Drives until a condition holds of the cells' states.
    pub async fn until(&self, what: &str, holds: impl Fn(&World) -> bool) {
        for _ in 0..600 {
            self.drive().await;
            let world = self.world_now().await;
            if holds(&world) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        let world = self.world_now().await;
        let moves = world.control.conductor.moves();
        let (under_way, hosts) = (world.under_way(), world.cells.values());
        let hosts: Vec<_> = hosts.map(|state| state.hosts()).collect();
        eprintln!("{under_way:#?}, moves {moves:#?}, hosts {hosts:#?}");
        panic!("the condition never held: {what}");
    }

    /// The world in memory, with the present states of the cells.
    pub async fn world_now(&self) -> World {
        let mut cells = BTreeMap::new();
        for id in self.cells.keys() {
            let Some(cell) = self.cell(*id) else { continue };
            let state = cell.engine().read(|machine| machine.state.clone()).await;
            cells.insert(*id, state);
        }
        let mut world = self.control.world.lock().clone();
        world.cells = cells;
        world
    }

    /// Drives until nothing is under way, and checks that nothing is lost or left over.
    pub async fn wait_until_at_rest(&self) -> World {
        self.until("rest", World::is_at_rest).await;
        // An agent's last message may be under way.
        tokio::time::sleep(Duration::from_millis(100)).await;
        self.until("rest", World::is_at_rest).await;
        let world = self.world_now().await;
        world.check_at_rest();
        world
    }

    pub fn create(&self, numbers: &[usize]) {
        let mut world = self.control.world.lock();
        world.at = now();
        world.create(numbers);
    }

    pub fn delete(&self, instance: InstanceId) {
        let mut world = self.control.world.lock();
        world.at = now();
        world.conduct(Command::Delete { instance });
    }
}
