//! The scheduler API of several processes of control on one journal.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::{Control, free_address, run};
use placewright_journal_testing::EtcdCluster;
use rustix::process::Signal;
use serde_json::{Value, json};

/// The longest time that a test waits for anything.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);
const CELL: &str = "c1a5e0de-0000-4000-8000-000000000001";

/// A replica of control with the scheduler API.
struct Replica {
    control: Control,
    scheduler: SocketAddr,
}

impl Replica {
    /// Starts a replica, and does not wait until it is ready.
    fn spawn(folder: &Path, url: &str, number: usize) -> Self {
        let keys = folder.join("keys");
        if !keys.exists() {
            let (code, _, error) = run(&["secrets", "new-key", "--file", keys.to_str().unwrap()]);
            assert_eq!(code, 0, "{error}");
        }
        let (listen, scheduler) = (free_address().to_string(), free_address());
        let scheduler_listen = scheduler.to_string();
        let flags = [
            ["--store-url", url],
            ["--control-listen", &listen],
            ["--control-replica-address", &listen],
            ["--scheduler-listen", &scheduler_listen],
            ["--secrets-key-file", keys.to_str().unwrap()],
        ];
        let control = Control::spawn(&folder.join(number.to_string()), &flags.concat(), &[]);
        Self { control, scheduler }
    }

    /// Sends a request to the scheduler API: the status and the body of the response.
    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let mut stream = TcpStream::connect(self.scheduler).unwrap();
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nX-Auth-Token: admin\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let status = response[9..12].parse().unwrap();
        let body = response.split_once("\r\n\r\n").unwrap().1;
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    /// Makes the provider of a host with 4 CPUs.
    fn add_provider(&self, number: u32) {
        let uuid = host(number);
        let body = json!({"name": format!("node-{number}"), "uuid": uuid});
        let made = self
            .control
            .request("POST /resource_providers", &body.to_string());
        assert!(made.starts_with("HTTP/1.1 200"), "{made}");
        let body = json!({"resource_provider_generation": 0, "inventories": {
            "VCPU": {"total": 4}, "MEMORY_MB": {"total": 8192}, "DISK_GB": {"total": 100},
        }});
        let head = format!("PUT /resource_providers/{uuid}/inventories");
        let set = self.control.request(&head, &body.to_string());
        assert!(set.starts_with("HTTP/1.1 200"), "{set}");
    }

    /// Sends an update of a host.
    fn update(&self, number: u32, sequence: u64, update: &Value) -> (u16, Value) {
        let body = json!({"incarnation": 1, "sequence": sequence, "update": update});
        self.ask("POST", &format!("/v1/hosts/{}/state", host(number)), &body)
    }

    /// Waits until this replica has so many hosts that are up.
    fn wait_for_hosts(&self, count: usize) {
        let started = Instant::now();
        loop {
            let (status, body) = self.ask("GET", "/v1/hosts", &Value::Null);
            assert_eq!(status, 200, "{body}");
            let hosts = body["hosts"].as_array().unwrap();
            if hosts.iter().filter(|host| host["up"] == true).count() == count {
                return;
            }
            assert!(started.elapsed() < TEST_TIMEOUT, "{body}");
            std::thread::yield_now();
        }
    }
}

fn host(number: u32) -> String {
    format!("7a9d7a9d-0000-4000-8000-{number:012}")
}

fn instance(number: u32) -> String {
    format!("1a57a9ce-0000-4000-8000-{number:012}")
}

/// The first update of a host.
fn full(number: u32) -> Value {
    json!({"full": {"facts": {"names": {
        "service_host": format!("host-{number}"), "node": format!("node-{number}"), "cell": CELL,
    }}}})
}

/// Starts two replicas on a member of etcd, with hosts from number 1 on.
fn start(cluster: &EtcdCluster, folder: &Path, host_count: u32) -> [Replica; 2] {
    let url = format!("etcd://{}/placewright/control", cluster.address());
    let mut replicas = [0, 1].map(|number| Replica::spawn(folder, &url, number));
    for replica in &mut replicas {
        replica.control.wait_for_line("ready");
    }
    for number in 1..=host_count {
        replicas[0].add_provider(number);
        // Each agent knows one of the replicas.
        let (status, body) = replicas[number as usize % 2].update(number, 1, &full(number));
        assert_eq!(status, 200, "{body}");
    }
    for replica in &replicas {
        replica.wait_for_hosts(host_count as usize);
    }
    replicas
}

