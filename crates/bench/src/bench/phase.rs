//! Runs one phase of a load: a number of connections, each with one request at a time, until all units
//! of work are done or the time is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::connection::Connection;
use super::endpoint::Endpoint;
use super::phase_results::{Measurements, PhaseResults};

/// Writes a request into the first buffer. The first number is that of the unit in the phase, the second that of the
/// request in the unit. The second buffer may be used to make the body.
type WriteRequest = dyn Fn(u64, u8, &mut String, &mut String) + Send + Sync;

/// A phase of a load.
pub(crate) struct Phase {
    pub(crate) name: &'static str,
    /// The number of units of work, each of which is done by one connection.
    pub(crate) units: u64,
    /// The number of requests of a unit, which are sent one after the other over one connection.
    pub(crate) steps: u8,
    /// No request starts after this time.
    pub(crate) time_max: Duration,
    pub(crate) warm_up: WarmUp,
    pub(crate) write: Box<WriteRequest>,
}

/// The requests of each connection before the measurement, so that the measurement includes neither the
/// opening of connections nor the first, slower requests of a server.
pub(crate) struct WarmUp {
    /// The number of requests, sent one after the other.
    pub(crate) steps: u8,
    /// Writes a request. It is called with the number of the connection in place of the number of a unit.
    pub(crate) write: Box<WriteRequest>,
}

impl WarmUp {
    /// A single request, the same for all connections.
    pub(crate) fn same_request(request: String) -> Self {
        Self {
            steps: 1,
            write: Box::new(move |_, _, output, _| output.clone_from(&request)),
        }
    }
}

/// The number of successive requests without a response after which a connection ends its work.
const SUCCESSIVE_FAILURES_MAX: u32 = 20;
/// The maximum number of bytes of a body that are shown as an error.
const ERROR_BYTES_MAX: usize = 300;

/// Runs a phase and combines the measurements of all connections.
pub(crate) async fn run_phase(
    endpoint: impl Into<Endpoint>,
    connections: usize,
    phase: Phase,
) -> PhaseResults {
    let name = phase.name;
    let phase = Arc::new(phase);
    let next_unit = Arc::new(AtomicU64::new(0));
    let opened_connections = open_connections(&endpoint.into(), connections, &phase).await;
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for connection in opened_connections {
        tasks.spawn(run_connection(
            connection,
            Arc::clone(&phase),
            Arc::clone(&next_unit),
            start,
        ));
    }
    let mut measurements = Measurements::default();
    for measurements_of_connection in tasks.join_all().await {
        measurements.add(measurements_of_connection);
    }
    PhaseResults::new(name, connections, start.elapsed(), measurements)
}

/// Opens connections and sends their warm-up requests. Failures are ignored, because the same failures occur in
/// the measurement again.
async fn open_connections(
    endpoint: &Endpoint,
    connections: usize,
    phase: &Arc<Phase>,
) -> Vec<Connection> {
    let mut tasks = JoinSet::new();
    for number in (0_u64..).take(connections) {
        let (phase, endpoint) = (Arc::clone(phase), endpoint.clone());
        tasks.spawn(async move {
            let mut connection = Connection::new(endpoint);
            let (mut request, mut body) = (String::new(), String::new());
            for step in 0..phase.warm_up.steps {
                (phase.warm_up.write)(number, step, &mut request, &mut body);
                let _ = connection.exchange_discarding(request.as_bytes()).await;
            }
            connection
        });
    }
    tasks.join_all().await
}

/// Runs the work of one connection.
async fn run_connection(
    mut connection: Connection,
    phase: Arc<Phase>,
    next_unit: Arc<AtomicU64>,
    start: Instant,
) -> Measurements {
    let mut measurements = Measurements::default();
    let (mut request, mut body) = (String::new(), String::new());
    let mut successive_failures = 0;
    loop {
        let unit = next_unit.fetch_add(1, Ordering::Relaxed);
        if unit >= phase.units {
            return measurements;
        }
        for step in 0..phase.steps {
            if start.elapsed() >= phase.time_max || successive_failures >= SUCCESSIVE_FAILURES_MAX {
                return measurements;
            }
            (phase.write)(unit, step, &mut request, &mut body);
            let sent_at = Instant::now();
            let (status, error) = match connection.exchange_discarding(request.as_bytes()).await {
                Ok(response) if (200..300).contains(&response.status) => (response.status, None),
                Ok(response) => (response.status, Some(beginning(response.body))),
                // The status 0 means that there was no response.
                Err(error) => (0, Some(error.to_string())),
            };
            let time_us = sent_at.elapsed().as_micros();
            *measurements.by_status.entry(status).or_default() += 1;
            if status == 0 {
                successive_failures += 1;
            } else {
                successive_failures = 0;
                measurements
                    .latencies_us
                    .push(u32::try_from(time_us).unwrap_or(u32::MAX));
            }
            if measurements.first_error.is_none() {
                measurements.first_error = error;
            }
        }
    }
}

/// The beginning of a body, as text.
fn beginning(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(ERROR_BYTES_MAX)]);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
