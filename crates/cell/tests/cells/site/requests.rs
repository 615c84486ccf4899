//! Random requests of users: they create and delete instances, move them, and decide about their moves.

use placewright_conductor::super_conductor::Command;
use placewright_conductor::{MoveDecision, MoveKind};
use placewright_testing::random::Rng;
use placewright_testing::world::{instance, migration, spec};

use super::{Site, now};

/// The requests so far.
pub struct Requests {
    pub rng: Rng,
    /// How many instances were requested so far; they are numbered from 1.
    pub instances: usize,
    /// How many moves were requested so far; they are numbered from 1.
    migrations: usize,
}

impl Requests {
    pub fn new(seed: u64) -> Self {
        Self {
            rng: Rng(seed),
            instances: 0,
            migrations: 0,
        }
    }

    /// Makes one random request.
    pub fn make(&mut self, site: &Site) {
        match self.rng.below(12) {
            0..5 => {
                let count = 1 + self.rng.below(3);
                let numbers: Vec<usize> = (1..=count).map(|n| self.instances + n).collect();
                self.instances += count;
                site.create(&numbers);
            }
            5 | 6 => {
                let instance = instance(1 + self.rng.below(self.instances.max(1)));
                command(site, Command::Delete { instance });
            }
            7..10 => self.start_move(site),
            _ => self.confirm_or_revert(site),
        }
    }

    fn start_move(&mut self, site: &Site) {
        const KINDS: [MoveKind; 5] = [
            MoveKind::ColdMigrate,
            MoveKind::Resize,
            MoveKind::LiveMigrate,
            MoveKind::Evacuate,
            MoveKind::Unshelve,
        ];
        self.migrations += 1;
        let kind = KINDS[self.rng.below(KINDS.len())];
        let start = Command::StartMove {
            migration: migration(self.migrations),
            instance: instance(1 + self.rng.below(self.instances.max(1))),
            kind,
            spec: (kind == MoveKind::Resize).then(|| Box::new(spec(now()))),
        };
        command(site, start);
    }

    fn confirm_or_revert(&mut self, site: &Site) {
        let decision = match self.rng.one_in(2) {
            true => MoveDecision::Confirm,
            false => MoveDecision::Revert,
        };
        let moves: Vec<_> = {
            let world = site.control.world.lock();
            world.control.conductor.moves().keys().copied().collect()
        };
        if !moves.is_empty() {
            let migration = moves[self.rng.below(moves.len())];
            let decide = Command::ConfirmOrRevert {
                migration,
                decision,
                request: None,
            };
            command(site, decide);
        }
    }
}

fn command(site: &Site, command: Command) {
    let mut world = site.control.world.lock();
    world.at = now();
    // Many commands are not possible at the moment, and are refused.
    drop(world.try_conduct(command));
}