/// The selection that a replica offers to an instance of a server group, whose members are on different hosts.
fn offer(replica: &Replica, number: u32, group: &str) -> Value {
    let body = json!({
        "request": {
            "flavor": {"vcpus": 1, "memory_mb": 1024, "root_gb": 1},
            "image": {"properties": {"os_distro": "debian"}},
            "instance_group": {"uuid": group, "policy": "anti-affinity"},
            "project_id": "p", "user_id": "u",
        },
        "instances": [instance(number)], "alternates": 2, "claim": false,
    });
    let (status, body) = replica.ask("POST", "/v1/destinations", &body);
    assert_eq!(status, 200, "{body}");
    body["selections"][0].clone()
}

/// Claims a candidate: with `POST` as a new claim, with `PUT` instead of what the instance holds.
fn claim(replica: &Replica, method: &str, number: u32, candidate: &Value) -> (u16, Value) {
    let path = format!("/v1/claims/{}", instance(number));
    replica.ask(method, &path, &json!({"candidate": candidate["candidate"]}))
}

/// A candidate whose UUID differs in one digit.
fn guessed(candidate: &Value, digit: usize) -> Value {
    let mut uuid = candidate["candidate"].as_str().unwrap().to_owned();
    let other = if &uuid[digit..=digit] == "0" {
        "1"
    } else {
        "0"
    };
    uuid.replace_range(digit..=digit, other);
    json!({"candidate": uuid})
}

