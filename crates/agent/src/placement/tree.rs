//! Reads one host's tree of providers, and writes the differences.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use super::PlacementError;
use super::client::{Client, PlacementResponse};
use crate::description::{DescribedProvider, HostDescription, Inventory};

#[derive(Deserialize)]
struct Providers {
    resource_providers: Vec<Provider>,
}

/// A provider in placement's responses.
#[derive(Clone, Deserialize)]
struct Provider {
    uuid: Uuid,
    name: String,
    generation: u64,
    parent_provider_uuid: Option<Uuid>,
}

#[derive(Deserialize)]
struct Inventories {
    resource_provider_generation: u64,
    inventories: BTreeMap<String, InventoryRow>,
}

/// An inventory in placement's requests and responses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct InventoryRow {
    total: i32,
    reserved: i32,
    min_unit: i32,
    max_unit: i32,
    step_size: i32,
    allocation_ratio: f32,
}

#[derive(Deserialize)]
struct Traits {
    resource_provider_generation: u64,
    traits: Vec<String>,
}

#[derive(Deserialize)]
struct Aggregates {
    resource_provider_generation: u64,
    aggregates: Vec<Uuid>,
}

/// Writes a host so that placement has it as it is described. Providers that are not described stay as they are.
///
/// `was_last_host_missing` says whether placement lacked the host that was read last: then it probably lacks this one,
/// too, as when an agent starts with thousands of new hosts, and the host is created without reading it first.
pub(super) async fn write(
    client: &Client,
    host: &HostDescription,
    was_last_host_missing: &AtomicBool,
) -> Result<(), PlacementError> {
    let mut created = None;
    if was_last_host_missing.load(Ordering::Relaxed)
        && let Some(root) = host.providers().next()
    {
        // Whatever goes wrong, the host is then read, as any other.
        created = post(client, &root).await.ok().and_then(Result::ok);
        if created.is_none() {
            was_last_host_missing.store(false, Ordering::Relaxed);
        }
    }
    let mut existing = BTreeMap::new();
    if created.is_none() {
        existing = read(client, host.id().0).await?;
        was_last_host_missing.store(existing.is_empty(), Ordering::Relaxed);
    }
    // The root is the first of the providers.
    for provider in host.providers() {
        let writer = match (created.take(), existing.get(&provider.uuid)) {
            (Some(root), _) => root,
            (None, Some(known)) => {
                ensure_name_and_parent(client, known, &provider).await?;
                ProviderWriter {
                    client,
                    uuid: provider.uuid,
                    generation: known.generation,
                    is_new: false,
                }
            }
            (None, None) => create(client, &provider).await?,
        };
        writer.write(&provider).await?;
    }
    Ok(())
}

/// The providers of a host's tree that placement has.
async fn read(client: &Client, root: Uuid) -> Result<BTreeMap<Uuid, Provider>, PlacementError> {
    let path = format!("/resource_providers?in_tree={root}");
    let tree: Providers = client.get(&path).await?.decode()?;
    let providers = tree.resource_providers.into_iter();
    Ok(providers
        .map(|provider| (provider.uuid, provider))
        .collect())
}

/// Corrects the name and the parent of an existing provider, if they differ.
async fn ensure_name_and_parent(
    client: &Client,
    known: &Provider,
    wanted: &DescribedProvider<'_>,
) -> Result<(), PlacementError> {
    if known.name == wanted.name && known.parent_provider_uuid == wanted.parent {
        return Ok(());
    }
    let body = json!({"name": wanted.name, "parent_provider_uuid": wanted.parent});
    let path = format!("/resource_providers/{}", wanted.uuid);
    client.put(&path, Some(&body)).await?.check()
}

/// Creates a provider that placement does not have.
async fn create<'a>(
    client: &'a Client,
    wanted: &DescribedProvider<'_>,
) -> Result<ProviderWriter<'a>, PlacementError> {
    let conflict = match post(client, wanted).await? {
        Ok(created) => return Ok(created),
        Err(conflict) => conflict,
    };
    // The provider was created concurrently, or another one has this name.
    let path = format!("/resource_providers/{}", wanted.uuid);
    let current = client.get(&path).await?;
    if current.is_missing() {
        conflict.check()?;
    }
    // The value is not needed: decoding reports a failure of this read. If it succeeds, the provider exists by now, and
    // the conflict makes the caller try the host again.
    current.decode::<Provider>()?;
    Err(PlacementError::Conflict(wanted.name.to_owned()))
}

/// Asks placement to create a provider. Returns placement's response if a provider has this UUID or this name already.
async fn post<'a>(
    client: &'a Client,
    wanted: &DescribedProvider<'_>,
) -> Result<Result<ProviderWriter<'a>, PlacementResponse>, PlacementError> {
    let mut body = json!({"uuid": wanted.uuid, "name": wanted.name});
    if let Some(parent) = wanted.parent {
        body["parent_provider_uuid"] = json!(parent);
    }
    let response = client.post("/resource_providers", &body).await?;
    if response.is_conflict() {
        return Ok(Err(response));
    }
    let created: Provider = response.decode()?;
    Ok(Ok(ProviderWriter {
        client,
        uuid: wanted.uuid,
        generation: created.generation,
        is_new: true,
    }))
}

