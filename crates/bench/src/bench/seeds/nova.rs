//! Nova's own scheduler beside the product's: the figures of Nova that `tests/peers/nova/scheduler.py` measured, and
//! the product's on the same fleets, with the same requests one after the other.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::ensure;
use serde::Deserialize;
use thiserror::Error;
use uuid::Uuid;

use super::fleet::{self, Filling, INSTANCES_PER_HOST};
use super::placing_request::{PlacedRequest, place};
use super::replicas::{JournalPlace, Replicas};
use super::shared_state::{REQUESTS, release};
use super::times::Times;
use crate::bench::requests::RandomNumbers;

/// The most hosts of a fleet.
const HOSTS_MAX: u32 = 100_000;
/// How many rounds of the product are measured.
const ROUNDS: usize = 10;
/// The seed of the instances' UUIDs.
const INSTANCE_SEED: u64 = 25;

/// Why the figures of Nova cannot be used.
#[derive(Debug, Error)]
pub(crate) enum NovaFileError {
    /// There is no such file, or it cannot be read.
    #[error("--nova: {file}: {cause}")]
    Unreadable {
        file: PathBuf,
        cause: std::io::Error,
    },
    /// It is not what the script prints.
    #[error("--nova: {file}: not the output of tests/peers/nova/scheduler.py: {cause}")]
    Malformed {
        file: PathBuf,
        cause: serde_json::Error,
    },
    /// A figure cannot be one of the experiment.
    #[error("--nova: {file}: figures[{index}].{field}: {problem}")]
    Implausible {
        file: PathBuf,
        index: usize,
        field: &'static str,
        problem: String,
    },
    /// The script measured nothing.
    #[error("--nova: {file}: figures: there are none")]
    Empty { file: PathBuf },
    /// The experiment was chosen, but there are no figures.
    #[error("--only nova needs --nova FILE")]
    Missing,
}

/// What the script prints.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NovaReport {
    /// The version of Nova.
    pub(super) nova: String,
    /// The version of Python.
    pub(super) python: String,
    /// When it was measured.
    pub(super) date: String,
    /// The processor and the cores on which it was measured.
    pub(super) machine: String,
    pub(super) figures: Vec<NovaFigures>,
}

/// Decisions of Nova's scheduler on one fleet.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NovaFigures {
    pub(super) hosts: u32,
    pub(super) fleet: Filling,
    /// The number of hosts with room at the start.
    with_room: u32,
    /// The most candidates that Nova requested: its option `max_placement_results`.
    pub(super) candidates_limit: u32,
    /// The candidates of a decision, at most.
    pub(super) candidates: u32,
    /// How many decisions were measured.
    pub(super) decisions: usize,
    pub(super) p50_ms: NovaTimes,
}

/// The medians of a decision's parts, in milliseconds.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NovaTimes {
    /// To get the candidates with Nova's client of placement. The script puts a stand-in in the place of placement; the
    /// time in it does not count.
    pub(super) candidates: f64,
    /// To read the rows of services and hosts.
    pub(super) rows: f64,
    /// To make states of hosts from them.
    pub(super) host_states: f64,
    pub(super) filters: f64,
    pub(super) weighers: f64,
    /// To filter, weigh and sort the hosts, with everything between these parts.
    pub(super) sorted_hosts: f64,
    /// To claim with Nova's client of placement, without the time in the stand-in.
    pub(super) claim: f64,
    /// To add the instance to the state of the chosen host (`HostState.consume_from_request`).
    pub(super) consume: f64,
    /// From the request to the selections.
    pub(super) whole: f64,
}

/// The product's decisions on the same fleet.
#[derive(Debug, Clone, Copy)]
pub(super) struct OurFigures {
    /// The time in which the hosts were ranked.
    pub(super) decision: Times,
    /// The time of the decision and of the claim, until the scheduler knew that the claim was durable.
    pub(super) whole: Times,
}

