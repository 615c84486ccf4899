//! Several replicas of one cell, of which one works: whichever is killed, suspended or replaced, and when, nothing is
//! lost, stuck or left over.

use crate::site;

use std::sync::Arc;
use std::time::Duration;

use placewright_cell::CellMachine;
use placewright_conductor::cell_conductor::VmState;
use placewright_engine::Machine as _;
use placewright_link::{AgentLink as _, CellLink as _, LinkError};
use placewright_testing::random::Rng;
use placewright_testing::world::{World, cell};
use site::Site;
use site::replicas::{Group, Member};
use site::requests::Requests;
use tokio::time::timeout;

const STEPS: usize = 250;
const PATIENCE: Duration = Duration::from_secs(20);

/// The number of active instances in all cells.
fn active(world: &World) -> usize {
    let states = world.cells.values();
    let rows = states.flat_map(|state| state.instances().values());
    rows.filter(|row| row.vm_state == VmState::Active).count()
}

/// A site with three replicas of one cell, and agents that find the one that leads.
async fn three(hosts: u32, vcpus: i32) -> (Site, Group) {
    let mut site = Site::new(1, hosts, vcpus);
    let group = Group::start(cell(0), &site.control, 3).await;
    follow_leader(&mut site, &group).await;
    start_agents(&mut site, &group);
    (site, group)
}

fn start_agents(site: &mut Site, group: &Group) {
    let hosts = site.hosts_of(cell(0));
    site.start_agents_on(group.agent_link(), hosts);
}

/// Makes control call the replica that leads.
async fn follow_leader(site: &mut Site, group: &Group) -> Member {
    let leader = group.wait_for_leader().await;
    site.cells.insert(cell(0), Arc::clone(&leader.cell));
    leader
}

/// One of the replicas that do not lead.
fn standby(group: &Group) -> Member {
    let members = group.members();
    members
        .into_iter()
        .find(|member| !member.cell.is_leading())
        .unwrap()
}

