//! The report to operators on the versions of the cells' compute services.

use placewright_conductor::CellId;
use placewright_scheduler::host_state::SERVICE_VERSION;
use placewright_scheduler::host_table::HostTable;
use serde::Serialize;
use uuid::Uuid;

use crate::scheduler::SchedulerHandle;

/// The most hosts that the report names for a cell.
const HOSTS_NAMED: usize = 20;

/// The versions of the compute services of one cell. What a version brings is used in the cell once `minimum` has
/// reached it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CellServices {
    /// The UUID of the cell.
    pub cell: Uuid,
    /// The name of the cell; `None` if the hosts report a cell that this installation does not have.
    pub name: Option<String>,
    /// The number of hosts in the cell. Hosts that are declared down do not count.
    pub hosts: u64,
    /// The lowest version among these hosts; 0 if one of them says none.
    pub minimum: u32,
    /// The version of this release's compute service.
    pub newest: u32,
    /// How many hosts have a version before `newest`, and so hold the cell back.
    pub behind: u64,
    /// The names of these hosts with their versions, 20 at most.
    pub behind_hosts: Vec<HostVersion>,
}

/// The version of a host's compute service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostVersion {
    /// The name of the host.
    pub node: String,
    /// The version; 0 if the service says none.
    pub version: u32,
}

impl SchedulerHandle {
    /// The versions of the compute services of each cell that has hosts.
    #[must_use]
    pub fn cell_services(&self) -> Vec<CellServices> {
        self.with_state(|scheduler, control| {
            let hosts = scheduler.hosts();
            let cells = hosts.service_versions().minima();
            let reports = cells.map(|(cell, minimum)| {
                let row = control.conductor.cells().get(&CellId(cell));
                let name = row.map(|row| row.name.clone());
                report(hosts, cell, minimum, name)
            });
            reports.collect()
        })
    }
}

fn report(hosts: &HostTable, cell: Uuid, minimum: u32, name: Option<String>) -> CellServices {
    let versions = hosts.service_versions();
    let (count, behind) = versions.counts_of(cell, SERVICE_VERSION);
    let mut behind_hosts = Vec::new();
    if behind > 0 {
        let slots = hosts
            .of_cell(cell)
            .into_iter()
            .flat_map(|slots| slots.iter());
        let earlier = slots.filter_map(|slot| {
            let (_, version) = versions.counted(slot)?;
            let is_earlier = version < SERVICE_VERSION;
            let host = hosts.get(slot).filter(|_| is_earlier)?;
            let node = host.names.node.clone();
            Some(HostVersion { node, version })
        });
        // Once all hosts that are behind were found, the other hosts of the cell are not searched.
        let named_count =
            usize::try_from(behind).map_or(HOSTS_NAMED, |behind| behind.min(HOSTS_NAMED));
        behind_hosts.extend(earlier.take(named_count));
    }
    CellServices {
        cell,
        name,
        hosts: count,
        minimum,
        newest: SERVICE_VERSION,
        behind,
        behind_hosts,
    }
}
