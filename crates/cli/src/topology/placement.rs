//! The aggregates of hosts, in the Placement API.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail};
use placewright_auth::Secret;
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use super::ServiceArgs;
use crate::client::{REQUEST_TIMEOUT, reason_of};

/// How often the write of a host's aggregates is tried. It is refused if the host has changed since they were read.
const ATTEMPTS: u32 = 5;

#[derive(Deserialize)]
struct Providers {
    resource_providers: Vec<Provider>,
}

#[derive(Deserialize)]
pub(super) struct Provider {
    pub(super) uuid: Uuid,
    pub(super) name: String,
    pub(super) root_provider_uuid: Uuid,
}

#[derive(Deserialize)]
struct Aggregates {
    aggregates: BTreeSet<Uuid>,
    resource_provider_generation: u64,
}

/// A client of the Placement API for aggregates.
pub(super) struct Placement<'a> {
    http: reqwest::Client,
    service_args: &'a ServiceArgs,
    token: Secret,
}

impl<'a> Placement<'a> {
    /// A client for the Placement API at the address in the arguments. It authenticates with this token.
    ///
    /// # Errors
    ///
    /// The HTTP client could not be made.
    pub(super) fn new(service_args: &'a ServiceArgs, token: Secret) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder()
            .timeout(REQUEST_TIMEOUT)
            // A server to which a redirect leads must not see the token.
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        Ok(Self {
            http,
            service_args,
            token,
        })
    }

    /// The UUIDs of the hosts that are members of an aggregate.
    pub(super) async fn members(&self, aggregate: Uuid) -> anyhow::Result<Vec<Uuid>> {
        let path = format!("/resource_providers?member_of={aggregate}");
        let providers: Providers = self.get(&path).await?;
        let roots = providers.resource_providers.into_iter();
        let roots = roots.filter(|provider| provider.uuid == provider.root_provider_uuid);
        Ok(roots.map(|root| root.uuid).collect())
    }

    fn request(&self, method: reqwest::Method, path: &str) -> reqwest::RequestBuilder {
        let url = format!("{}{path}", self.service_args.url.trim_end_matches('/'));
        let request = self.http.request(method, url);
        request
            .header("x-auth-token", self.token.expose())
            .header("openstack-api-version", "placement 1.39")
    }

    async fn get<T: serde::de::DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let response = self.request(reqwest::Method::GET, path).send().await;
        let response =
            response.with_context(|| format!("no answer from {}", self.service_args.url))?;
        let status = response.status();
        let text = response.text().await?;
        if !status.is_success() {
            bail!("GET {path}: {status}: {}", reason_of(&text));
        }
        serde_json::from_str(&text).with_context(|| format!("the answer of GET {path}"))
    }

    /// The hosts: all providers without a parent.
    pub(super) async fn roots(&self) -> anyhow::Result<Vec<Provider>> {
        let providers: Providers = self.get("/resource_providers").await?;
        let roots = providers.resource_providers.into_iter();
        Ok(roots
            .filter(|provider| provider.uuid == provider.root_provider_uuid)
            .collect())
    }

    /// Adds a host to `host_places` and removes it from all other places in `covered_places`. Returns whether that
    /// changes the host's aggregates. With `--dry-run` it writes nothing.
    pub(super) async fn move_host(
        &self,
        host: &Provider,
        host_places: &BTreeSet<Uuid>,
        covered_places: &BTreeSet<Uuid>,
    ) -> anyhow::Result<bool> {
        let path = format!("/resource_providers/{}/aggregates", host.uuid);
        for _ in 0..ATTEMPTS {
            let current: Aggregates = self.get(&path).await?;
            let other_aggregates = current.aggregates.difference(covered_places);
            let changed: BTreeSet<Uuid> = other_aggregates.chain(host_places).copied().collect();
            if changed == current.aggregates {
                return Ok(false);
            }
            if self.service_args.dry_run {
                return Ok(true);
            }
            let body = json!({
                "aggregates": changed,
                "resource_provider_generation": current.resource_provider_generation,
            });
            let request = self.request(reqwest::Method::PUT, &path);
            let response = request.json(&body).send().await?;
            match response.status().as_u16() {
                200 => return Ok(true),
                409 => {}
                status => bail!(
                    "PUT {path}: {status}: {}",
                    reason_of(&response.text().await?)
                ),
            }
        }
        bail!("host {} changes too often: try again", host.name)
    }
}
