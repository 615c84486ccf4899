//! The listener of the page on a real socket, with the Placement API and the scheduler API behind it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use placewright_api_placement::{PlacementOptions, PlacementService};
use placewright_api_scheduler::{KeepOptions, SchedulerService};
use placewright_auth::{AuthConfig, Authenticator, Policy, PolicyConfig};
use placewright_control::{
    ClaimMetrics, ControlMachine, Placement, SchedulerHandle, submit_placement,
};
use placewright_engine::{Engine, Options};
use placewright_http::{Gateway, HttpMetrics, HttpOptions, Server};
use placewright_journal::MemoryJournal;
use placewright_placement::{Command, Timestamp};
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::prepare::PrepareOptions;
use placewright_scheduler::select::Scheduler;
use placewright_ui::{FleetHandle, SignIn, UiService};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The header of an operator's requests.
pub(crate) const ADMIN: &str = "X-Auth-Token: admin\r\n";
/// The headers of requests of a user of the project `blue`, who is no operator.
pub(crate) const TENANT: &str = "X-Auth-Token: alice:blue\r\nX-Roles: member,reader\r\n";

/// The address of a listener that serves as long as the test runs, and the engine with its data.
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    pub(crate) engine: Engine<ControlMachine>,
}

/// An answer as it came. The names of its headers are in lower case.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The value of a header; empty if the answer has no such header.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

impl Site {
    /// A listener on an empty installation.
    pub(crate) async fn start() -> Self {
        Self::start_with(Options::default()).await
    }

    /// A listener on an empty installation, whose engine has these options.
    pub(crate) async fn start_with(options: Options) -> Self {
        let engine = Engine::open(MemoryJournal::new(), options, ()).unwrap();
        let now = Timestamp::from_seconds(1_790_000_000);
        let names = Command::SyncStandardNames { at: now };
        submit_placement(&engine, names).await.unwrap().unwrap();
        Self::on_engine(engine).await
    }

    /// A listener on this engine.
    pub(crate) async fn on_engine(engine: Engine<ControlMachine>) -> Self {
        let authenticator = Authenticator::new(&AuthConfig::default()).unwrap();
        let config = PolicyConfig::default();
        let (policy, _) = Policy::from_text(&config, Path::new("policy.yaml"), "{}").unwrap();
        let mut registry = Registry::default();
        let metrics = HttpMetrics::new(&mut registry);
        let placement = Placement::new(engine.clone(), ClaimMetrics::new(&mut registry));
        let options = HttpOptions::default();
        let gateway = Gateway::new(options, authenticator, policy, metrics, Arc::new(registry));
        let gateway = Arc::new(gateway);
        let scheduler =
            Scheduler::new(SchedulerConfig::default(), PrepareOptions::default()).unwrap();
        let handle = SchedulerHandle::new(engine.clone(), scheduler);
        let options = PlacementOptions::default();
        let placement_api = PlacementService::new(Arc::clone(&gateway), placement.clone(), options);
        let scheduler_api = SchedulerService::new(
            Arc::clone(&gateway),
            placement,
            handle.clone(),
            KeepOptions::default(),
        );
        let forwarded = vec![
            ("placement", Arc::new(placement_api) as _),
            ("scheduler", Arc::new(scheduler_api) as _),
        ];
        let fleet = FleetHandle::new(handle);
        let page = UiService::new(gateway, fleet, SignIn::Noauth2, forwarded);
        let server = Server::new(Arc::new(page));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { server.serve(listener, std::future::pending()).await });
        Self { address, engine }
    }

    /// Sends a request on a connection of its own. `headers` end with a line break.
    pub(crate) async fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let mut stream = self.begin(method, path, headers, body).await;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        parse(&bytes)
    }

    pub(crate) async fn get(&self, path: &str, headers: &str) -> Answer {
        self.send("GET", path, headers, "").await
    }

    /// Sends a request, and leaves the answer to be read.
    pub(crate) async fn begin(
        &self,
        method: &str,
        path: &str,
        headers: &str,
        body: &str,
    ) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let kind = match body {
            "" => String::new(),
            body => format!(
                "Content-Type: application/json\r\nContent-Length: {}\r\n",
                body.len()
            ),
        };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: page\r\nConnection: close\r\n{headers}{kind}\r\n{body}"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }

    /// Makes a host in placement, and reports it to the scheduler. Of its 8 CPUs 2 are reserved, and the others are
    /// given away four times, so its capacity is 24.
    pub(crate) async fn add_host(&self, number: u32) {
        let uuid = host(number);
        let version = format!("{ADMIN}OpenStack-API-Version: placement 1.39\r\n");
        let provider = json!({"name": format!("node-{number}"), "uuid": uuid}).to_string();
        let path = "/ui/api/placement/resource_providers";
        let made = self.send("POST", path, &version, &provider).await;
        assert_eq!(made.status, 200);
        let inventories = json!({"resource_provider_generation": 0, "inventories": {
            "VCPU": {"total": 8, "reserved": 2, "allocation_ratio": 4.0}, "MEMORY_MB": {"total": 8192},
        }});
        let path = format!("{path}/{uuid}/inventories");
        let inventories = inventories.to_string();
        let set = self.send("PUT", &path, &version, &inventories).await;
        assert_eq!(set.status, 200);
        let names = json!({"service_host": format!("host-{number}"), "node": format!("node-{number}"),
            "cell": "c0000000-0000-0000-0000-000000000001"});
        let update = json!({"incarnation": 1, "sequence": 1,
            "update": {"full": {"facts": {"names": names}}}});
        let path = format!("/ui/api/scheduler/v1/hosts/{uuid}/state");
        let update = update.to_string();
        let reported = self.send("POST", &path, ADMIN, &update).await;
        assert_eq!(reported.status, 200);
    }

    /// Claims CPUs of a host for a consumer, and returns the status of the answer.
    pub(crate) async fn claim(&self, number: u32, consumer: u32, cpus: u32) -> u16 {
        let version = format!("{ADMIN}OpenStack-API-Version: placement 1.39\r\n");
        let body = json!({"allocations": {host(number): {"resources": {"VCPU": cpus}}},
            "consumer_generation": null, "consumer_type": "INSTANCE",
            "project_id": "blue", "user_id": "alice"});
        let path = format!("/ui/api/placement/allocations/10000000-0000-0000-0000-{consumer:012}");
        self.send("PUT", &path, &version, &body.to_string())
            .await
            .status
    }
}

