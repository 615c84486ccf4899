//! The experiment `builds` of `bench seeds`: builds that fail, tried again in the cell or by going back to the
//! scheduler.

use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;

use super::installation::{Installation, InstallationSetup};

/// Who tries a failed build again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum Retry {
    /// The cell, on an alternate that the scheduler has named.
    InCell,
    /// The caller, with a new request that is scheduled anew.
    ByScheduler,
}

/// The sizes of the experiment.
#[derive(Debug, Clone)]
pub(super) struct BuildSizes {
    pub(super) cells: u32,
    pub(super) hosts: u32,
    pub(super) servers: usize,
    pub(super) fail_percents: Vec<u8>,
    /// How often a failed build is tried again.
    pub(super) retries: Vec<usize>,
}

/// The results of the builds at one rate of failure.
#[derive(Debug, Clone, Serialize)]
pub(super) struct BuildFigures {
    pub(super) fail_percent: u8,
    pub(super) retry: Retry,
    pub(super) retries: usize,
    pub(super) servers: usize,
    pub(super) active: usize,
    pub(super) seconds: f64,
    /// The requests that were scheduled.
    pub(super) scheduled: usize,
}

/// Measures all rates of failure, with both ways to try again.
///
/// # Errors
///
/// An installation does not work.
pub(super) async fn measure(sizes: &BuildSizes) -> anyhow::Result<Vec<BuildFigures>> {
    let mut figures = Vec::new();
    for fail_percent in &sizes.fail_percents {
        for retries in &sizes.retries {
            for retry in [Retry::InCell, Retry::ByScheduler] {
                if *retries == 0 && retry == Retry::ByScheduler {
                    // Nothing is tried again, so there is no difference.
                    continue;
                }
                eprintln!("builds: {fail_percent} % fail, {retries} retries, {retry:?}");
                figures.push(measure_one(sizes, *fail_percent, *retries, retry).await?);
            }
        }
    }
    Ok(figures)
}

async fn measure_one(
    sizes: &BuildSizes,
    fail_percent: u8,
    retries: usize,
    retry: Retry,
) -> anyhow::Result<BuildFigures> {
    let setup = InstallationSetup {
        cells: sizes.cells,
        hosts: sizes.hosts,
        alternates: if retry == Retry::InCell { retries } else { 0 },
        fail_percent,
    };
    let installation = Arc::new(Installation::start(setup).await?);
    // A cell tries again by itself, within the first request.
    let request_retries = if retry == Retry::InCell { 0 } else { retries };
    let start = Instant::now();
    let (mut active, mut scheduled, mut wanted) = (0, 0, sizes.servers);
    for _ in 0..=request_retries {
        if wanted == 0 {
            break;
        }
        let servers = installation.create(wanted).await?;
        scheduled += servers.len();
        let settled = installation.wait_until_settled(&servers).await?;
        active += settled.active;
        wanted = settled.failed;
    }
    let seconds = start.elapsed().as_secs_f64();
    installation.stop().await?;
    Ok(BuildFigures {
        fail_percent,
        retry,
        retries,
        servers: sizes.servers,
        active,
        seconds,
        scheduled,
    })
}
