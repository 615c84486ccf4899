//! Plans for instances and moves that wait for a host: which commands to submit, from one look at
//! the scheduler and the state.

use std::sync::Arc;
use std::time::{Duration, Instant};

use placewright_conductor::control::Control;
use placewright_conductor::super_conductor::{BuildStage, MoveStage, Wish};
use placewright_conductor::{
    Amounts, Body, Candidate, CellId, Fault, HostId, InstanceId, MigrationId, MoveKind, Spec,
};
use placewright_placement::IntentCandidate;
use placewright_scheduler::amounts;
use placewright_scheduler::host_state::InstanceReport;
use placewright_scheduler::prepare::Prepared;
use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::select::{Scheduler, Scope};
use uuid::Uuid;

use crate::body::Bodies;
use crate::conductor::now;
use crate::options::Options;
use crate::scheduler::{Moment, Ranker, cause_of};

/// How many hosts are ranked for an instance in the first round; each further round ranks twice as
/// many.
const HOSTS_FIRST: usize = 12;
/// How many of these may be selected; the others serve as alternates.
const SELECTED_OF: usize = 4;
/// The most candidates on each host.
const WAYS: usize = 3;
/// After so many rounds lost to concurrent claims, a request fails.
pub(crate) const ROUNDS: u32 = 5;
/// The time for which the scheduler and the state are held, approximately.
const TURN: Duration = Duration::from_millis(2);
/// The time after a start in which hosts may still be connecting: no request fails for lack of
/// hosts until it is over.
const START_GRACE: Duration = Duration::from_secs(15);

/// Instances or a move that wait for a host.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) what: What,
    /// The number of rounds so far.
    pub(crate) round: u32,
    /// The slots of hosts on which the claim was refused.
    pub(crate) without: Vec<u32>,
    /// Why the last claim was refused, as JSON; empty if that is not known.
    pub(crate) cause: String,
}

/// The instances or the move of a job.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// Instances of one reservation, which are placed together.
    Builds(Vec<InstanceId>),
    /// A move that needs a target host.
    Move(MigrationId),
}

/// A command to submit for a job.
#[derive(Debug)]
pub(crate) enum Plan {
    /// Claim hosts for builds.
    Place {
        wishes: Vec<Wish>,
        least: usize,
        job: Job,
        expected: Vec<Expected>,
    },
    /// Claim a host for a move.
    PlaceMove {
        migration: MigrationId,
        candidates: Vec<Candidate>,
        job: Job,
        expected: Expected,
    },
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

impl Plan {
    /// The number of claims in the command.
    pub(crate) fn claims(&self) -> usize {
        match self {
            Self::Place { wishes, .. } => wishes.len(),
            _ => 1,
        }
    }
}

/// Why there is no host.
#[derive(Debug)]
pub(crate) enum PlanFault {
    Known(Fault),
    /// No host is feasible. The explanation is made later, when the scheduler is not locked any
    /// more.
    NoHost {
        request: Arc<RequestSpec>,
        prepared: Arc<Prepared>,
        instance: InstanceId,
    },
}

impl PlanFault {
    /// Makes the fault of a plan that was made at `since`. The scheduler must not be locked.
    pub(crate) fn explained(self, ranker: &Ranker, since: Moment) -> Fault {
        let (request, prepared, instance) = match self {
            Self::Known(fault) => return fault,
            Self::NoHost {
                request,
                prepared,
                instance,
            } => (request, prepared, instance),
        };
        let explained = ranker.explain(&request, &prepared, instance.0, since);
        Fault {
            code: 500,
            message: format!("No valid host was found. {}.", explained.sentence),
            details: explained.json,
            at: now(),
        }
    }
}

/// An instance that the scheduler counts on its most likely host until its claim is decided.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) host: Uuid,
    pub(crate) slot: u32,
    pub(crate) report: InstanceReport,
    /// The slots of all hosts among the candidates.
    pub(crate) tried: Vec<u32>,
}

