//! Plans for instances and moves that wait for a host: which commands to submit, given the
//! scheduler and the state. The [placer](crate::placer) selects the hosts.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::placer::{
    Contention, Demand, Placing, SearchContext, SearchRefusal, SearchResults, TimeSlice,
    apply_corrections,
};
use placewright_conductor::control::ControlState;
use placewright_conductor::super_conductor::BuildStage;
use placewright_conductor::{CellId, InstanceId, MigrationId, Spec};
use placewright_scheduler::select::Scheduler;
use uuid::Uuid;

use crate::body::BodyCache;
use crate::options::Options;
use crate::placement_span::PlacementSpan;

mod fault;
mod moves;

pub(crate) use fault::{PlanFault, fault_of_prepare_refusal, lost_to_other_claims};

/// The time after a start in which hosts may still be connecting: no request fails for lack of
/// hosts until it is over.
const START_GRACE: Duration = Duration::from_secs(15);

/// Work for the planner.
#[derive(Debug)]
pub(crate) enum PlanningWork {
    /// Instances of one reservation (all of one `POST /servers`, as Nova's `reservation_id` has them) that wait for a
    /// host; they are placed together.
    Builds(Vec<InstanceId>),
    /// A move that waits for a target host.
    Move(MigrationId),
    /// A placement that earlier time slices or rounds began.
    Ongoing(Box<OngoingPlacement>),
}

/// The placement of instances, or of a move, while it is under way.
#[derive(Debug)]
pub(crate) struct OngoingPlacement {
    pub(crate) placing: Placing,
    /// The move that needs the host; `None` for builds.
    pub(crate) migration: Option<MigrationId>,
    /// The instances of the same reservation that are placed after these.
    pub(crate) later: Vec<InstanceId>,
    /// The project of the instances.
    pub(crate) project: String,
    /// The span of what is done now, for traces.
    pub(crate) span: PlacementSpan,
}

/// A command to submit.
#[derive(Debug)]
pub(crate) enum PlacementPlan {
    /// Claim the hosts that were found.
    Claim(Box<OngoingPlacement>),
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
    /// Submit nothing. These instances and moves are no longer being placed, and those that still wait may
    /// be queued again.
    Nothing { ids: Vec<Uuid> },
}

impl PlacementPlan {
    /// The number of claims in the command; a command that claims nothing counts as one.
    pub(crate) fn claim_count(&self) -> usize {
        match self {
            Self::Claim(ongoing) => ongoing.placing.waiting().len(),
            _ => 1,
        }
    }
}

impl OngoingPlacement {
    /// The ids by which the queue knows these instances: their own, or that of their move.
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
    started_at: Instant,
    /// The cells that are silent at present: they are avoided if there are hosts elsewhere.
    pub(crate) silent_cells: Vec<CellId>,
    scheduler_number: usize,
}

/// The inputs of planning, and the plans made so far.
pub(crate) struct PlanContext<'a> {
    /// The project whose work is planned.
    pub(crate) project: &'a str,
    /// The most instances of one request that are placed by one command, if the request can be divided.
    pub(crate) part_max: usize,
    pub(crate) scheduler: &'a mut Scheduler,
    pub(crate) control: &'a ControlState,
    /// The last journal entry in `control`.
    pub(crate) sequence: u64,
    /// An estimate of how many hosts a claim should name.
    pub(crate) contention: Contention,
    pub(crate) slice: &'a TimeSlice,
    pub(crate) plans: &'a mut Vec<PlacementPlan>,
    /// The work that remains for a later time slice.
    pub(crate) remaining: &'a mut VecDeque<PlanningWork>,
}

impl PlanContext<'_> {
    /// Leaves instances for a later time slice.
    fn queue_builds(&mut self, instances: Vec<InstanceId>) {
        if !instances.is_empty() {
            self.remaining.push_back(PlanningWork::Builds(instances));
        }
    }
}

impl Planner {
    /// `scheduler_number` is the number of this scheduler among those that race for the same hosts.
    pub(crate) fn new(options: Options, scheduler_number: usize) -> Self {
        Self {
            bodies: BodyCache::default(),
            options,
            scheduler_number,
            started_at: Instant::now(),
            silent_cells: Vec::new(),
        }
    }

    /// Continues work until it is complete or the time slice is over.
    pub(crate) fn plan(&mut self, context: &mut PlanContext<'_>, work: PlanningWork) {
        let ongoing = match work {
            PlanningWork::Ongoing(ongoing) => Some(ongoing),
            PlanningWork::Builds(instances) => self.begin_part(context, &instances),
            PlanningWork::Move(migration) => match self.begin_move(context, migration) {
                Ok(ongoing) => Some(ongoing),
                Err(plan) => {
                    context.plans.push(plan);
                    None
                }
            },
        };
        if let Some(ongoing) = ongoing {
            self.find_hosts(context, ongoing);
        }
    }

