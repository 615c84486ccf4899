//! Quotas hold in every order of events: no project holds more than its limits, unless they were
//! lowered; nothing that fits is refused; and the running count is what a recount finds.

use std::collections::BTreeMap;

use placewright_conductor::cell_conductor::Event;
use placewright_conductor::control::Refusal as ControlRefusal;
use placewright_conductor::quota::{
    Limits, ProjectUsage, QuotaScope, Resource, UNLIMITED, Usage, UsageAmounts,
};
use placewright_conductor::super_conductor::{Command, NewBuild, Refusal, State};
use placewright_conductor::{InstanceId, MigrationId, MoveDecision, MoveKind, Spec};
use placewright_placement::Timestamp;
use placewright_testing::world::{World, instance, migration, spec};
use uuid::Uuid;

const PROJECTS: [&str; 2] = ["p", "q"];

fn gpu() -> Resource {
    Resource::Class("CUSTOM_GPU".into())
}

fn resources() -> [Resource; 4] {
    [Resource::Instances, Resource::Cores, Resource::Ram, gpu()]
}

fn usage(cores: u32, ram_mb: u32, gpus: u32) -> Usage {
    Usage::new(UsageAmounts {
        cores,
        ram_mb,
        classes: vec![("CUSTOM_GPU".to_owned(), gpus)],
    })
}

fn spec_of(project: &str, usage: Usage, at: Timestamp) -> Spec {
    Spec {
        project: project.to_owned(),
        usage,
        ..spec(at)
    }
}

/// The usage of each project, counted instance by instance. For an instance that is moved, the larger amount
/// of both flavors counts, resource by resource.
fn recount(state: &State) -> BTreeMap<String, ProjectUsage> {
    let mut projects: BTreeMap<String, ProjectUsage> = BTreeMap::new();
    for (id, spec) in state.specs() {
        let of_instance = |row: &&_| {
            let row: &placewright_conductor::super_conductor::Move = row;
            row.instance == *id
        };
        let moves = state.moves().values().filter(of_instance);
        let flavors = moves.filter_map(|row| row.spec.as_ref());
        let none = UsageAmounts::default();
        let mut all: Vec<&UsageAmounts> = vec![spec.usage.amounts().unwrap_or(&none)];
        all.extend(flavors.filter_map(|spec| spec.usage.amounts()));
        let gpus =
            |amounts: &&UsageAmounts| amounts.classes.first().map_or(0, |(_, amount)| *amount);
        let largest = usage(
            all.iter().map(|amounts| amounts.cores).max().unwrap(),
            all.iter().map(|amounts| amounts.ram_mb).max().unwrap(),
            all.iter().map(gpus).max().unwrap(),
        );
        let project = projects.entry(spec.project.clone()).or_default();
        project.add_instance(&largest);
    }
    projects
}

fn held(state: &State, project: &str) -> ProjectUsage {
    let held = state.listing().usage(project);
    held.cloned().unwrap_or_default()
}

/// Whether a project may hold an additional amount, by the recount.
fn fits(state: &State, project: &str, added: &ProjectUsage) -> bool {
    let held = recount(state).remove(project).unwrap_or_default();
    resources().iter().all(|resource| {
        let limit = state.quota_limit(Some(project), resource);
        let added = added.amount(resource);
        limit == UNLIMITED
            || added == 0
            || i64::try_from(held.amount(resource) + added).unwrap() <= limit
    })
}

fn is_over_quota<T>(answer: &Result<T, ControlRefusal>) -> bool {
    matches!(
        answer,
        Err(ControlRefusal::Conductor(Refusal::OverQuota(_)))
    )
}