/// Makes plans for jobs from the scheduler's ranking.
pub(crate) struct Planner {
    bodies: Bodies,
    options: Options,
    started: Instant,
    /// The cells that are not heard from at present: they are avoided if there are hosts elsewhere.
    pub(crate) unheard: Vec<CellId>,
}

/// The candidates for one instance, and the host on which it is counted.
struct Found {
    candidates: Vec<Candidate>,
    expected: Expected,
}

/// The results for several instances; `without` are those without a host.
#[derive(Default)]
struct Looked {
    wishes: Vec<Wish>,
    expected: Vec<Expected>,
    without: Vec<InstanceId>,
}

/// A job, or the rest of one, that is to be planned.
pub(crate) enum Work {
    /// A job that has not begun.
    Job(Job),
    /// Builds of which some are still to be ranked.
    Builds(Box<Builds>),
}

/// The builds of a job while hosts are selected for them.
pub(crate) struct Builds {
    job: Job,
    /// Those that waited for a host when the job began.
    instances: Vec<InstanceId>,
    /// The index of the next instance to rank.
    next: usize,
    /// How many of them were deleted since.
    gone: usize,
    /// How many must find a host.
    least: usize,
    /// The specification's body of the first instance, and most often of all.
    body: Body,
    ready: Ready,
    looked: Looked,
}

/// The time slice for which the scheduler and the state may be locked: a request may be for a
/// thousand hosts, and other requests are to be decided in between.
pub(crate) struct Turn(Instant);

impl Turn {
    pub(crate) fn begin() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.elapsed() >= TURN
    }
}

/// A request, with its prepared form.
pub(crate) struct Ready {
    request: Arc<RequestSpec>,
    pub(crate) prepared: Arc<Prepared>,
}

/// Restrictions of a search: the instance's group, the one cell allowed, and the cells and hosts
/// that are excluded.
struct Where<'a> {
    instance: InstanceId,
    group: Option<Uuid>,
    cell: Option<Uuid>,
    without_cells: &'a [Uuid],
    without: &'a [u32],
    round: u32,
}

