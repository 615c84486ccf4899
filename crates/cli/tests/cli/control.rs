//! Tests of the program `placewright control` from outside, as an operator uses it.

use crate::common;

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use common::{Control, run};
use rustix::process::Signal;

const PROVIDER: &str = "11111111-1111-4111-8111-111111111111";

#[test]
fn acknowledged_changes_survive_a_stop_and_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let server = Control::start(&store, &[]);
    let body = format!("{{\"name\": \"host1\", \"uuid\": \"{PROVIDER}\"}}");
    let created = server.request("POST /resource_providers", &body);
    assert!(created.starts_with("HTTP/1.1 200"), "{created}");
    server.signal(Signal::TERM);
    let (code, log) = server.end();
    assert_eq!(code, 0, "{log}");

    let server = Control::start(&store, &["--log-format", "json"]);
    let path = format!("/resource_providers/{PROVIDER}");
    let response = server.request(&format!("GET {path}"), "");
    assert!(response.contains("host1"), "{response}");
    let traits = server.request(
        &format!("PUT {path}/traits"),
        "{\"resource_provider_generation\": 0, \"traits\": [\"HW_NIC_SRIOV\"]}",
    );
    assert!(traits.starts_with("HTTP/1.1 200"), "{traits}");
    server.signal(Signal::KILL);
    drop(server);

    let server = Control::start(&store, &[]);
    let response = server.request(&format!("GET {path}/traits"), "");
    assert!(response.contains("HW_NIC_SRIOV"), "{response}");
    server.signal(Signal::INT);
    let (exit_code, _) = server.end();
    assert_eq!(exit_code, 0);
}

/// Waits until connections are refused, for five seconds at most; returns whether they are. The listener is closed
/// by another thread than the one that logs that the server stops.
fn refuses_connections_in_time(address: SocketAddr) -> bool {
    let start = Instant::now();
    while TcpStream::connect(address).is_ok() {
        if start.elapsed() > Duration::from_secs(5) {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

#[test]
fn a_request_under_way_is_answered_before_the_end_and_a_second_signal_does_not_wait() {
    let directory = tempfile::tempdir().unwrap();
    let begin_request_and_stop = |server: &mut Control| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        let head = "POST /resource_providers HTTP/1.1\r\nHost: test\r\nX-Auth-Token: admin\r\n\
                    OpenStack-API-Version: placement 1.39\r\nContent-Type: application/json\r\n\
                    Content-Length: 16\r\nExpect: 100-continue\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        // The server asks for the body, so the request is under way.
        let mut interim_response = [0; 25];
        stream.read_exact(&mut interim_response).unwrap();
        assert!(interim_response.starts_with(b"HTTP/1.1 100"));
        server.signal(Signal::TERM);
        server.wait_for_line("stopping");
        stream
    };

    let mut server = Control::start(&directory.path().join("first"), &[]);
    let mut stream = begin_request_and_stop(&mut server);
    assert!(
        refuses_connections_in_time(server.address),
        "new connections are refused"
    );
    stream.write_all(b"{\"name\": \"late\"}").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    let (exit_code, _) = server.end();
    assert_eq!(exit_code, 0);

    let mut server = Control::start(&directory.path().join("second"), &[]);
    let _stream = begin_request_and_stop(&mut server);
    server.signal(Signal::INT);
    let (code, log) = server.end();
    assert_eq!(code, 1);
    assert!(log.contains("ended at once"), "{log}");
}

#[test]
fn a_start_that_cannot_succeed_says_why_and_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let server = Control::start(&store, &[]);
    let address = server.address.to_string();
    let other = directory.path().join("other");
    let free = common::free_address().to_string();
    let control = |store: &std::path::Path, flags: &[&str]| {
        let mut arguments = vec!["control", "--config", "/dev/null", "--store-path"];
        arguments.push(store.to_str().unwrap());
        arguments.extend(flags);
        let (code, _, log) = run(&arguments);
        (code, log)
    };
    let cases: [(&std::path::Path, &[&str], i32, &str); 4] = [
        (&other, &["--placement-listen", &address], 1, "is in use"),
        (
            &store,
            &["--placement-listen", &free],
            1,
            "in use by another program",
        ),
        (
            &other,
            &["--placement-listen", "0.0.0.0:0"],
            2,
            "--i-know-this-is-open",
        ),
        (&other, &["--log-filter", "info,=="], 2, "log.filter"),
    ];
    for (store, flags, code, text) in cases {
        let (actual_code, log) = control(store, flags);
        assert_eq!(actual_code, code, "{flags:?}: {log}");
        assert!(log.contains(text), "{flags:?}: {log}");
    }
    assert!(!other.exists(), "a start that fails makes no store");
}

#[test]
fn wrong_configuration_is_exit_code_2_and_names_the_place() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("placewright.toml");
    std::fs::write(&file, "[placement]\nlissten = \"127.0.0.1:1\"\n").unwrap();
    let file = file.to_str().unwrap();
    for command in [&["control"][..], &["config", "check"]] {
        let arguments: Vec<&str> = command.iter().copied().chain(["--config", file]).collect();
        let (code, _, error) = run(&arguments);
        assert_eq!(code, 2, "{error}");
        assert!(
            error.contains(":2: unknown key lissten in [placement]; the nearest is listen"),
            "{error}"
        );
    }
}

