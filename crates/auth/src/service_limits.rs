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
    /// The registered limits, which apply to every project without a limit of its own.
    pub registered: NamedLimits,
    /// The limits of projects, by their ids.
    pub projects: BTreeMap<String, NamedLimits>,
}

/// Reads the limits of one service from Keystone, as Placewright's service user with system scope.
pub struct LimitsReader {
    client: Client,
    service_type: String,
    region: Option<String>,
}

/// The limits could not be read, for this reason.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("Keystone does not report the limits: {0}")]
pub struct LimitsError(String);

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
    /// An option is missing or wrong, or a file that it names cannot be used.
    pub fn new(
        config: &KeystoneConfig,
        service_type: &str,
        region: Option<String>,
    ) -> Result<Self, SetupError> {
        // With the scope of a project, Keystone lists only that project's limits.
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
    /// Keystone cannot be reached, sends an invalid response, or has no such service.
    pub async fn read(&self) -> Result<ServiceLimits, LimitsError> {
        let ids = self.service_ids().await.map_err(LimitsError)?;
        let mut limits = ServiceLimits::default();
        for id in &ids {
            let registered = self
                .list("registered_limits", id)
                .await
                .map_err(LimitsError)?;
            limits
                .registered
                .extend(self.limits_of_region(&registered, "default_limit"));
            let project_limits = self.list("limits", id).await.map_err(LimitsError)?;
            let mut projects: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
            for limit in &project_limits {
                if let Some(project) = limit["project_id"].as_str() {
                    projects.entry(project).or_default().push(limit.clone());
                }
            }
            for (project, limits_of_project) in projects {
                let named_limits = limits.projects.entry(project.to_owned()).or_default();
                named_limits.extend(self.limits_of_region(&limits_of_project, "resource_limit"));
            }
        }
        Ok(limits)
    }

    /// The ids of the services of the configured type.
    async fn service_ids(&self) -> Result<Vec<String>, String> {
        let query = [("type", self.service_type.as_str())];
        let response = self.client.get("/services", &query).await?;
        let services = items(&response, "services")?;
        let ids = services.iter().filter_map(|service| service["id"].as_str());
        let ids: Vec<String> = ids.map(str::to_owned).collect();
        if ids.is_empty() {
            return Err(format!("it knows no service of type {}", self.service_type));
        }
        Ok(ids)
    }

    /// The items of a list that belong to a service. `kind` is the last part of the list's path.
    async fn list(&self, kind: &str, service: &str) -> Result<Vec<Value>, String> {
        let query = [("service_id", service)];
        let response = self.client.get(&format!("/{kind}"), &query).await?;
        let is_complete = response["truncated"] != true && response["links"]["next"].is_null();
        if !is_complete {
            return Err(format!("its list of {kind} is cut off"));
        }
        items(&response, kind).cloned()
    }

    /// The limits that apply in the configured region. A limit of the region takes precedence over one
    /// without a region. If no region is configured, the least limit of all regions applies.
    fn limits_of_region(&self, limits: &[Value], field: &str) -> NamedLimits {
        let mut general = NamedLimits::new();
        let mut regional = NamedLimits::new();
        for limit in limits {
            let (Some(name), Some(value)) =
                (limit["resource_name"].as_str(), limit[field].as_i64())
            else {
                continue;
            };
            let limits_of_scope = match (limit["region_id"].as_str(), &self.region) {
                (Some(region), Some(configured)) if region == configured => &mut regional,
                (Some(_), Some(_)) => continue,
                (None, _) | (_, None) => &mut general,
            };
            let least = limits_of_scope.entry(name.to_owned()).or_insert(value);
            // A negative limit is unlimited, so any other is less.
            if *least < 0 || (0..*least).contains(&value) {
                *least = value;
            }
        }
        general.extend(regional);
        general
    }
}

/// The array with this name in a response.
fn items<'v>(response: &'v Value, kind: &str) -> Result<&'v Vec<Value>, String> {
    let items = response[kind].as_array();
    items.ok_or_else(|| format!("its answer has no {kind}"))
}
