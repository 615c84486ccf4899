//! The scheduler for whoever places instances in the same process, without HTTP.

use std::sync::Arc;

use placewright_conductor::Control;
use placewright_engine::Engine;
use placewright_placement::State;
use placewright_scheduler::host_table::HostTable;
use placewright_scheduler::prepare::Prepared;
use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::select::Scheduler;
use uuid::Uuid;

use super::why::Why;
use super::{Core, SchedulerService, now};
use crate::machine::ControlMachine;

/// A handle on the scheduler of a [`SchedulerService`]. Clones are handles on the same one.
#[derive(Clone)]
pub struct Ranker {
    core: Arc<Core>,
}

/// Why a request found no host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// In one sentence, without a full stop.
    pub sentence: String,
    /// What each filter and each part of the request did, as JSON.
    pub json: String,
}

impl std::fmt::Debug for Ranker {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Ranker").finish_non_exhaustive()
    }
}

impl SchedulerService {
    /// Its scheduler.
    #[must_use]
    pub fn ranker(&self) -> Ranker {
        Ranker {
            core: Arc::clone(&self.core),
        }
    }
}

impl Ranker {
    /// The engine that the scheduler looks at.
    #[must_use]
    pub fn engine(&self) -> &Engine<ControlMachine> {
        &self.core.placement.engine
    }

    /// Computes something from the scheduler and the state, the scheduler up to date with it.
    ///
    /// The state may hold what is not durable yet: decisions are checked again when they become
    /// commands. Nothing else is ranked or decided meanwhile, so `compute` should take
    /// milliseconds at most.
    pub fn decide<T>(&self, compute: impl FnOnce(&mut Scheduler, &Control) -> T) -> T {
        let mut brain = self.core.brain.lock();
        self.engine().read_now(|machine| {
            let scheduler = &mut brain.scheduler;
            scheduler.observe(machine.placement(), now());
            compute(scheduler, &machine.0)
        })
    }

    /// Changes what is known of hosts.
    pub fn with_hosts<T>(&self, change: impl FnOnce(&mut HostTable) -> T) -> T {
        change(self.core.brain.lock().scheduler.hosts_mut())
    }
}

/// Says why a request finds no host, on the state as it is. Looks at every host: for requests that
/// found none.
#[must_use]
pub fn explain(
    scheduler: &Scheduler,
    state: &State,
    request: &RequestSpec,
    prepared: &Prepared,
    instance: Uuid,
) -> Explained {
    let room = Why::room(scheduler, state, prepared);
    let why = Why::find(scheduler, state, request, prepared, instance, room);
    Explained {
        sentence: why.sentence(),
        json: serde_json::to_string(&why).unwrap_or_default(),
    }
}