    /// Begins the placement of the instances of a reservation, or of a part of them. The other ones follow when hosts
    /// are found for this part, so that the parts of one reservation do not compete.
    fn begin_part(
        &mut self,
        context: &mut PlanContext<'_>,
        instances: &[InstanceId],
    ) -> Option<Box<OngoingPlacement>> {
        let (part, later) = self.split_off_part(context, instances);
        let mut ongoing = self.begin_builds(context, part);
        match &mut ongoing {
            Some(ongoing) => ongoing.later = later.to_vec(),
            None => context.queue_builds(later.to_vec()),
        }
        ongoing
    }

    /// Begins the placement of those instances of a reservation that still wait for a host.
    fn begin_builds(
        &mut self,
        context: &mut PlanContext<'_>,
        instances: &[InstanceId],
    ) -> Option<Box<OngoingPlacement>> {
        let mut waiting = Vec::with_capacity(instances.len());
        let mut not_waiting = Vec::new();
        for instance in instances {
            match waiting_spec(context.control, *instance) {
                Some(spec) => waiting.push((*instance, spec)),
                None => not_waiting.push(instance.0),
            }
        }
        if !not_waiting.is_empty() {
            context
                .plans
                .push(PlacementPlan::Nothing { ids: not_waiting });
        }
        let (_, first) = waiting.first().copied()?;
        let body = match self.bodies.read(&first.body) {
            Ok(body) => body,
            Err(error) => {
                let instances = waiting.iter().map(|(instance, _)| *instance).collect();
                let fault = PlanFault::unreadable(&error);
                context.plans.push(PlacementPlan::Bury { instances, fault });
                return None;
            }
        };
        // Instances of one request need the same kind of host; other instances are placed separately.
        let (same, others): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|(_, spec)| {
            spec.group == first.group
                && (spec.body.shares_prefix(&first.body) || self.has_request(&body.request, spec))
        });
        let others = others.into_iter().map(|(instance, _)| instance);
        context.queue_builds(others.collect());
        let instances: Vec<Uuid> = same.iter().map(|(instance, _)| instance.0).collect();
        let count = instances.len();
        let least = body.min_count.unwrap_or(count).clamp(1, count);
        Some(Box::new(OngoingPlacement {
            span: PlacementSpan::begin_ranking(&first.body, instances.len()),
            placing: Placing::new(Demand {
                least,
                group: first.group,
                alternate_count: self.options.alternates,
                ..Demand::new(body.request, instances)
            }),
            migration: None,
            later: Vec::new(),
            project: context.project.to_owned(),
        }))
    }

    /// Parts the instances of a reservation into those that the next command places, and those that a later one places.
    /// The second part is empty if the first instance's request has to be placed as a whole, or is small enough.
    fn split_off_part<'a>(
        &mut self,
        context: &PlanContext<'_>,
        instances: &'a [InstanceId],
    ) -> (&'a [InstanceId], &'a [InstanceId]) {
        if instances.len() <= context.part_max {
            return (instances, &[]);
        }
        let mut specs = instances
            .iter()
            .filter_map(|instance| waiting_spec(context.control, *instance));
        let is_divisible = specs.next().is_some_and(|first| {
            first.group.is_none()
                && first.rules.is_empty()
                && self
                    .bodies
                    .read(&first.body)
                    .is_ok_and(|body| body.min_count == Some(1))
        });
        match is_divisible {
            true => instances.split_at(context.part_max),
            false => (instances, &[]),
        }
    }

    /// Whether a spec has this request.
    fn has_request(
        &mut self,
        request: &Arc<placewright_scheduler::request::RequestSpec>,
        spec: &Spec,
    ) -> bool {
        let body = self.bodies.read(&spec.body);
        body.is_ok_and(|body| Arc::ptr_eq(&body.request, request) || body.request == *request)
    }

    /// Searches for hosts until all are found or the time slice is over, and adds the plans that follow from that.
    fn find_hosts(&self, context: &mut PlanContext<'_>, mut ongoing: Box<OngoingPlacement>) {
        let control = context.control;
        let state = &control.placement;
        let migration = ongoing.migration;
        let still_waits = |instance| match migration {
            Some(migration) => moves::waits(control, migration),
            None => waiting_spec(control, InstanceId(instance)).is_some(),
        };
        let gone = ongoing
            .placing
            .remove_not_waiting(context.scheduler, state, still_waits);
        if !gone.is_empty() {
            let ids = ongoing.ids_of(gone);
            context.plans.push(PlacementPlan::Nothing { ids });
        }
        let (mut closed, mut avoided) = (Vec::new(), Vec::new());
        // A move stays in its cell.
        if migration.is_none() {
            closed = closed_cells(control);
            closed.extend(left_cell(control, &ongoing.placing.unclaimed()));
            avoided = self.silent_cells.iter().map(|CellId(cell)| *cell).collect();
        }
        let mut search = SearchContext {
            scheduler: &mut *context.scheduler,
            state,
            contention: context.contention,
            scheduler_number: self.scheduler_number,
            excluded_cells: &closed,
            avoided_cells: &avoided,
            // The record of the ranking, which is kept with each claim, names the entry that the state was read at.
            ranking_record_sequence: Some(context.sequence),
        };
        let later = std::mem::take(&mut ongoing.later);
        match ongoing.placing.find_hosts(&mut search, context.slice) {
            Ok(SearchResults::Unfinished) => {
                ongoing.later = later;
                context.remaining.push_back(PlanningWork::Ongoing(ongoing));
                return;
            }
            Ok(results @ (SearchResults::Ready | SearchResults::NothingToClaim)) => {
                let without_host = ongoing.placing.remove_without_host();
                if !without_host.is_empty() {
                    let plan = self.no_host_plan(context, &ongoing, without_host);
                    context.plans.push(plan);
                }
                if results == SearchResults::Ready {
                    context.plans.push(PlacementPlan::Claim(ongoing));
                }
            }
            Ok(SearchResults::NoHost { .. }) => {
                ongoing.span.fail("no host is feasible");
                apply_corrections(context.scheduler, state, &ongoing.placing.discard_found());
                let plan = self.no_host_plan(context, &ongoing, ongoing.placing.unclaimed());
                context.plans.push(plan);
            }
            Err(SearchRefusal::Prepare(refusal)) => {
                ongoing.span.fail("the request cannot be translated");
                let fault = PlanFault::Known(fault_of_prepare_refusal(&refusal));
                let plan = failure_plan(&ongoing, ongoing.placing.unclaimed(), fault);
                context.plans.push(plan);
            }
            // A request that cannot be searched fails like a request without a feasible host.
            Err(SearchRefusal::Select(_)) => {
                ongoing.span.fail("the request cannot be searched");
                let plan = self.no_host_plan(context, &ongoing, ongoing.placing.unclaimed());
                context.plans.push(plan);
            }
        }
        context.queue_builds(later);
    }

    /// The plan for instances without a feasible host. Nothing fails while hosts may still connect after
    /// a start.
    fn no_host_plan(
        &self,
        context: &PlanContext<'_>,
        ongoing: &OngoingPlacement,
        instances: Vec<Uuid>,
    ) -> PlacementPlan {
        // `None` without an instance, or before the request was prepared: then nothing fails.
        let fault = PlanFault::no_host(&ongoing.placing, &instances);
        match fault.filter(|_| !self.may_hosts_still_connect(context.scheduler, context.control)) {
            Some(fault) => failure_plan(ongoing, instances, fault),
            None => PlacementPlan::Nothing {
                ids: ongoing.ids_of(instances),
            },
        }
    }

    /// Whether this process started so lately that hosts which are not in the host table may still connect.
    fn may_hosts_still_connect(&self, scheduler: &Scheduler, control: &ControlState) -> bool {
        self.started_at.elapsed() < START_GRACE
            && scheduler.hosts().slots().len() < control.conductor.hosts().len()
    }
}

