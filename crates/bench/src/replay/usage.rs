//! The usage of an installation, from the placement API.

use std::collections::BTreeMap;

use placewright_trace::Node;
use placewright_trace::provider::providers;
use serde::Deserialize;
use serde_json::Value;

use super::api::{Api, CallError, Service};
use super::task_progress::Counts;

/// Amounts by resource class.
pub(crate) type Amounts = BTreeMap<String, u64>;

/// A sample of the installation during a run.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    /// The time in seconds since the start.
    pub(crate) at_s: f64,
    pub(crate) counts: Counts,
    /// The project's allocations, by resource class.
    pub(crate) used: Amounts,
}

#[derive(Debug, Deserialize)]
struct Usages {
    usages: BTreeMap<String, Value>,
}

/// The allocations of a project, summed over all consumers.
pub(crate) async fn project_usage(api: &Api, project: &str) -> Result<Amounts, CallError> {
    let path = format!("/usages?project_id={project}");
    let response = api.get::<Usages>(Service::Placement, &path).await?;
    let mut used = Amounts::new();
    // Each value has the number of consumers and the amounts of one consumer type.
    for amounts in response.body.usages.values() {
        for (class, amount) in amounts.as_object().into_iter().flatten() {
            if class != "consumer_count" {
                *used.entry(class.clone()).or_default() += amount.as_u64().unwrap_or(0);
            }
        }
    }
    Ok(used)
}

/// The total capacity of machines, without disk, which traces do not have.
pub(crate) fn totals(nodes: &[Node]) -> Amounts {
    let mut totals = Amounts::new();
    for (class, total) in nodes
        .iter()
        .flat_map(providers)
        .flat_map(|provider| provider.inventories)
    {
        if class != placewright_trace::DISK_GB {
            *totals.entry(class.to_owned()).or_default() += u64::from(total);
        }
    }
    totals
}

/// An amount in percent of a total; 0 if the total is 0.
#[expect(clippy::cast_precision_loss, reason = "amounts are below 2^53")]
pub(crate) fn percent(amount: u64, total: u64) -> f64 {
    if total == 0 {
        return 0.0;
    }
    amount as f64 / total as f64 * 100.0
}