struct Simulation {
    world: World,
    /// How many instances were accepted so far; they are numbered from 1.
    instances: usize,
    /// How many moves were requested so far; they are numbered from 1.
    migrations: usize,
    /// How many requests were accepted.
    accepted: usize,
    /// How many requests were refused because they exceeded a quota.
    refused: usize,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        // Two cells with four hosts of 16 CPUs each.
        let mut world = World::new(2, 4, 16);
        world.rng.0 = seed;
        world.shuffles = true;
        world.fails_one_in = 10;
        Self {
            world,
            instances: 0,
            migrations: 0,
            accepted: 0,
            refused: 0,
        }
    }

    fn below(&mut self, bound: usize) -> u32 {
        u32::try_from(self.world.rng.below(bound)).unwrap()
    }

    fn some_project(&mut self) -> &'static str {
        PROJECTS[self.world.rng.below(PROJECTS.len())]
    }

    fn some_usage(&mut self) -> Usage {
        if self.world.rng.one_in(8) {
            return Usage::default();
        }
        let (cores, ram_mb) = (self.below(4), 512 * self.below(4));
        usage(cores, ram_mb, self.below(3))
    }

    fn some_instance(&mut self) -> InstanceId {
        instance(1 + self.world.rng.below(self.instances.max(1)))
    }

    fn state(&self) -> &State {
        &self.world.control.conductor
    }

    fn step(&mut self) {
        match self.world.rng.below(100) {
            0..55 => self.deliver_one(),
            55..70 => self.create(),
            70..78 => self.start_move(),
            78..84 => self.confirm_or_revert(),
            84..90 => {
                let instance = self.some_instance();
                drop(self.world.try_conduct(Command::Delete { instance }));
            }
            90..94 => {
                let id = self.some_instance();
                if let Some(cell) = self.world.cell_of(id) {
                    self.world.decide_event(
                        cell,
                        &Event::Shelve {
                            instance: id,
                            request: None,
                        },
                    );
                }
            }
            94..96 => self.change_limit(),
            96..98 => self.count_uncounted(),
            _ => self.world.reload(),
        }
    }

    fn deliver_one(&mut self) {
        if self.world.network.is_empty() {
            return self.world.send_all();
        }
        let index = self.world.rng.below(self.world.network.len());
        let packet = self.world.network.swap_remove(index);
        if !self.world.rng.one_in(20) {
            self.world.deliver(packet);
        }
    }

    fn create(&mut self) {
        let (project, usage) = (self.some_project(), self.some_usage());
        let count = 1 + self.world.rng.below(3);
        let at = self.world.at;
        let mut more = ProjectUsage::default();
        let builds: Vec<NewBuild> = (1..=count)
            .map(|n| {
                more.add_instance(&usage);
                NewBuild {
                    instance: instance(self.instances + n),
                    spec: spec_of(project, usage.clone(), at),
                }
            })
            .collect();
        let does_fit = fits(self.state(), project, &more);
        let before = (!does_fit).then(|| self.state().clone());
        let answer = self.world.try_conduct(Command::CreateBuilds {
            reservation: Uuid::from_u128(self.instances as u128),
            builds,
        });
        assert_eq!(is_over_quota(&answer), !does_fit, "{answer:?}");
        if does_fit {
            answer.unwrap();
            self.instances += count;
            self.accepted += 1;
        } else {
            // A refused request changes nothing, for none of its instances.
            assert_eq!(Some(self.state()), before.as_ref());
            self.refused += 1;
        }
    }

    fn start_move(&mut self) {
        const KINDS: [MoveKind; 3] = [MoveKind::Resize, MoveKind::ColdMigrate, MoveKind::Unshelve];
        let id = self.some_instance();
        let Some(present) = self.state().specs().get(&id).cloned() else {
            return;
        };
        let kind = KINDS[self.world.rng.below(KINDS.len())];
        let mut new = present.clone();
        if kind == MoveKind::Resize {
            new.usage = self.some_usage();
        }
        let mut more = ProjectUsage::default();
        more.add(&new.usage.excess_over(&present.usage));
        let does_fit = fits(self.state(), &present.project, &more);
        self.migrations += 1;
        let answer = self.world.try_conduct(Command::StartMove {
            migration: migration(self.migrations),
            instance: id,
            kind,
            spec: Some(Box::new(new)),
        });
        match answer {
            Ok(_) => {
                assert!(does_fit);
                self.accepted += 1;
            }
            Err(_) if is_over_quota(&answer) => {
                assert!(!does_fit, "{answer:?}");
                self.refused += 1;
            }
            Err(_) => {}
        }
    }

    fn confirm_or_revert(&mut self) {
        let moves: Vec<MigrationId> = self.state().moves().keys().copied().collect();
        for migration in moves {
            let decision = match self.world.rng.one_in(2) {
                true => MoveDecision::Confirm,
                false => MoveDecision::Revert,
            };
            let command = Command::ConfirmOrRevert {
                migration,
                decision,
                request: None,
            };
            drop(self.world.try_conduct(command));
        }
    }

    /// Raises or lowers limits of one project or of all projects, or sets or removes Keystone's limits.
    fn change_limit(&mut self) {
        let project = self.some_project().to_owned();
        let resource = resources()[self.world.rng.below(4)].clone();
        let scale = if resource == Resource::Ram { 1024 } else { 2 };
        let limit = match self.world.rng.one_in(4) {
            true => UNLIMITED,
            false => i64::from(self.below(20)) * scale,
        };
        let scope = match self.world.rng.below(4) {
            0 => QuotaScope::Configured,
            1 => QuotaScope::Class("default".to_owned()),
            _ => QuotaScope::Project(project),
        };
        if self.world.rng.one_in(10) {
            let sets = match self.state().has_unified_limits() {
                true => vec![(QuotaScope::Registered, None)],
                false => vec![(
                    QuotaScope::Registered,
                    Some(Limits::from([(resource, limit)])),
                )],
            };
            self.world.conduct(Command::ReplaceQuotas { sets });
            return;
        }
        let force = self.world.rng.one_in(2);
        let before = match &scope {
            QuotaScope::Project(project) => self.state().used(project, &resource),
            _ => 0,
        };
        let answer = self.world.try_conduct(Command::SetQuota {
            scope,
            limits: Limits::from([(resource, limit)]),
            force,
        });
        let is_below = limit != UNLIMITED && limit < i64::try_from(before).unwrap();
        assert_eq!(answer.is_err(), is_below && !force, "{answer:?}");
    }

    /// Counts some of the instances whose usage is not known.
    fn count_uncounted(&mut self) {
        let known = usage(self.below(4), 512, self.below(3));
        let state = self.state();
        let unknown = state
            .specs()
            .iter()
            .filter(|(_, spec)| !spec.usage.is_known());
        let instances = unknown
            .take(3)
            .map(|(id, _)| (*id, known.clone()))
            .collect();
        let moves = state.moves().iter().filter(|(_, row)| {
            let spec = row.spec.as_ref();
            spec.is_some_and(|spec| !spec.usage.is_known())
        });
        let moves = moves.map(|(id, _)| (*id, known.clone())).collect();
        self.world.conduct(Command::CountUsage { instances, moves });
    }

    /// Checks the usage of each project after a step. `counts_old` says that the step counted instances
    /// that were created without being counted, which may exceed a limit.
    fn check(&self, before: &BTreeMap<String, ProjectUsage>, counts_old: bool) {
        let recounted = recount(self.state());
        for project in PROJECTS {
            let counted = recounted.get(project).cloned().unwrap_or_default();
            assert_eq!(held(self.state(), project), counted, "{project}");
            let before = before.get(project).cloned().unwrap_or_default();
            for resource in resources() {
                let limit = self.state().quota_limit(Some(project), &resource);
                let limit = u64::try_from(limit).unwrap_or(u64::MAX);
                // The amount that was held before a limit was lowered may still be held.
                let max = limit.max(before.amount(&resource));
                let amount = counted.amount(&resource);
                assert!(
                    counts_old || amount <= max,
                    "{project} holds {amount} {resource}, at most {max} allowed"
                );
            }
        }
    }
}

#[test]
fn no_project_ever_holds_more_than_its_quota_and_nothing_that_fits_is_refused() {
    let (mut accepted, mut refused) = (0, 0);
    for seed in 0..6 {
        let mut simulation = Simulation::new(seed);
        simulation.change_limit();
        for _ in 0..2000 {
            let before = recount(simulation.state());
            let unknown = |state: &State| {
                let specs = state.specs().values();
                specs.filter(|spec| !spec.usage.is_known()).count()
            };
            let were_unknown = unknown(simulation.state());
            simulation.step();
            // Instances that were created without being counted may exceed the quota once they are counted.
            let counts_old = unknown(simulation.state()) < were_unknown;
            simulation.check(&before, counts_old);
        }
        accepted += simulation.accepted;
        refused += simulation.refused;
        for number in 1..=simulation.instances {
            let instance = instance(number);
            let delete = Command::Delete { instance };
            drop(simulation.world.try_conduct(delete));
        }
        simulation.world.come_to_rest();
        for project in PROJECTS {
            assert!(simulation.state().listing().usage(project).is_none());
        }
    }
    assert!(accepted > 300 && refused > 300, "{accepted}, {refused}");
}