#[test]
fn config_show_names_sources_and_hides_secrets() {
    let output = common::placewright(&["config", "show", "--config", "/dev/null"])
        .env("PLACEWRIGHT_KEYSTONE_PASSWORD", "opensesame")
        .arg("--log-format=json")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("format = \"json\"  # --log-format"), "{text}");
    assert!(
        text.contains("password = \"(hidden)\"  # PLACEWRIGHT_KEYSTONE_PASSWORD"),
        "{text}"
    );
    assert!(!text.contains("opensesame"));
}

#[test]
fn the_journal_commands_inspect_a_store_while_a_server_runs() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let server = Control::start(&store, &[]);
    let body = format!("{{\"name\": \"host1\", \"uuid\": \"{PROVIDER}\"}}");
    server.request("POST /resource_providers", &body);
    let path = store.to_str().unwrap();

    let (code, text, _) = run(&["journal", "verify", "--store", path]);
    assert_eq!(code, 0, "{text}");
    let (code, text, _) = run(&["journal", "stats", "--json", "--store", path]);
    assert_eq!((code, text.contains("\"end\":2")), (0, true), "{text}");
    let (code, text, _) = run(&["journal", "export", "--from", "2", "--store", path]);
    assert_eq!((code, text.lines().count()), (0, 1), "{text}");
    assert!(
        text.contains(PROVIDER) && text.starts_with("{\"sequence\": 2,"),
        "{text}"
    );
    let (code, _, error) = run(&["journal", "compact", "--store", path]);
    assert_eq!(code, 1, "a running server keeps its store");
    assert!(error.contains("in use by another program"), "{error}");
    server.signal(Signal::TERM);
    server.end();

    let (code, text, _) = run(&["journal", "compact", "--store", path]);
    assert_eq!(code, 0, "{text}");
    let empty = tempfile::tempdir().unwrap();
    for (command, store) in [
        ("stats", Path::new("/nowhere")),
        ("compact", Path::new("/nowhere")),
        ("compact", empty.path()),
    ] {
        let (code, _, error) = run(&["journal", command, "--store", store.to_str().unwrap()]);
        assert_eq!(code, 1, "{command}");
        let expected = format!("there is no journal at {}", store.display());
        assert!(error.contains(&expected), "{error}");
    }
    let left = empty.path().read_dir().unwrap().count();
    assert_eq!(left, 0, "a command that fails makes no store");
}

#[test]
fn invalid_policies_and_missing_options_are_reported_before_a_start() {
    let directory = tempfile::tempdir().unwrap();
    let policy = directory.path().join("policy.yaml");
    std::fs::write(&policy, "\"placement:usages\": \"role:reader and (\"\n").unwrap();
    let policy = policy.to_str().unwrap();
    let cases: [(&[&str], &str); 3] = [
        (&["--policy-file", policy], "placement:usages"),
        (
            &["--auth-strategy", "keystone"],
            "[keystone] keystone needs the option auth_url",
        ),
        (
            &[
                "--auth-strategy=http_basic",
                "--http-basic-user-file=/nowhere",
            ],
            "/nowhere",
        ),
    ];
    for (flags, text) in cases {
        for command in [&["control"][..], &["config", "check"]] {
            let arguments: Vec<&str> = command
                .iter()
                .chain(&["--config", "/dev/null"])
                .chain(flags)
                .copied()
                .collect();
            let (code, _, error) = run(&arguments);
            assert_eq!(code, 2, "{error}");
            assert!(error.contains(text), "{error}");
        }
    }
}

