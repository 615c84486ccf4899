//! Measures the time that HTTP adds to a claim with its decision: the same requests through the scheduler's service
//! over a connection on loopback, and as calls in this process.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use placewright_api_scheduler::SchedulerService;
use placewright_control::ControlMachine;
use placewright_control::destinations::DestinationsRequest;
use placewright_control::placer::claim;
use placewright_engine::{Engine, Options};
use placewright_http::Server;
use placewright_journal::MemoryJournal;
use placewright_scheduler::config::SchedulerConfig;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::bench::connection::Connection;
use crate::bench::in_process::{scheduler_service, submit_all};
use crate::bench::requests::{RandomNumbers, RequestBase};
use crate::bench::seeds::fleet;
use crate::bench::seeds::times::Times;

/// The seed of the instances' UUIDs.
const INSTANCE_SEED: u64 = 33;
/// How many requests warm the caches up before the measurement.
const WARM_UP: usize = 20;

/// The time of a request for one destination, with its claim.
#[derive(Debug, Clone, Serialize)]
pub(in super::super) struct HttpShare {
    pub(in super::super) hosts: u32,
    /// As a call in this process.
    pub(in super::super) call: Times,
    /// Over HTTP on loopback, from the request to the response.
    pub(in super::super) http: Times,
}

impl HttpShare {
    /// The share that HTTP takes, in percent of the median.
    pub(in super::super) fn percent(&self) -> f64 {
        let http_ms = self.http.p50_ms.max(f64::MIN_POSITIVE);
        ((http_ms - self.call.p50_ms) / http_ms * 100.0).max(0.0)
    }
}

/// Measures one number of hosts, with this many requests in each way.
///
/// # Errors
///
/// The service does not answer as it should, which would be a bug.
pub(in super::super) async fn measure(hosts: u32, requests: usize) -> anyhow::Result<HttpShare> {
    eprintln!("walking: {hosts} hosts, the share of HTTP");
    let engine: Engine<ControlMachine> =
        Engine::open(MemoryJournal::new(), Options::default(), ())?;
    fleet::load_with(&engine, hosts, fleet::mostly_full).await?;
    let scheduler = fleet::scheduler(hosts, SchedulerConfig::default())?;
    let service = scheduler_service(&engine, scheduler)?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let mut connection = Connection::new(listener.local_addr()?);
    let (stop, stopped) = oneshot::channel::<()>();
    let server = Server::new(Arc::clone(&service) as _);
    let serving = tokio::spawn(async move {
        server
            .serve(listener, async {
                // A dropped sender stops the server, too.
                let _ = stopped.await;
            })
            .await
    });
    let mut random = RandomNumbers::new(INSTANCE_SEED, u64::from(hosts));
    let (mut call_times, mut http_times) = (Vec::new(), Vec::new());
    // In turn, so that whatever disturbs the machine disturbs both.
    for number in 0..WARM_UP + requests {
        let instances = [random.uuid(), random.uuid()];
        let call_time = call(&service, instances[0]).await?;
        let http_time = exchange(&mut connection, instances[1]).await?;
        if number >= WARM_UP {
            call_times.push(call_time);
            http_times.push(http_time);
        }
        let releases = instances.map(claim::release);
        submit_all(&engine, releases).await?;
    }
    drop(connection);
    drop(stop);
    serving.await?;
    engine.shutdown();
    Ok(HttpShare {
        hosts,
        call: Times::of(call_times),
        http: Times::of(http_times),
    })
}

/// Makes the request as a call in this process. Returns how long the answer took.
async fn call(service: &SchedulerService, instance: Uuid) -> anyhow::Result<Duration> {
    let request = DestinationsRequest {
        request_spec: fleet::request(),
        instances: vec![instance],
        alternate_count: 0,
        with_claim: true,
        least: 1,
        explain: false,
        explain_hosts: Vec::new(),
    };
    let start = Instant::now();
    service.destinations().select(request).await?;
    Ok(start.elapsed())
}

/// Makes the request over HTTP. Returns how long the response took.
async fn exchange(connection: &mut Connection, instance: Uuid) -> anyhow::Result<Duration> {
    let base = RequestBase {
        prefix: String::new(),
        headers: "Host: 127.0.0.1\r\nAccept: application/json\r\nX-Auth-Token: admin\r\n"
            .to_owned(),
    };
    let request = fleet::request();
    let flavor = &request.flavor;
    let (mut output, mut body) = (String::new(), String::new());
    // Writing to a string cannot fail.
    let _ = write!(
        body,
        "{{\"request\":{{\"flavor\":{{\"vcpus\":{},\"memory_mb\":{},\"root_gb\":{}}},\
         \"project_id\":\"seeds\",\"user_id\":\"seeds\"}},\
         \"instances\":[\"{instance}\"],\"alternates\":0,\"claim\":true}}",
        flavor.vcpus, flavor.memory_mb, flavor.root_gb
    );
    base.write(&mut output, "POST", "/v1/destinations", &body);
    let start = Instant::now();
    let response = connection.exchange(output.as_bytes()).await?;
    let time = start.elapsed();
    ensure!(
        response.status == 200,
        "status {}: {}",
        response.status,
        String::from_utf8_lossy(response.body)
    );
    Ok(time)
}
