//! Random requests, faults and restarts through real cells: at the end nothing is lost, stuck or
//! left over.

#![expect(clippy::unwrap_used, reason = "a test stops where it goes wrong")]

mod site;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use placewright_cell::Cell;
use placewright_conductor::super_conductor::Command;
use placewright_conductor::{CellId, MoveDecision, MoveKind};
use placewright_journal::{Journal as _, MemoryJournal};
use placewright_testing::random::Rng;
use placewright_testing::world::{cell, instance, migration, spec};
use site::{Site, now, options};

const CELLS: u32 = 2;
const STEPS: usize = 250;

struct Simulation {
    site: Site,
    journals: BTreeMap<CellId, MemoryJournal>,
    rng: Rng,
    /// How many instances were requested so far; they are numbered from 1.
    instances: usize,
    /// How many moves were requested so far; they are numbered from 1.
    migrations: usize,
}

impl Simulation {
    async fn open(&mut self, id: CellId) {
        let journal = self.journals[&id].try_clone().unwrap();
        let placement = Arc::new(self.site.control.clone());
        let opened = Cell::open_on(journal, options(id), (), placement).await;
        self.site.cells.insert(id, opened.unwrap());
    }

    async fn step(&mut self) {
        match self.rng.below(20) {
            0..5 => {
                let count = 1 + self.rng.below(3);
                let numbers: Vec<usize> = (1..=count).map(|n| self.instances + n).collect();
                self.instances += count;
                self.site.create(&numbers);
            }
            5 | 6 => {
                let instance = instance(1 + self.rng.below(self.instances.max(1)));
                self.command(Command::Delete { instance });
            }
            7..10 => self.start_move(),
            10 | 11 => self.confirm_or_revert(),
            12 => {
                // All agents lose their connections.
                self.site.stop_agents().await;
                (0..CELLS).for_each(|number| self.site.start_agents(cell(number)));
            }
            13 => {
                // A cell is killed, and with it the agents of all cells.
                let id = cell(u32::try_from(self.rng.below(2)).unwrap());
                self.site.kill(id).await;
                self.open(id).await;
                (0..CELLS).for_each(|number| self.site.start_agents(cell(number)));
            }
            14 => {
                // Placement becomes unreachable, or reachable again.
                let mut faults = self.site.control.faults.lock();
                faults.is_down = !faults.is_down;
            }
            _ => {
                self.site.drive().await;
                let pause = u64::try_from(self.rng.below(10)).unwrap();
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
        }
    }

    fn command(&self, command: Command) {
        let mut world = self.site.control.world.lock();
        world.at = now();
        // Many commands are not possible at the moment, and are refused.
        drop(world.try_conduct(command));
    }

    fn start_move(&mut self) {
        const KINDS: [MoveKind; 5] = [
            MoveKind::ColdMigrate,
            MoveKind::Resize,
            MoveKind::LiveMigrate,
            MoveKind::Evacuate,
            MoveKind::Unshelve,
        ];
        self.migrations += 1;
        let kind = KINDS[self.rng.below(KINDS.len())];
        let instance = instance(1 + self.rng.below(self.instances.max(1)));
        self.command(Command::StartMove {
            migration: migration(self.migrations),
            instance,
            kind,
            spec: (kind == MoveKind::Resize).then(|| Box::new(spec(now()))),
        });
    }

    fn confirm_or_revert(&mut self) {
        let decision = match self.rng.one_in(2) {
            true => MoveDecision::Confirm,
            false => MoveDecision::Revert,
        };
        let moves: Vec<_> = {
            let world = self.site.control.world.lock();
            world.control.conductor.moves().keys().copied().collect()
        };
        if !moves.is_empty() {
            let migration = moves[self.rng.below(moves.len())];
            self.command(Command::ConfirmOrRevert {
                migration,
                decision,
            });
        }
    }
}

async fn simulate(seed: u64) {
    let site = Site::new(CELLS, 4, 24);
    {
        let mut world = site.control.world.lock();
        world.rng = Rng(seed);
        world.fails_one_in = 10;
    }
    site.control.faults.lock().loses_one_in = 4;
    site.control.faults.lock().rng = Some(Rng(seed));
    let journals = (0..CELLS).map(|number| (cell(number), MemoryJournal::new()));
    let mut simulation = Simulation {
        site,
        journals: journals.collect(),
        rng: Rng(seed),
        instances: 0,
        migrations: 0,
    };
    for number in 0..CELLS {
        simulation.open(cell(number)).await;
        simulation.site.start_agents(cell(number));
    }
    for _ in 0..STEPS {
        simulation.step().await;
    }
    simulation.site.control.faults.lock().is_down = false;
    simulation.site.control.faults.lock().loses_one_in = 0;
    let world = simulation.site.rest().await;
    assert!(simulation.instances > 20);
    assert!(!world.control.conductor.mappings().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_stuck_or_left_over() {
    for seed in 1..=3 {
        simulate(seed).await;
    }
}
