//! The page of a replay (`--page`): serves it, with how far the run is and how it ended.
//!
//! The size of what the page shows is bounded, whatever the trace and the installation are: the samples are thinned
//! out, and the reasons are limited in number and length as in the report on the terminal. The page shows no secrets:
//! not the address of the installation, which may contain a password, no token, and only the names of files, not their
//! folders. Reasons are in the installation's own words.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use hyper::body::Bytes;
use placewright_ui::ReplayPageService;
use serde::Serialize;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::chart::thin_out;
use super::report::{Allocated, Report};
use super::retries::BuildRetries;
use super::usage::{Amounts, Sample};

/// The address of the page unless `--page` has another one.
pub(crate) const DEFAULT_ADDRESS: &str = "127.0.0.1:8771";

/// The time over which the present rate is measured, in seconds.
const RATE_TIME_S: f64 = 5.0;

/// The most characters of a file's name.
const FILE_NAME_LENGTH_MAX: usize = 200;

/// Why there is no page.
#[derive(Debug, Error)]
pub(crate) enum PageError {
    /// The address cannot be used. No request was sent to the installation.
    #[error("--page {address}: cannot listen there")]
    Listen {
        address: SocketAddr,
        source: io::Error,
    },
}

/// Parses the address of a page. It has to be a loopback address, because the page does not authenticate anybody.
///
/// # Errors
///
/// The text is no address with a port, or not one of the loopback interface.
pub(crate) fn loopback(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_loopback() => Ok(address),
        Ok(_) => Err(format!(
            "the page asks nobody who they are, so it is for this machine only: write a loopback address, as {DEFAULT_ADDRESS}"
        )),
        Err(_) => Err(format!(
            "write a loopback address and a port, as {DEFAULT_ADDRESS}"
        )),
    }
}

/// What is replayed.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Trace {
    /// The names of the files, without their folders.
    pub(crate) nodes_file: String,
    pub(crate) tasks_file: String,
    pub(crate) hosts: usize,
    pub(crate) tasks: usize,
    /// How many times as fast as the trace; `None` if servers are requested one after the other.
    pub(crate) speed: Option<f64>,
    /// Whether servers are deleted when their tasks end.
    pub(crate) deletes: bool,
}

/// The name of a file without its folders.
pub(crate) fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.chars().take(FILE_NAME_LENGTH_MAX).collect()
}

/// How far the replay is.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// The replay waits for the hosts, or creates flavors.
    Waiting,
    Running,
    Ended,
}

/// What the page gets when it asks for the state of the replay, as JSON.
#[derive(Serialize)]
struct View<'a> {
    state: State,
    trace: &'a Trace,
    /// `None` before the first sample.
    progress: Option<Progress>,
    classes: Vec<Class<'a>>,
    samples: Vec<Row>,
    /// `None` until the run has ended.
    result: Option<RunResult<'a>>,
}

/// The numbers of the last sample.
#[derive(Serialize)]
struct Progress {
    seconds: f64,
    /// Tasks whose requests for a server were answered.
    requested: u64,
    building: u64,
    active: u64,
    refused: u64,
    /// Tasks that ended neither active nor refused with a reason.
    lost: u64,
    deleted: u64,
    /// Tasks that ended per second; see [`ended_per_second`].
    ended_per_second: f64,
}

/// A resource class, in the order of the amounts of a row.
#[derive(Serialize)]
struct Class<'a> {
    name: &'a str,
    total: u64,
}

/// A sample: the seconds since the start; the numbers of tasks that are active, refused, being built, deleted and lost;
/// and the amounts used.
#[derive(Serialize)]
struct Row(f64, [u64; 5], Vec<u64>);

/// How the run ended.
#[derive(Serialize)]
struct RunResult<'a> {
    seconds: f64,
    placed: u64,
    refused: u64,
    unsettled: u64,
    deleted: u64,
    is_stopped: bool,
    decisions_per_second: f64,
    boots_per_second: f64,
    latency_p50_ms: f64,
    latency_p99_ms: f64,
    latency_max_ms: f64,
    retries: Option<&'a BuildRetries>,
    allocated: &'a [Allocated],
    /// The most frequent reasons, each with the number of tasks.
    reasons: Vec<(String, u64)>,
    /// The number of tasks that were refused for other reasons.
    other_reasons: u64,
}

/// The page of a replay while the program runs.
#[derive(Debug)]
pub(crate) struct Page {
    address: SocketAddr,
    trace: Trace,
    /// The latest [`View`] as JSON, which the service of the page sends.
    published: watch::Sender<Bytes>,
}

impl Page {
    /// Serves the page on an address from now on.
    ///
    /// # Errors
    ///
    /// The address cannot be used.
    pub(crate) async fn open(address: SocketAddr, trace: Trace) -> Result<Self, PageError> {
        let error = |source| PageError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(error)?;
        let address = listener.local_addr().map_err(error)?;
        let (published, progress) = watch::channel(Bytes::new());
        let page = Self {
            address,
            trace,
            published,
        };
        page.publish(State::Waiting, &Amounts::new(), &[], None);
        let server = ReplayPageService::new(address, progress).into_server();
        tokio::spawn(async move { server.serve(listener, std::future::pending()).await });
        Ok(page)
    }

