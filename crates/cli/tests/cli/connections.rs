//! How `placewright control` accepts connections: a separate health listener, restarts without
//! refused connections, few file descriptors.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Control, free_address, placewright};
use rustix::process::Signal;

const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The response to a request on a connection that is closed afterwards.
fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

/// Reads the part of a response that has arrived, on a connection that stays open.
fn read(stream: &mut TcpStream) -> String {
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let mut buffer = [0; 65_536];
    let length = stream.read(&mut buffer).unwrap();
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

const ROOT: &[u8] = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n";

#[test]
fn health_and_metrics_have_a_port_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let health = free_address();
    let listen = health.to_string();
    let flags = ["--health-listen", &listen];
    let server = Control::start(&directory.path().join("store"), &flags);
    assert!(get(health, "/healthz").ends_with("ok\n"));
    assert!(get(health, "/readyz").ends_with("ready\n"));
    let metrics = get(health, "/metrics");
    assert!(
        metrics.contains("placewright_http_connections"),
        "{metrics}"
    );
    assert!(metrics.contains("placewright_journal"), "{metrics}");
    assert!(get(health, "/resource_providers").starts_with("HTTP/1.1 404"));
    let response = get(server.address, "/metrics");
    assert!(response.starts_with("HTTP/1.1 404"), "{response}");
    assert!(get(server.address, "/readyz").ends_with("ready\n"));
    let flags = ["--health-metrics-on-apis"];
    let server = Control::start(&directory.path().join("other"), &flags);
    assert!(get(server.address, "/metrics").starts_with("HTTP/1.1 200"));
}

#[test]
fn the_access_log_names_who_called() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Control::start(&directory.path().join("store"), &[]);
    server.request_with("GET /resource_classes", "X-Auth-Token: alice:wonderland");
    let line = server.wait_for_line("/resource_classes");
    assert!(line.contains("user_id=\"alice\""), "{line}");
    assert!(line.contains("project_id=\"wonderland\""), "{line}");
    server.request_with("GET /resource_classes", "X-Other: 1");
    let line = server.wait_for_line("/resource_classes");
    assert!(!line.contains("user_id"), "{line}");
}

#[test]
fn another_process_takes_the_place_of_the_one_that_runs() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let mut old = Control::start(&store, &[]);
    let address = old.address.to_string();
    let created = old.request("POST /resource_providers", "{\"name\": \"before\"}");
    assert!(created.starts_with("HTTP/1.1 200"), "{created}");
    let mut idle_connection = TcpStream::connect(old.address).unwrap();
    idle_connection.write_all(ROOT).unwrap();
    assert!(read(&mut idle_connection).starts_with("HTTP/1.1 200"));

    // A successor that cannot start does not affect the running process.
    let start = |flags: &[&str]| {
        let mut command = placewright(&["control", "--config", "/dev/null", "--store-path"]);
        command.arg(&store);
        command.args(["--placement-listen", &address, "--control-take-over"]);
        command.args(flags).stderr(Stdio::piped());
        command
    };
    let image_listen = free_address().to_string();
    for wrong in [
        &["--policy-file", "/nowhere"][..],
        &[
            "--audit-destination=file",
            "--audit-file=/nowhere/audit.log",
        ],
        &["--image-listen", &image_listen, "--image-folder=/dev/null"],
    ] {
        let failed = start(wrong).output().unwrap();
        assert_eq!(failed.status.code(), Some(2), "{failed:?}");
        idle_connection.write_all(ROOT).unwrap();
        assert!(read(&mut idle_connection).starts_with("HTTP/1.1 200"));
    }

    let mut child = start(&[]).spawn().unwrap();
    let line = old.wait_for_line("takes this one's place");
    assert!(line.contains("INFO"), "{line}");
    // No connection is refused at any time.
    let mut new = TcpStream::connect(old.address).unwrap();
    for stream in [&mut new, &mut idle_connection] {
        stream.write_all(ROOT).unwrap();
        assert!(read(stream).starts_with("HTTP/1.1 200"));
    }
    let (code, log) = old.end();
    assert_eq!(code, 0, "{log}");
    let response = get_with_token(&address, "/resource_providers?name=before");
    assert!(response.contains("\"before\""), "{response}");
    idle_connection.write_all(ROOT).unwrap();
    assert!(read(&mut idle_connection).starts_with("HTTP/1.1 200"));
    child.kill().unwrap();
    child.wait().unwrap();
}

fn get_with_token(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: test\r\nX-Auth-Token: admin\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

#[test]
fn without_a_predecessor_a_take_over_is_an_ordinary_start() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let flags = ["--control-take-over"];
    let server = Control::start(&store, &flags);
    server.signal(Signal::KILL);
    drop(server);
    // The socket file that a killed process left behind does not count as a predecessor.
    let server = Control::start(&store, &flags);
    assert!(get(server.address, "/readyz").ends_with("ready\n"));
}

#[test]
fn with_more_connections_than_descriptors_ports_answer_and_nothing_spins() {
    let directory = tempfile::tempdir().unwrap();
    let (address, health) = (free_address(), free_address());
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -n 256 && exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_placewright"))
        .args(["control", "--config", "/dev/null", "--store-path"])
        .arg(directory.path().join("store"))
        .args(["--placement-listen", &address.to_string()])
        .args(["--health-listen", &health.to_string()])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while TcpStream::connect(health).is_err() || !get(health, "/readyz").ends_with("ready\n") {
        assert!(began.elapsed() < TEST_TIMEOUT, "control did not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    // More connections than the process may have descriptors.
    let crowd: Vec<TcpStream> = (0..300)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    assert!(get(address, "/healthz").ends_with("ok\n"));
    let before = cpu_ticks(child.id());
    std::thread::sleep(Duration::from_secs(1));
    let used = cpu_ticks(child.id()) - before;
    assert!(used < 30, "{used} ticks in a second, which has 100");
    assert!(get(health, "/healthz").ends_with("ok\n"));
    drop(crowd);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_port_in_use_is_the_last_word_and_the_only_one_although_there_are_few_descriptors() {
    let directory = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let (free, store) = (free_address().to_string(), directory.path().join("store"));
    let store = store.to_str().unwrap();
    let cell = format!("--cell-store-path={store}");
    for arguments in [
        [
            "control",
            "--store-path",
            store,
            "--placement-listen",
            &taken,
        ],
        [
            "cell",
            &cell,
            "--cell-listen",
            &taken,
            &format!("--cell-placement={free}"),
        ],
    ] {
        let output = Command::new("sh")
            .args(["-c", "ulimit -n 256 && exec \"$0\" \"$@\""])
            .arg(env!("CARGO_BIN_EXE_placewright"))
            .args(arguments)
            .args(["--config", "/dev/null"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        let log = String::from_utf8(output.stderr).unwrap();
        let last = log.lines().last().unwrap();
        assert!(last.contains(&taken) && last.contains("is in use"), "{log}");
        assert!(!log.contains("file descriptors"), "{log}");
    }
}

/// The processor time of a process in hundredths of a second.
fn cpu_ticks(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    // After the program's name: `utime` and `stime`, fields 14 and 15 in proc(5).
    let ticks = |index: usize| fields[index].parse::<u64>().unwrap();
    ticks(11) + ticks(12)
}
