//! The flavors of a trace in the installation: found by their properties, or created.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use placewright_trace::Flavor;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use super::api::{Api, CallError, Service};

#[derive(Debug, Deserialize)]
struct Page {
    flavors: Vec<Shown>,
    #[serde(default)]
    flavors_links: Vec<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
struct Shown {
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
    there: Vec<Shown>,
    /// How many were created.
    pub(crate) made: usize,
}

impl Flavors {
    /// Reads all flavors of an installation.
    pub(crate) async fn read(api: &Api) -> anyhow::Result<Self> {
        let base = "/flavors/detail?is_public=None&limit=1000";
        let mut path = base.to_owned();
        let mut there = Vec::new();
        loop {
            let answer = api.get::<Page>(Service::Compute, &path).await;
            let page = answer.context("the flavors of the installation")?.body;
            let last = page.flavors.last().map(|flavor| flavor.id.clone());
            there.extend(page.flavors);
            match last {
                Some(last) if !page.flavors_links.is_empty() => {
                    path = format!("{base}&marker={last}");
                }
                _ => return Ok(Self { there, made: 0 }),
            }
        }
    }

    /// The id of a flavor with these properties, which is created if there is none.
    pub(crate) async fn ensure(&mut self, api: &Api, wanted: &Flavor) -> anyhow::Result<Arc<str>> {
        let is_like = |shown: &&Shown| {
            shown.vcpus == wanted.vcpus
                && shown.ram == wanted.memory_mib
                && shown.disk == 0
                && shown.ephemeral == 0
                && shown.extra_specs == wanted.extra_specs
        };
        if let Some(shown) = self.there.iter().find(is_like) {
            return Ok(shown.id.as_str().into());
        }
        let made = self.make(api, wanted).await;
        let id = made.with_context(|| format!("flavor {}", wanted.name))?;
        self.there.push(Shown {
            id: id.clone(),
            name: wanted.name.clone(),
            vcpus: wanted.vcpus,
            ram: wanted.memory_mib,
            disk: 0,
            ephemeral: 0,
            extra_specs: wanted.extra_specs.clone(),
        });
        self.made += 1;
        Ok(id.into())
    }

    async fn make(&self, api: &Api, wanted: &Flavor) -> Result<String, CallError> {
        let body = json!({"flavor": {
            "name": self.free_name(&wanted.name),
            "vcpus": wanted.vcpus, "ram": wanted.memory_mib, "disk": 0,
        }});
        let created: Created = api.post("/flavors", body.to_string()).await?;
        let id = created.flavor.id;
        if !wanted.extra_specs.is_empty() {
            let path = format!("/flavors/{id}/os-extra_specs");
            let body = json!({"extra_specs": wanted.extra_specs});
            api.post::<IgnoredAny>(&path, body.to_string()).await?;
        }
        Ok(id)
    }

    /// The name, or the next one that no flavor with other properties has.
    fn free_name(&self, name: &str) -> String {
        let is_taken = |name: &str| self.there.iter().any(|flavor| flavor.name == name);
        if !is_taken(name) {
            return name.to_owned();
        }
        (2_u32..)
            .map(|number| format!("{name}-{number}"))
            .find(|name| !is_taken(name))
            .unwrap_or_default()
    }
}
