//! The figures as they are known now, and how they are read.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use placewright_errors::chain;
use serde::Deserialize;
use serde_json::Value;

use super::counters::{Counters, Rates};
use super::fleet::Fleet;
use super::source::Source;

/// The most servers in a status that are counted; the compute API lists no more at once.
pub(super) const COUNTED_MAX: usize = 1000;
/// How many of the newest servers of each status are listed.
const LISTED_MAX: usize = 6;
/// The wait before the stream of hosts is asked for again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// The comment that the service sends in the stream of hosts after some seconds without an event.
const IDLE_COMMENT: &str = ": alive";
/// The longest event of the stream. A service that sends more than this without the end of an event is not
/// Placewright's.
const EVENT_BYTES_MAX: usize = 64 << 20;

/// The part of a replica's status that is shown.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Status {
    pub(super) role: String,
    /// The sequence number of the last entry that the replica has applied.
    pub(super) applied: u64,
    /// How many entries the replica knows of and has not applied.
    pub(super) lag: u64,
    /// The acknowledged entries that the store does not have any more; none if it has all.
    #[serde(default)]
    pub(super) lost: Option<Value>,
}

/// The part that is read of `/ui/api/session`, which says what the caller may do.
#[derive(Debug, Deserialize)]
struct Session {
    may: May,
}

#[derive(Debug, Deserialize)]
struct May {
    all_servers: bool,
}

#[derive(Debug, Deserialize)]
struct Installation {
    services: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Servers {
    servers: Vec<Server>,
}

/// A server that is built, or whose build failed.
#[derive(Debug, Deserialize)]
pub(super) struct Server {
    pub(super) name: Option<String>,
    pub(super) status: Option<String>,
    #[serde(rename = "OS-EXT-STS:task_state")]
    pub(super) task: Option<String>,
    #[serde(rename = "OS-EXT-SRV-ATTR:host")]
    pub(super) host: Option<String>,
    pub(super) created: Option<String>,
    pub(super) fault: Option<Fault>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Fault {
    pub(super) message: String,
}

/// The servers that are not ready.
#[derive(Debug, Default)]
pub(super) struct Builds {
    /// How many are in BUILD and in ERROR, at most [`COUNTED_MAX`] each.
    pub(super) under_way: usize,
    pub(super) in_error: usize,
    /// The newest of both, those under way first.
    pub(super) newest: Vec<Server>,
}

/// What was read at one time.
#[derive(Debug, Default)]
pub(super) struct Readings {
    pub(super) status: Status,
    /// `None` before the second reading.
    pub(super) rates: Option<Rates>,
    /// The number of findings of the last audit.
    pub(super) findings: f64,
    /// `None` where there is no compute API, or the caller may not list all servers.
    pub(super) builds: Option<Builds>,
    counters: Option<Counters>,
}

/// All figures. The parts that read them and the part that shows them run on one thread.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) fleet: RefCell<Fleet>,
    pub(super) readings: RefCell<Readings>,
    pub(super) interval: Cell<Duration>,
    /// Why the last reading of the figures failed; `None` if it succeeded.
    trouble: RefCell<Option<String>>,
    /// Why the stream of hosts broke off; `None` while it is followed.
    stream_trouble: RefCell<Option<String>>,
}

impl Shared {
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            fleet: RefCell::default(),
            readings: RefCell::default(),
            interval: Cell::new(interval),
            trouble: RefCell::default(),
            stream_trouble: RefCell::default(),
        }
    }

    /// Why the figures are not those of now; `None` if they are.
    pub(super) fn trouble(&self) -> Option<String> {
        let trouble = self.trouble.borrow().clone();
        trouble.or_else(|| self.stream_trouble.borrow().clone())
    }

    /// Reads everything but the hosts.
    ///
    /// # Errors
    ///
    /// The service does not answer, or refuses. The status is read first, because a caller who may not see the status
    /// may see none of the other figures.
    pub(super) async fn read_figures(&self, source: &Source) -> anyhow::Result<()> {
        let status = source.get_json("placement/placewright/v1/status").await?;
        let status = Status::deserialize(status).context("the service's answer is no status")?;
        let page = source.get("metrics").await?.text().await?;
        let counters = Counters::parse(&page, Instant::now());
        let builds = read_builds(source).await?;
        let before = self.readings.take().counters;
        self.readings.replace(Readings {
            status,
            rates: before.map(|before| counters.rates_since(&before)),
            findings: counters.sum("placewright_audit_findings", ""),
            builds,
            counters: Some(counters),
        });
        Ok(())
    }

    /// Reads the figures after each interval, and keeps why the last reading failed, if it did.
    pub(super) async fn keep_reading_figures(&self, source: &Source) -> Infallible {
        loop {
            tokio::time::sleep(self.interval.get()).await;
            let failed = self.read_figures(source).await.err();
            let failed = failed.map(|error| chain(error.as_ref()));
            self.trouble.replace(failed);
        }
    }

    /// Reads the stream until all hosts are known.
    ///
    /// # Errors
    ///
    /// The service does not answer, or refuses, or its stream cannot be read.
    pub(super) async fn read_all_hosts(&self, source: &Source) -> anyhow::Result<()> {
        let until_complete = true;
        self.follow_stream(source, until_complete).await
    }

    /// Follows the stream of hosts. After a break it continues where it was.
    pub(super) async fn follow_hosts(&self, source: &Source) -> Infallible {
        loop {
            let begun = Instant::now();
            let until_complete = false;
            let ended = self.follow_stream(source, until_complete).await;
            let failed = ended.err().map(|error| chain(error.as_ref()));
            // The service ends each stream after a minute. Then the next stream is asked for at once.
            let is_broken = failed.is_some() || begun.elapsed() < RETRY_PAUSE;
            self.stream_trouble.replace(failed);
            if is_broken {
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    }

    /// Reads the stream until the service ends it or, with `until_complete`, until all hosts are known.
    async fn follow_stream(&self, source: &Source, until_complete: bool) -> anyhow::Result<()> {
        let path = match self.fleet.borrow().position() {
            Some(position) => format!("fleet?after={position}"),
            None => "fleet".to_owned(),
        };
        let mut response = source.get(&path).await?;
        self.stream_trouble.replace(None);
        let mut bytes: Vec<u8> = Vec::new();
        let mut is_idle = false;
        while let Some(piece) = (response.chunk().await)
            .with_context(|| format!("the stream of {} broke off", response.url()))?
        {
            // No event ends in the bytes so far, but the last byte may be the first of the two line feeds that end one.
            let mut searched = bytes.len().saturating_sub(1);
            bytes.extend_from_slice(&piece);
            let mut begin = 0;
            while let Some(length) = find_end(&bytes[searched..]) {
                let end = searched + length;
                let event = String::from_utf8_lossy(&bytes[begin..end]);
                let applied = self.fleet.borrow_mut().apply(&event);
                applied.context("an event of the stream of hosts cannot be read")?;
                // The service sends this only if it has had no event for some seconds: there are no hosts.
                is_idle |= event.starts_with(IDLE_COMMENT);
                begin = end + 2;
                searched = begin;
            }
            bytes.drain(..begin);
            if bytes.len() > EVENT_BYTES_MAX {
                bail!("an event of the stream of hosts does not end");
            }
            if until_complete && (is_idle || self.fleet.borrow().is_complete()) {
                return Ok(());
            }
        }
        match until_complete {
            true => bail!("the stream of hosts ended before all were told"),
            false => Ok(()),
        }
    }
}

/// The index of the two line feeds that end an event; `None` if the event is not complete yet.
fn find_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(2).position(|two| two == b"\n\n")
}

