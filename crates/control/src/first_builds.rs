//! Records that the first build of an instance is over. Until then, control may take the instance to another cell if no
//! host of its own cell can build it (`control.reschedule_across_cells`), and keeps the secrets that a build needs.

use std::time::Duration;

use placewright_conductor::cell_conductor::VmState;
use placewright_conductor::super_conductor::{Command, Reschedule};
use placewright_conductor::{CellId, InstanceId};
use placewright_engine::SubmitError;
use placewright_link::{CellEvent, InstanceView};

use crate::handle::ControlHandle;
use crate::leading::Leading;

/// How many instances are looked up and recorded at once, so that other commands do not wait long meanwhile.
const AT_ONCE: usize = 1_000;
/// The wait before commands are submitted again that the store did not accept.
const RETRY_WAIT: Duration = Duration::from_secs(2);

/// Records the end of the first builds that these events of a cell show to be over. Their instances stay in the cell,
/// and the secrets for the builds are dropped.
pub(crate) async fn end(
    control: &ControlHandle,
    leading: &Leading,
    cell: CellId,
    batch: &[CellEvent],
) {
    let reported = |event: &CellEvent| match event {
        CellEvent::Instance {
            instance,
            view: Some(view),
        } if is_over(view) => Some(*instance),
        _ => None,
    };
    let reported: Vec<InstanceId> = batch.iter().filter_map(reported).collect();
    submit(control, leading, cell, &reported).await;
}

/// As [`end`], for all instances that a cell has reported so far. Called when this process begins to lead, also with
/// `control.reschedule_across_cells` off: builds may have been placed while this option was on.
pub(crate) async fn end_all(control: &ControlHandle, leading: &Leading, cell: CellId) {
    let reported: Vec<InstanceId> = {
        let views = control.shared.views.read();
        let instances = views.cells.get(&cell).map(|view| view.instances.iter());
        let over = instances
            .into_iter()
            .flatten()
            .filter(|(_, view)| is_over(view));
        over.map(|(instance, _)| *instance).collect()
    };
    submit(control, leading, cell, &reported).await;
}

fn is_over(view: &InstanceView) -> bool {
    view.vm_state != VmState::Building
}

/// Submits the commands until the store has accepted them, because the cell may not report the instances again for a
/// long time. Gives up when control shuts down, or another replica leads.
async fn submit(control: &ControlHandle, leading: &Leading, cell: CellId, reported: &[InstanceId]) {
    for instances in reported.chunks(AT_ONCE) {
        loop {
            let unrecorded = unrecorded(control, cell, instances).into_iter();
            let submitted = unrecorded.map(|(instance, claim_number)| {
                control.submit(Command::CreateAccepted {
                    instance,
                    claim_number,
                    is_built: true,
                })
            });
            // All of them are under way before the first one is awaited.
            let submitted: Vec<_> = submitted.collect();
            let mut first_error = None;
            for outcome in submitted {
                first_error = first_error.or(outcome.await.err());
            }
            match first_error {
                None => break,
                Some(SubmitError::ShuttingDown) => return,
                Some(_) if !leading.is_own() => return,
                Some(_) => tokio::time::sleep(RETRY_WAIT).await,
            }
        }
    }
}

/// Those of a cell's instances whose first build is not over as far as control knows, each with the number of its
/// claim. An instance that has left the cell has a claim with another number by then, so the command does not concern
/// it.
fn unrecorded(
    control: &ControlHandle,
    cell: CellId,
    instances: &[InstanceId],
) -> Vec<(InstanceId, u64)> {
    control.engine().read_now(|machine| {
        let mappings = machine.state.conductor.mappings();
        let claim_number = |instance: &InstanceId| {
            let mapping = mappings.get(instance)?;
            let is_open = mapping.cell == Some(cell) && mapping.reschedule == Reschedule::Allowed;
            is_open.then_some((*instance, mapping.claim_number))
        };
        instances.iter().filter_map(claim_number).collect()
    })
}
