//! Says to placement what hosts have, through its REST API.
//!
//! A host's tree is read, and only what differs is written. Whoever else writes to the tree at the
//! same time makes a write fail with a conflict of generations: such hosts are read and written
//! again, all of them together, a few times. Everything may be repeated.
//!
//! A provider that is described belongs to the agent: its inventory is what the description says.
//! Traits and aggregates that a description does not speak of are left as they are, and so are
//! providers, which others may have put below the host (networks do).

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
use client::{Client, Given};

/// How to reach placement.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its address, as `http://127.0.0.1:8778`.
    pub url: String,
    /// Who is asking.
    pub credentials: Credentials,
    /// The most hosts that are written at the same time, each on a connection of its own.
    pub connections: usize,
    /// How long an answer may take.
    pub timeout: Duration,
}

impl Options {
    /// The defaults, for one placement.
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

/// Why placement does not have a host as it is.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlacementError {
    /// There is no client.
    #[error("placement's address {url} or the token cannot be used: {why}")]
    BadOptions {
        /// The address.
        url: String,
        /// Why.
        why: String,
    },
    /// It cannot be reached, or breaks off.
    #[error("placement cannot be reached: {0}")]
    Unreachable(String),
    /// Others write to the same provider all the time.
    #[error("others change provider {0} at the same time")]
    Conflict(String),
    /// It will not do it.
    #[error("placement refuses {what}: {status}: {why}")]
    Refused {
        /// What.
        what: String,
        /// The answer's status.
        status: u16,
        /// The answer's reason.
        why: String,
    },
}

/// What became of hosts.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// How many requests were sent.
    pub requests: u64,
    /// How many of them wrote.
    pub writes: u64,
    /// The hosts that placement does not have as they are, and why.
    pub failed: BTreeMap<HostId, PlacementError>,
}

/// After so many conflicts a host is given up for this time.
const PASSES_MAX: usize = 4;

/// Placement, as an agent writes to it.
#[derive(Clone, Debug)]
pub struct Placement {
    client: Arc<Client>,
    connections: usize,
}

impl Placement {
    /// Placement at an address.
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

    /// Has placement know hosts as they are described.
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

    /// Creates the resource classes and traits of one's own that are not there yet.
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
                .map(Given::done)??;
        }
        Ok(())
    }
}

/// Names that are not in the standard have to be made before they are used.
fn is_own(name: &str) -> bool {
    name.starts_with("CUSTOM_")
}
