//! Compares an installation's hosts with those of a trace.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use placewright_trace::Node;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::api::{Api, Service};

#[derive(Debug, Deserialize)]
struct HypervisorPage {
    hypervisors: Vec<Hypervisor>,
    #[serde(default)]
    hypervisors_links: Vec<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
struct Hypervisor {
    id: String,
    hypervisor_hostname: String,
    state: String,
    status: String,
}

/// The hosts of an installation by name.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    /// Hosts that can get instances.
    pub(crate) ready: BTreeSet<String>,
    /// Hosts that are down or disabled.
    pub(crate) unready: BTreeSet<String>,
}

/// The interval at which an incomplete fleet is read again.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The maximum number of names in a message.
const NAMES_SHOWN_MAX: usize = 5;

impl Fleet {
    /// Reads all hosts of the installation.
    pub(crate) async fn read(api: &Api) -> anyhow::Result<Self> {
        let base = "/os-hypervisors/detail?limit=1000";
        let mut path = base.to_owned();
        let mut fleet = Self::default();
        loop {
            let response = api.get::<HypervisorPage>(Service::Compute, &path).await;
            let page = response.context("the hosts of the installation")?.body;
            let last_id = page.hypervisors.last().map(|host| host.id.clone());
            for host in page.hypervisors {
                let is_ready = host.state == "up" && host.status == "enabled";
                let list = if is_ready {
                    &mut fleet.ready
                } else {
                    &mut fleet.unready
                };
                list.insert(host.hypervisor_hostname);
            }
            match last_id {
                Some(last_id) if !page.hypervisors_links.is_empty() => {
                    path = format!("{base}&marker={last_id}");
                }
                _ => return Ok(fleet),
            }
        }
    }

    /// The nodes that the fleet lacks or that are not ready, as text; `None` if all are ready.
    pub(crate) fn difference(&self, nodes: &[Node]) -> Option<String> {
        let is_ready = |node: &&Node| self.ready.contains(&node.name);
        let (missing, unready): (Vec<&str>, Vec<&str>) = nodes
            .iter()
            .filter(|node| !is_ready(node))
            .map(|node| &*node.name)
            .partition(|name| !self.unready.contains(*name));
        let mut differences = Vec::new();
        for (names, problem) in [(missing, "not there"), (unready, "down or disabled")] {
            if !names.is_empty() {
                differences.push(format!(
                    "{} of {} hosts are {problem}: {}",
                    names.len(),
                    nodes.len(),
                    name_list(&names)
                ));
            }
        }
        (!differences.is_empty()).then(|| differences.join("; "))
    }

    /// The number of hosts that are not among these nodes.
    pub(crate) fn additional_hosts(&self, nodes: &[Node]) -> usize {
        let names: BTreeSet<&str> = nodes.iter().map(|node| &*node.name).collect();
        let all_names = self.ready.iter().chain(&self.unready);
        all_names
            .filter(|name| !names.contains(name.as_str()))
            .count()
    }
}

/// Waits until an installation has the hosts of these nodes.
///
/// # Errors
///
/// The installation does not have all these hosts after the time `wait`; the error names those that are missing.
pub(crate) async fn wait_for(api: &Api, nodes: &[Node], wait: Duration) -> anyhow::Result<Fleet> {
    let start = Instant::now();
    loop {
        let fleet = Fleet::read(api).await?;
        let Some(difference) = fleet.difference(nodes) else {
            return Ok(fleet);
        };
        if start.elapsed() >= wait {
            bail!(
                "the installation lacks hosts of the nodes file: {difference}.\n\
                 Start it with them: placewright up --nodes NODES.csv"
            );
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn name_list(names: &[&str]) -> String {
    let first = names[..names.len().min(NAMES_SHOWN_MAX)].join(", ");
    if names.len() > NAMES_SHOWN_MAX {
        format!("{first} …")
    } else {
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_unready_hosts_are_named() {
        let node = |name: &str| Node {
            name: name.to_owned(),
            cpu_milli: 1,
            memory_mib: 1,
            gpus: 0,
            gpu_model: None,
        };
        let nodes = [node("a"), node("b"), node("c")];
        let fleet = Fleet {
            ready: ["a".to_owned(), "z".to_owned()].into(),
            unready: ["c".to_owned()].into(),
        };
        assert_eq!(
            fleet.difference(&nodes).unwrap(),
            "1 of 3 hosts are not there: b; 1 of 3 hosts are down or disabled: c"
        );
        assert_eq!(fleet.difference(&nodes[..1]), None);
        assert_eq!(fleet.additional_hosts(&nodes), 1);
    }
}
