//! Several processes of control on one journal.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Control, free_address, run};
use placewright_journal_testing::EtcdCluster;
use rustix::process::Signal;

/// The longest time that a test waits for anything.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Flags of a replica, of which each case below leaves out or changes some.
const STORE: [&str; 2] = ["--store-url", "etcd://localhost:1/placewright/control"];
const LISTEN: [&str; 2] = ["--control-listen", "127.0.0.1:0"];
const ADDRESS: [&str; 2] = ["--control-replica-address", "localhost:8775"];
const KEYS: [&str; 2] = ["--secrets-key-command", "cat,/etc/placewright/keys"];

#[test]
fn options_with_which_control_cannot_be_a_replica_are_refused() {
    let cases: [(&str, &[[&str; 2]]); 4] = [
        ("control.listen, which is not set", &[STORE, ADDRESS, KEYS]),
        ("set store.url to etcd", &[LISTEN, ADDRESS, KEYS]),
        ("secrets.key_file", &[STORE, LISTEN, ADDRESS]),
        (
            "allowed: HOST:PORT",
            &[
                STORE,
                LISTEN,
                KEYS,
                ["--control-replica-address", "localhost"],
            ],
        ),
    ];
    for (reason, flags) in cases {
        let (code, _, error) = run(&[
            &["config", "check", "control", "--config", "/dev/null"][..],
            &flags.concat(),
        ]
        .concat());
        assert_eq!(code, 2, "{reason}: {error}");
        assert!(
            error.contains("control.replica_address: ") && error.contains(reason),
            "{reason}: {error}"
        );
    }
}

#[test]
fn a_cell_on_a_directory_of_its_own_is_no_replica() {
    let flags = ["--cell-replica-address", "localhost:8780"];
    let (code, _, error) = run(&[
        &["config", "check", "cell", "--config", "/dev/null"][..],
        &flags,
    ]
    .concat());
    assert_eq!(code, 2, "{error}");
    assert!(
        error.contains("cell.replica_address: ") && error.contains("cell.store_url"),
        "{error}"
    );
}

#[test]
fn replicas_of_a_cell_are_the_same_cell() {
    let flags = [
        &["--cell-replica-address", "localhost:8780"][..],
        &["--cell-store-url", "etcd://127.0.0.1:2379/cell"],
    ];
    let (code, _, error) = run(&[
        &["config", "check", "cell", "--config", "/dev/null"][..],
        &flags.concat(),
    ]
    .concat());
    assert_eq!(code, 2, "{error}");
    assert!(
        error.contains("cell.replica_address: ") && error.contains("cell.uuid"),
        "{error}"
    );
}

/// Starts replica `number` of control, and does not wait until it is ready.
fn spawn(folder: &Path, url: &str, number: usize) -> Control {
    let keys = folder.join("keys");
    if !keys.exists() {
        let (code, _, error) = run(&["secrets", "new-key", "--file", keys.to_str().unwrap()]);
        assert_eq!(code, 0, "{error}");
    }
    let listen = free_address().to_string();
    let flags = ["--store-url", url, "--control-listen", &listen];
    let replica = ["--control-replica-address", &listen];
    let keys = ["--secrets-key-file", keys.to_str().unwrap()];
    let flags = [&flags[..], &replica, &keys].concat();
    Control::spawn(&folder.join(number.to_string()), &flags, &[])
}

/// Sends a request. `None` if there is no answer.
fn try_request(address: SocketAddr, head: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(
        stream,
        "{head} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nX-Auth-Token: admin\r\n\
         OpenStack-API-Version: placement 1.39\r\nContent-Length: 0\r\n\r\n"
    )
    .ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    (!response.is_empty()).then_some(response)
}

/// Waits until a replica shows the traits of the first `count` writes.
fn wait_until_all_are_shown(address: SocketAddr, count: u32) {
    let started = Instant::now();
    loop {
        let traits = try_request(address, "GET /traits?name=startswith:CUSTOM_R").unwrap();
        let missing = (0..count).find(|number| !traits.contains(&format!("\"CUSTOM_R{number}\"")));
        let Some(missing) = missing else { return };
        assert!(
            started.elapsed() < TEST_TIMEOUT,
            "{missing} is missing: {traits}"
        );
    }
}

/// Clients that write to the replicas in turn, each request to the next replica that answers.
struct Clients<'a> {
    addresses: &'a [SocketAddr],
    /// The number of the next write.
    next: AtomicU32,
    is_over: AtomicBool,
}

