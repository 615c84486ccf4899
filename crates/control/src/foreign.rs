//! Drops the events of a cell about hosts of other cells.

use placewright_conductor::{CellId, HostId};
use placewright_link::CellEvent;

use crate::handle::ControlHandle;

/// Removes the events about hosts of other cells from the events of a cell. A correct cell sends
/// none: a host that changes its cell has to be removed from the earlier one first.
pub(crate) fn drop_foreign_events(
    control: &ControlHandle,
    own: CellId,
    events: &mut Vec<CellEvent>,
) {
    let names_hosts = |event: &CellEvent| {
        matches!(
            event,
            CellEvent::Host { .. } | CellEvent::State { .. } | CellEvent::Alive { .. }
        )
    };
    if !events.iter().any(names_hosts) {
        return;
    }
    // The first host of another cell, for the log.
    let mut first_foreign = None;
    control.engine().read_now(|machine| {
        let hosts = machine.state.conductor.hosts();
        let mut is_own = |host: &HostId| {
            let is_foreign = hosts.get(host).is_some_and(|row| row.cell != own);
            if is_foreign {
                first_foreign.get_or_insert(*host);
            }
            !is_foreign
        };
        events.retain_mut(|event| match event {
            CellEvent::Host { host, .. } | CellEvent::State { host, .. } => is_own(host),
            CellEvent::Alive { hosts } => {
                hosts.retain(&mut is_own);
                !hosts.is_empty()
            }
            CellEvent::Instance { .. } | CellEvent::Complete | CellEvent::Heartbeat => true,
        });
    });
    if let Some(host) = first_foreign {
        tracing::warn!(cell = %own, %host, "events of a cell about a host of another cell are ignored");
    }
}
