//! Hosts for listings, combined from the state of control and the reports of the cells.

use placewright_conductor::super_conductor::Service;
use placewright_conductor::{CellId, ControlState, HostId};
use placewright_control::Views;
use placewright_link::HostView;
use placewright_placement::Timestamp;

/// A host with its mapping, its service's settings and the latest report of its cell.
#[derive(Clone, Copy)]
pub(crate) struct HostRow<'s> {
    pub(crate) id: HostId,
    pub(crate) name: &'s str,
    pub(crate) cell: CellId,
    /// What operators have set of the host's service; `None` if they have set nothing.
    pub(crate) service: Option<&'s Service>,
    /// The latest report of the host's cell; `None` if there is none yet.
    view: Option<&'s HostView>,
    /// Whether the host's cell is recorded as down, or is silent.
    pub(crate) is_out_of_reach: bool,
}

impl<'s> HostRow<'s> {
    /// All hosts, ordered by name.
    pub(crate) fn all(control: &'s ControlState, views: &'s Views) -> Vec<Self> {
        let names = control.conductor.host_names().iter();
        let rows = names.filter_map(|(_, id)| Self::find(control, views, *id));
        rows.collect()
    }

    /// The host with this id, if control has it.
    pub(crate) fn find(control: &'s ControlState, views: &'s Views, id: HostId) -> Option<Self> {
        let mapping = control.conductor.hosts().get(&id)?;
        Some(Self {
            id,
            name: &mapping.name,
            cell: mapping.cell,
            service: control.conductor.services().get(&id),
            view: views.host(mapping.cell, id),
            is_out_of_reach: is_cell_out_of_reach(control, views, mapping.cell),
        })
    }

    pub(crate) fn is_disabled(&self) -> bool {
        self.service.is_some_and(|service| service.disabled)
    }

    pub(crate) fn is_forced_down(&self) -> bool {
        self.service.is_some_and(|service| service.forced_down)
    }

    /// Whether the host's cell is within reach, its agent is up, and no operator has forced the host down.
    pub(crate) fn is_up(&self) -> bool {
        !self.is_forced_down() && !self.is_out_of_reach && self.view.is_some_and(|view| view.is_up)
    }

    pub(crate) fn state(&self) -> &'static str {
        if self.is_up() { "up" } else { "down" }
    }

    pub(crate) fn status(&self) -> &'static str {
        if self.is_disabled() {
            "disabled"
        } else {
            "enabled"
        }
    }

    /// The time of the last message of the host's agent to the cell; `None` if there was no message yet.
    pub(crate) fn last_report_at(&self) -> Option<Timestamp> {
        let reported_at = self.view.map(|view| view.heard_at);
        // The time is 0 until the cell has received a message of the agent.
        reported_at.filter(|time| time.0 > 0)
    }
}

/// Whether a cell is recorded as down, or is silent.
pub(crate) fn is_cell_out_of_reach(control: &ControlState, views: &Views, cell: CellId) -> bool {
    let row = control.conductor.cells().get(&cell);
    let is_recorded_down = row.is_none_or(|row| row.down_since.is_some());
    is_recorded_down || !views.is_up(cell)
}
