//! `placewright bench durable --tls`: the cost of TLS for claims on connections that stay open, and the
//! number of handshakes per second. Server and clients share the machine, as in the benchmark without TLS.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use placewright_tls::rustls::ClientConfig;
use placewright_tls::rustls::client::Resumption;
use placewright_tls::{Authorities, ClientSettings};
use serde::Serialize;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::connection::Connection;
use super::endpoint::Endpoint;
use super::http::{HttpBench, PhaseName};
use super::phase_results::PhaseResults;
use super::server_process::ServerProcess;
use super::targets::{TargetedFigure, at_least, at_most, count, print_report};

/// The measurement of one server, with and without TLS on one port.
pub(super) struct TlsBench {
    pub(super) hosts: u64,
    pub(super) connections: usize,
    pub(super) seconds: f64,
    pub(super) directory: PathBuf,
    pub(super) json: bool,
}

/// Target: claims over TLS in percent of claims without TLS.
const TLS_PERCENT_MIN: f64 = 80.0;
/// The number of rounds. Each measures claims without and with TLS, so that a change of the machine's load affects
/// both. Every second round begins with TLS: otherwise the server's snapshots, which are due after a certain number of
/// claims, could always be made during measurements without TLS, or always during those with TLS.
const ROUNDS: u32 = 6;
/// The name in the server's certificate.
const NAME: &str = "127.0.0.1";
/// A request that changes nothing and needs no authentication.
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: bench\r\n\r\n";

#[derive(Debug, Serialize)]
struct Report {
    plain: Vec<PhaseResults>,
    tls: Vec<PhaseResults>,
    full_handshakes: Handshakes,
    resumed_handshakes: Handshakes,
    #[serde(rename = "bars")]
    targets: Vec<TargetedFigure>,
}

/// The results of connections that were opened for one request each.
#[derive(Debug, Default, Serialize)]
struct Handshakes {
    per_second: f64,
    failed: u64,
}

