//! The experiment `cells` of `bench seeds`: cells, some of which are down.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde::Serialize;

use super::installation::{CELL_DOWN_AFTER, Installation, InstallationSetup};
use super::times::Times;

/// The sizes of the experiment.
#[derive(Debug, Clone)]
pub(super) struct CellSizes {
    /// The numbers of cells, each of which is measured.
    pub(super) cells: Vec<u32>,
    /// The hosts of all cells together.
    pub(super) hosts: u32,
    /// How many cells are down, in rising order. Counts for which no cell would be up are skipped.
    pub(super) down: Vec<usize>,
    /// The servers that there are before the measurements.
    pub(super) servers: usize,
    /// The servers whose boots are measured.
    pub(super) boots: usize,
    /// The pages whose time is measured.
    pub(super) pages: usize,
}

/// The measurements while some of the cells were down.
#[derive(Debug, Clone, Serialize)]
pub(super) struct CellFigures {
    pub(super) cells: u32,
    pub(super) down: usize,
    pub(super) hosts: u32,
    /// The time of a page of 100 servers with their details.
    pub(super) page: Times,
    /// The servers on all pages that show as UNKNOWN, because their cell is down.
    pub(super) unknown: usize,
    /// The servers on all pages.
    pub(super) listed: usize,
    pub(super) boots_per_second: f64,
}

/// The number of servers of a page.
const PAGE_SERVERS: usize = 100;
/// How much longer than the time-out control may take to notice that a cell is down.
const NOTICE_MARGIN: Duration = Duration::from_millis(500);

/// Measures all numbers of cells, with more and more of them down.
///
/// # Errors
///
/// An installation does not work.
pub(super) async fn measure(sizes: &CellSizes) -> anyhow::Result<Vec<CellFigures>> {
    let mut figures = Vec::new();
    for cells in &sizes.cells {
        let setup = InstallationSetup {
            cells: *cells,
            hosts: sizes.hosts,
            alternates: 2,
            fail_percent: 0,
        };
        let installation = Arc::new(Installation::start(setup).await?);
        let servers = installation.create(sizes.servers).await?;
        installation.wait_until_settled(&servers).await?;
        for down in &sizes.down {
            if *down >= *cells as usize {
                continue;
            }
            eprintln!("cells: {cells} cells, {} hosts, {down} down", sizes.hosts);
            if *down > 0 {
                for switch in installation.switches.iter().take(*down) {
                    switch.cut();
                }
                tokio::time::sleep(CELL_DOWN_AFTER + NOTICE_MARGIN).await;
            }
            figures.push(measure_one(&installation, sizes, *cells, *down).await?);
        }
        installation.stop().await?;
    }
    Ok(figures)
}

async fn measure_one(
    installation: &Arc<Installation>,
    sizes: &CellSizes,
    cells: u32,
    down: usize,
) -> anyhow::Result<CellFigures> {
    let (mut times, mut listed, mut unknown) = (Vec::new(), 0, 0);
    let mut marker = String::new();
    for _ in 0..sizes.pages {
        let path = format!("/servers/detail?all_tenants=1&limit={PAGE_SERVERS}{marker}");
        let start = Instant::now();
        let page = installation.send("GET", &path, None).await?;
        times.push(start.elapsed());
        let servers = page["servers"].as_array().map_or(&[][..], Vec::as_slice);
        ensure!(
            !servers.is_empty() || !marker.is_empty(),
            "the list is empty"
        );
        listed += servers.len();
        let is_unknown = |server: &&serde_json::Value| server["status"] == "UNKNOWN";
        unknown += servers.iter().filter(is_unknown).count();
        // After the last page the first one follows.
        let last = servers.last().and_then(|server| server["id"].as_str());
        marker = last.map_or_else(String::new, |id| format!("&marker={id}"));
    }
    let start = Instant::now();
    let booted = installation.create(sizes.boots).await?;
    let settled = installation.wait_until_settled(&booted).await?;
    ensure!(settled.failed == 0, "{} servers failed", settled.failed);
    #[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
    let boots_per_second = booted.len() as f64 / start.elapsed().as_secs_f64();
    Ok(CellFigures {
        cells,
        down,
        hosts: sizes.hosts,
        page: Times::of(times),
        unknown,
        listed,
        boots_per_second,
    })
}