impl Planner {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            bodies: Bodies::default(),
            options,
            started: Instant::now(),
            unheard: Vec::new(),
        }
    }

    /// Continues work until it is complete or the time slice is over, and returns what is left of
    /// it.
    pub(crate) fn plan(
        &mut self,
        scheduler: &mut Scheduler,
        control: &Control,
        work: Work,
        turn: &Turn,
        plans: &mut Vec<Plan>,
    ) -> Option<Work> {
        let mut builds = match work {
            Work::Builds(builds) => builds,
            Work::Job(job) => match job.what {
                What::Builds(_) => self.begin(scheduler, control, job, plans)?,
                What::Move(migration) => {
                    plans.push(self.a_move(scheduler, control, migration, job));
                    return None;
                }
            },
        };
        self.look(scheduler, control, &mut builds, turn, plans);
        if builds.next < builds.instances.len() {
            return Some(Work::Builds(builds));
        }
        self.end(scheduler, control, *builds, plans);
        None
    }

    /// Begins with the instances of a job that still wait for a host.
    fn begin(
        &mut self,
        scheduler: &mut Scheduler,
        control: &Control,
        job: Job,
        plans: &mut Vec<Plan>,
    ) -> Option<Box<Builds>> {
        let What::Builds(instances) = &job.what else {
            return None;
        };
        let (waiting, done) = waiting(control, instances);
        if !done.is_empty() {
            plans.push(Plan::Nothing { ids: done });
        }
        let (_, spec) = waiting.first().copied()?;
        let instances: Vec<InstanceId> = waiting.iter().map(|(instance, _)| *instance).collect();
        match self.ready(scheduler, control, spec) {
            Ok((ready, min_count)) => Some(Box::new(Builds {
                least: min_count.unwrap_or(instances.len()),
                body: spec.body.clone(),
                ready,
                instances,
                next: 0,
                gone: 0,
                looked: Looked::default(),
                job,
            })),
            Err(fault) => {
                let fault = PlanFault::Known(fault);
                plans.push(Plan::Bury { instances, fault });
                None
            }
        }
    }

    /// The plans for a job whose instances are all ranked.
    fn end(
        &self,
        scheduler: &mut Scheduler,
        control: &Control,
        builds: Builds,
        plans: &mut Vec<Plan>,
    ) {
        let Builds {
            job,
            instances,
            ready,
            looked,
            ..
        } = builds;
        let rest = instances.len().saturating_sub(builds.gone);
        let Some(first) = instances.first().copied().filter(|_| rest > 0) else {
            return;
        };
        let least = builds.least.clamp(1, rest);
        if looked.wishes.len() < least {
            for one in &looked.expected {
                forget(scheduler, control, one);
            }
            // Instances that were deleted meanwhile are skipped when the command is decided.
            plans.push(self.nowhere(scheduler, control, &ready, first, instances));
            return;
        }
        if let Some(instance) = looked.without.first().copied() {
            plans.push(self.nowhere(scheduler, control, &ready, instance, looked.without));
        }
        plans.push(Plan::Place {
            wishes: looked.wishes,
            least,
            job,
            expected: looked.expected,
        });
    }

    /// Ranks hosts for one instance after the other, until the time slice is over. Most instances
    /// of a job have the same body.
    fn look(
        &mut self,
        scheduler: &mut Scheduler,
        control: &Control,
        builds: &mut Builds,
        turn: &Turn,
        plans: &mut Vec<Plan>,
    ) {
        let closed = closed_cells(control);
        let mut avoided = closed.clone();
        avoided.extend(self.unheard.iter().map(|CellId(cell)| *cell));
        while let Some(instance) = builds.instances.get(builds.next).copied() {
            builds.next += 1;
            let (waits, _) = waiting(control, &[instance]);
            let Some((_, spec)) = waits.first().copied() else {
                // It was deleted since the last time slice.
                builds.gone += 1;
                let ids = vec![instance.0];
                plans.push(Plan::Nothing { ids });
                continue;
            };
            // Instances of one request need the same kind of host.
            let is_same = builds.body.is_of_one_making(&spec.body) || builds.body == spec.body;
            let other = if is_same {
                None
            } else {
                match self.ready(scheduler, control, spec) {
                    Ok((other, _)) => Some(other),
                    Err(fault) => {
                        let instances = vec![instance];
                        let fault = PlanFault::Known(fault);
                        plans.push(Plan::Bury { instances, fault });
                        continue;
                    }
                }
            };
            let place = Where {
                instance,
                group: spec.group,
                cell: None,
                without_cells: &avoided,
                without: &builds.job.without,
                round: builds.job.round,
            };
            let ready = other.as_ref().unwrap_or(&builds.ready);
            let mut found = self.find(scheduler, control, ready, &place);
            if found.is_none() && avoided.len() > closed.len() {
                let everywhere = Where {
                    without_cells: &closed,
                    ..place
                };
                found = self.find(scheduler, control, ready, &everywhere);
            }
            match found {
                Some(found) => {
                    builds.looked.wishes.push(Wish {
                        instance,
                        candidates: found.candidates,
                        alternates: self.options.alternates,
                    });
                    builds.looked.expected.push(found.expected);
                }
                None => builds.looked.without.push(instance),
            }
            if turn.is_over() {
                return;
            }
        }
    }

    /// The plan for instances without a feasible host.
    fn nowhere(
        &self,
        scheduler: &Scheduler,
        control: &Control,
        ready: &Ready,
        instance: InstanceId,
        instances: Vec<InstanceId>,
    ) -> Plan {
        if self.hosts_may_come(scheduler, control) {
            let ids = instances.iter().map(|instance| instance.0).collect();
            return Plan::Nothing { ids };
        }
        Plan::Bury {
            fault: no_host(ready, instance),
            instances,
        }
    }

    fn hosts_may_come(&self, scheduler: &Scheduler, control: &Control) -> bool {
        self.started.elapsed() < START_GRACE
            && scheduler.hosts().known().len() < control.conductor.hosts().len()
    }

    fn a_move(
        &mut self,
        scheduler: &mut Scheduler,
        control: &Control,
        migration: MigrationId,
        job: Job,
    ) -> Plan {
        let state = &control.conductor;
        let nothing = || Plan::Nothing {
            ids: vec![migration.0],
        };
        let row = state.moves().get(&migration);
        let Some(row) = row.filter(|row| row.stage == MoveStage::Reserved) else {
            return nothing();
        };
        let spec = row.spec.as_ref().or(state.specs().get(&row.instance));
        let mapping = state.mappings().get(&row.instance);
        let (Some(spec), Some(cell)) = (spec, mapping.and_then(|mapping| mapping.cell)) else {
            return nothing();
        };
        let read = self.bodies.read(&spec.body);
        let ready = read.map_err(|error| unreadable(&error)).and_then(|read| {
            let mut request = (*read.request).clone();
            if row.spec.is_none() {
                // A host that was requested at creation is not one where the instance has to stay.
                request.force_hosts.clear();
                request.force_nodes.clear();
                request.requested_destination = None;
            }
            make_ready(scheduler, control, Arc::new(request))
        });
        let ready = match ready {
            Ok(ready) => ready,
            Err(fault) => {
                let fault = PlanFault::Known(fault);
                return Plan::FailMove { migration, fault };
            }
        };
        let mut without = job.without.clone();
        let may_stay = match row.kind {
            MoveKind::Unshelve => true,
            MoveKind::Resize => self.options.resize_to_same_host,
            MoveKind::ColdMigrate | MoveKind::LiveMigrate | MoveKind::Evacuate => false,
        };
        let source = state.migrations().get(&migration);
        if let Some(source) = source.and_then(|record| record.source)
            && let Some((slot, _)) = scheduler.hosts().by_uuid(source.0)
            && !may_stay
        {
            without.push(slot);
        }
        let place = Where {
            instance: row.instance,
            group: spec.group,
            cell: Some(cell.0),
            without_cells: &[],
            without: &without,
            round: job.round,
        };
        match self.find(scheduler, control, &ready, &place) {
            Some(found) => Plan::PlaceMove {
                migration,
                candidates: found.candidates,
                job,
                expected: found.expected,
            },
            None if self.hosts_may_come(scheduler, control) => nothing(),
            None => Plan::FailMove {
                migration,
                fault: no_host(&ready, row.instance),
            },
        }
    }

    fn ready(
        &mut self,
        scheduler: &mut Scheduler,
        control: &Control,
        spec: &Spec,
    ) -> Result<(Ready, Option<usize>), Fault> {
        let read = self.bodies.read(&spec.body);
        let read = read.map_err(|error| unreadable(&error))?;
        let ready = make_ready(scheduler, control, read.request)?;
        Ok((ready, read.min_count))
    }

    /// Candidates for one instance, in the order in which a claim tries them; later ones also serve
    /// as alternates. The first is counted as taken, so that the next instance's ranking sees it.
    fn find(
        &self,
        scheduler: &mut Scheduler,
        control: &Control,
        ready: &Ready,
        place: &Where<'_>,
    ) -> Option<Found> {
        let state = &control.placement;
        // Applies what earlier instances were counted for.
        scheduler.observe(state, now());
        let mut scope = Scope {
            instance: place.instance.0,
            count: HOSTS_FIRST << place.round,
            cell: place.cell,
            without_cells: place.without_cells.to_vec(),
            without: place.without.to_vec(),
        };
        // A request that is not valid finds nothing; the explanation says why.
        let ranked = scheduler.rank(state, &ready.request, &ready.prepared, &scope);
        let mut slots: Vec<u32> = ranked.ok()?.iter().map(|one| one.slot).collect();
        let first = *slots.first()?;
        let cell = scheduler.hosts().get(first)?.names.cell;
        let of_cell = |slots: &[u32]| {
            let cell_of = |slot: &&u32| {
                let host = scheduler.hosts().get(**slot);
                host.is_some_and(|host| host.names.cell == cell)
            };
            slots.iter().filter(cell_of).count()
        };
        let wanted = self.options.alternates.saturating_add(1);
        if of_cell(&slots) < wanted && slots.len() >= HOSTS_FIRST << place.round {
            scope.cell = Some(cell);
            scope.count = wanted;
            scope.without.extend(&slots);
            let more = scheduler.rank(state, &ready.request, &ready.prepared, &scope);
            slots.extend(more.iter().flatten().map(|one| one.slot));
        }
        let chosen = choose(scheduler, &slots, cell, wanted);
        let (mut firsts, mut others) = (Vec::new(), Vec::new());
        for slot in &chosen {
            let found = scheduler.candidates(state, &ready.prepared, *slot, WAYS);
            let zone = scheduler.hosts().aggregates().zone(*slot);
            let mut ways = found.ok()?.into_iter().map(|one| candidate(zone, one));
            firsts.extend(ways.next());
            others.extend(ways);
        }
        // Another host comes before another candidate on the same one.
        firsts.append(&mut others);
        let candidates = firsts;
        let first = candidates.first()?;
        let (slot, _) = scheduler.hosts().by_uuid(first.host.0)?;
        let expected = Expected {
            host: first.host.0,
            slot,
            report: report(place, &ready.request),
            tried: chosen,
        };
        expect(scheduler, &expected, first);
        Some(Found {
            candidates,
            expected,
        })
    }
}

