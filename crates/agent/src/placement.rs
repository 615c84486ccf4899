//! Writes the hosts' inventories to placement, through its REST API.
//!
//! A host's tree of providers is read, and only the differences are written. A concurrent write to
//! the tree makes a write fail with a generation conflict: such hosts are read and written again,
//! all of them together, a few times. Every write may be repeated.
//!
//! The agent owns the inventories of the providers that are described. Traits and aggregates that a
//! description does not mention are left as they are, and so are further providers below the host,
//! which others may have created (networks do).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
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
    /// The most hosts that are written concurrently, each on a connection of its own.
    pub connections: usize,
    /// Time-out of a request.
    pub timeout: Duration,
}

impl Options {
    /// The default options, for a placement and the credentials for it.
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

/// Why a host could not be written to placement.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlacementError {
    /// The HTTP client cannot be created.
    #[error("placement's address {url} or the token cannot be used: {why}")]
    BadOptions {
        /// The address of placement.
        url: String,
        /// The reason, in a sentence.
        why: String,
    },
    /// Placement cannot be reached, or the connection was lost.
    #[error("placement cannot be reached: {0}")]
    Unreachable(String),
    /// Concurrent writes to the same provider conflicted too often.
    #[error("others change provider {0} at the same time")]
    Conflict(String),
    /// Placement refused a request.
    #[error("placement refuses {what}: {status}: {why}")]
    Refused {
        /// The method and path of the request.
        what: String,
        /// The HTTP status of the answer.
        status: u16,
        /// The reason in the answer.
        why: String,
    },
}

/// The result of writing hosts.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// How many requests were sent.
    pub requests: u64,
    /// How many of them wrote.
    pub writes: u64,
    /// The hosts that were not written, and why.
    pub failed: BTreeMap<HostId, PlacementError>,
}

/// How often a host with conflicts is tried, in one call.
const PASSES_MAX: usize = 4;

/// A client that writes hosts to placement.
#[derive(Clone, Debug)]
pub struct Placement {
    client: Arc<Client>,
    connections: usize,
}

impl Placement {
    /// Creates a client; it does not connect yet.
    ///
    /// # Errors
    ///
    /// The address or the token cannot be used.
    pub fn new(options: &Options) -> Result<Self, PlacementError> {
        Ok(Self {
            client: Arc::new(Client::new(options)?),
            connections: options.connections.max(1),
        })
    }

    /// Writes hosts so that placement has them as they are described.
    pub async fn write(&self, hosts: &[Arc<HostDescription>]) -> Report {
        let (requests, writes) = self.client.counts();
        let mut report = Report::default();
        if let Err(error) = self.ensure_names(hosts).await {
            let failed = hosts.iter().map(|host| (host.id(), error.clone()));
            report.failed = failed.collect();
        } else {
            self.write_trees(hosts, &mut report).await;
        }
        let (requests_now, writes_now) = self.client.counts();
        report.requests = requests_now - requests;
        report.writes = writes_now - writes;
        report
    }

    async fn write_trees(&self, hosts: &[Arc<HostDescription>], report: &mut Report) {
        let mut left: Vec<Arc<HostDescription>> = hosts.to_vec();
        for _ in 0..PASSES_MAX {
            let writes = std::mem::take(&mut left).into_iter().map(|host| {
                let client = Arc::clone(&self.client);
                async move {
                    let result = tree::write(&client, &host).await;
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
                            left.push(host);
                        }
                    }
                }
            }
        }
    }

    /// Creates the custom resource classes and traits that placement does not have yet.
    async fn ensure_names(&self, hosts: &[Arc<HostDescription>]) -> Result<(), PlacementError> {
        let mut classes = BTreeSet::new();
        let mut traits = BTreeSet::new();
        for provider in hosts.iter().flat_map(|host| host.providers()) {
            let own_classes = provider.inventories.keys();
            classes.extend(own_classes.filter(|name| is_own(name)));
            let own_traits = provider.traits.iter().filter(|(_, has)| **has);
            traits.extend(own_traits.map(|(name, _)| name).filter(|name| is_own(name)));
        }
        let paths = classes
            .iter()
            .map(|name| format!("/resource_classes/{name}"));
        let paths = paths.chain(traits.iter().map(|name| format!("/traits/{name}")));
        for path in paths {
            self.client
                .put(&path, None::<&()>)
                .await
                .map(PlacementResponse::done)??;
        }
        Ok(())
    }
}

/// Whether a name is not a standard one, and has to be created before it is used.
fn is_own(name: &str) -> bool {
    name.starts_with("CUSTOM_")
}