/// The UUID of a host.
pub(crate) fn host(number: u32) -> String {
    format!("40000000-0000-0000-0000-{number:012}")
}

/// A page that follows the fleet: it reads the stream of events, and keeps the rows of the hosts.
pub(crate) struct Follower {
    stream: TcpStream,
    /// The text that came after the last complete event.
    text: String,
    /// Everything that came, for a search.
    pub(crate) received: String,
    /// By slot: the UUID of the host, and its numbers, which [`Self::numbers`] describes.
    pub(crate) hosts: BTreeMap<u64, (String, Vec<i64>)>,
    /// How often the stream said that the page has to drop its rows.
    pub(crate) resets: u32,
    /// How many rows came: those with names, and those with numbers alone.
    pub(crate) rows: (usize, usize),
    /// The id of the last event that had one. With it, another stream goes on where this one ended.
    pub(crate) place: String,
    /// The version of the names of aggregates and of the topology.
    pub(crate) names: u64,
}

impl Follower {
    pub(crate) async fn start(site: &Site, query: &str) -> Self {
        let path = format!("/ui/api/fleet{query}");
        Self {
            stream: site.begin("GET", &path, ADMIN, "").await,
            text: String::new(),
            received: String::new(),
            hosts: BTreeMap::new(),
            resets: 0,
            rows: (0, 0),
            place: String::new(),
            names: 0,
        }
    }

    /// Reads until a condition holds; for at most 30 seconds.
    pub(crate) async fn until(&mut self, condition: impl Fn(&Self) -> bool) {
        let read = async {
            while !condition(self) {
                let mut piece = vec![0; 1 << 16];
                let length = self.stream.read(&mut piece).await.unwrap();
                assert!(length > 0, "the stream ended: {}", self.received);
                let piece = String::from_utf8_lossy(&piece[..length]).into_owned();
                self.received.push_str(&piece);
                // The text has the sizes of the chunks of HTTP, too. They are lines of their own, which are passed
                // over.
                self.text.push_str(&piece);
                self.take_events();
            }
        };
        tokio::time::timeout(Duration::from_secs(30), read)
            .await
            .unwrap();
    }

    /// Takes the complete events out of the text, and applies them.
    fn take_events(&mut self) {
        while let Some(end) = self.text.find("\n\n") {
            let event = self.text[..end].to_owned();
            self.text.drain(..end + 2);
            for line in event.lines() {
                if let Some(id) = line.strip_prefix("id: ") {
                    self.place = id.to_owned();
                }
                if line == "event: reset" {
                    self.resets += 1;
                }
                if let Some(data) = line.strip_prefix("data: {\"")
                    && let Ok(data) = serde_json::from_str::<Value>(&format!("{{\"{data}"))
                {
                    self.apply(&data);
                }
            }
        }
    }

    /// Applies the data of an event. Each row of a host begins with the host's slot.
    fn apply(&mut self, data: &Value) {
        let list = |name: &str| data[name].as_array().cloned().unwrap_or_default();
        for row in list("hosts") {
            self.rows.0 += 1;
            let uuid = row[1].as_str().unwrap().to_owned();
            let slot = row[0].as_u64().unwrap();
            self.hosts.insert(slot, (uuid, Vec::new()));
        }
        for row in list("live") {
            self.rows.1 += 1;
            let numbers = row.as_array().unwrap();
            let numbers = numbers[1..].iter().map(|number| number.as_i64().unwrap());
            if let Some(host) = self.hosts.get_mut(&row[0].as_u64().unwrap()) {
                host.1 = numbers.collect();
            }
        }
        if let Some(names) = data["names"].as_u64() {
            self.names = names;
        }
        for slot in list("gone") {
            self.hosts.remove(&slot.as_u64().unwrap());
        }
    }

    /// The numbers of a host: its condition, the range of the age of its report, its consumers, and the VCPUs and the
    /// memory in use. Empty if the page has no numbers of the host.
    pub(crate) fn numbers(&self, number: u32) -> &[i64] {
        let uuid = host(number);
        let mut hosts = self.hosts.values();
        hosts
            .find(|(other, _)| *other == uuid)
            .map_or(&[], |(_, numbers)| numbers)
    }
}

/// Reads an answer after its connection has ended.
pub(crate) fn parse(bytes: &[u8]) -> Answer {
    let end = bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap();
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    Answer {
        status: status.parse().unwrap(),
        headers: headers.collect(),
        body: bytes[end + 4..].to_vec(),
    }
}
