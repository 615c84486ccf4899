//! Changes to hosts that add no rows: what a host's first consumer holds becomes a little more, and a little less
//! again.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::ensure;
use tokio::task::JoinSet;

use crate::bench::connection::Connection;
use crate::bench::http::phase_time_max;
use crate::bench::loaded_hosts::Host;
use crate::bench::phase::{Phase, WarmUp};
use crate::bench::requests::RequestBase;

/// By how much every other change of a host makes the allocation of its first consumer smaller than at the start, in
/// percent of the host's resources.
const STEP_PERCENT: u64 = 5;
/// The number of connections of [`keep_changing`].
const CONNECTIONS: u32 = 8;

/// A phase that changes one host after the other, as fast as the server answers, for some seconds.
pub(super) fn changes_phase(hosts: u64, seconds: f64) -> Phase {
    let base = base();
    Phase {
        name: "changes",
        units: u64::MAX,
        steps: 1,
        warm_up: WarmUp::same_request(base.version_request()),
        time_max: phase_time_max(seconds),
        write: Box::new(move |unit, _, output, body| {
            write_change(&base, output, body, unit, hosts);
        }),
    }
}

/// Changes one host after the other, at a rate of `changes_per_second`, until a change fails.
///
/// # Errors
///
/// A change failed, or a connection broke.
pub(super) async fn keep_changing(
    placement: SocketAddr,
    hosts: u64,
    changes_per_second: f64,
) -> anyhow::Result<()> {
    let next_change = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let next_change = Arc::clone(&next_change);
        tasks.spawn(async move {
            let base = base();
            let mut connection = Connection::new(placement);
            let (mut request, mut body) = (String::new(), String::new());
            let period = Duration::from_secs_f64(f64::from(CONNECTIONS) / changes_per_second);
            let mut ticks = tokio::time::interval(period);
            loop {
                ticks.tick().await;
                let change = next_change.fetch_add(1, Ordering::Relaxed);
                write_change(&base, &mut request, &mut body, change, hosts);
                let response = connection.exchange(request.as_bytes()).await?;
                let text = String::from_utf8_lossy(response.body);
                ensure!(
                    response.status == 204,
                    "a host could not be changed: {text}"
                );
            }
        });
    }
    match tasks.join_next().await {
        Some(ended) => ended?,
        None => Ok(()),
    }
}

/// The headers of requests of an administrator. The microversion is the last one in which the allocations of a consumer
/// are replaced without its generation.
fn base() -> RequestBase {
    RequestBase {
        prefix: String::new(),
        headers: "Host: 127.0.0.1\r\nAccept: application/json\r\n\
             OpenStack-API-Version: placement 1.27\r\nX-Auth-Token: admin\r\n"
            .to_owned(),
    }
}

/// Writes change number `change`.
fn write_change(
    base: &RequestBase,
    output: &mut String,
    body: &mut String,
    change: u64,
    hosts: u64,
) {
    let host = Host::new(change % hosts);
    let is_less = (change / hosts).is_multiple_of(2);
    let percent = host.allocated_percent - if is_less { STEP_PERCENT } else { 0 };
    body.clear();
    let _ = write!(
        body,
        "{{\"allocations\":{{\"{}\":{{\"resources\":{}}}}},\
         \"project_id\":\"bench-project\",\"user_id\":\"bench-user\"}}",
        host.uuid,
        host.resources_json(percent),
    );
    let path = format!("/allocations/{}", host.consumer);
    base.write(output, "PUT", &path, body);
}