impl TlsBench {
    /// Runs the measurement; returns whether the targets were met and nothing failed.
    pub(super) fn run(self) -> anyhow::Result<bool> {
        let directory = tempfile::tempdir_in(&self.directory)?;
        let authorities = write_certificate(directory.path())?;
        let server = ServerProcess::start_with_arguments(
            &directory.path().join("store"),
            &tls_arguments(directory.path()),
        )?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let load = self.measure_phase(&runtime, &server, PhaseName::Load, None)?;
        let resuming_client = client_config(&authorities, Resumption::default())?;
        let (mut plain, mut tls) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let is_tls_first = round % 2 == 1;
            for is_tls in [is_tls_first, !is_tls_first] {
                let client = is_tls.then_some(&resuming_client);
                let results = self.measure_phase(&runtime, &server, PhaseName::Claims, client)?;
                if is_tls { &mut tls } else { &mut plain }.push(results);
            }
        }
        let client_without_resumption = client_config(&authorities, Resumption::disabled())?;
        let full_handshakes =
            runtime.block_on(self.measure_handshakes(&server, client_without_resumption));
        let resumed_handshakes =
            runtime.block_on(self.measure_handshakes(&server, resuming_client));
        server.stop()?;
        let failed = plain.iter().chain(&tls).map(|phase| phase.failed);
        let failed = failed.sum::<u64>() + load.failed;
        let failed = failed + full_handshakes.failed + resumed_handshakes.failed;
        let targets = vec![
            at_least(
                "claims over TLS 1.3 in % of those without",
                tls_percent(&plain, &tls),
                TLS_PERCENT_MIN,
            ),
            at_most("failed requests", count(failed), 0.0),
        ];
        if !self.json {
            outln!(
                "without and with TLS in turn, fsync in {}",
                directory.path().display()
            );
            for (plain, tls) in plain.iter().zip(&tls) {
                plain.print();
                tls.print();
            }
            outln!(
                "handshakes   {:>9.0} a second in full, {:.0} resumed (ECDSA P-256, a connection for \
                 each, {} at a time)",
                full_handshakes.per_second,
                resumed_handshakes.per_second,
                self.connections
            );
        }
        let is_met = targets.iter().all(|target| target.is_met);
        let full_report = self.json.then_some(Report {
            plain,
            tls,
            full_handshakes,
            resumed_handshakes,
            targets: targets.clone(),
        });
        print_report(&targets, full_report.as_ref())?;
        Ok(is_met)
    }

    /// Runs one phase, for one round's part of the time.
    fn measure_phase(
        &self,
        runtime: &Runtime,
        server: &ServerProcess,
        phase: PhaseName,
        tls: Option<&Arc<ClientConfig>>,
    ) -> anyhow::Result<PhaseResults> {
        let bench = HttpBench {
            hosts: self.hosts,
            connections: self.connections,
            seconds: self.seconds / f64::from(ROUNDS),
            tls: tls.cloned(),
            ..HttpBench::new(server.url(), phase)
        };
        let mut results = runtime.block_on(bench.measure_one())?;
        if tls.is_some() {
            results.phase.push_str(" TLS");
        }
        Ok(results)
    }

    /// Measures handshakes with a connection for each request, for one round's part of the time.
    async fn measure_handshakes(
        &self,
        server: &ServerProcess,
        tls: Arc<ClientConfig>,
    ) -> Handshakes {
        let endpoint = Endpoint::new(server.address(), Some(tls));
        let time = Duration::from_secs_f64(self.seconds / f64::from(ROUNDS));
        let start = Instant::now();
        let mut tasks = JoinSet::new();
        for _ in 0..self.connections {
            let endpoint = endpoint.clone();
            tasks.spawn(async move {
                let (mut succeeded, mut failed) = (0_u64, 0_u64);
                while start.elapsed() < time {
                    let mut connection = Connection::new(endpoint.clone());
                    match connection.exchange(REQUEST).await {
                        Ok(response) if response.status == 200 => succeeded += 1,
                        _ => failed += 1,
                    }
                }
                (succeeded, failed)
            });
        }
        let (mut succeeded, mut failed) = (0, 0);
        for (succeeded_of_task, failed_of_task) in tasks.join_all().await {
            succeeded += succeeded_of_task;
            failed += failed_of_task;
        }
        Handshakes {
            per_second: count(succeeded) / start.elapsed().as_secs_f64(),
            failed,
        }
    }
}

/// Writes a self-signed certificate and its key for a server. Returns the certificate as the authority that clients
/// trust.
fn write_certificate(directory: &Path) -> anyhow::Result<Authorities> {
    let certified_key = rcgen::generate_simple_self_signed(vec![NAME.to_owned()])?;
    let certificate = certified_key.cert.pem();
    std::fs::write(directory.join("server.pem"), &certificate)?;
    let key = directory.join("server.key");
    std::fs::write(&key, certified_key.signing_key.serialize_pem())?;
    Ok(Authorities::from_pem(certificate.as_bytes())?)
}

fn tls_arguments(directory: &Path) -> [OsString; 4] {
    [
        "--placement-tls-certificate".into(),
        directory.join("server.pem").into(),
        "--placement-tls-key".into(),
        directory.join("server.key").into(),
    ]
}

fn client_config(
    authorities: &Authorities,
    resumption: Resumption,
) -> anyhow::Result<Arc<ClientConfig>> {
    let settings = ClientSettings {
        authorities: authorities.clone(),
        identity: None,
        protocols: vec![b"http/1.1".to_vec()],
    };
    let mut config = settings.config()?;
    config.resumption = resumption;
    Ok(Arc::new(config))
}

/// The claims per second of all rounds with TLS, in percent of the claims per second without TLS.
fn tls_percent(plain: &[PhaseResults], tls: &[PhaseResults]) -> f64 {
    let per_second = |phases: &[PhaseResults]| -> f64 {
        let succeeded = phases.iter().map(|phase| phase.succeeded).sum();
        let seconds: f64 = phases.iter().map(|phase| phase.seconds).sum();
        count(succeeded) / seconds
    };
    100.0 * per_second(tls) / per_second(plain)
}
