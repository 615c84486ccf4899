//! Passes the aggregates and services that operators configure to the scheduler.

use placewright_conductor::super_conductor::{Change, State};
use placewright_scheduler::aggregate::Aggregate;

use crate::handle::now;
use crate::runtime_context::RuntimeContext;

/// All aggregates and services as changes. They are copies, so that the state is not locked while they
/// are passed on.
fn all_as_changes(state: &State) -> Vec<Change> {
    let aggregates = state.aggregates().iter();
    let aggregates =
        aggregates.map(|(uuid, row)| Change::Aggregate(*uuid, Some(Box::new(row.clone()))));
    let services = state.services().iter();
    let services = services.map(|(host, row)| Change::Service(*host, Some(Box::new(row.clone()))));
    aggregates.chain(services).collect()
}

/// Whether the scheduler needs to know a change.
pub(crate) fn concerns_scheduler(change: &Change) -> bool {
    matches!(change, Change::Aggregate(..) | Change::Service(..))
}

/// Passes changes on to the scheduler.
pub(crate) fn apply_to_scheduler<'a>(
    changes: impl IntoIterator<Item = &'a Change>,
    context: &RuntimeContext,
) {
    let at = now();
    let mut availability_reports = context.availability_reports.lock();
    context.scheduler.change_hosts(|hosts| {
        for change in changes {
            match change {
                Change::Aggregate(uuid, Some(row)) => {
                    let aggregate = Aggregate {
                        name: row.name.clone(),
                        metadata: row.metadata.clone(),
                    };
                    hosts.aggregates_mut().put([(*uuid, aggregate)]);
                }
                Change::Aggregate(uuid, None) => hosts.aggregates_mut().remove(*uuid),
                Change::Service(host, service) => {
                    availability_reports.set_service(hosts, *host, service.as_deref(), at);
                }
                _ => {}
            }
        }
    });
}

/// Passes all aggregates and services to the scheduler.
///
/// The lock of the scheduler is taken before that of the state, never the other way round. So the state is
/// read, and unlocked, before anything is passed on.
pub(crate) fn apply_all_to_scheduler(context: &RuntimeContext) {
    let engine = context.control.engine();
    let changes = engine.read_now(|machine| all_as_changes(&machine.state.conductor));
    apply_to_scheduler(&changes, context);
}