/// Writes one provider's inventories, traits and aggregates. In its methods, `known` is the data that placement has,
/// and `wanted` the data of the description.
struct ProviderWriter<'a> {
    client: &'a Client,
    uuid: Uuid,
    generation: u64,
    /// Whether the provider was just created, so that nothing has to be read.
    is_new: bool,
}

impl ProviderWriter<'_> {
    async fn write(mut self, wanted: &DescribedProvider<'_>) -> Result<(), PlacementError> {
        // The inventories last: with them a new provider can be claimed, for which its traits and aggregates have to be
        // there. A claim also changes the generation, so that a later write would conflict.
        self.write_aggregates(wanted).await?;
        self.write_traits(wanted).await?;
        self.write_inventories(wanted).await
    }

    fn path(&self, resource: &str) -> String {
        format!("/resource_providers/{}/{resource}", self.uuid)
    }

    async fn write_inventories(
        &mut self,
        wanted: &DescribedProvider<'_>,
    ) -> Result<(), PlacementError> {
        let path = self.path("inventories");
        let mut known = BTreeMap::new();
        if !self.is_new {
            let read: Inventories = self.client.get(&path).await?.decode()?;
            known = read.inventories;
            self.generation = read.resource_provider_generation;
        }
        let rows: BTreeMap<&str, InventoryRow> = wanted
            .inventories
            .iter()
            .map(|(class, inventory)| (class.as_str(), inventory_row(inventory, known.get(class))))
            .collect();
        let is_same = rows.len() == known.len()
            && rows
                .iter()
                .all(|(class, row)| known.get(*class) == Some(row));
        if is_same {
            return Ok(());
        }
        let body = json!({
            "resource_provider_generation": self.generation,
            "inventories": rows,
        });
        let response = self.client.put(&path, Some(&body)).await?;
        let written: Inventories = response.decode()?;
        self.generation = written.resource_provider_generation;
        Ok(())
    }

    async fn write_traits(&mut self, wanted: &DescribedProvider<'_>) -> Result<(), PlacementError> {
        let path = self.path("traits");
        let mut known = Vec::new();
        if self.is_new {
            if !wanted.traits.values().any(|is_set| *is_set) {
                return Ok(());
            }
        } else {
            if wanted.traits.is_empty() {
                return Ok(());
            }
            let read: Traits = self.client.get(&path).await?.decode()?;
            known = read.traits;
            self.generation = read.resource_provider_generation;
        }
        known.sort_unstable();
        // A trait that is true in the description is set, one that is false is removed, and all others stay.
        let mut traits = known.clone();
        traits.retain(|name| wanted.traits.get(name) != Some(&false));
        let added = wanted.traits.iter().filter(|(_, is_set)| **is_set);
        traits.extend(added.map(|(name, _)| name.clone()));
        traits.sort_unstable();
        traits.dedup();
        if traits == known {
            return Ok(());
        }
        let body = json!({
            "resource_provider_generation": self.generation,
            "traits": traits,
        });
        let written: Traits = self.client.put(&path, Some(&body)).await?.decode()?;
        self.generation = written.resource_provider_generation;
        Ok(())
    }

    async fn write_aggregates(
        &mut self,
        wanted: &DescribedProvider<'_>,
    ) -> Result<(), PlacementError> {
        let Some(aggregates) = wanted.aggregates else {
            return Ok(());
        };
        let path = self.path("aggregates");
        let mut known = Vec::new();
        if !self.is_new {
            let read: Aggregates = self.client.get(&path).await?.decode()?;
            known = read.aggregates;
            self.generation = read.resource_provider_generation;
        }
        let mut aggregates = aggregates.to_vec();
        aggregates.sort_unstable();
        known.sort_unstable();
        if aggregates == known {
            return Ok(());
        }
        let body = json!({
            "resource_provider_generation": self.generation,
            "aggregates": aggregates,
        });
        let written: Aggregates = self.client.put(&path, Some(&body)).await?.decode()?;
        self.generation = written.resource_provider_generation;
        Ok(())
    }
}

/// The inventory to write. If the description has no allocation ratio, the one that placement has is kept, because an
/// operator may have set it there.
fn inventory_row(wanted: &Inventory, known: Option<&InventoryRow>) -> InventoryRow {
    let known_ratio = known.map_or(1.0, |known| known.allocation_ratio);
    InventoryRow {
        total: wanted.total,
        reserved: wanted.reserved,
        min_unit: wanted.min_unit,
        max_unit: wanted.max_unit.unwrap_or(wanted.total),
        step_size: wanted.step_size,
        allocation_ratio: wanted.allocation_ratio.unwrap_or(known_ratio),
    }
}