/// Waits until another replica than this one leads.
async fn wait_for_another(group: &Group, former: u64) -> Member {
    let another = async {
        loop {
            match group.leader() {
                Some(leader) if leader.origin != former => return leader,
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    };
    timeout(PATIENCE, another).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_takes_no_calls_and_says_who_leads() {
    let (_site, group) = three(2, 8).await;
    let leader = group.wait_for_known_leader().await;
    let standby = standby(&group);
    let says_who_leads = |error: LinkError| match error {
        LinkError::NotLeading { leader: said, .. } => {
            assert_eq!(said, Some(format!("replica {}", leader.origin)));
        }
        other => panic!("{other}"),
    };
    says_who_leads(standby.cell.cell_id().await.unwrap_err());
    says_who_leads(standby.cell.deliver(Vec::new()).await.unwrap_err());
    says_who_leads(standby.cell.connect().await.unwrap_err());
    says_who_leads(standby.cell.follow().await.unwrap_err());
    assert_eq!(leader.cell.cell_id().await.unwrap(), cell(0));
    assert_eq!(
        (
            leader.cell.metrics().leading,
            standby.cell.metrics().leading
        ),
        (1, 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn another_replica_goes_on_with_the_builds_of_one_that_was_killed() {
    let (mut site, group) = three(6, 32).await;
    site.control.world.lock().fails_one_in = 5;
    for round in 0..5 {
        let leader = follow_leader(&mut site, &group).await;
        let first = 1 + round * 10;
        site.create(&(first..first + 10).collect::<Vec<usize>>());
        for _ in 0..round {
            site.drive().await;
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        site.cells.clear();
        group.kill(leader.origin);
        drop(leader);
        group.add().await;
    }
    follow_leader(&mut site, &group).await;
    let world = site.wait_until_at_rest().await;
    assert!(active(&world) > 40, "{}", active(&world));
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_and_streams_end_when_another_replica_leads() {
    let (_site, group) = three(2, 8).await;
    let former = group.wait_for_leader().await;
    let mut connection = former.cell.connect().await.unwrap();
    let mut events = former.cell.follow().await.unwrap();
    // A standby reports wrongly that the leader is gone.
    let epoch = former.leadership().epoch;
    standby(&group)
        .cell
        .engine()
        .replica()
        .leader_is_gone(epoch);
    let ended = async {
        while connection.from_cell.recv().await.is_some() {}
        while events.recv().await.is_some() {}
    };
    timeout(PATIENCE, ended).await.unwrap();
    let leader = wait_for_another(&group, former.origin).await;
    assert!(leader.cell.follow().await.is_ok());
    assert!(matches!(
        former.cell.follow().await,
        Err(LinkError::NotLeading { .. })
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_leader_is_replaced_and_harms_nothing_when_it_goes_on() {
    let (mut site, group) = three(4, 32).await;
    let former = follow_leader(&mut site, &group).await;
    site.create(&(1..=12).collect::<Vec<usize>>());
    site.drive().await;
    group.set_suspended(former.origin, true);
    // The suspended replica still believes that it leads. What it is told now either has no effect, or takes effect on
    // the state of the new leader.
    site.create(&[13, 14]);
    let late = former.cell.deliver(Vec::new());
    assert!(late.await.is_ok());
    let leader = wait_for_another(&group, former.origin).await;
    site.cells.insert(cell(0), Arc::clone(&leader.cell));
    site.until("all are active", |world| active(world) == 14)
        .await;

    // The events that the former leader accepted and could not append are refused.
    let removal = placewright_link::CellOperation::RemoveHost {
        host: site.hosts_of(cell(0))[0],
    };
    let removal = former.cell.perform(removal);
    group.set_suspended(former.origin, false);
    let refused = timeout(PATIENCE, removal).await.unwrap();
    assert!(
        matches!(refused, Err(LinkError::NotLeading { .. })),
        "{refused:?}"
    );
    assert!(former.cell.connect().await.is_err());
    let world = site.wait_until_at_rest().await;
    assert_eq!(active(&world), 14);
    assert_eq!(world.cells[&cell(0)].hosts().len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_store_does_not_answer_ends_its_connections() {
    let (_site, group) = three(2, 8).await;
    let former = group.wait_for_leader().await;
    let mut connection = former.cell.connect().await.unwrap();
    group.set_suspended(former.origin, true);
    // The suspended replica cannot read the journal, so it does not learn that another one leads.
    let ended = async { while connection.from_cell.recv().await.is_some() {} };
    timeout(PATIENCE, ended).await.unwrap();
    assert!(former.cell.connect().await.is_err());
    assert_ne!(group.wait_for_leader().await.origin, former.origin);
    group.set_suspended(former.origin, false);
}

struct Simulation {
    site: Site,
    group: Group,
    requests: Requests,
    /// The number of the replica that is suspended, if one is.
    suspended: Option<u64>,
}

impl Simulation {
    async fn step(&mut self) {
        match self.requests.rng.below(24) {
            0..12 => self.requests.make(&self.site),
            12 => {
                // All agents lose their connections.
                self.site.stop_agents().await;
                start_agents(&mut self.site, &self.group);
            }
            13 => {
                // A replica is killed: the one that leads, or a standby.
                let members = self.group.members();
                let origin = members[self.requests.rng.below(members.len())].origin;
                self.site.cells.clear();
                drop(members);
                self.group.kill(origin);
                self.group.add().await;
            }
            14 => self.resume_or_suspend(),
            15 => {
                // Another replica takes over from a sound leader.
                let members = self.group.members();
                let member = &members[self.requests.rng.below(members.len())];
                let epoch = member.leadership().epoch;
                member.cell.engine().replica().leader_is_gone(epoch);
            }
            16 => {
                // Placement becomes unreachable, or reachable again.
                let mut faults = self.site.control.faults.lock();
                faults.is_down = !faults.is_down;
            }
            _ => {
                if let Some(leader) = self.group.leader() {
                    self.site.cells.insert(cell(0), leader.cell);
                    // A suspended replica does not answer.
                    let drive = self.site.drive();
                    let _ = timeout(Duration::from_millis(100), drive).await;
                }
                let pause = u64::try_from(self.requests.rng.below(10)).unwrap();
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
        }
    }

    fn resume_or_suspend(&mut self) {
        match self.suspended.take() {
            Some(origin) => self.group.set_suspended(origin, false),
            None => {
                if let Some(leader) = self.group.leader() {
                    self.group.set_suspended(leader.origin, true);
                    self.suspended = Some(leader.origin);
                }
            }
        }
    }
}

async fn simulate(seed: u64) {
    let (site, group) = three(4, 24).await;
    {
        let mut world = site.control.world.lock();
        world.rng = Rng(seed);
        world.fails_one_in = 10;
    }
    site.control.faults.lock().loses_one_in = 4;
    site.control.faults.lock().rng = Some(Rng(seed));
    let mut simulation = Simulation {
        site,
        group,
        requests: Requests::new(seed),
        suspended: None,
    };
    for _ in 0..STEPS {
        simulation.step().await;
    }
    if let Some(origin) = simulation.suspended {
        simulation.group.set_suspended(origin, false);
    }
    simulation.site.control.faults.lock().is_down = false;
    simulation.site.control.faults.lock().loses_one_in = 0;
    settle(&simulation.group).await;
    follow_leader(&mut simulation.site, &simulation.group).await;
    // A replica that was told that the leader is gone may take over late.
    simulation.site.leader = Some(simulation.group.leader_finder());
    check_equal(&simulation.group).await;
    let world = simulation.site.wait_until_at_rest().await;
    check_equal(&simulation.group).await;
    assert!(simulation.requests.instances > 20);
    assert!(!world.control.conductor.mappings().is_empty());
}

/// Waits until all replicas agree on the one that leads, and it works.
async fn settle(group: &Group) {
    let agreed = async {
        loop {
            let members = group.members();
            let epochs = members.iter().map(|member| member.leadership().epoch);
            let newest = epochs.max().unwrap();
            let agree = members
                .iter()
                .all(|member| member.leadership().epoch == newest);
            let leading = members.iter().filter(|member| member.cell.is_leading());
            if agree && leading.count() == 1 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, agreed).await.unwrap();
}

/// Checks that the states of all replicas are the same once they have applied the same entries.
async fn check_equal(group: &Group) {
    let members = group.members();
    let sequences = || -> Vec<u64> {
        let engines = members.iter().map(|member| member.cell.engine());
        engines.map(|engine| engine.durable_sequence()).collect()
    };
    let digests = async {
        loop {
            let before = sequences();
            let mut digests = Vec::new();
            for member in &members {
                let engine = member.cell.engine();
                digests.push(engine.read(CellMachine::digest).await);
            }
            let is_settled = before.iter().all(|sequence| *sequence == before[0]);
            if is_settled && sequences() == before {
                return digests;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let digests = timeout(PATIENCE, digests).await.unwrap();
    let equal = digests.iter().all(|digest| *digest == digests[0]);
    assert!(equal, "{digests:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_stuck_or_left_over() {
    for seed in 1..=3 {
        simulate(seed).await;
    }
}
