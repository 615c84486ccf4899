//! Random requests, faults and restarts through real cells: at the end nothing is lost, stuck or
//! left over.

use crate::site;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use placewright_cell::Cell;
use placewright_conductor::CellId;
use placewright_journal::{Journal as _, MemoryJournal};
use placewright_testing::random::Rng;
use placewright_testing::world::cell;
use site::requests::Requests;
use site::{Site, options};

const CELLS: u32 = 2;
const STEPS: usize = 250;

struct Simulation {
    site: Site,
    journals: BTreeMap<CellId, MemoryJournal>,
    requests: Requests,
}

impl Simulation {
    async fn open(&mut self, id: CellId) {
        let journal = self.journals[&id].try_clone().unwrap();
        let placement = Arc::new(self.site.control.clone());
        let opened = Cell::open_on(journal, options(id), (), placement).await;
        self.site.cells.insert(id, opened.unwrap());
    }

    async fn step(&mut self) {
        match self.requests.rng.below(20) {
            0..12 => self.requests.make(&self.site),
            12 => {
                // All agents lose their connections.
                self.site.stop_agents().await;
                (0..CELLS).for_each(|number| self.site.start_agents(cell(number)));
            }
            13 => {
                // A cell is killed, and with it the agents of all cells.
                let id = cell(u32::try_from(self.requests.rng.below(2)).unwrap());
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
                let pause = u64::try_from(self.requests.rng.below(10)).unwrap();
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
        }
    }
}

async fn simulate(seed: u64) {
    // Each cell has four hosts of 24 processors.
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
        requests: Requests::new(seed),
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
    let world = simulation.site.wait_until_at_rest().await;
    assert!(simulation.requests.instances > 20);
    assert!(!world.control.conductor.mappings().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_stuck_or_left_over() {
    for seed in 1..=3 {
        simulate(seed).await;
    }
}
