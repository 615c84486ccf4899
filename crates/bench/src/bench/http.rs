//! `placewright bench http`: a load generator for any Placement server.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use placewright_client::server_url;
use placewright_tls::rustls::ClientConfig;

use super::connection::Connection;
use super::endpoint::Endpoint;
use super::phase::{Phase, WarmUp, run_phase};
use super::phase_results::PhaseResults;
use super::requests::{
    REQUESTS_PER_HOST, RandomNumbers, RequestBase, write_claim, write_host, write_host_deletion,
};
use crate::arguments::positive;

/// Arguments of `placewright bench http`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Example: measure what runs on this machine with 1,000 hosts and 8 clients\n  \
    placewright bench http --url http://127.0.0.1:8778 --hosts 1000 --connections 8"
)]
pub(crate) struct HttpBench {
    /// The server; plain HTTP, may have a path
    #[arg(long, default_value = "http://127.0.0.1:8778", value_parser = parse_plain_url)]
    pub(crate) url: String,

    /// A header for every request; may be given several times
    #[arg(
        long = "header",
        value_name = "NAME: VALUE",
        default_value = "X-Auth-Token: admin",
        value_parser = parse_header
    )]
    pub(crate) headers: Vec<String>,

    /// The microversion of every request; 1.38 is the least that the claims need
    #[arg(long, default_value = "1.39")]
    pub(crate) microversion: String,

    /// The phases, in this order
    #[arg(long, value_delimiter = ',', default_value = "load,candidates,claims")]
    pub(crate) phases: Vec<PhaseName>,

    /// Hosts that the phase `load` makes: provider, inventories, traits, aggregates. Before that each
    /// connection makes and deletes one more, as a warm-up that is not measured
    #[arg(long, default_value_t = 1000)]
    pub(crate) hosts: u64,

    /// Connections, each with one request under way at a time
    #[arg(long, default_value_t = 8)]
    pub(crate) connections: usize,

    /// The maximum time of each of the phases `candidates` and `claims`, in seconds
    #[arg(long, default_value_t = 10.0, value_parser = positive)]
    pub(crate) seconds: f64,

    /// The maximum number of requests of each of the phases `candidates` and `claims`
    #[arg(long, default_value_t = u64::MAX)]
    pub(crate) requests: u64,

    /// The query of the phase `candidates`
    #[arg(long, default_value = "resources=VCPU:1,MEMORY_MB:512,DISK_GB:1")]
    pub(crate) query: String,

    /// The limit of the phase `candidates`
    #[arg(long, default_value_t = 1000)]
    pub(crate) limit: u64,

    /// The seed of the UUIDs; without this option each run has a seed of its own
    #[arg(long)]
    pub(crate) seed: Option<u64>,

    /// Print the results as a JSON array with one object for each phase
    #[arg(long)]
    pub(crate) json: bool,

    /// The TLS configuration of the connections; `None` for connections without TLS.
    #[arg(skip)]
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

/// A phase of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PhaseName {
    /// Make hosts through the API
    Load,
    /// Ask for allocation candidates
    Candidates,
    /// Claim one small instance after another, each on a random host of the server
    Claims,
}

impl HttpBench {
    /// A benchmark with one phase, with the defaults of all other options.
    pub(crate) fn new(url: String, phase: PhaseName) -> Self {
        Self {
            url,
            headers: vec!["X-Auth-Token: admin".to_owned()],
            microversion: "1.39".to_owned(),
            phases: vec![phase],
            hosts: 1000,
            connections: 8,
            seconds: 10.0,
            requests: u64::MAX,
            query: "resources=VCPU:1,MEMORY_MB:512,DISK_GB:1".to_owned(),
            limit: 1000,
            seed: None,
            json: false,
            tls: None,
        }
    }

    /// Runs the only phase.
    ///
    /// # Errors
    ///
    /// As [`HttpBench::measure`].
    pub(crate) async fn measure_one(&self) -> anyhow::Result<PhaseResults> {
        self.measure().await?.pop().context("no phase")
    }

