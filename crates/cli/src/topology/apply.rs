//! Changes the aggregates of hosts and the scheduler's topology so that they match the file.

use std::collections::{BTreeMap, BTreeSet};

use placewright_client::{Client, Distance, Level, Topology};
use placewright_roles::config::ConfigErrors;
use placewright_roles::outln;
use uuid::Uuid;

use super::merge::merge;
use super::placement::{Placement, Provider};
use super::table::{Table, TableLevel};
use super::{Apply, ServiceArgs};

/// The number of hosts between two lines of progress.
const PROGRESS_HOSTS: usize = 1_000;

impl Apply {
    /// Reads the file and applies it.
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let table = Table::load(&self.file)?;
        let distances = match &self.distances {
            Some(file) => table.load_distances(file)?,
            None => Vec::new(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(self.apply_table(&table, distances))
    }

    async fn apply_table(&self, table: &Table, distances: Vec<Distance>) -> anyhow::Result<()> {
        let service_args = &self.service_args;
        let token = service_args.token.token().await?;
        let scheduler = Client::new(&service_args.scheduler.scheduler_url, token.expose())?;
        let placement = Placement::new(service_args, token)?;
        let roots = placement.roots().await?;
        let places_of_hosts = places_of_hosts(table, &roots)?;
        let old_topology = scheduler.topology().await?;
        let levels = table.levels.iter().map(TableLevel::to_level).collect();
        let new_topology = Topology { levels, distances };
        // In these levels, a host keeps only its places in the file: the file's levels, or all with `--replace`.
        let is_covered = |level: &&Level| self.replace || table.has_level(&level.name);
        let covered_levels = old_topology.levels.iter().filter(is_covered);
        let covered_levels = covered_levels.chain(&new_topology.levels);
        let covered_places: BTreeSet<Uuid> = covered_levels
            .flat_map(|level| level.aggregates.iter().copied())
            .collect();
        let topology = match self.replace {
            true => new_topology,
            false => merge(old_topology, new_topology)?,
        };
        if !service_args.dry_run {
            for (uuid, name) in table.levels.iter().flat_map(|level| &level.places) {
                scheduler
                    .put_aggregate(*uuid, name, &BTreeMap::new())
                    .await?;
            }
        }
        let (no_places, mut changed_hosts) = (BTreeSet::new(), 0usize);
        for (index, root) in roots.iter().enumerate() {
            let host_places = match places_of_hosts.get(&root.uuid).copied() {
                Some(places) => places,
                None if self.replace => &no_places,
                None => continue,
            };
            let has_moved = placement.move_host(root, host_places, &covered_places);
            if has_moved.await? {
                changed_hosts += 1;
            }
            if (index + 1) % PROGRESS_HOSTS == 0 {
                eprintln!("{} of {} hosts", index + 1, roots.len());
            }
        }
        let counts = topology.levels.iter();
        let counts = counts.map(|level| format!("{} {}", level.aggregates.len(), level.name));
        let mut counts: Vec<String> = counts.collect();
        if !topology.distances.is_empty() {
            counts.push(format!("{} distances", topology.distances.len()));
        }
        if !service_args.dry_run {
            scheduler.put_topology(&topology).await?;
        }
        outln!(
            "{}{} hosts in {}; {changed_hosts} hosts {}",
            nothing_changed(service_args),
            places_of_hosts.len(),
            counts.join(", "),
            if service_args.dry_run {
                "would move"
            } else {
                "moved"
            },
        );
        Ok(())
    }
}

/// The beginning of the output with `--dry-run`, which says that nothing is changed; else empty.
pub(super) fn nothing_changed(service_args: &ServiceArgs) -> &'static str {
    match service_args.dry_run {
        true => "nothing changed: ",
        false => "",
    }
}

/// The places of each host in the table, by the host's UUID.
fn places_of_hosts<'a>(
    table: &'a Table,
    roots: &[Provider],
) -> Result<BTreeMap<Uuid, &'a BTreeSet<Uuid>>, ConfigErrors> {
    let by_name: BTreeMap<&str, Uuid> = roots.iter().map(|root| (&*root.name, root.uuid)).collect();
    let known_uuids: BTreeSet<Uuid> = roots.iter().map(|root| root.uuid).collect();
    let mut places_of_hosts = BTreeMap::new();
    let mut errors = Vec::new();
    for (host, places) in &table.hosts {
        let by_uuid = || host.parse().ok().filter(|uuid| known_uuids.contains(uuid));
        match by_name.get(&**host).copied().or_else(by_uuid) {
            Some(uuid) => {
                if places_of_hosts.insert(uuid, places).is_some() {
                    errors.push(format!(
                        "{host} is in the file twice: by its name and by its UUID"
                    ));
                }
            }
            None => errors.push(format!("placement has no root provider {host}")),
        }
    }
    if errors.is_empty() {
        Ok(places_of_hosts)
    } else {
        Err(ConfigErrors(errors))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_is_named_twice_is_an_error() {
        let uuid = Uuid::from_u128(7);
        let root = Provider {
            uuid,
            name: "host-7".into(),
            root_provider_uuid: uuid,
        };
        let mut table = Table::default();
        table.hosts.insert("host-7".into(), BTreeSet::new());
        let roots = [root];
        assert!(places_of_hosts(&table, &roots).is_ok());
        table.hosts.insert(uuid.to_string(), BTreeSet::new());
        let errors = places_of_hosts(&table, &roots).unwrap_err();
        assert!(
            errors.to_string().contains("is in the file twice"),
            "{errors}"
        );
    }
}