/// The servers that are not ready; `None` if there is no compute API, or the caller may not list all servers.
async fn read_builds(source: &Source) -> anyhow::Result<Option<Builds>> {
    let session: Session = serde_json::from_value(source.get_json("session").await?)?;
    let installation = source.get_json("installation").await?;
    let installation: Installation = serde_json::from_value(installation)?;
    let has_compute = (installation.services.iter()).any(|service| service == "compute");
    if !session.may.all_servers || !has_compute {
        return Ok(None);
    }
    let count = async |status: &str| {
        let query = format!("servers?all_tenants=1&status={status}&limit={COUNTED_MAX}");
        anyhow::Ok(servers(source, &query).await?.len())
    };
    let newest = async |status: &str| {
        let order = "sort_key=created_at&sort_dir=desc";
        let query =
            format!("servers/detail?all_tenants=1&status={status}&limit={LISTED_MAX}&{order}");
        servers(source, &query).await
    };
    let mut listed = newest("BUILD").await?;
    listed.extend(newest("ERROR").await?);
    Ok(Some(Builds {
        under_way: count("BUILD").await?,
        in_error: count("ERROR").await?,
        newest: listed,
    }))
}

async fn servers(source: &Source, query: &str) -> anyhow::Result<Vec<Server>> {
    let answer = source.get_json(&format!("compute/v2.1/{query}")).await?;
    let answer: Servers =
        serde_json::from_value(answer).context("the service's answer lists no servers")?;
    Ok(answer.servers)
}