/// Splits instances into those that wait for a host, and the others.
fn waiting<'a>(
    control: &'a Control,
    instances: &[InstanceId],
) -> (Vec<(InstanceId, &'a Spec)>, Vec<Uuid>) {
    let state = &control.conductor;
    let mut waiting = Vec::with_capacity(instances.len());
    let mut done = Vec::new();
    for instance in instances {
        let build = state.builds().get(instance);
        let waits = build.is_some_and(|build| build.stage == BuildStage::Waiting);
        match state.specs().get(instance).filter(|_| waits) {
            Some(spec) => waiting.push((*instance, spec)),
            None => done.push(instance.0),
        }
    }
    (waiting, done)
}

/// The hosts whose candidates are passed on: the best, and the best of the first one's cell.
fn choose(scheduler: &Scheduler, slots: &[u32], cell: Uuid, wanted: usize) -> Vec<u32> {
    let mut of_cell = 0;
    let mut chosen = Vec::with_capacity(SELECTED_OF + wanted);
    for (place, slot) in slots.iter().enumerate() {
        let host = scheduler.hosts().get(*slot);
        let is_of_cell = host.is_some_and(|host| host.names.cell == cell);
        if place < SELECTED_OF || (is_of_cell && of_cell < wanted) {
            chosen.push(*slot);
            of_cell += usize::from(is_of_cell);
        }
    }
    chosen
}

pub(crate) fn make_ready(
    scheduler: &mut Scheduler,
    control: &Control,
    request: Arc<RequestSpec>,
) -> Result<Ready, Fault> {
    match scheduler.prepare_once(&control.placement, &request) {
        Ok(prepared) => Ok(Ready { request, prepared }),
        Err(refusal) => Err(Fault {
            code: 500,
            message: format!("No valid host was found. {refusal}."),
            details: cause_of(&refusal),
            at: now(),
        }),
    }
}

fn unreadable(error: &placewright_scheduler::request::Unreadable) -> Fault {
    Fault {
        code: 500,
        message: format!("The request cannot be read: {error}."),
        details: String::new(),
        at: now(),
    }
}

fn no_host(ready: &Ready, instance: InstanceId) -> PlanFault {
    PlanFault::NoHost {
        request: Arc::clone(&ready.request),
        prepared: Arc::clone(&ready.prepared),
        instance,
    }
}

/// The cells that get no new instances.
fn closed_cells(control: &Control) -> Vec<Uuid> {
    let cells = control.conductor.cells().iter();
    let closed = cells.filter(|(_, cell)| !cell.takes_instances());
    closed.map(|(CellId(cell), _)| *cell).collect()
}

pub(crate) fn candidate(zone: Option<&str>, found: IntentCandidate) -> Candidate {
    let amounts = found.allocations.into_iter().map(|one| Amounts {
        provider: one.provider,
        resources: one.resources,
    });
    Candidate {
        host: HostId(found.host),
        zone: zone.map(str::to_owned),
        amounts: amounts.collect(),
    }
}

fn report(place: &Where<'_>, request: &RequestSpec) -> InstanceReport {
    let image = request.image.as_ref();
    let properties = image.into_iter().flat_map(|image| image.properties.iter());
    InstanceReport {
        uuid: place.instance.0,
        group: place.group,
        image_properties: properties
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
    }
}

/// Counts an instance and its resources on its expected host, until placement has decided the
/// claim.
fn expect(scheduler: &mut Scheduler, expected: &Expected, first: &Candidate) {
    let hosts = scheduler.hosts_mut();
    let mut amounts = hosts.amounts(expected.slot);
    for (class, amount) in first.amounts.iter().flat_map(|one| &one.resources) {
        match class.as_str() {
            "VCPU" | "PCPU" => amounts.vcpus_used += amount,
            "MEMORY_MB" => amounts.ram_free_mb -= amount,
            "DISK_GB" => {
                amounts.disk_free_mb -= amount * 1024;
                amounts.disk_used_mb += amount * 1024;
            }
            _ => {}
        }
    }
    hosts.set_amounts(expected.slot, amounts);
    hosts.add_pending_instance(expected.slot, &expected.report);
}

/// Takes back what [`expect`] counted.
pub(crate) fn forget(scheduler: &mut Scheduler, control: &Control, expected: &Expected) {
    let root = placewright_placement::ProviderId(expected.slot);
    let amounts = amounts::Amounts::read(&control.placement, root);
    let hosts = scheduler.hosts_mut();
    if hosts.get(expected.slot).is_some() {
        hosts.set_amounts(expected.slot, amounts);
        hosts.remove_pending_instance(expected.slot, expected.report.uuid);
    }
}

#[cfg(test)]
mod tests {
    use placewright_scheduler::config::SchedulerConfig;
    use placewright_scheduler::prefilter::PrefilterOptions;
    use placewright_scheduler::prepare::PrepareOptions;

    use super::*;

    #[test]
    fn the_fault_of_a_tenant_without_an_aggregate_says_whose() {
        let options = PrepareOptions {
            prefilter: PrefilterOptions {
                limit_tenants_to_placement_aggregate: true,
                placement_aggregate_required_for_tenants: true,
                ..PrefilterOptions::default()
            },
            ..PrepareOptions::default()
        };
        let mut scheduler = Scheduler::new(SchedulerConfig::default(), options).unwrap();
        let request: RequestSpec =
            serde_json::from_str(r#"{"flavor": {"vcpus": 1, "memory_mb": 1}, "project_id": "p"}"#)
                .unwrap();
        let fault = make_ready(&mut scheduler, &Control::default(), Arc::new(request)).err();
        let fault = fault.expect("the tenant has no aggregate");
        assert_eq!(
            fault.details,
            r#"{"reason":"tenant_aggregate","project":"p"}"#
        );
        assert!(fault.message.contains("no hosts available for tenant"));
    }
}
