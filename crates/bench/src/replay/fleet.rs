//! Compares an installation's hosts with those of a trace.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use placewright_trace::Node;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::api::{Api, Service};

#[derive(Debug, Deserialize)]
struct Page {
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
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// The most names in a message.
const NAMES_SHOWN: usize = 5;

impl Fleet {
    /// Reads all hosts of the installation.
    pub(crate) async fn read(api: &Api) -> anyhow::Result<Self> {
        let base = "/os-hypervisors/detail?limit=1000";
        let mut path = base.to_owned();
        let mut fleet = Self::default();
        loop {
            let answer = api.get::<Page>(Service::Compute, &path).await;
            let page = answer.context("the hosts of the installation")?.body;
            let last = page.hypervisors.last().map(|host| host.id.clone());
            for host in page.hypervisors {
                let is_ready = host.state == "up" && host.status == "enabled";
                let list = if is_ready {
                    &mut fleet.ready
                } else {
                    &mut fleet.unready
                };
                list.insert(host.hypervisor_hostname);
            }
            match last {
                Some(last) if !page.hypervisors_links.is_empty() => {
                    path = format!("{base}&marker={last}");
                }
                _ => return Ok(fleet),
            }
        }
    }

    /// How the fleet differs from these nodes, as text; none if it does not.
    pub(crate) fn lacks(&self, nodes: &[Node]) -> Option<String> {
        let is_ready = |node: &&Node| self.ready.contains(&node.name);
        let (missing, unready): (Vec<&str>, Vec<&str>) = nodes
            .iter()
            .filter(|node| !is_ready(node))
            .map(|node| &*node.name)
            .partition(|name| !self.unready.contains(*name));
        let mut lacks = Vec::new();
        for (names, what) in [(missing, "not there"), (unready, "down or disabled")] {
            if !names.is_empty() {
                lacks.push(format!(
                    "{} of {} hosts are {what}: {}",
                    names.len(),
                    nodes.len(),
                    shown(&names)
                ));
            }
        }
        (!lacks.is_empty()).then(|| lacks.join("; "))
    }

    /// The number of hosts beyond these nodes.
    pub(crate) fn beyond(&self, nodes: &[Node]) -> usize {
        let names: BTreeSet<&str> = nodes.iter().map(|node| &*node.name).collect();
        let all = self.ready.iter().chain(&self.unready);
        all.filter(|name| !names.contains(name.as_str())).count()
    }
}

/// Waits until an installation has the hosts of these nodes.
///
/// # Errors
///
/// It does not have them after this time, with what is missing.
pub(crate) async fn wait_for(api: &Api, nodes: &[Node], wait: Duration) -> anyhow::Result<Fleet> {
    let start = Instant::now();
    loop {
        let fleet = Fleet::read(api).await?;
        let Some(lacks) = fleet.lacks(nodes) else {
            return Ok(fleet);
        };
        if start.elapsed() >= wait {
            bail!(
                "the installation lacks hosts of the nodes file: {lacks}.\n\
                 Start it with them: placewright up --nodes NODES.csv"
            );
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

fn shown(names: &[&str]) -> String {
    let first = names[..names.len().min(NAMES_SHOWN)].join(", ");
    if names.len() > NAMES_SHOWN {
        format!("{first} …")
    } else {
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said() {
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
            fleet.lacks(&nodes).unwrap(),
            "1 of 3 hosts are not there: b; 1 of 3 hosts are down or disabled: c"
        );
        assert_eq!(fleet.lacks(&nodes[..1]), None);
        assert_eq!(fleet.beyond(&nodes), 1);
    }
}
