//! Counts retried builds, from the history of the servers' actions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::api::{Api, CallError, Service};

/// Builds beyond the first of each server.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct BuildRetries {
    /// Builds on a further host after a build that failed.
    pub(crate) builds: u64,
    /// Servers with such builds.
    pub(crate) servers: u64,
}

#[derive(Debug, Deserialize)]
struct Actions {
    #[serde(rename = "instanceActions")]
    actions: Vec<Action>,
}

#[derive(Debug, Deserialize)]
struct Action {
    action: String,
    request_id: String,
}

#[derive(Debug, Deserialize)]
struct ActionResponse {
    #[serde(rename = "instanceAction")]
    action: ActionDetail,
}

#[derive(Debug, Deserialize)]
struct ActionDetail {
    #[serde(default)]
    events: Vec<Event>,
}

#[derive(Debug, Deserialize)]
struct Event {
    #[serde(default)]
    event: String,
}

/// Counts the retries of these servers.
///
/// # Errors
///
/// The API sends no response, or an error.
pub(crate) async fn count(
    api: &Arc<Api>,
    servers: Vec<Uuid>,
    connections: usize,
) -> Result<BuildRetries, CallError> {
    let servers: Arc<[Uuid]> = servers.into();
    let next_index = Arc::new(AtomicUsize::new(0));
    let mut workers = JoinSet::new();
    for _ in 0..connections {
        let (api, servers, next_index) = (
            Arc::clone(api),
            Arc::clone(&servers),
            Arc::clone(&next_index),
        );
        workers.spawn(async move {
            let mut retries = BuildRetries::default();
            while let Some(server) = servers.get(next_index.fetch_add(1, Ordering::Relaxed)) {
                let retry_count = build_count(&api, *server).await?.saturating_sub(1);
                retries.builds += retry_count;
                retries.servers += u64::from(retry_count > 0);
            }
            Ok(retries)
        });
    }
    let mut total = BuildRetries::default();
    for retries in workers.join_all().await {
        let retries: BuildRetries = retries?;
        total.builds += retries.builds;
        total.servers += retries.servers;
    }
    Ok(total)
}

/// The number of builds of a server, including the last one.
async fn build_count(api: &Api, server: Uuid) -> Result<u64, CallError> {
    let path = format!("/servers/{server}/os-instance-actions");
    let actions = match api.get::<Actions>(Service::Compute, &path).await {
        Ok(response) => response.body.actions,
        // The server was deleted meanwhile.
        Err(error) if error.is_not_found() => return Ok(0),
        Err(error) => return Err(error),
    };
    let Some(create) = actions.iter().find(|action| action.action == "create") else {
        return Ok(0);
    };
    let path = format!("{path}/{}", create.request_id);
    let response = api
        .get::<ActionResponse>(Service::Compute, &path)
        .await?
        .body;
    let builds = response.action.events.iter();
    // Only events of hosts are builds; the other events are those of control.
    let builds = builds.filter(|event| event.event.starts_with("compute_"));
    Ok(builds.count() as u64)
}
