//! Cells and their hosts.

use std::collections::BTreeSet;

use placewright_placement as placement;

use super::{DecisionContext, Outcome, Refusal, exists, in_use};
use crate::ids::{CellId, HostId};
use crate::super_conductor::rows::{Cell, HostMapping};
use crate::super_conductor::state::Change;

impl DecisionContext<'_> {
    pub(super) fn set_cell(
        &mut self,
        cell: CellId,
        name: &str,
        disabled: bool,
    ) -> Result<Outcome, Refusal> {
        if cell == CellId::CELL0 {
            return Err(exists("cell", &cell));
        }
        let mut others = self.state.cells.iter().filter(|(id, _)| **id != cell);
        if others.any(|(_, other)| other.name == name) {
            return Err(exists("cell", &name));
        }
        let before = self.state.cells.get(&cell);
        let row = Cell {
            name: name.to_owned(),
            disabled,
            down_since: before.and_then(|before| before.down_since),
        };
        if before != Some(&row) {
            self.record(Change::Cell(cell, Some(Box::new(row))));
        }
        Ok(Outcome::Done)
    }

    pub(super) fn remove_cell(&mut self, cell: CellId) -> Result<Outcome, Refusal> {
        self.cell(cell)?;
        let has_hosts = self.state.hosts.values().any(|host| host.cell == cell);
        let mut mappings = self.state.mappings.values();
        if has_hosts || mappings.any(|mapping| mapping.cell == Some(cell)) {
            return Err(in_use("cell", &cell));
        }
        self.record(Change::Cell(cell, None));
        Ok(Outcome::Done)
    }

    pub(super) fn set_cell_down(
        &mut self,
        cell: CellId,
        is_down: bool,
    ) -> Result<Outcome, Refusal> {
        let row = self.cell(cell)?;
        if row.down_since.is_some() != is_down {
            let row = Cell {
                down_since: is_down.then_some(self.at),
                ..row.clone()
            };
            self.record(Change::Cell(cell, Some(Box::new(row))));
        }
        Ok(Outcome::Done)
    }

    pub(super) fn map_hosts(
        &mut self,
        cell: CellId,
        hosts: &[(HostId, String)],
    ) -> Result<Outcome, Refusal> {
        self.cell(cell)?;
        let (mut named, mut names) = (BTreeSet::new(), BTreeSet::new());
        for (host, name) in hosts {
            let row = HostMapping {
                cell,
                name: name.clone(),
            };
            match self.state.hosts.get(host) {
                Some(before) if *before == row => continue,
                Some(before) if before.cell != cell => return Err(exists("host", host)),
                Some(before) => self.record(Change::HostName(before.name.clone(), None)),
                None => {}
            }
            let owner = self.state.host_names.get(name);
            let belongs_to_another_host = owner.is_some_and(|owner| owner != host);
            // A host that occurs twice would leave the first of its names behind.
            let is_repeated = !named.insert(*host) || !names.insert(name.as_str());
            if belongs_to_another_host || is_repeated {
                return Err(exists("host", name));
            }
            self.record(Change::Host(*host, Some(Box::new(row))));
            self.record(Change::HostName(name.clone(), Some(Box::new(*host))));
        }
        Ok(Outcome::Done)
    }

    pub(super) fn unmap_host(&mut self, host: HostId) -> Result<Outcome, Refusal> {
        let row = self.state.hosts.get(&host);
        let row = row.ok_or_else(|| super::not_found("host", &host))?;
        if is_host_used(self.placement, host) {
            return Err(in_use("host", &host));
        }
        let name = row.name.clone();
        self.leave_aggregates(host)?;
        self.record(Change::HostName(name, None));
        self.record(Change::Host(host, None));
        self.record(Change::Service(host, None));
        Ok(Outcome::Done)
    }
}

/// Whether consumers have allocations on the providers of a host.
#[must_use]
pub fn is_host_used(placement: &placement::State, host: HostId) -> bool {
    let root = placement.provider_id(host.0);
    let tree = root.map(|root| placement.subtree(root));
    tree.iter().flatten().any(|id| {
        let provider = placement.provider(*id);
        provider.is_some_and(|provider| !provider.consumers.is_empty())
    })
}
