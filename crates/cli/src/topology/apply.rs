//! Changes the aggregates of hosts and the scheduler's topology so that they match the file.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail};
use placewright_client::{Client, Distance, Level, Topology};
use placewright_roles::config::ConfigErrors;
use placewright_roles::outln;
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use super::Apply;
use super::table::Table;

/// How often the write of a host's aggregates is tried, as they may change after they were read.
const ATTEMPTS: u32 = 5;
/// The number of hosts between two lines of progress.
const PROGRESS_HOSTS: usize = 1_000;

#[derive(Deserialize)]
struct Providers {
    resource_providers: Vec<Provider>,
}

#[derive(Deserialize)]
struct Provider {
    uuid: Uuid,
    name: String,
    root_provider_uuid: Uuid,
}

#[derive(Deserialize)]
struct Aggregates {
    aggregates: BTreeSet<Uuid>,
    resource_provider_generation: u64,
}

/// A client of the Placement API for aggregates.
struct Placement<'a> {
    http: reqwest::Client,
    apply: &'a Apply,
}

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
        // `Client::new` also sets up TLS for the client below.
        let scheduler = Client::new(&self.scheduler_url, &self.token)?;
        let placement = Placement {
            http: reqwest::Client::new(),
            apply: self,
        };
        let roots = placement.roots().await?;
        let places_of_hosts = places_of_hosts(table, &roots)?;
        // Hosts are also removed from the places of an earlier file.
        let old_topology = scheduler.topology().await?;
        let mut all_places: BTreeSet<Uuid> = old_topology
            .levels
            .into_iter()
            .flat_map(|level| level.aggregates)
            .collect();
        all_places.extend(table.levels.iter().flat_map(|level| level.places.keys()));
        if !self.dry_run {
            for (uuid, name) in table.levels.iter().flat_map(|level| &level.places) {
                scheduler
                    .put_aggregate(*uuid, name, &BTreeMap::new())
                    .await?;
            }
        }
        let mut changed_hosts = 0usize;
        for (index, root) in roots.iter().enumerate() {
            let no_places = BTreeSet::new();
            let host_places = places_of_hosts
                .get(&root.uuid)
                .copied()
                .unwrap_or(&no_places);
            if placement.move_host(root, host_places, &all_places).await? {
                changed_hosts += 1;
            }
            if (index + 1) % PROGRESS_HOSTS == 0 {
                eprintln!("{} of {} hosts", index + 1, roots.len());
            }
        }
        let levels = table.levels.iter().map(|level| Level {
            name: level.name.clone(),
            aggregates: level.places.keys().copied().collect(),
        });
        let levels: Vec<Level> = levels.collect();
        let counts = levels.iter();
        let counts = counts.map(|level| format!("{} {}", level.aggregates.len(), level.name));
        let mut counts: Vec<String> = counts.collect();
        if !distances.is_empty() {
            counts.push(format!("{} distances", distances.len()));
        }
        if !self.dry_run {
            let topology = Topology { levels, distances };
            scheduler.put_topology(&topology).await?;
        }
        outln!(
            "{}{} hosts in {}; {changed_hosts} hosts {}",
            if self.dry_run {
                "nothing changed: "
            } else {
                ""
            },
            places_of_hosts.len(),
            counts.join(", "),
            if self.dry_run { "would move" } else { "moved" },
        );
        Ok(())
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

impl Placement<'_> {
    fn request(&self, method: reqwest::Method, path: &str) -> reqwest::RequestBuilder {
        let url = format!("{}{path}", self.apply.url.trim_end_matches('/'));
        let request = self.http.request(method, url);
        request
            .header("x-auth-token", &self.apply.token)
            .header("openstack-api-version", "placement 1.39")
    }

    async fn get<T: serde::de::DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let response = self.request(reqwest::Method::GET, path).send().await;
        let response = response.with_context(|| format!("no answer from {}", self.apply.url))?;
        let status = response.status();
        let text = response.text().await?;
        if !status.is_success() {
            bail!("GET {path}: {status}: {text}");
        }
        serde_json::from_str(&text).with_context(|| format!("the answer of GET {path}"))
    }

    /// The hosts: all providers without a parent.
    async fn roots(&self) -> anyhow::Result<Vec<Provider>> {
        let providers: Providers = self.get("/resource_providers").await?;
        let roots = providers.resource_providers.into_iter();
        Ok(roots
            .filter(|provider| provider.uuid == provider.root_provider_uuid)
            .collect())
    }

    /// Adds a host to its places and removes it from the other places in `all_places`. Returns whether that changes its
    /// aggregates; with `--dry-run` it only returns this.
    async fn move_host(
        &self,
        host: &Provider,
        host_places: &BTreeSet<Uuid>,
        all_places: &BTreeSet<Uuid>,
    ) -> anyhow::Result<bool> {
        let path = format!("/resource_providers/{}/aggregates", host.uuid);
        for _ in 0..ATTEMPTS {
            let current: Aggregates = self.get(&path).await?;
            let other_aggregates = current.aggregates.difference(all_places);
            let wanted: BTreeSet<Uuid> = other_aggregates.chain(host_places).copied().collect();
            if wanted == current.aggregates {
                return Ok(false);
            }
            if self.apply.dry_run {
                return Ok(true);
            }
            let body = json!({
                "aggregates": wanted,
                "resource_provider_generation": current.resource_provider_generation,
            });
            let request = self.request(reqwest::Method::PUT, &path);
            let response = request.json(&body).send().await?;
            match response.status().as_u16() {
                200 => return Ok(true),
                409 => {}
                status => bail!("PUT {path}: {status}: {}", response.text().await?),
            }
        }
        bail!("host {} changes too often: try again", host.name)
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
