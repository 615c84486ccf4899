//! Plans for instances and moves that wait for a host: which commands to submit, from one look at
//! the scheduler and the state. The [placer](crate::placer) selects the hosts.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::placer::{
    Contention, Demand, LookContext, LookRefusal, Placing, SearchResults, TimeSlice,
};
use placewright_conductor::control::ControlState;
use placewright_conductor::super_conductor::BuildStage;
use placewright_conductor::{CellId, InstanceId, MigrationId, Spec};
use placewright_scheduler::select::Scheduler;
use uuid::Uuid;

use crate::body::BodyCache;
use crate::options::Options;

mod fault;
mod moves;

pub(crate) use fault::{PlanFault, others_were_faster, unprepared};

/// The time after a start in which hosts may still be connecting: no request fails for lack of
/// hosts until it is over.
const START_GRACE: Duration = Duration::from_secs(15);

/// Work for the planner.
#[derive(Debug)]
pub(crate) enum PlanningWork {
    /// Instances of one reservation that wait for a host; they are placed together.
    Builds(Vec<InstanceId>),
    /// A move that waits for a target host.
    Move(MigrationId),
    /// What has begun.
    Attempt(Box<Attempt>),
}

/// Instances or a move on the way to their hosts.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) placing: Placing,
    /// The move that needs the host; none for builds.
    pub(crate) migration: Option<MigrationId>,
}

/// A command to submit.
#[derive(Debug)]
pub(crate) enum PlacementPlan {
    /// Claim the hosts that were found.
    Claim(Box<Attempt>),
    /// Fail builds for which there is no host.
    Bury {
        instances: Vec<InstanceId>,
        fault: PlanFault,
    },
    /// Fail a move for which there is no host.
    FailMove {
        migration: MigrationId,
        fault: PlanFault,
    },
    /// Submit nothing; these instances and moves are no longer busy.
    Nothing { ids: Vec<Uuid> },
}

impl PlacementPlan {
    /// The number of claims in the command.
    pub(crate) fn claims(&self) -> usize {
        match self {
            Self::Claim(attempt) => attempt.placing.waiting().len(),
            _ => 1,
        }
    }
}

impl Attempt {
    /// The ids by which instances are busy: their own, or that of their move.
    pub(crate) fn ids_of(&self, instances: Vec<Uuid>) -> Vec<Uuid> {
        match self.migration {
            Some(migration) => vec![migration.0],
            None => instances,
        }
    }
}

/// Makes plans from the scheduler's ranking.
pub(crate) struct Planner {
    bodies: BodyCache,
    options: Options,
    started: Instant,
    /// The cells that are not heard from at present: they are avoided if there are hosts elsewhere.
    pub(crate) unheard: Vec<CellId>,
}

/// What a plan is made from, and where it is put.
pub(crate) struct PlanContext<'a> {
    pub(crate) scheduler: &'a mut Scheduler,
    pub(crate) control: &'a ControlState,
    pub(crate) contention: Contention,
    pub(crate) turn: &'a TimeSlice,
    pub(crate) plans: &'a mut Vec<PlacementPlan>,
    /// Work that is left for a later time slice.
    pub(crate) rest: &'a mut VecDeque<PlanningWork>,
}