/// The plan that fails instances, or a move, which cannot be placed.
pub(crate) fn failure_plan(
    ongoing: &OngoingPlacement,
    instances: Vec<Uuid>,
    fault: PlanFault,
) -> PlacementPlan {
    match ongoing.migration {
        Some(migration) => PlacementPlan::FailMove { migration, fault },
        None => PlacementPlan::Bury {
            instances: instances.into_iter().map(InstanceId).collect(),
            fault,
        },
    }
}

/// The specification of an instance that waits for a host.
fn waiting_spec(control: &ControlState, instance: InstanceId) -> Option<&Spec> {
    let state = &control.conductor;
    let build = state.builds().get(&instance);
    build.filter(|build| build.stage == BuildStage::Waiting)?;
    state.specs().get(&instance)
}

/// The cells that get no new instances.
fn closed_cells(control: &ControlState) -> Vec<Uuid> {
    let cells = control.conductor.cells().iter();
    let closed = cells.filter(|(_, cell)| !cell.accepts_instances());
    closed.map(|(CellId(cell), _)| *cell).collect()
}

/// The cell from which a single instance was taken, because its build failed on every host that the cell might try.
/// `None` for several instances: one that was taken from a cell is placed on its own.
fn left_cell(control: &ControlState, instances: &[Uuid]) -> Option<Uuid> {
    let [instance] = instances else { return None };
    let mapping = control.conductor.mappings().get(&InstanceId(*instance))?;
    Some(mapping.left_cell()?.cell.0)
}
