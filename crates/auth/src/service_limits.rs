//! The limits that Keystone has for a service.

use std::collections::BTreeMap;

use serde_json::Value;
use thiserror::Error;

use crate::config::KeystoneConfig;
use crate::error::SetupError;
use crate::keystone::client::Client;

/// Limits by the names of their resources; -1 is unlimited.
pub type NamedLimits = BTreeMap<String, i64>;

/// The limits of one service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceLimits {
    /// The registered limits, which hold for every project.
    pub registered: NamedLimits,
    /// The limits of projects, by their ids.
    pub projects: BTreeMap<String, NamedLimits>,
}

/// Reads the limits of one service from Keystone, as its service user with system scope.
pub struct LimitsReader {
    client: Client,
    service_type: String,
    region: Option<String>,
}

/// The limits could not be read, for this reason.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("Keystone does not tell the limits: {0}")]
pub struct NoLimits(String);

impl std::fmt::Debug for LimitsReader {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("LimitsReader")
            .field("service_type", &self.service_type)
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}

impl LimitsReader {
    /// The reader of a service's limits in a region. Does not contact Keystone yet.
    ///
    /// The service user needs a role that lets it read all limits: `reader` on the system.
    ///
    /// # Errors
    /// An option is missing or wrong, or a file that it names is.
    pub fn new(
        config: &KeystoneConfig,
        service_type: &str,
        region: Option<String>,
    ) -> Result<Self, SetupError> {
        // With the scope of a project Keystone tells that project's limits only.
        let config = KeystoneConfig {
            project_name: String::new(),
            ..config.clone()
        };
        Ok(Self {
            client: Client::new(&config)?,
            service_type: service_type.to_owned(),
            region,
        })
    }

    /// All limits of the service.
    ///
    /// # Errors
    /// Keystone cannot be reached, does not answer as it should, or knows no such service.
    pub async fn read(&self) -> Result<ServiceLimits, NoLimits> {
        let ids = self.services().await.map_err(NoLimits)?;
        let mut limits = ServiceLimits::default();
        for id in &ids {
            let registered = self.list("registered_limits", id).await.map_err(NoLimits)?;
            limits
                .registered
                .extend(self.of_region(&registered, "default_limit"));
            let own = self.list("limits", id).await.map_err(NoLimits)?;
            let mut projects: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
            for limit in &own {
                if let Some(project) = limit["project_id"].as_str() {
                    projects.entry(project).or_default().push(limit.clone());
                }
            }
            for (project, own) in projects {
                let known = limits.projects.entry(project.to_owned()).or_default();
                known.extend(self.of_region(&own, "resource_limit"));
            }
        }
        Ok(limits)
    }

    /// The ids of the services of that type.
    async fn services(&self) -> Result<Vec<String>, String> {
        let query = [("type", self.service_type.as_str())];
        let answer = self.client.get("/services", &query).await?;
        let services = items(&answer, "services")?;
        let ids = services.iter().filter_map(|one| one["id"].as_str());
        let ids: Vec<String> = ids.map(str::to_owned).collect();
        if ids.is_empty() {
            return Err(format!("it knows no service of type {}", self.service_type));
        }
        Ok(ids)
    }

    async fn list(&self, kind: &str, service: &str) -> Result<Vec<Value>, String> {
        let query = [("service_id", service)];
        let answer = self.client.get(&format!("/{kind}"), &query).await?;
        let is_whole = answer["truncated"] != true && answer["links"]["next"].is_null();
        if !is_whole {
            return Err(format!("its list of {kind} is cut off"));
        }
        items(&answer, kind).cloned()
    }

    /// The limits that hold in the region. One of the region comes before one without a region.
    /// Without a configured region all are taken, and of several the least.
    fn of_region(&self, limits: &[Value], field: &str) -> NamedLimits {
        let mut general = NamedLimits::new();
        let mut own = NamedLimits::new();
        for limit in limits {
            let (Some(name), Some(most)) = (limit["resource_name"].as_str(), limit[field].as_i64())
            else {
                continue;
            };
            let kept = match (limit["region_id"].as_str(), &self.region) {
                (Some(region), Some(wanted)) if region == wanted => &mut own,
                (Some(_), Some(_)) => continue,
                (None, _) | (_, None) => &mut general,
            };
            let kept = kept.entry(name.to_owned()).or_insert(most);
            if *kept < 0 || (0..*kept).contains(&most) {
                *kept = most;
            }
        }
        general.extend(own);
        general
    }
}

fn items<'v>(answer: &'v Value, kind: &str) -> Result<&'v Vec<Value>, String> {
    let items = answer[kind].as_array();
    items.ok_or_else(|| format!("its answer has no {kind}"))
}