impl Planner {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            bodies: BodyCache::default(),
            options,
            started: Instant::now(),
            unheard: Vec::new(),
        }
    }

    /// Continues work until it is complete or the time slice is over.
    pub(crate) fn plan(&mut self, context: &mut PlanContext<'_>, work: PlanningWork) {
        let attempt = match work {
            PlanningWork::Attempt(attempt) => Some(attempt),
            PlanningWork::Builds(instances) => self.begin(context, &instances),
            PlanningWork::Move(migration) => match self.begin_move(context, migration) {
                Ok(attempt) => Some(attempt),
                Err(plan) => {
                    context.plans.push(plan);
                    None
                }
            },
        };
        if let Some(attempt) = attempt {
            self.look(context, attempt);
        }
    }

    /// Begins with the instances of a reservation that still wait for a host.
    fn begin(
        &mut self,
        context: &mut PlanContext<'_>,
        instances: &[InstanceId],
    ) -> Option<Box<Attempt>> {
        let mut waiting = Vec::with_capacity(instances.len());
        let mut done = Vec::new();
        for instance in instances {
            match waits(context.control, *instance) {
                Some(spec) => waiting.push((*instance, spec)),
                None => done.push(instance.0),
            }
        }
        if !done.is_empty() {
            context.plans.push(PlacementPlan::Nothing { ids: done });
        }
        let (_, first) = waiting.first().copied()?;
        let read = match self.bodies.read(&first.body) {
            Ok(read) => read,
            Err(error) => {
                let instances = waiting.iter().map(|(instance, _)| *instance).collect();
                let fault = PlanFault::unreadable(&error);
                context.plans.push(PlacementPlan::Bury { instances, fault });
                return None;
            }
        };
        // Instances of one request need the same kind of host; others are a matter of their own.
        let (same, others): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|(_, spec)| {
            spec.group == first.group
                && (spec.body.shares_prefix(&first.body) || self.is_same(&read.request, spec))
        });
        if !others.is_empty() {
            let others = others.into_iter().map(|(instance, _)| instance);
            context
                .rest
                .push_back(PlanningWork::Builds(others.collect()));
        }
        let instances: Vec<Uuid> = same.iter().map(|(instance, _)| instance.0).collect();
        let all = instances.len();
        Some(Box::new(Attempt {
            placing: Placing::new(Demand {
                least: read.min_count.unwrap_or(all).clamp(1, all),
                group: first.group,
                alternates: self.options.alternates,
                ..Demand::new(read.request, instances)
            }),
            migration: None,
        }))
    }

    /// Whether a spec has this request.
    fn is_same(
        &mut self,
        request: &Arc<placewright_scheduler::request::RequestSpec>,
        spec: &Spec,
    ) -> bool {
        let read = self.bodies.read(&spec.body);
        read.is_ok_and(|read| Arc::ptr_eq(&read.request, request) || read.request == *request)
    }

    /// Looks for hosts until all are found or the time slice is over.
    fn look(&self, context: &mut PlanContext<'_>, mut attempt: Box<Attempt>) {
        let control = context.control;
        let state = &control.placement;
        let migration = attempt.migration;
        let still_waits = |instance| match migration {
            Some(migration) => moves::waits(control, migration),
            None => waits(control, InstanceId(instance)).is_some(),
        };
        let gone = attempt
            .placing
            .retain(context.scheduler, state, still_waits);
        if !gone.is_empty() {
            let ids = attempt.ids_of(gone);
            context.plans.push(PlacementPlan::Nothing { ids });
        }
        let (mut closed, mut avoided) = (Vec::new(), Vec::new());
        // A move stays in its cell.
        if migration.is_none() {
            closed = closed_cells(control);
            avoided = self.unheard.iter().map(|CellId(cell)| *cell).collect();
        }
        let mut look = LookContext {
            scheduler: &mut *context.scheduler,
            state,
            contention: context.contention,
            number: 0,
            closed: &closed,
            avoided: &avoided,
        };
        match attempt.placing.look(&mut look, context.turn) {
            Ok(SearchResults::Unfinished) => context.rest.push_back(PlanningWork::Attempt(attempt)),
            Ok(results @ (SearchResults::Ready | SearchResults::Over)) => {
                let nowhere = attempt.placing.take_nowhere();
                if !nowhere.is_empty() {
                    let plan = self.nowhere(context, &attempt, nowhere);
                    context.plans.push(plan);
                }
                if results == SearchResults::Ready {
                    context.plans.push(PlacementPlan::Claim(attempt));
                }
            }
            Ok(SearchResults::Nowhere(_)) => {
                attempt.placing.give_up(context.scheduler, state);
                let plan = self.nowhere(context, &attempt, attempt.placing.unplaced());
                context.plans.push(plan);
            }
            Err(LookRefusal::Prepare(refusal)) => {
                let fault = PlanFault::Known(unprepared(&refusal));
                let plan = failed(&attempt, attempt.placing.unplaced(), fault);
                context.plans.push(plan);
            }
            // The explanation says why.
            Err(LookRefusal::Select(_)) => {
                let plan = self.nowhere(context, &attempt, attempt.placing.unplaced());
                context.plans.push(plan);
            }
        }
    }

    /// The plan for instances without a feasible host.
    fn nowhere(
        &self,
        context: &PlanContext<'_>,
        attempt: &Attempt,
        instances: Vec<Uuid>,
    ) -> PlacementPlan {
        let fault = PlanFault::no_host(&attempt.placing, &instances);
        match fault.filter(|_| !self.hosts_may_come(context.scheduler, context.control)) {
            Some(fault) => failed(attempt, instances, fault),
            None => PlacementPlan::Nothing {
                ids: attempt.ids_of(instances),
            },
        }
    }

    fn hosts_may_come(&self, scheduler: &Scheduler, control: &ControlState) -> bool {
        self.started.elapsed() < START_GRACE
            && scheduler.hosts().slots().len() < control.conductor.hosts().len()
    }
}

/// The plan for instances that cannot be placed.
pub(crate) fn failed(attempt: &Attempt, instances: Vec<Uuid>, fault: PlanFault) -> PlacementPlan {
    match attempt.migration {
        Some(migration) => PlacementPlan::FailMove { migration, fault },
        None => PlacementPlan::Bury {
            instances: instances.into_iter().map(InstanceId).collect(),
            fault,
        },
    }
}

/// The specification of an instance that waits for a host.
fn waits(control: &ControlState, instance: InstanceId) -> Option<&Spec> {
    let state = &control.conductor;
    let build = state.builds().get(&instance);
    build.filter(|build| build.stage == BuildStage::Waiting)?;
    state.specs().get(&instance)
}

/// The cells that get no new instances.
fn closed_cells(control: &ControlState) -> Vec<Uuid> {
    let cells = control.conductor.cells().iter();
    let closed = cells.filter(|(_, cell)| !cell.takes_instances());
    closed.map(|(CellId(cell), _)| *cell).collect()
}
