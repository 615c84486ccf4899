//! `placewright bench durable --tls`: what TLS costs claims on kept connections, and how many
//! handshakes there are in a second. Server and clients share the machine, as in the benchmark without.

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

use super::bar::{TargetedFigure, at_least, at_most, count, report};
use super::connection::Connection;
use super::endpoint::Endpoint;
use super::figures::PhaseResults;
use super::http::{HttpBench, PhaseName};
use super::server_process::ServerProcess;

/// The measurement of one server, with and without TLS on one port.
pub(super) struct TlsBench {
    pub(super) hosts: u64,
    pub(super) connections: usize,
    pub(super) seconds: f64,
    pub(super) directory: PathBuf,
    pub(super) json: bool,
}

/// Target: claims over TLS in percent of those without.
const SHARE_PERCENT: f64 = 80.0;
/// How often claims without and with TLS take turns, so that neither has the better time.
const TURNS: u32 = 3;
/// The names that the server's certificate is for.
const NAME: &str = "127.0.0.1";
/// A request that changes nothing and needs no authentication.
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: bench\r\n\r\n";

#[derive(Debug, Serialize)]
struct Report {
    plain: Vec<PhaseResults>,
    tls: Vec<PhaseResults>,
    full_handshakes: Handshakes,
    resumed_handshakes: Handshakes,
    bars: Vec<TargetedFigure>,
}

/// Connections that were opened for one request each.
#[derive(Debug, Default, Serialize)]
struct Handshakes {
    per_second: f64,
    failed: u64,
}

impl TlsBench {
    /// Runs the measurement; returns whether the targets were met and nothing failed.
    pub(super) fn run(self) -> anyhow::Result<bool> {
        let directory = tempfile::tempdir_in(&self.directory)?;
        let authorities = certificate(directory.path())?;
        let server = ServerProcess::start_on(
            &directory.path().join("store"),
            &arguments(directory.path()),
        )?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let load = self.claims(&runtime, &server, PhaseName::Load, None)?;
        let kept = client(&authorities, Resumption::default())?;
        let (mut plain, mut tls) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            plain.push(self.claims(&runtime, &server, PhaseName::Claims, None)?);
            tls.push(self.claims(&runtime, &server, PhaseName::Claims, Some(&kept))?);
        }
        let once = client(&authorities, Resumption::disabled())?;
        let full_handshakes = runtime.block_on(self.handshakes(&server, once));
        let resumed_handshakes = runtime.block_on(self.handshakes(&server, kept));
        server.stop()?;
        let failed = plain.iter().chain(&tls).map(|phase| phase.failed);
        let failed = failed.sum::<u64>() + load.failed;
        let failed = failed + full_handshakes.failed + resumed_handshakes.failed;
        let bars = vec![
            at_least(
                "claims over TLS 1.3 in % of those without",
                share_percent(&plain, &tls),
                SHARE_PERCENT,
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
        let met = bars.iter().all(|bar| bar.is_met);
        let whole = self.json.then_some(Report {
            plain,
            tls,
            full_handshakes,
            resumed_handshakes,
            bars: bars.clone(),
        });
        report(&bars, whole.as_ref())?;
        Ok(met)
    }

    /// Runs one phase; claims have their part of the time.
    fn claims(
        &self,
        runtime: &Runtime,
        server: &ServerProcess,
        phase: PhaseName,
        tls: Option<&Arc<ClientConfig>>,
    ) -> anyhow::Result<PhaseResults> {
        let bench = HttpBench {
            hosts: self.hosts,
            connections: self.connections,
            seconds: self.seconds / f64::from(TURNS),
            tls: tls.cloned(),
            ..HttpBench::new(server.url(), phase)
        };
        let mut results = runtime.block_on(bench.measure_one())?;
        if tls.is_some() {
            results.phase.push_str(" TLS");
        }
        Ok(results)
    }

    /// Opens connections for one request each.
    async fn handshakes(&self, server: &ServerProcess, tls: Arc<ClientConfig>) -> Handshakes {
        let endpoint = Endpoint::new(server.address(), Some(tls));
        let time = Duration::from_secs_f64(self.seconds / f64::from(TURNS));
        let start = Instant::now();
        let mut tasks = JoinSet::new();
        for _ in 0..self.connections {
            let endpoint = endpoint.clone();
            tasks.spawn(async move {
                let (mut done, mut failed) = (0_u64, 0_u64);
                while start.elapsed() < time {
                    let mut connection = Connection::new(endpoint.clone());
                    match connection.exchange(REQUEST).await {
                        Ok(answer) if answer.status == 200 => done += 1,
                        _ => failed += 1,
                    }
                }
                (done, failed)
            });
        }
        let all = tasks.join_all().await.into_iter();
        let (done, failed) = all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        Handshakes {
            per_second: count(done) / start.elapsed().as_secs_f64(),
            failed,
        }
    }
}

/// Makes the files of a server that signs its certificate itself; returns it as its authority.
fn certificate(directory: &Path) -> anyhow::Result<Authorities> {
    let made = rcgen::generate_simple_self_signed(vec![NAME.to_owned()])?;
    let certificate = made.cert.pem();
    std::fs::write(directory.join("server.pem"), &certificate)?;
    let key = directory.join("server.key");
    std::fs::write(&key, made.signing_key.serialize_pem())?;
    Ok(Authorities::from_pem(certificate.as_bytes())?)
}

fn arguments(directory: &Path) -> [OsString; 4] {
    [
        "--placement-tls-certificate".into(),
        directory.join("server.pem").into(),
        "--placement-tls-key".into(),
        directory.join("server.key").into(),
    ]
}

fn client(authorities: &Authorities, resumption: Resumption) -> anyhow::Result<Arc<ClientConfig>> {
    let settings = ClientSettings {
        authorities: authorities.clone(),
        identity: None,
        protocols: vec![b"http/1.1".to_vec()],
    };
    let mut config = settings.config()?;
    config.resumption = resumption;
    Ok(Arc::new(config))
}

/// The claims a second of all turns, with TLS in percent of those without.
fn share_percent(plain: &[PhaseResults], tls: &[PhaseResults]) -> f64 {
    let per_second = |phases: &[PhaseResults]| -> f64 {
        let done = phases.iter().map(|phase| phase.succeeded).sum();
        let seconds: f64 = phases.iter().map(|phase| phase.seconds).sum();
        count(done) / seconds
    };
    100.0 * per_second(tls) / per_second(plain)
}