#[test]
fn explain_says_what_removed_the_hosts_and_what_they_lack() {
    let directory = tempfile::tempdir().unwrap();
    let server = Control::start(&directory.path().join("store"), &[]);
    let url = format!("http://{}", server.address);
    let body = format!("{{\"name\": \"host1\", \"uuid\": \"{PROVIDER}\"}}");
    server.request("POST /resource_providers", &body);
    server.request(
        &format!("PUT /resource_providers/{PROVIDER}/inventories"),
        "{\"resource_provider_generation\": 0, \"inventories\": {\"VCPU\": {\"total\": 6}}}",
    );

    let (code, text, error) = run(&["explain", "--url", &url, "resources=VCPU:8"]);
    assert_eq!(code, 0, "{error}");
    assert!(
        text.contains("Nothing fits: none of 1 host is left."),
        "{text}"
    );
    assert!(
        text.contains("         1         1   resources=VCPU:8"),
        "{text}"
    );
    assert!(
        text.contains("This alone leaves nothing: resources=VCPU:8"),
        "{text}"
    );
    assert!(
        text.contains("2 too few free for resources=VCPU:8"),
        "{text}"
    );

    let (code, text, _) = run(&["explain", "--url", &url, "?resources=VCPU:4"]);
    assert_eq!(
        (code, text.contains("1 of 1 host can serve")),
        (0, true),
        "{text}"
    );
    let (code, _, error) = run(&["explain", "--url", &url, "resources=VCPU"]);
    assert_eq!(code, 1);
    assert!(error.contains("400 Bad Request"), "{error}");
    let (code, _, error) = run(&["explain", "--url", "http://127.0.0.1:1", "resources=VCPU:1"]);
    assert_eq!(code, 1);
    assert!(
        error.contains("no answer from http://127.0.0.1:1/"),
        "{error}"
    );
}

#[test]
fn systemd_is_notified_when_the_server_is_ready_alive_and_stopping() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    let variables = [
        ("NOTIFY_SOCKET", path.to_str().unwrap()),
        ("WATCHDOG_USEC", "100000"),
    ];
    let server = Control::start_with_variables(&directory.path().join("store"), &[], &variables);
    let next_message = || loop {
        let mut message = [0; 256];
        let length = socket.recv(&mut message).unwrap();
        let text = String::from_utf8_lossy(&message[..length]);
        // Messages with sockets for systemd to keep are not counted here.
        if !text.starts_with("FDSTORE") {
            return text.trim().to_owned();
        }
    };
    assert_eq!(next_message(), "READY=1");
    assert_eq!(
        (next_message(), next_message()),
        ("WATCHDOG=1".to_owned(), "WATCHDOG=1".to_owned())
    );
    server.signal(Signal::TERM);
    while next_message() != "STOPPING=1" {}
    let (exit_code, _) = server.end();
    assert_eq!(exit_code, 0);
}

#[test]
fn systemd_keeps_no_socket_of_a_service_that_is_off() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    let variables = [("NOTIFY_SOCKET", path.to_str().unwrap())];
    let _server = Control::start_with_variables(&directory.path().join("store"), &[], &variables);
    let (mut kept, mut removed) = (BTreeSet::new(), BTreeSet::new());
    loop {
        let mut message = [0; 256];
        let length = socket.recv(&mut message).unwrap();
        let text = String::from_utf8_lossy(&message[..length]);
        if text.contains("READY=1") {
            break;
        }
        let Some((_, name)) = text.trim().split_once("FDNAME=") else {
            continue;
        };
        if text.contains("FDSTOREREMOVE=1") {
            assert!(!kept.contains(name), "{name} is removed before it is kept");
            removed.insert(name.to_owned());
        } else {
            kept.insert(name.to_owned());
        }
    }
    assert_eq!(kept, BTreeSet::from(["placement".to_owned()]));
    for name in ["placement", "compute", "control", "health"] {
        assert!(removed.contains(name), "{name}: {removed:?}");
    }
}