impl NovaReport {
    /// Reads and checks what the script printed.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is something else, or has figures of other fleets than those of the experiments.
    pub(super) fn read(file: &Path) -> Result<Self, NovaFileError> {
        let file = file.to_owned();
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(cause) => return Err(NovaFileError::Unreadable { file, cause }),
        };
        let report: Self = match serde_json::from_str(&text) {
            Ok(report) => report,
            Err(cause) => return Err(NovaFileError::Malformed { file, cause }),
        };
        if report.figures.is_empty() {
            return Err(NovaFileError::Empty { file });
        }
        for (index, figures) in report.figures.iter().enumerate() {
            if let Some((field, problem)) = figures.problem() {
                return Err(NovaFileError::Implausible {
                    file,
                    index,
                    field,
                    problem,
                });
            }
        }
        Ok(report)
    }
}

impl NovaFigures {
    /// The name of the first field whose value is not possible in the experiment, and the reason; `None` if all values
    /// are possible.
    fn problem(&self) -> Option<(&'static str, String)> {
        if !(1..=HOSTS_MAX).contains(&self.hosts) {
            return Some(("hosts", format!("from 1 to {HOSTS_MAX}")));
        }
        let places = (0..self.hosts).map(|number| {
            i64::from(INSTANCES_PER_HOST - self.fleet.instances_at_start(self.hosts, number))
        });
        let (with_room, places) = places.fold((0, 0), |(hosts, sum), places| {
            (hosts + u32::from(places > 0), sum + places)
        });
        if usize::try_from(places).unwrap_or(0) < REQUESTS {
            let problem = format!("no room for the {REQUESTS} requests of a round");
            return Some(("hosts", problem));
        }
        if self.with_room != with_room {
            let problem = format!("{with_room} hosts of this fleet have room");
            return Some(("with_room", problem));
        }
        let times = &self.p50_ms;
        // The page divides by these.
        let divisors = [
            ("p50_ms.sorted_hosts", times.sorted_hosts),
            ("p50_ms.whole", times.whole),
        ];
        if let Some((field, _)) = divisors.into_iter().find(|(_, time)| *time <= 0.0) {
            return Some((field, "not above 0".to_owned()));
        }
        let others = [
            ("p50_ms.candidates", times.candidates),
            ("p50_ms.rows", times.rows),
            ("p50_ms.host_states", times.host_states),
            ("p50_ms.filters", times.filters),
            ("p50_ms.weighers", times.weighers),
            ("p50_ms.claim", times.claim),
            ("p50_ms.consume", times.consume),
        ];
        let (field, _) = others.into_iter().find(|(_, time)| *time < 0.0)?;
        Some((field, "below 0".to_owned()))
    }
}

/// Runs the same requests with the product, one after the other, by one scheduler on SQLite. The first round, in which
/// caches are filled, does not count.
///
/// # Errors
///
/// The store fails.
pub(super) async fn measure(
    place_of_journal: &JournalPlace,
    hosts: u32,
    filling: Filling,
) -> anyhow::Result<OurFigures> {
    let replicas = Replicas::start(place_of_journal, 1, (hosts, filling)).await?;
    let request = fleet::request();
    let mut random = RandomNumbers::new(INSTANCE_SEED, u64::from(hosts));
    let mut requests: Vec<PlacedRequest> = Vec::new();
    for round in 0..=ROUNDS {
        let instances: Vec<Uuid> = (0..REQUESTS).map(|_| random.uuid()).collect();
        for instance in &instances {
            let placed = place(&replicas.all[0], &request, *instance).await?;
            // A caller has to try again only if no host was found although there is room.
            ensure!(!placed.is_visible_retry, "an instance found no host");
            if round > 0 {
                requests.push(placed);
            }
        }
        release(&replicas, &instances).await?;
    }
    replicas.stop().await?;
    let times = |field: fn(&PlacedRequest) -> Duration| Times::of(requests.iter().map(field));
    Ok(OurFigures {
        decision: times(|request| request.decision),
        whole: times(|request| request.whole),
    })
}