    /// The URL by which a browser opens the page.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/ui/#/trace", self.address)
    }

    /// Shows on the page how far the run is.
    pub(crate) fn show(&self, totals: &Amounts, samples: &[Sample]) {
        self.publish(State::Running, totals, samples, None);
    }

    /// Shows on the page how the run ended.
    pub(crate) fn show_result(&self, report: &Report, totals: &Amounts, samples: &[Sample]) {
        self.publish(State::Ended, totals, samples, Some(report));
    }

    fn publish(&self, state: State, totals: &Amounts, samples: &[Sample], report: Option<&Report>) {
        let view = View {
            state,
            trace: &self.trace,
            progress: progress(samples),
            classes: totals
                .iter()
                .map(|(name, total)| Class {
                    name,
                    total: *total,
                })
                .collect(),
            samples: thin_out(samples)
                .into_iter()
                .map(|sample| row(totals, sample))
                .collect(),
            result: report.map(RunResult::of),
        };
        match serde_json::to_vec(&view) {
            Ok(json) => {
                self.published.send_replace(json.into());
            }
            Err(error) => tracing::error!(%error, "the page cannot be told how far the run is"),
        }
    }
}

impl<'a> RunResult<'a> {
    fn of(report: &'a Report) -> Self {
        let (reasons, other_reasons) = report.frequent_reasons();
        Self {
            seconds: report.seconds,
            placed: report.placed,
            refused: report.refused,
            unsettled: report.unsettled,
            deleted: report.deleted,
            is_stopped: report.stopped,
            decisions_per_second: report.decisions_per_second,
            boots_per_second: report.boots_per_second,
            latency_p50_ms: report.latency_p50_ms,
            latency_p99_ms: report.latency_p99_ms,
            latency_max_ms: report.latency_max_ms,
            retries: report.retries.as_ref(),
            allocated: &report.allocated,
            reasons,
            other_reasons,
        }
    }
}

fn progress(samples: &[Sample]) -> Option<Progress> {
    let last = samples.last()?;
    let counts = last.counts;
    Some(Progress {
        seconds: last.at_s,
        requested: counts.ended() + counts.building,
        building: counts.building,
        active: counts.active,
        refused: counts.refused,
        lost: counts.lost,
        deleted: counts.deleted,
        ended_per_second: ended_per_second(samples),
    })
}

/// How many tasks ended per second, on average since the latest sample that is at least [`RATE_TIME_S`] older than the
/// newest one. If there is no such sample, the average is since the first sample.
fn ended_per_second(samples: &[Sample]) -> f64 {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
        return 0.0;
    };
    let is_before = |sample: &&Sample| last.at_s - sample.at_s >= RATE_TIME_S;
    let before = samples.iter().rev().find(is_before).unwrap_or(first);
    let seconds = last.at_s - before.at_s;
    let ended = last.counts.ended().saturating_sub(before.counts.ended());
    #[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
    let ended = ended as f64;
    if seconds > 0.0 { ended / seconds } else { 0.0 }
}

fn row(totals: &Amounts, sample: &Sample) -> Row {
    let counts = sample.counts;
    let used = |class| sample.used.get(class).copied().unwrap_or(0);
    Row(
        // Milliseconds are enough for a picture.
        (sample.at_s * 1000.0).round() / 1000.0,
        [
            counts.active,
            counts.refused,
            counts.building,
            counts.deleted,
            counts.lost,
        ],
        totals.keys().map(used).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::task_progress::Counts;

    fn sample(at_s: f64, active: u64) -> Sample {
        Sample {
            at_s,
            counts: Counts {
                active,
                ..Counts::default()
            },
            used: [("MEMORY_MB".to_owned(), active), ("OTHER".to_owned(), 1)].into(),
        }
    }

    #[test]
    fn a_page_is_on_this_machine() {
        for good in ["127.0.0.1:8771", "127.8.0.1:0", "[::1]:8771"] {
            assert!(loopback(good).is_ok(), "{good}");
        }
        for open in [
            "0.0.0.0:8771",
            "[::]:8771",
            "192.0.2.7:8771",
            "[::ffff:192.0.2.7]:1",
        ] {
            assert!(loopback(open).unwrap_err().contains("this machine only"));
        }
        for bad in [
            "",
            "8771",
            "127.0.0.1",
            "localhost:8771",
            "http://127.0.0.1:1",
        ] {
            assert!(loopback(bad).unwrap_err().contains("a port"), "{bad}");
        }
    }

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        assert_eq!(ended_per_second(&[]), 0.0);
        assert_eq!(ended_per_second(&[sample(1.0, 5)]), 0.0);
        assert_eq!(ended_per_second(&[sample(0.0, 0), sample(2.0, 10)]), 5.0);
        let samples: Vec<_> = (0..100)
            .map(|second| sample(f64::from(second), 7))
            .collect();
        assert_eq!(ended_per_second(&samples), 0.0);
    }

    #[test]
    fn what_the_page_is_told_does_not_grow_with_the_run() {
        let samples: Vec<_> = (0..100_000_u32)
            .map(|number| sample(f64::from(number) / 2.0, number.into()))
            .collect();
        let totals = [("MEMORY_MB".to_owned(), 1 << 40)].into();
        let rows: Vec<_> = thin_out(&samples)
            .into_iter()
            .map(|sample| row(&totals, sample))
            .collect();
        let json = serde_json::to_string(&rows).unwrap();
        assert!(json.len() < 40_000, "{}", json.len());
        assert!(
            json.ends_with("[49999.5,[99999,0,0,0,0],[99999]]]"),
            "{json}"
        );
    }
}
