//! The latest reports of the cells, in memory: lost with the process, and sent again by the cells.

use std::collections::{BTreeMap, BTreeSet};

use placewright_conductor::{CellId, HostId, InstanceId};
use placewright_link::{CellEvent, HostView, InstanceView};
use placewright_placement::Timestamp;

/// The latest reports of all cells.
#[derive(Clone, Debug, Default)]
pub struct Views {
    /// The reports by cell. A cell that has not answered since the start has an empty view that is
    /// not up.
    pub cells: BTreeMap<CellId, CellView>,
}

impl Views {
    /// An instance as its cell sees it; `None` if the cell has not reported it.
    #[must_use]
    pub fn instance(&self, cell: CellId, instance: InstanceId) -> Option<&InstanceView> {
        self.cells.get(&cell)?.instances.get(&instance)
    }

    /// A host as its cell sees it; `None` if the cell has not reported it.
    #[must_use]
    pub fn host(&self, cell: CellId, host: HostId) -> Option<&HostView> {
        self.cells.get(&cell)?.hosts.get(&host)
    }

    /// The cells that are silent, although they are not marked down yet.
    #[must_use]
    pub fn silent_cells(&self) -> Vec<CellId> {
        let cells = self.cells.iter();
        let silent = cells.filter(|(_, view)| view.is_up && view.is_silent);
        silent.map(|(cell, _)| *cell).collect()
    }

    /// Whether a cell is up.
    #[must_use]
    pub fn is_up(&self, cell: CellId) -> bool {
        self.cells.get(&cell).is_some_and(|view| view.is_up)
    }
}

/// The latest report of one cell. It stays when the cell goes down.
#[derive(Clone, Debug, Default)]
pub struct CellView {
    /// Whether the cell is up.
    pub is_up: bool,
    /// Whether the cell sent nothing for longer than heartbeats allow. It may be down, which is decided
    /// after a longer time-out.
    pub is_silent: bool,
    /// Whether the cell has completed an initial listing since it was last down. After a short interruption of the
    /// stream it stays true while the cell lists everything again.
    pub is_complete: bool,
    /// The time of the last message of the cell; 0 if there was none.
    pub heard_at: Timestamp,
    /// The instances of the cell.
    pub instances: BTreeMap<InstanceId, InstanceView>,
    /// The hosts of the cell.
    pub hosts: BTreeMap<HostId, HostView>,
}

/// The instances and hosts that a cell has named so far in the initial listing, with which its stream begins.
#[derive(Debug, Default)]
pub(crate) struct InitialListing {
    instances: BTreeSet<InstanceId>,
    hosts: BTreeSet<HostId>,
    is_over: bool,
}

impl CellView {
    /// The reports of the cell about its hosts and some instances, as events.
    pub(crate) fn as_events(&self, instances: &[InstanceId]) -> Vec<CellEvent> {
        let hosts = self.hosts.iter().map(|(host, view)| CellEvent::Host {
            host: *host,
            view: Some(view.clone()),
        });
        let instances = instances.iter().filter_map(|instance| {
            let view = Box::new(self.instances.get(instance)?.clone());
            Some(CellEvent::Instance {
                instance: *instance,
                view: Some(view),
            })
        });
        hosts.chain(instances).collect()
    }

    /// Applies an event to the view. `listed` collects the instances and hosts that the initial listing names, so that
    /// all others can be removed when the listing is complete.
    pub(crate) fn apply(&mut self, event: &CellEvent, listed: &mut InitialListing) {
        match event {
            CellEvent::Instance { instance, view } => {
                match view {
                    Some(view) => drop(self.instances.insert(*instance, (**view).clone())),
                    None => drop(self.instances.remove(instance)),
                }
                if !listed.is_over {
                    listed.instances.insert(*instance);
                }
            }
            CellEvent::Host { host, view } => {
                match view {
                    Some(view) => drop(self.hosts.insert(*host, view.clone())),
                    None => drop(self.hosts.remove(host)),
                }
                if !listed.is_over {
                    listed.hosts.insert(*host);
                }
            }
            CellEvent::Complete => {
                self.instances
                    .retain(|instance, _| listed.instances.contains(instance));
                self.hosts.retain(|host, _| listed.hosts.contains(host));
                *listed = InitialListing {
                    is_over: true,
                    ..InitialListing::default()
                };
                self.is_complete = true;
            }
            CellEvent::Alive { .. } | CellEvent::State { .. } | CellEvent::Heartbeat => {}
        }
    }
}