impl<'a> Clients<'a> {
    fn new(addresses: &'a [SocketAddr]) -> Self {
        Self {
            addresses,
            next: AtomicU32::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    /// Writes until `is_over` is set. Each write has to be carried out by the first replica that answers.
    fn write(&self) {
        while !self.is_over.load(Ordering::SeqCst) {
            self.write_once();
        }
    }

    fn write_once(&self) {
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        let head = format!("PUT /traits/CUSTOM_R{number}");
        let started = Instant::now();
        for attempt in number as usize.. {
            assert!(started.elapsed() < TEST_TIMEOUT, "{head} got no answer");
            let address = self.addresses[attempt % self.addresses.len()];
            if let Some(response) = try_request(address, &head) {
                // 204: an earlier attempt created the trait, and the answer to that attempt was lost.
                let is_done = ["201", "204"].contains(&&response[9..12]);
                assert!(is_done, "{head} at {address}: {response}");
                return;
            }
        }
    }

    /// Runs `interrupt` while clients write, and checks that they go on writing after it.
    fn write_during(&self, interrupt: impl FnOnce()) {
        self.is_over.store(false, Ordering::SeqCst);
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..4).map(|_| scope.spawn(|| self.write())).collect();
            let wait_for_writes = || {
                let before = self.next.load(Ordering::SeqCst);
                let started = Instant::now();
                while self.next.load(Ordering::SeqCst) < before + 20 {
                    assert!(started.elapsed() < TEST_TIMEOUT, "nothing is written");
                    assert!(!clients.iter().any(|client| client.is_finished()));
                    std::thread::yield_now();
                }
            };
            wait_for_writes();
            interrupt();
            wait_for_writes();
            self.is_over.store(true, Ordering::SeqCst);
        });
    }
}

#[test]
fn replicas_take_all_requests_and_outlive_the_one_that_leads() {
    if !EtcdCluster::available() {
        return;
    }
    let cluster = EtcdCluster::start(3).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let url = format!("etcd://{}/placewright/control", cluster.address());
    let mut leader = spawn(folder.path(), &url, 0);
    leader.wait_for_line("this replica leads");
    leader.wait_for_line("ready");
    let mut others = [1, 2].map(|number| spawn(folder.path(), &url, number));
    for other in &mut others {
        other.wait_for_line("ready");
    }
    let addresses = [leader.address, others[0].address, others[1].address];
    let clients = Clients::new(&addresses);
    clients.write_during(|| ());
    let written = clients.next.load(Ordering::SeqCst);
    addresses
        .iter()
        .for_each(|address| wait_until_all_are_shown(*address, written));

    // After SIGKILL every acknowledged write is there, and the other replicas go on.
    clients.write_during(|| drop(leader));
    let written = clients.next.load(Ordering::SeqCst);
    (addresses[1..].iter()).for_each(|address| wait_until_all_are_shown(*address, written));

    // One of the two replicas that are left leads. Both end after SIGTERM, one after the other, and no write fails.
    let [one, two] = others;
    let mut again = spawn(folder.path(), &url, 3);
    again.wait_for_line("ready");
    let addresses = [addresses[1], addresses[2], again.address];
    let clients = Clients::new(&addresses);
    clients.next.store(written, Ordering::SeqCst);
    for ending in [one, two] {
        clients.write_during(|| {
            ending.signal(Signal::TERM);
            let (code, log) = ending.end();
            assert_eq!(code, 0, "{log}");
        });
    }
    wait_until_all_are_shown(again.address, clients.next.load(Ordering::SeqCst));
}

#[test]
fn operators_see_the_replicas_and_have_another_one_lead() {
    if !EtcdCluster::available() {
        return;
    }
    let cluster = EtcdCluster::start(1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let url = format!("etcd://{}/placewright/control", cluster.address());
    let mut replicas = [0, 1].map(|number| spawn(folder.path(), &url, number));
    for replica in &mut replicas {
        replica.wait_for_line("ready");
    }
    let addresses = [replicas[0].address, replicas[1].address];
    let urls = addresses.map(|address| format!("http://{address}"));
    let roles = || {
        let (code, shown, error) = run(&["status", &urls[0], &urls[1]]);
        assert_eq!(code, 0, "{shown}{error}");
        assert!(shown.contains("etcd://"), "{shown}");
        let roles = shown
            .lines()
            .filter_map(|line| line.strip_prefix("  role      "));
        roles.map(str::to_owned).collect::<Vec<_>>()
    };
    let before = roles();
    let leader = before.iter().position(|role| role == "leads").unwrap();
    assert_eq!(before[1 - leader], "follows");

    let (code, _, error) = run(&["hand-over", "--url", &urls[1 - leader]]);
    assert_eq!(code, 1);
    assert!(error.contains("does not lead"), "{error}");
    Clients::new(&addresses).write_during(|| {
        let (code, shown, error) = run(&["hand-over", "--url", &urls[leader]]);
        assert_eq!(code, 0, "{error}");
        assert!(shown.ends_with(" leads now\n"), "{shown}");
    });
    assert_eq!(roles()[1 - leader], "leads");
    let (code, _, error) = run(&["append-lost", "--url", &urls[0]]);
    assert_eq!(code, 1);
    assert!(error.contains("no entry is missing"), "{error}");

    let [one, two] = replicas;
    drop(one);
    let (code, shown, _) = run(&["status", &urls[0], &urls[1]]);
    assert_eq!(code, 1, "{shown}");
    assert!(shown.contains("does not answer"), "{shown}");
    drop(two);
}
