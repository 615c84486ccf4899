//! What the cells said last, kept in memory: lost with the process, and told again by the cells.

use std::collections::{BTreeMap, BTreeSet};

use placewright_conductor::{CellId, HostId, InstanceId};
use placewright_link::{CellNews, HostView, InstanceView};
use placewright_placement::Timestamp;

/// What all cells said last.
#[derive(Clone, Debug, Default)]
pub struct Views {
    /// By cell. A cell that never answered since the start has an empty view that is not up.
    pub cells: BTreeMap<CellId, CellView>,
}

impl Views {
    /// An instance as its cell sees it; nothing if the cell has not told of it.
    #[must_use]
    pub fn instance(&self, cell: CellId, instance: InstanceId) -> Option<&InstanceView> {
        self.cells.get(&cell)?.instances.get(&instance)
    }

    /// A host as its cell sees it.
    #[must_use]
    pub fn host(&self, cell: CellId, host: HostId) -> Option<&HostView> {
        self.cells.get(&cell)?.hosts.get(&host)
    }

    /// The cells that are not heard of right now, although nobody says yet that they are down.
    #[must_use]
    pub fn unheard(&self) -> Vec<CellId> {
        let cells = self.cells.iter();
        let unheard = cells.filter(|(_, view)| view.is_up && !view.is_heard);
        unheard.map(|(cell, _)| *cell).collect()
    }

    /// Whether a cell is there now.
    #[must_use]
    pub fn is_up(&self, cell: CellId) -> bool {
        self.cells.get(&cell).is_some_and(|view| view.is_up)
    }
}

/// What one cell said last. It stays when the cell goes down.
#[derive(Clone, Debug, Default)]
pub struct CellView {
    /// Whether it is there now.
    pub is_up: bool,
    /// Whether it is heard of right now. One that is not may be down, which takes a while to know.
    pub is_heard: bool,
    /// Whether it told all that it has since it was last away.
    pub is_complete: bool,
    /// When it was last heard of; 0 for never.
    pub heard_at: Timestamp,
    /// Its instances.
    pub instances: BTreeMap<InstanceId, InstanceView>,
    /// Its hosts.
    pub hosts: BTreeMap<HostId, HostView>,
}

/// What was mentioned since a cell began to tell everything.
#[derive(Debug, Default)]
pub(crate) struct Mentioned {
    instances: BTreeSet<InstanceId>,
    hosts: BTreeSet<HostId>,
    is_over: bool,
}

impl CellView {
    /// Takes what a cell says of its instances and hosts.
    pub(crate) fn take(&mut self, news: &CellNews, mentioned: &mut Mentioned) {
        match news {
            CellNews::Instance { instance, view } => {
                match view {
                    Some(view) => drop(self.instances.insert(*instance, (**view).clone())),
                    None => drop(self.instances.remove(instance)),
                }
                if !mentioned.is_over {
                    mentioned.instances.insert(*instance);
                }
            }
            CellNews::Host { host, view } => {
                match view {
                    Some(view) => drop(self.hosts.insert(*host, view.clone())),
                    None => drop(self.hosts.remove(host)),
                }
                if !mentioned.is_over {
                    mentioned.hosts.insert(*host);
                }
            }
            CellNews::Complete => {
                self.instances
                    .retain(|instance, _| mentioned.instances.contains(instance));
                self.hosts.retain(|host, _| mentioned.hosts.contains(host));
                *mentioned = Mentioned {
                    is_over: true,
                    ..Mentioned::default()
                };
                self.is_complete = true;
            }
            CellNews::Alive { .. } | CellNews::State { .. } | CellNews::Heartbeat => {}
        }
    }
}
