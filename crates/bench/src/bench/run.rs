//! Runs one phase of a load: a number of connections, each with one request under way at a time,
//! until the work or the time is used up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::connection::Connection;
use super::endpoint::Endpoint;
use super::figures::{Measurements, PhaseResults};

/// Writes request number `step` of unit `unit` of a phase into the first buffer; the second is a
/// temporary one for a body.
type WriteRequest = dyn Fn(u64, u8, &mut String, &mut String) + Send + Sync;

/// A phase of a load.
pub(crate) struct Phase {
    pub(crate) name: &'static str,
    /// The units of work; each connection takes one after the other.
    pub(crate) units: u64,
    /// The number of requests of a unit, which are sent one after the other over one connection.
    pub(crate) steps: u8,
    /// No request starts after this time.
    pub(crate) time_max: Duration,
    pub(crate) first: First,
    pub(crate) write: Box<WriteRequest>,
}

/// The requests of each connection before the measurement starts, so that neither opening
/// connections nor the first steps of a process count.
pub(crate) struct First {
    /// The number of requests, sent one after the other.
    pub(crate) steps: u8,
    /// Writes them; a connection's number takes the place of the unit's.
    pub(crate) write: Box<WriteRequest>,
}

impl First {
    /// A single request, the same for all connections.
    pub(crate) fn one(request: String) -> Self {
        Self {
            steps: 1,
            write: Box::new(move |_, _, out, _| out.clone_from(&request)),
        }
    }
}

/// The number of successive failures after which a connection gives up.
const BROKEN_MAX: u32 = 20;

/// Runs a phase and combines the measurements of all connections.
pub(crate) async fn run(
    endpoint: impl Into<Endpoint>,
    connections: usize,
    phase: Phase,
) -> PhaseResults {
    let name = phase.name;
    let phase = Arc::new(phase);
    let next_unit = Arc::new(AtomicU64::new(0));
    let opened = open(&endpoint.into(), connections, &phase).await;
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for connection in opened {
        tasks.spawn(drive(
            connection,
            Arc::clone(&phase),
            Arc::clone(&next_unit),
            start,
        ));
    }
    let mut seen = Measurements::default();
    for one in tasks.join_all().await {
        seen.add(one);
    }
    PhaseResults::new(name, connections, start.elapsed(), seen)
}

/// Opens connections and sends their first requests. What fails here fails again when it is
/// measured.
async fn open(endpoint: &Endpoint, connections: usize, phase: &Arc<Phase>) -> Vec<Connection> {
    let mut tasks = JoinSet::new();
    for number in (0_u64..).take(connections) {
        let (phase, endpoint) = (Arc::clone(phase), endpoint.clone());
        tasks.spawn(async move {
            let mut connection = Connection::new(endpoint);
            let (mut request, mut body) = (String::new(), String::new());
            for step in 0..phase.first.steps {
                (phase.first.write)(number, step, &mut request, &mut body);
                let _ = connection.exchange_lightly(request.as_bytes()).await;
            }
            connection
        });
    }
    tasks.join_all().await
}

/// Runs the work of one connection.
async fn drive(
    mut connection: Connection,
    phase: Arc<Phase>,
    next_unit: Arc<AtomicU64>,
    start: Instant,
) -> Measurements {
    let mut seen = Measurements::default();
    let (mut request, mut body) = (String::new(), String::new());
    let mut broken_in_a_row = 0;
    loop {
        let unit = next_unit.fetch_add(1, Ordering::Relaxed);
        if unit >= phase.units {
            return seen;
        }
        for step in 0..phase.steps {
            if start.elapsed() >= phase.time_max || broken_in_a_row >= BROKEN_MAX {
                return seen;
            }
            (phase.write)(unit, step, &mut request, &mut body);
            let sent = Instant::now();
            let (status, error) = match connection.exchange_lightly(request.as_bytes()).await {
                Ok(answer) if (200..300).contains(&answer.status) => (answer.status, None),
                Ok(answer) => (answer.status, Some(beginning(answer.body))),
                Err(error) => (0, Some(error.to_string())),
            };
            let time_us = sent.elapsed().as_micros();
            *seen.by_status.entry(status).or_default() += 1;
            if status == 0 {
                broken_in_a_row += 1;
            } else {
                broken_in_a_row = 0;
                seen.latencies_us
                    .push(u32::try_from(time_us).unwrap_or(u32::MAX));
            }
            if seen.first_error.is_none() {
                seen.first_error = error;
            }
        }
    }
}

/// The beginning of a body, as text.
fn beginning(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(300)]);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
