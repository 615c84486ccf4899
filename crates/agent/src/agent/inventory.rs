//! The descriptions of the hosts: read from the driver periodically, and written to placement.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use placewright_conductor::HostId;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::Readiness;
use crate::description::HostDescription;
use crate::driver::Driver;
use crate::placement::PlacementWriter;

/// The first delay before failed hosts are written again; it is doubled each time.
const RETRY_MIN: Duration = Duration::from_millis(200);
/// The longest such delay.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// How many failed hosts the log names; the others are counted.
const FAILURES_NAMED: usize = 5;

/// What the tasks of this module tell the runner of the hosts.
#[derive(Debug)]
pub(super) enum HostsNews {
    /// The driver describes the hosts like this.
    Described(Vec<HostDescription>),
    /// Placement has these hosts as they are described.
    Written(Vec<HostId>),
}

/// Lets the driver inspect its hosts periodically, and sends their descriptions to the runner.
pub(super) async fn inspect_periodically(
    driver: Arc<dyn Driver>,
    interval: Duration,
    to_runner: mpsc::Sender<HostsNews>,
) {
    loop {
        sleep(interval).await;
        match driver.inspect().await {
            Ok(hosts) => {
                if to_runner.send(HostsNews::Described(hosts)).await.is_err() {
                    return;
                }
            }
            Err(error) => tracing::warn!(%error, "the driver cannot say what hosts there are"),
        }
    }
}

/// Writes hosts to placement when they have changed, and all hosts once in each `resync_interval`, unless that is
/// zero. Hosts that could not be written are tried again until they are written. The runner is told which hosts
/// placement has.
pub(super) async fn write_changed(
    placement: PlacementWriter,
    mut changed: mpsc::UnboundedReceiver<Arc<HostDescription>>,
    to_runner: mpsc::Sender<HostsNews>,
    resync_interval: Duration,
    readiness: Arc<watch::Sender<Readiness>>,
) {
    let mut all: BTreeMap<HostId, Arc<HostDescription>> = BTreeMap::new();
    let mut due: BTreeMap<HostId, Arc<HostDescription>> = BTreeMap::new();
    let mut backoff = RETRY_MIN;
    let mut next_retry = None;
    let mut next_resync = Instant::now() + resync_interval;
    loop {
        // Without a retry this time is not used.
        let retry_at = next_retry.unwrap_or_else(Instant::now);
        tokio::select! {
            host = changed.recv() => {
                let Some(host) = host else { return };
                enqueue(host, &mut all, &mut due);
                while let Ok(host) = changed.try_recv() {
                    enqueue(host, &mut all, &mut due);
                }
            }
            // The hosts that failed are still in `due`.
            () = sleep_until(retry_at), if next_retry.is_some() => {}
            () = sleep_until(next_resync), if !resync_interval.is_zero() => {
                due.clone_from(&all);
                next_resync = Instant::now() + resync_interval;
            }
        }
        let started = Instant::now();
        let hosts: Vec<_> = std::mem::take(&mut due).into_values().collect();
        let report = placement.write(&hosts).await;
        tracing::info!(
            hosts = hosts.len(),
            requests = report.requests,
            writes = report.writes,
            failed = report.failed.len(),
            ms = started.elapsed().as_millis(),
            "wrote the inventories of hosts to placement"
        );
        for (host, error) in report.failed.iter().take(FAILURES_NAMED) {
            let name = all.get(host).map_or("", |host| host.name.as_str());
            tracing::warn!(%host, name, %error, "placement does not have the host as described");
        }
        let written = hosts.iter().map(|host| host.id());
        let written = written.filter(|id| !report.failed.contains_key(id));
        // An agent that has ended takes no news.
        let _ = to_runner.send(HostsNews::Written(written.collect())).await;
        if report.failed.is_empty() {
            next_retry = None;
            backoff = RETRY_MIN;
            readiness.send_modify(|readiness| readiness.is_in_placement = true);
            continue;
        }
        let failed = all.iter().filter(|(id, _)| report.failed.contains_key(id));
        due.extend(failed.map(|(id, host)| (*id, Arc::clone(host))));
        next_retry = Some(Instant::now() + backoff);
        backoff = (backoff * 2).min(RETRY_MAX);
    }
}

/// Records the newest description of a host, and makes it due to be written.
fn enqueue(
    host: Arc<HostDescription>,
    all: &mut BTreeMap<HostId, Arc<HostDescription>>,
    due: &mut BTreeMap<HostId, Arc<HostDescription>>,
) {
    all.insert(host.id(), Arc::clone(&host));
    due.insert(host.id(), host);
}
