//! Writes the hosts' inventories to placement, through its REST API.
//!
//! A host's tree of providers is read, unless the host is probably new, and only the differences are written. A
//! concurrent change of the tree makes a write fail with a generation conflict: the trees of such hosts are read and
//! written again, a few times. Writes are idempotent.
//!
//! The agent owns the inventories of the providers that are described. Traits and aggregates that a
//! description does not mention are left as they are, and so are other providers below the host, which
//! other services may have created (network services do).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use placewright_conductor::HostId;
use thiserror::Error;

use crate::description::HostDescription;

mod client;
mod tree;

pub use client::Credentials;
use client::{Client, PlacementResponse};

/// How to reach placement.
#[derive(Clone, Debug)]
pub struct Options {
    /// Placement's address, such as `http://127.0.0.1:8778`.
    pub url: String,
    /// How the agent authenticates.
    pub credentials: Credentials,
    /// The maximum number of hosts that are written concurrently, each over its own connection.
    pub connections: usize,
    /// Time-out of a request.
    pub timeout: Duration,
}

impl Options {
    /// The default options for the Placement service at `url`, with the credentials for it.
    #[must_use]
    pub fn new(url: impl Into<String>, credentials: Credentials) -> Self {
        Self {
            url: url.into(),
            credentials,
            connections: 16,
            timeout: Duration::from_secs(30),
        }
    }
}

/// Why placement cannot be used, or a host could not be written to it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlacementError {
    /// The address or the token cannot be used, or the HTTP client cannot be created.
    #[error("placement's address {url} or the token cannot be used: {why}")]
    BadOptions {
        /// The address of placement.
        url: String,
        /// The reason, in a sentence.
        why: String,
    },
    /// Placement cannot be reached, the connection was lost, the status was 5xx, or Keystone gave no token.
    #[error("placement cannot be reached: {0}")]
    Unreachable(String),
    /// A concurrent write changed the same provider, even in the last attempt. Contains the provider's name, or the
    /// method and path of the request that conflicted.
    #[error("others change provider {0} at the same time")]
    Conflict(String),
    /// Placement refused a request, or its response cannot be decoded.
    #[error("placement refuses {request}: {status}: {why}")]
    Refused {
        /// The method and path of the request.
        request: String,
        /// The HTTP status of the response.
        status: u16,
        /// The reason in the response.
        why: String,
    },
}

/// The result of writing hosts.
#[derive(Clone, Debug, Default)]
pub struct WriteReport {
    /// The number of requests that were sent.
    pub requests: u64,
    /// The number of requests other than reads.
    pub writes: u64,
    /// The hosts that were not written, and why.
    pub failed: BTreeMap<HostId, PlacementError>,
}

/// How often a host with generation conflicts is tried in one call.
const ATTEMPTS_MAX: usize = 4;

/// A client that writes hosts to placement.
#[derive(Clone, Debug)]
pub struct PlacementWriter {
    client: Arc<Client>,
    connections: usize,
}

impl PlacementWriter {
    /// Creates a client; it does not connect yet.
    ///
    /// # Errors
    ///
    /// The address or the token cannot be used, or the HTTP client cannot be created.
    pub fn new(options: &Options) -> Result<Self, PlacementError> {
        Ok(Self {
            client: Arc::new(Client::new(options)?),
            connections: options.connections.max(1),
        })
    }

    /// Writes hosts so that placement has them as they are described.
    pub async fn write(&self, hosts: &[Arc<HostDescription>]) -> WriteReport {
        let (requests_before, writes_before) = self.client.counts();
        let mut report = WriteReport::default();
        if let Err(error) = self.ensure_classes_and_traits(hosts).await {
            let failed = hosts.iter().map(|host| (host.id(), error.clone()));
            report.failed = failed.collect();
        } else {
            self.write_trees(hosts, &mut report).await;
        }
        let (requests, writes) = self.client.counts();
        report.requests = requests - requests_before;
        report.writes = writes - writes_before;
        report
    }

    /// Writes the trees of hosts. Those with a generation conflict are tried again, [`ATTEMPTS_MAX`] times in all.
    async fn write_trees(&self, hosts: &[Arc<HostDescription>], report: &mut WriteReport) {
        let mut remaining: Vec<Arc<HostDescription>> = hosts.to_vec();
        let was_last_host_missing = Arc::new(AtomicBool::new(false));
        for _ in 0..ATTEMPTS_MAX {
            let writes = std::mem::take(&mut remaining).into_iter().map(|host| {
                let client = Arc::clone(&self.client);
                let was_last_host_missing = Arc::clone(&was_last_host_missing);
                async move {
                    let result = tree::write(&client, &host, &was_last_host_missing).await;
                    (host, result)
                }
            });
            let results = stream::iter(writes).buffer_unordered(self.connections);
            let results: Vec<_> = results.collect().await;
            for (host, result) in results {
                match result {
                    Ok(()) => {
                        report.failed.remove(&host.id());
                    }
                    Err(error) => {
                        let is_conflict = matches!(error, PlacementError::Conflict(_));
                        report.failed.insert(host.id(), error);
                        if is_conflict {
                            remaining.push(host);
                        }
                    }
                }
            }
        }
    }

    /// Creates the custom resource classes and traits of the hosts, as far as placement lacks them.
    async fn ensure_classes_and_traits(
        &self,
        hosts: &[Arc<HostDescription>],
    ) -> Result<(), PlacementError> {
        let mut classes = BTreeSet::new();
        let mut traits = BTreeSet::new();
        for provider in hosts.iter().flat_map(|host| host.providers()) {
            let used_classes = provider.inventories.keys();
            classes.extend(used_classes.filter(|name| is_custom(name)));
            let used_traits = provider.traits.iter().filter(|(_, is_set)| **is_set);
            traits.extend(
                used_traits
                    .map(|(name, _)| name)
                    .filter(|name| is_custom(name)),
            );
        }
        let paths = classes
            .iter()
            .map(|name| format!("/resource_classes/{name}"));
        let paths = paths.chain(traits.iter().map(|name| format!("/traits/{name}")));
        for path in paths {
            self.client
                .put(&path, None::<&()>)
                .await
                .map(PlacementResponse::check)??;
        }
        Ok(())
    }
}

/// Whether a resource class or trait is a custom one, which has to be created before it is used.
fn is_custom(name: &str) -> bool {
    name.starts_with("CUSTOM_")
}