#[test]
fn every_replica_takes_the_candidates_that_any_of_them_offered() {
    if !EtcdCluster::available() {
        return;
    }
    let cluster = EtcdCluster::start(1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let replicas = start(&cluster, folder.path(), 4);
    for (number, offering) in [(1, 0), (11, 1)] {
        let (offering, claiming) = (&replicas[offering], &replicas[1 - offering]);
        let group = format!("9a0b9a0b-0000-4000-8000-{number:012}");
        let first = offer(offering, number, &group);
        let second = offer(offering, number + 1, &group);
        assert_eq!(first["selected"]["host"], second["selected"]["host"]);

        let (status, claimed) = claim(claiming, "POST", number, &first["selected"]);
        assert_eq!(status, 200, "{claimed}");
        for field in ["candidate", "provider", "allocation_request"] {
            assert_eq!(claimed[field], first["selected"][field], "{field}");
        }
        // The group and its rule come with the candidate.
        let (status, refused) = claim(claiming, "POST", number + 1, &second["selected"]);
        assert_eq!(status, 409, "{refused}");
        assert_eq!(
            refused["errors"][0]["explanation"]["reason"], "rule",
            "{refused}"
        );
        // An alternate replaces what was claimed.
        let (status, swapped) = claim(claiming, "PUT", number, &first["alternates"][1]);
        assert_eq!(status, 200, "{swapped}");
        let (status, claimed) = claim(claiming, "POST", number + 1, &second["selected"]);
        assert_eq!(status, 200, "{claimed}");

        // Nobody finds a candidate without its whole UUID.
        for digit in [0, 9, 35] {
            let (status, refused) =
                claim(claiming, "POST", 99, &guessed(&first["selected"], digit));
            assert_eq!(status, 410, "{refused}");
        }
    }
}

#[test]
fn an_update_of_a_host_reaches_every_replica() {
    if !EtcdCluster::available() {
        return;
    }
    let cluster = EtcdCluster::start(1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let [one, two] = start(&cluster, folder.path(), 1);
    let shown = |replica: &Replica, field: &str| {
        let (status, body) = replica.ask("GET", &format!("/v1/hosts/{}", host(1)), &Value::Null);
        assert_eq!(status, 200, "{body}");
        body[field].clone()
    };
    // The next update of an agent may go to another replica, and shows at each when it is answered.
    for (sequence, replica) in (2..).zip([&two, &two, &one, &two, &one, &one]) {
        let reason = format!("reason {sequence}");
        let (status, body) = replica.update(1, sequence, &json!({"disabled": reason}));
        assert_eq!(
            (status, &body["receipt"]),
            (200, &json!("applied")),
            "{body}"
        );
        for replica in [&one, &two] {
            assert_eq!(shown(replica, "disabled_reason"), reason);
        }
    }
    let (status, body) = two.update(1, 7, &json!("alive"));
    assert_eq!((status, &body["receipt"]), (200, &json!("stale")), "{body}");

    // A replica that was started later has no updates, so the agent has to send its complete state.
    let url = format!("etcd://{}/placewright/control", cluster.address());
    let mut three = Replica::spawn(folder.path(), &url, 2);
    three.control.wait_for_line("ready");
    let started = Instant::now();
    let mut sequence = 8;
    loop {
        let (status, body) = one.update(1, sequence, &json!("alive"));
        sequence += 1;
        if status == 409 {
            assert_eq!(body["errors"][0]["code"], "scheduler.gap", "{body}");
            break;
        }
        assert!(status == 200 && started.elapsed() < TEST_TIMEOUT, "{body}");
    }
    let (status, body) = one.update(1, sequence, &full(1));
    assert_eq!(
        (status, &body["receipt"]),
        (200, &json!("applied")),
        "{body}"
    );
    for replica in [&one, &two, &three] {
        assert_eq!(shown(replica, "sequence"), sequence);
        replica.wait_for_hosts(1);
    }
    // A replica that is gone holds no update up.
    drop(three);
    let (status, body) = two.update(1, sequence + 1, &json!("alive"));
    assert_eq!(
        (status, &body["receipt"]),
        (200, &json!("applied")),
        "{body}"
    );
    assert_eq!(shown(&one, "sequence"), sequence + 1);
}

#[test]
fn a_candidate_of_a_replica_that_is_gone_is_refused() {
    if !EtcdCluster::available() {
        return;
    }
    let cluster = EtcdCluster::start(1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let [one, two] = start(&cluster, folder.path(), 3);
    // Any UUID serves as that of the server group.
    let offered = offer(&one, 1, &instance(0));
    drop(one);
    let (status, refused) = claim(&two, "POST", 1, &offered["selected"]);
    assert!([503, 410].contains(&status), "{refused}");
    // New ones are offered and claimed.
    let offered = offer(&two, 1, &instance(0));
    let started = Instant::now();
    loop {
        // The store may be away for a moment while the other replica begins to lead.
        let (status, claimed) = claim(&two, "POST", 1, &offered["selected"]);
        if status == 200 {
            return;
        }
        assert!(
            status == 503 && started.elapsed() < TEST_TIMEOUT,
            "{claimed}"
        );
    }
}

#[test]
fn a_leader_that_does_not_answer_any_more_is_not_waited_for() {
    if !EtcdCluster::available() {
        return;
    }
    let cluster = EtcdCluster::start(1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut replicas = start(&cluster, folder.path(), 2);
    let leader = replicas.iter().position(|replica| {
        let url = format!("http://{}", replica.control.address);
        let (code, shown, error) = run(&["status", &url]);
        assert_eq!(code, 0, "{shown}{error}");
        shown.contains("  role      leads\n")
    });
    let leader = leader.unwrap();
    let offered = offer(&replicas[leader], 1, &instance(0));
    // Its connections stay, as if its machine had lost power.
    replicas[leader].control.signal(Signal::STOP);
    let survivor = &mut replicas[1 - leader];
    survivor.control.wait_for_line("this replica leads");
    // No other replica follows this one any more, so no update waits for one.
    let started = Instant::now();
    for sequence in 2..12 {
        let (status, body) = survivor.update(1, sequence, &json!("alive"));
        assert_eq!(status, 200, "{body}");
    }
    let took = started.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    loop {
        let (status, refused) = claim(survivor, "POST", 1, &offered["selected"]);
        if status == 410 {
            return;
        }
        assert!(
            status == 503 && started.elapsed() < TEST_TIMEOUT,
            "{refused}"
        );
    }
}