    /// Runs the phases and prints their results; returns whether every request succeeded.
    pub(crate) fn run(self) -> anyhow::Result<bool> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let results_of_phases = runtime.block_on(self.measure())?;
        if self.json {
            outln!("{}", serde_json::to_string(&results_of_phases)?);
        } else {
            results_of_phases.iter().for_each(PhaseResults::print);
        }
        Ok(results_of_phases.iter().all(|results| results.failed == 0))
    }

    /// Runs the phases.
    ///
    /// # Errors
    ///
    /// The address of the server cannot be resolved, or, for the phase `claims`, the server does not list any hosts.
    pub(crate) async fn measure(&self) -> anyhow::Result<Vec<PhaseResults>> {
        let (address, base) = self.address_and_base()?;
        let base = Arc::new(base);
        let seed = self.seed.unwrap_or_else(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            u64::try_from(now.unwrap_or_default().as_nanos()).unwrap_or_default()
        });
        let mut results = Vec::new();
        for name in &self.phases {
            let phase = match name {
                PhaseName::Load => self.load(&base, seed),
                PhaseName::Candidates => self.candidates(&base),
                PhaseName::Claims => {
                    let hosts = list_hosts(address, &base).await?;
                    self.claims(&base, seed, hosts)
                }
            };
            let endpoint = Endpoint::new(address, self.tls.clone());
            results.push(run_phase(endpoint, self.connections, phase).await);
        }
        Ok(results)
    }

    fn load(&self, base: &Arc<RequestBase>, seed: u64) -> Phase {
        let base = Arc::clone(base);
        // Each connection creates a host of its own and deletes it. These hosts have another seed, so that
        // none of them is a host of an earlier load with the same seed.
        let warm_up = {
            let (base, seed) = (Arc::clone(&base), !seed);
            move |connection, step, output: &mut String, body: &mut String| {
                if step < REQUESTS_PER_HOST {
                    write_host(&base, output, body, seed, connection, step);
                } else {
                    write_host_deletion(&base, output, seed, connection);
                }
            }
        };
        Phase {
            name: "load",
            units: self.hosts,
            steps: REQUESTS_PER_HOST,
            warm_up: WarmUp {
                steps: REQUESTS_PER_HOST + 1,
                write: Box::new(warm_up),
            },
            time_max: Duration::MAX,
            write: Box::new(move |host, step, output, body| {
                write_host(&base, output, body, seed, host, step);
            }),
        }
    }

    fn candidates(&self, base: &Arc<RequestBase>) -> Phase {
        let base = Arc::clone(base);
        let path = format!("/allocation_candidates?{}&limit={}", self.query, self.limit);
        Phase {
            name: "candidates",
            units: self.requests,
            steps: 1,
            warm_up: WarmUp::same_request(base.version_request()),
            time_max: phase_time_max(self.seconds),
            write: Box::new(move |_, _, output, _| base.write(output, "GET", &path, "")),
        }
    }

    fn claims(&self, base: &Arc<RequestBase>, seed: u64, hosts: Vec<String>) -> Phase {
        let base = Arc::clone(base);
        Phase {
            name: "claims",
            units: self.requests,
            steps: 1,
            warm_up: WarmUp::same_request(base.version_request()),
            time_max: phase_time_max(self.seconds),
            write: Box::new(move |unit, _, output, body| {
                // With the seed of the load, a consumer would have the UUID of a host.
                let mut random = RandomNumbers::new(!seed, unit);
                let consumer = random.uuid();
                let host_index = random.next() % hosts.len() as u64;
                let host = &hosts[usize::try_from(host_index).unwrap_or(0)];
                write_claim(&base, output, body, host, consumer);
            }),
        }
    }

    /// The address of the server, and the text that all requests to it share.
    fn address_and_base(&self) -> anyhow::Result<(SocketAddr, RequestBase)> {
        let address_and_path = self.url.strip_prefix("http://").unwrap_or(&self.url);
        let (authority, path) = address_and_path
            .split_once('/')
            .unwrap_or((address_and_path, ""));
        let authority_with_port = if authority.contains(':') {
            authority.to_owned()
        } else {
            format!("{authority}:80")
        };
        let address = authority_with_port
            .to_socket_addrs()
            .ok()
            .and_then(|mut addresses| addresses.next())
            .with_context(|| format!("--url {}: no such host", self.url))?;
        let prefix = match path.trim_end_matches('/') {
            "" => String::new(),
            path => format!("/{path}"),
        };
        let mut headers = format!(
            "Host: {authority}\r\nAccept: application/json\r\n\
             OpenStack-API-Version: placement {}\r\n",
            self.microversion
        );
        for header in &self.headers {
            headers.push_str(header);
            headers.push_str("\r\n");
        }
        Ok((address, RequestBase { prefix, headers }))
    }
}

/// Parses the address of a server without TLS.
fn parse_plain_url(text: &str) -> Result<String, String> {
    match server_url(text)? {
        url if url.starts_with("http://") => Ok(url),
        _ => Err("only http:// is possible".to_owned()),
    }
}

/// Parses a header of the form `Name: value`.
fn parse_header(text: &str) -> Result<String, String> {
    if text.contains(':') && !text.contains(['\r', '\n']) {
        Ok(text.to_owned())
    } else {
        Err("write it as \"Name: value\"".to_owned())
    }
}

/// The longest duration of a phase, from an option in seconds.
pub(super) fn phase_time_max(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// The UUIDs of all providers of the server.
async fn list_hosts(address: SocketAddr, base: &RequestBase) -> anyhow::Result<Vec<String>> {
    #[derive(serde::Deserialize)]
    struct Providers {
        resource_providers: Vec<Provider>,
    }
    #[derive(serde::Deserialize)]
    struct Provider {
        uuid: String,
    }
    let mut request = String::new();
    base.write(&mut request, "GET", "/resource_providers", "");
    let mut connection = Connection::new(address);
    let response = connection.exchange(request.as_bytes()).await;
    let response = response.with_context(|| format!("no answer from {address}"))?;
    if response.status != 200 {
        bail!("GET /resource_providers: status {}", response.status);
    }
    let providers: Providers = serde_json::from_slice(response.body)?;
    if providers.resource_providers.is_empty() {
        bail!("the server has no hosts to claim on: run the phase `load` first");
    }
    Ok(providers
        .resource_providers
        .into_iter()
        .map(|provider| provider.uuid)
        .collect())
}
