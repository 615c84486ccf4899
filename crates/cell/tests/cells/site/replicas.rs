//! Several replicas of one cell in one process, and a link that finds the one that leads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use placewright_cell::{Cell, CellMachine, TimedEvent};
use placewright_conductor::CellId;
use placewright_engine::{Engine, LeaderLink, Leadership, ReplicaOptions};
use placewright_journal::{Faults, Faulty, Journal as _, MemoryJournal};
use placewright_link::{AgentConnection, AgentLink, LinkError, LinkFuture};
use tokio::task::JoinHandle;

use super::{Control, options};

/// One replica of the cell. It stands for a process of its own.
#[derive(Clone)]
pub struct Member {
    pub origin: u64,
    pub cell: Arc<Cell>,
    /// The faults of the replica's journal.
    pub faults: Faults,
    /// Whether the other replicas hear nothing from this one, so that they report it as gone.
    is_silent: bool,
}

impl Member {
    pub fn leadership(&self) -> Leadership {
        let leadership = self.cell.engine().replica().leadership().unwrap();
        leadership.borrow().clone()
    }
}

type Members = Arc<RwLock<Vec<Member>>>;

/// The replicas of one cell.
pub struct Group {
    id: CellId,
    control: Control,
    journal: MemoryJournal,
    members: Members,
    last_origin: AtomicU64,
    liveness: JoinHandle<()>,
}

impl Drop for Group {
    fn drop(&mut self) {
        self.liveness.abort();
    }
}

/// The link between the replicas. No commands are handed over on it, and [`watch`] reports leaders that are silent.
struct NoHandover;

impl LeaderLink<CellMachine> for NoHandover {
    fn send(&self, _: &Leadership, _: u64, _: &TimedEvent) {
        panic!("no command is handed over");
    }

    fn hands_commands_over(&self) -> bool {
        false
    }
}

impl Group {
    pub async fn start(id: CellId, control: &Control, count: usize) -> Self {
        let members = Members::default();
        let group = Self {
            id,
            control: control.clone(),
            journal: MemoryJournal::new(),
            members: Arc::clone(&members),
            last_origin: AtomicU64::new(0),
            liveness: tokio::spawn(watch(members)),
        };
        for _ in 0..count {
            group.add().await;
        }
        group
    }

    /// Starts one more replica.
    pub async fn add(&self) {
        let origin = 1 + self.last_origin.fetch_add(1, Ordering::Relaxed);
        let faults = Faults::new();
        let journal = Faulty::new(self.journal.try_clone().unwrap(), faults.clone());
        let replica = ReplicaOptions {
            origin,
            address: format!("replica {origin}"),
            link: Box::new(NoHandover),
            poll_interval: Duration::from_millis(1),
        };
        let options = options(self.id);
        let engine = Engine::open_replica(journal, options.engine.clone(), (), replica).unwrap();
        let placement = Arc::new(self.control.clone());
        let opened = Cell::on_engine(engine, options, placement).await;
        self.members.write().push(Member {
            origin,
            cell: opened.unwrap(),
            faults,
            is_silent: false,
        });
    }

    /// Ends a replica without notice.
    pub fn kill(&self, origin: u64) {
        let mut members = self.members.write();
        if let Some(index) = members.iter().position(|member| member.origin == origin) {
            // An append that was under way still reaches the journal, after the replica has ended.
            members.remove(index).faults.release();
        }
    }

    /// Suspends a replica, so that the other replicas hear nothing from it and its appends wait; or lets a suspended
    /// replica continue.
    pub fn set_suspended(&self, origin: u64, is_suspended: bool) {
        let mut members = self.members.write();
        let Some(member) = members.iter_mut().find(|member| member.origin == origin) else {
            return;
        };
        member.is_silent = is_suspended;
        if is_suspended {
            member.faults.hold();
        } else {
            member.faults.release();
        }
    }

    pub fn members(&self) -> Vec<Member> {
        self.members.read().clone()
    }

    /// The replica that works as the cell. If several believe that they do, the one with the newest epoch.
    pub fn leader(&self) -> Option<Member> {
        leader(&self.members)
    }

    /// Finds the replica that works as the cell at each call.
    pub fn leader_finder(&self) -> Box<dyn Fn() -> Option<Arc<Cell>> + Send + Sync> {
        let members = Arc::clone(&self.members);
        Box::new(move || leader(&members).map(|member| member.cell))
    }

    pub async fn wait_for_leader(&self) -> Member {
        for _ in 0..2000 {
            if let Some(leader) = self.leader() {
                return leader;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("no replica leads");
    }

    /// Waits until every replica has read in the journal which one leads: until then one that knows of no leader may
    /// still take over.
    pub async fn wait_for_known_leader(&self) -> Member {
        for _ in 0..2000 {
            let leader = self.wait_for_leader().await;
            let of_leader = (leader.origin, leader.leadership().epoch);
            let mut of_all = (self.members().into_iter()).map(|member| member.leadership());
            if of_all.all(|known| (known.origin, known.epoch) == of_leader) {
                return leader;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("the replicas do not agree on which one leads");
    }

    /// A link for agents, which finds the replica that leads.
    pub fn agent_link(&self) -> Arc<dyn AgentLink> {
        Arc::new(Finder(Arc::clone(&self.members)))
    }
}

/// See [`Group::leader`].
fn leader(members: &Members) -> Option<Member> {
    let members = members.read().clone();
    let leading = members
        .into_iter()
        .filter(|member| member.cell.is_leading());
    leading.max_by_key(|member| member.leadership().epoch)
}

/// Tells each replica when its leader is gone.
async fn watch(members: Members) {
    loop {
        let present = members.read().clone();
        let heard_of: Vec<u64> = (present.iter().filter(|member| !member.is_silent))
            .map(|member| member.origin)
            .collect();
        for member in present.iter().filter(|member| !member.is_silent) {
            let leadership = member.leadership();
            if !heard_of.contains(&leadership.origin) {
                let replica = member.cell.engine().replica();
                replica.leader_is_gone(leadership.epoch);
            }
        }
        drop(present);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A link that asks one replica after the other until one leads.
struct Finder(Members);

impl AgentLink for Finder {
    fn connect(&self) -> LinkFuture<'_, AgentConnection> {
        Box::pin(async {
            let cells: Vec<Arc<Cell>> = {
                let members = self.0.read();
                members.iter().map(|m| Arc::clone(&m.cell)).collect()
            };
            let mut last = LinkError::Unreachable {
                peer: "the cell".into(),
                why: "there is none".into(),
            };
            for cell in cells {
                match cell.connect().await {
                    Ok(connection) => return Ok(connection),
                    Err(error) => last = error,
                }
            }
            Err(last)
        })
    }
}