#[test]
fn the_load_generator_loads_queries_and_claims_without_a_failure() {
    let directory = tempfile::tempdir().unwrap();
    let server = Control::start(
        &directory.path().join("store"),
        &["--log-filter", "warn,placewright=info"],
    );
    let url = format!("http://{}", server.address);
    let (code, text, error) = run(&[
        "bench",
        "http",
        "--url",
        &url,
        "--hosts",
        "20",
        "--requests",
        "50",
        "--json",
    ]);
    assert_eq!(code, 0, "{error}{text}");
    let phases: serde_json::Value = serde_json::from_str(&text).unwrap();
    for (index, (phase, requests)) in [("load", 80), ("candidates", 50), ("claims", 50)]
        .into_iter()
        .enumerate()
    {
        assert_eq!(phases[index]["phase"], phase);
        assert_eq!(phases[index]["succeeded"], requests);
        assert_eq!(phases[index]["failed"], 0);
    }
    // As a warm-up each connection created a host before the measurement, and deleted it.
    let hosts = server.request("GET /resource_providers", "");
    assert_eq!(hosts.matches("\"uuid\"").count(), 20, "{hosts}");
}

#[test]
fn a_smaller_load_from_the_same_seed_leaves_the_hosts_of_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let server = Control::start(&directory.path().join("store"), &[]);
    let url = format!("http://{}", server.address);
    let load = |hosts| {
        let start = ["bench", "http", "--phases", "load", "--seed", "1"];
        run(&[&start[..], &["--url", &url, "--hosts", hosts]].concat())
    };
    let (code, text, error) = load("20");
    assert_eq!(code, 0, "{error}{text}");
    let (code, text, _) = load("2");
    assert_eq!(code, 1, "the hosts exist already: {text}");
    let hosts = server.request("GET /resource_providers", "");
    assert_eq!(hosts.matches("\"uuid\"").count(), 20, "{hosts}");
}

#[test]
fn the_load_generator_names_a_wrong_option() {
    for (option, value) in [
        ("--url", "ftp://127.0.0.1"),
        ("--url", "https://127.0.0.1"),
        ("--header", "no colon"),
        ("--seconds", "NaN"),
        ("--seconds", "-1"),
    ] {
        let (code, _, error) = run(&["bench", "http", &format!("{option}={value}")]);
        assert_eq!(code, 2, "{option} {value}: {error}");
        assert!(error.contains(option) && error.contains(value), "{error}");
    }
}

/// With a huge page, the first access waits until 2 MiB are available.
#[cfg(target_os = "linux")]
#[test]
fn the_memory_of_control_comes_in_small_pages() {
    let directory = tempfile::tempdir().unwrap();
    let server = Control::start(&directory.path().join("store"), &[]);
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("THP_enabled"));
    // Systems before Linux 5.0 do not report it.
    assert!(line.is_none_or(|line| line.ends_with('0')), "{line:?}");
}

#[test]
fn the_printed_scheduler_rules_are_accepted() {
    let (code, sample, _) = run(&["config", "scheduler"]);
    assert_eq!(code, 0);
    assert!(sample.contains("enabled_filters"), "{sample}");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, sample).unwrap();
    let flag = format!("--scheduler-rules-file={}", file.path().display());
    assert_eq!(run(&["config", "check", &flag]).0, 0);
}

#[test]
fn errors_in_scheduler_rules_are_named() {
    let invalid_rules = [
        ("[filter_scheduler]\nram_weight_multiplyer = 2.0", "line 2"),
        (
            "[filter_scheduler]\nenabled_filters = [\"NoFilter\"]",
            "NoFilter",
        ),
        ("[prefilters]\ncompute_status_filter = \"yes\"", "boolean"),
        (
            "[[filter_scheduler.expressions]]\nname = \"Red\"\nfilter = \"host.colour == 'red'\"",
            "colour",
        ),
        ("[surprise]", "surprise"),
    ];
    for (rules, expected) in invalid_rules {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, rules).unwrap();
        let flag = format!("--scheduler-rules-file={}", file.path().display());
        let (code, stdout, stderr) = run(&["config", "check", &flag]);
        assert_eq!(code, 2, "{rules}: {stderr}");
        assert!((stdout + &stderr).contains(expected), "{rules}: {stderr}");
    }
}
