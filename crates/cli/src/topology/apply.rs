//! Changes placement and the scheduler to match the file, and nothing else.

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

/// How often a change is tried when a host's aggregates changed between reading and writing them.
const TRIES: u32 = 5;

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
        runtime.block_on(self.carry_out(&table, distances))
    }

    async fn carry_out(&self, table: &Table, distances: Vec<Distance>) -> anyhow::Result<()> {
        // This also sets up TLS for the other client.
        let scheduler = Client::new(&self.scheduler_url, &self.token)?;
        let placement = Placement {
            http: reqwest::Client::new(),
            apply: self,
        };
        let roots = placement.roots().await?;
        let wanted = wanted(table, &roots)?;
        // Hosts are removed from the groups of an earlier file.
        let old = scheduler.topology().await?;
        let mut places: BTreeSet<Uuid> = old
            .levels
            .into_iter()
            .flat_map(|one| one.aggregates)
            .collect();
        places.extend(table.levels.iter().flat_map(|level| level.places.keys()));
        if !self.dry_run {
            for (uuid, name) in table.levels.iter().flat_map(|level| &level.places) {
                scheduler
                    .put_aggregate(*uuid, name, &BTreeMap::new())
                    .await?;
            }
        }
        let mut changed = 0usize;
        for (index, root) in roots.iter().enumerate() {
            let nowhere = BTreeSet::new();
            let own = wanted.get(&root.uuid).copied().unwrap_or(&nowhere);
            if placement.move_host(root, own, &places).await? {
                changed += 1;
            }
            if (index + 1) % 1_000 == 0 {
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
            "{}{} hosts in {}; {changed} hosts {}",
            if self.dry_run {
                "nothing changed: "
            } else {
                ""
            },
            wanted.len(),
            counts.join(", "),
            if self.dry_run { "would move" } else { "moved" },
        );
        Ok(())
    }
}

/// The wanted aggregates of each host, by its UUID.
fn wanted<'a>(
    table: &'a Table,
    roots: &[Provider],
) -> Result<BTreeMap<Uuid, &'a BTreeSet<Uuid>>, ConfigErrors> {
    let by_name: BTreeMap<&str, Uuid> = roots.iter().map(|one| (&*one.name, one.uuid)).collect();
    let known: BTreeSet<Uuid> = roots.iter().map(|one| one.uuid).collect();
    let mut wanted = BTreeMap::new();
    let mut problems = Vec::new();
    for (host, places) in &table.hosts {
        let by_uuid = || host.parse().ok().filter(|uuid| known.contains(uuid));
        match by_name.get(&**host).copied().or_else(by_uuid) {
            Some(uuid) => drop(wanted.insert(uuid, places)),
            None => problems.push(format!("placement has no root provider {host}")),
        }
    }
    if problems.is_empty() {
        Ok(wanted)
    } else {
        Err(ConfigErrors(problems))
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
        let answer = self.request(reqwest::Method::GET, path).send().await;
        let answer = answer.with_context(|| format!("no answer from {}", self.apply.url))?;
        let status = answer.status();
        let text = answer.text().await?;
        if !status.is_success() {
            bail!("GET {path}: {status}: {text}");
        }
        serde_json::from_str(&text).with_context(|| format!("the answer of GET {path}"))
    }

    /// The hosts: all providers without a parent.
    async fn roots(&self) -> anyhow::Result<Vec<Provider>> {
        let all: Providers = self.get("/resource_providers").await?;
        let roots = all.resource_providers.into_iter();
        Ok(roots
            .filter(|one| one.uuid == one.root_provider_uuid)
            .collect())
    }

    /// Puts a host into its aggregates and out of all others of the topology; returns whether that
    /// was a change.
    async fn move_host(
        &self,
        host: &Provider,
        own: &BTreeSet<Uuid>,
        places: &BTreeSet<Uuid>,
    ) -> anyhow::Result<bool> {
        let path = format!("/resource_providers/{}/aggregates", host.uuid);
        for _ in 0..TRIES {
            let now: Aggregates = self.get(&path).await?;
            let others = now.aggregates.difference(places);
            let then: BTreeSet<Uuid> = others.chain(own).copied().collect();
            if then == now.aggregates {
                return Ok(false);
            }
            if self.apply.dry_run {
                return Ok(true);
            }
            let body = json!({
                "aggregates": then,
                "resource_provider_generation": now.resource_provider_generation,
            });
            let request = self.request(reqwest::Method::PUT, &path);
            let answer = request.json(&body).send().await?;
            match answer.status().as_u16() {
                200 => return Ok(true),
                409 => {}
                status => bail!("PUT {path}: {status}: {}", answer.text().await?),
            }
        }
        bail!("host {} changes too often: try again", host.name)
    }
}
