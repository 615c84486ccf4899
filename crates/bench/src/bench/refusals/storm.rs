//! Measures claims while very many other requests are refused: explanations must not slow claims down.
//!
//! A connection is a task that calls the scheduler's service in this process, one request after the other; there are
//! no sockets.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use http_body_util::Full;
use hyper::Request;
use placewright_api_scheduler::SchedulerService;
use serde::Serialize;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::{KINDS, request_destination, send};
use crate::bench::requests::RandomNumbers;
use crate::bench::targets::{TargetedFigure, at_least, at_most};

/// The number of connections that claim.
const CLAIMING_CONNECTIONS: u64 = 8;
/// The seeds of random numbers, one for each purpose.
const REFUSED_INSTANCE_SEED: u64 = 6;
const CLAIMED_INSTANCE_SEED: u64 = 7;
/// The duration of a measurement.
const MEASUREMENT_TIME: Duration = Duration::from_secs(5);

/// Target: the 99th percentile of claims while other requests are refused, in milliseconds.
const P99_MS: f64 = 50.0;

/// The measurements of the claims.
#[derive(Debug, Serialize)]
pub(super) struct Claims {
    /// The number of connections whose requests were refused at the same time.
    refusing: usize,
    claims_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    refusals_per_s: f64,
}

impl Claims {
    /// The targets. While other requests are refused, the rate of claims has to be at least a share of the rate without
    /// refusals: the claiming connections' share of all connections.
    pub(super) fn targets(&self, without_refusals: &Self) -> [TargetedFigure; 2] {
        let claiming = CLAIMING_CONNECTIONS as f64;
        let fair_share = claiming / (claiming + self.refusing as f64);
        let claims_share = self.claims_per_s / without_refusals.claims_per_s.max(1.0);
        [
            at_least(
                "claims beside refusals, % of those alone",
                claims_share * 100.0,
                (fair_share * 100.0).ceil(),
            ),
            at_most("p99 of a claim beside refusals in ms", self.p99_ms, P99_MS),
        ]
    }
}

impl fmt::Display for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{CLAIMING_CONNECTIONS} claim beside {} refused: {:.0} claims/s   p50 {:.2} ms   p99 {:.2} ms   \
             ({:.0} refusals/s)",
            self.refusing, self.claims_per_s, self.p50_ms, self.p99_ms, self.refusals_per_s
        )
    }
}

/// The data that the concurrent connections share. `Relaxed` is enough for the atomics, because no other memory depends
/// on them.
struct Storm {
    service: Arc<SchedulerService>,
    is_over: AtomicBool,
    refused: AtomicU64,
}

/// Claims and releases on some connections, while requests on `refusing` other connections are refused.
pub(super) async fn claims_beside(
    service: &Arc<SchedulerService>,
    refusing: usize,
) -> anyhow::Result<Claims> {
    let storm = Arc::new(Storm {
        service: Arc::clone(service),
        is_over: AtomicBool::new(false),
        refused: AtomicU64::new(0),
    });
    let mut refused_connections = JoinSet::new();
    for number in 0..refusing {
        refused_connections.spawn(Arc::clone(&storm).request_until_over(number));
    }
    let mut claiming_connections = JoinSet::new();
    for number in 0..CLAIMING_CONNECTIONS {
        // The streams differ between the measurements, so that the instances are new.
        let stream = refusing as u64 * CLAIMING_CONNECTIONS + number;
        claiming_connections.spawn(Arc::clone(&storm).claim(stream));
    }
    let start = Instant::now();
    tokio::time::sleep(MEASUREMENT_TIME).await;
    storm.is_over.store(true, Ordering::Relaxed);
    let seconds = start.elapsed().as_secs_f64();
    let refusals = storm.refused.load(Ordering::Relaxed);
    let mut times = Vec::new();
    while let Some(done) = claiming_connections.join_next().await {
        times.extend(done??);
    }
    while let Some(done) = refused_connections.join_next().await {
        done??;
    }
    times.sort_by(f64::total_cmp);
    let percentile = |percent: usize| times.get(times.len() * percent / 100).copied();
    Ok(Claims {
        refusing,
        claims_per_s: times.len() as f64 / seconds,
        p50_ms: percentile(50).unwrap_or(0.0),
        p99_ms: percentile(99).unwrap_or(0.0),
        refusals_per_s: refusals as f64 / seconds,
    })
}

impl Storm {
    /// Sends requests that are refused, one after the other, until the measurement is over.
    async fn request_until_over(self: Arc<Self>, number: usize) -> anyhow::Result<()> {
        let (_, request) = KINDS[number % KINDS.len()];
        let instance = RandomNumbers::new(REFUSED_INSTANCE_SEED, number as u64).uuid();
        let body = format!(
            "{{\"request\": {{{request}, \"project_id\": \"p\", \"user_id\": \"u\"}}, \
             \"instances\": [\"{instance}\"], \"claim\": true}}"
        );
        while !self.is_over.load(Ordering::Relaxed) {
            let (status, text) = request_destination(&self.service, body.clone()).await?;
            ensure!(status == 409, "status {status}: {text}");
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Claims one instance after another, and returns the duration of each claim in milliseconds. Each claim is
    /// released before the next, so that the hosts do not become full.
    async fn claim(self: Arc<Self>, stream: u64) -> anyhow::Result<Vec<f64>> {
        let mut random = RandomNumbers::new(CLAIMED_INSTANCE_SEED, stream);
        let mut times = Vec::new();
        while !self.is_over.load(Ordering::Relaxed) {
            let instance = random.uuid();
            let body = format!(
                "{{\"request\": {{\"flavor\": {{\"vcpus\": 1, \"memory_mb\": 1}}, \
                 \"project_id\": \"p\", \"user_id\": \"u\"}}, \
                 \"instances\": [\"{instance}\"], \"claim\": true}}"
            );
            let start = Instant::now();
            let (status, text) = request_destination(&self.service, body).await?;
            times.push(start.elapsed().as_secs_f64() * 1000.0);
            ensure!(status == 200, "status {status}: {text}");
            self.release(instance).await?;
        }
        Ok(times)
    }

    async fn release(&self, instance: Uuid) -> anyhow::Result<()> {
        let request = Request::delete(format!("/v1/claims/{instance}"))
            .header("x-auth-token", "admin")
            .body(Full::default())?;
        let (status, text) = send(&self.service, request).await?;
        ensure!(status == 204, "status {status}: {text}");
        Ok(())
    }
}
