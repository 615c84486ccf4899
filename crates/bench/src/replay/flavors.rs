//! Finds or creates the flavors of a trace in an installation.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use placewright_trace::Flavor;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use super::api::{Api, CallError, Service};

#[derive(Debug, Deserialize)]
struct FlavorPage {
    flavors: Vec<ExistingFlavor>,
    #[serde(default)]
    flavors_links: Vec<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
struct ExistingFlavor {
    id: String,
    name: String,
    vcpus: u32,
    ram: u32,
    disk: u32,
    #[serde(default, rename = "OS-FLV-EXT-DATA:ephemeral")]
    ephemeral: u32,
    #[serde(default)]
    extra_specs: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
struct Created {
    flavor: Id,
}

#[derive(Debug, Deserialize)]
struct Id {
    id: String,
}

/// The flavors of an installation.
#[derive(Debug)]
pub(crate) struct Flavors {
    existing: Vec<ExistingFlavor>,
    /// The number of flavors that were created.
    pub(crate) created_count: usize,
}

impl Flavors {
    /// Reads all flavors of an installation.
    pub(crate) async fn read(api: &Api) -> anyhow::Result<Self> {
        let base = "/flavors/detail?is_public=None&limit=1000";
        let mut path = base.to_owned();
        let mut existing = Vec::new();
        loop {
            let response = api.get::<FlavorPage>(Service::Compute, &path).await;
            let page = response.context("the flavors of the installation")?.body;
            let last_id = page.flavors.last().map(|flavor| flavor.id.clone());
            existing.extend(page.flavors);
            match last_id {
                Some(last_id) if !page.flavors_links.is_empty() => {
                    path = format!("{base}&marker={last_id}");
                }
                _ => {
                    return Ok(Self {
                        existing,
                        created_count: 0,
                    });
                }
            }
        }
    }

    /// The id of a flavor with these properties; if there is none, it is created. It has no disk, because traces have
    /// none.
    pub(crate) async fn ensure(
        &mut self,
        api: &Api,
        flavor_spec: &Flavor,
    ) -> anyhow::Result<Arc<str>> {
        let is_equal = |existing_flavor: &&ExistingFlavor| {
            existing_flavor.vcpus == flavor_spec.vcpus
                && existing_flavor.ram == flavor_spec.memory_mib
                && existing_flavor.disk == 0
                && existing_flavor.ephemeral == 0
                && existing_flavor.extra_specs == flavor_spec.extra_specs
        };
        if let Some(existing_flavor) = self.existing.iter().find(is_equal) {
            return Ok(existing_flavor.id.as_str().into());
        }
        let created = self.create(api, flavor_spec).await;
        let id = created.with_context(|| format!("flavor {}", flavor_spec.name))?;
        self.existing.push(ExistingFlavor {
            id: id.clone(),
            name: flavor_spec.name.clone(),
            vcpus: flavor_spec.vcpus,
            ram: flavor_spec.memory_mib,
            disk: 0,
            ephemeral: 0,
            extra_specs: flavor_spec.extra_specs.clone(),
        });
        self.created_count += 1;
        Ok(id.into())
    }

    async fn create(&self, api: &Api, flavor_spec: &Flavor) -> Result<String, CallError> {
        let body = json!({"flavor": {
            "name": self.unused_name(&flavor_spec.name),
            "vcpus": flavor_spec.vcpus, "ram": flavor_spec.memory_mib, "disk": 0,
        }});
        let created: Created = api.post("/flavors", body.to_string()).await?;
        let id = created.flavor.id;
        if !flavor_spec.extra_specs.is_empty() {
            let path = format!("/flavors/{id}/os-extra_specs");
            let body = json!({"extra_specs": flavor_spec.extra_specs});
            api.post::<IgnoredAny>(&path, body.to_string()).await?;
        }
        Ok(id)
    }

    /// `name`, followed by a number if another flavor already has this name.
    fn unused_name(&self, name: &str) -> String {
        let is_used = |name: &str| self.existing.iter().any(|flavor| flavor.name == name);
        if !is_used(name) {
            return name.to_owned();
        }
        (2_u32..)
            .map(|number| format!("{name}-{number}"))
            .find(|name| !is_used(name))
            .unwrap_or_default()
    }
}
