//! Commands that call a server.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use crate::common::{Control, free_address, placewright, run};
use placewright_client::{Client, Level};
use serde_json::{Value, json};
use uuid::Uuid;

#[test]
fn a_token_goes_to_the_server_that_was_named_and_to_no_other() {
    let (named, other) = (listener(), listener());
    let url = format!("http://{}", named.local_addr().unwrap());
    let elsewhere = format!("http://{}/", other.local_addr().unwrap());
    let answering = thread::spawn(move || {
        let (mut client, _) = named.accept().unwrap();
        let mut head = [0; 4096];
        let read = client.read(&mut head).unwrap();
        let response =
            format!("HTTP/1.1 307 Go\r\nLocation: {elsewhere}\r\nContent-Length: 0\r\n\r\n");
        client.write_all(response.as_bytes()).unwrap();
        String::from_utf8_lossy(&head[..read]).into_owned()
    });
    let (code, _, stderr) = run(&["audit", "--url", &url, "--token", "a-secret-token"]);
    assert_ne!(code, 0);
    assert!(stderr.contains("307"), "{stderr}");
    assert!(answering.join().unwrap().contains("a-secret-token"));
    other.set_nonblocking(true).unwrap();
    assert!(other.accept().is_err(), "the redirect was followed");
}

#[test]
fn a_password_comes_from_a_file_or_the_environment_or_standard_input() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("password");
    std::fs::write(&file, "a pass:word\nmore\n").unwrap();
    let file = file.to_str().unwrap();
    // The part after "Basic" is "anna:a pass:word" in base64.
    let expected = "authorization: Basic YW5uYTphIHBhc3M6d29yZA==";
    for (flags, is_in_environment) in [
        (&["--user", "anna", "--password-file", file][..], false),
        (&["--user", "anna", "--password-file", "-"], false),
        (&["--user", "anna"], true),
    ] {
        let server = listener();
        let url = format!("http://{}", server.local_addr().unwrap());
        let body = r#"{"findings":[],"repaired":0}"#;
        let answering = thread::spawn(move || answer_once(&server, body));
        let mut command = placewright(&["audit", "--url", &url]);
        command
            .args(flags)
            .stdin(std::fs::File::open(file).unwrap());
        if is_in_environment {
            command.env("PLACEWRIGHT_PASSWORD", "a pass:word");
        }
        let output = command.output().unwrap();
        let request = answering.join().unwrap();
        assert!(request.contains(expected), "{flags:?}: {request}{output:?}");
        assert!(!request.contains("x-auth-token"), "{request}");
        assert!(output.status.success(), "{output:?}");
    }
    for flags in [
        &["--user", "anna"][..],
        &["--user", "anna", "--password-file", "/nowhere/password"],
        &["--password-file", file],
    ] {
        let output = placewright(&["audit", "--url", "http://127.0.0.1:1"])
            .args(flags)
            .output();
        let output = output.unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{flags:?}");
        assert!(
            stderr.contains("--user") || stderr.contains("--password-file"),
            "{stderr}"
        );
    }
}

/// The scheduler's response to a request that asks about two hosts.
const DESTINATIONS: &str = r#"{"claimed": false, "kept_ms": 1, "warnings": ["odd"], "selections": [{
    "instance": "ce5f8c1e-6c8b-4a52-9f6c-3c2a1a0f9d01", "selected": null, "alternates": [],
    "explanation": {"compared": 11, "ranking": [
        {"provider": "4f9a1c52-0000-4000-8000-000000000001", "host": "host-1", "node": "node-1",
         "score": 2.5, "selected": true, "weights": [
            {"weigher": "RAMWeigher", "number": 61440.0, "normalised": 1.0, "multiplier": 2.5, "share": 2.5}]}],
      "hosts": [
        {"asked": "host-17", "provider": null, "host": "host-17", "node": "host-17", "rank": 9,
         "score": 1.25, "selected": false, "weights": []},
        {"asked": "host-18", "provider": null, "host": "host-18", "node": "node-18",
         "excluded": {"reason": "filter", "filter": "ComputeFilter"}}]}}]}"#;

#[test]
fn hosts_that_are_asked_about_are_explained() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("request.json");
    std::fs::write(&file, r#"{"flavor": {"vcpus": 2, "memory_mb": 4096}}"#).unwrap();
    let server = listener();
    let url = format!("http://{}", server.local_addr().unwrap());
    let answering = thread::spawn(move || answer_once(&server, DESTINATIONS));
    let (code, text, error) = run(&[
        "explain",
        "--scheduler-url",
        &url,
        "--destination",
        file.to_str().unwrap(),
        "--host=host-17",
        "--host=host-18",
    ]);
    let request = answering.join().unwrap();
    assert_eq!(code, 0, "{error}");
    assert!(
        request.starts_with("POST /v1/destinations HTTP/1.1"),
        "{request}"
    );
    let body = request.split_once("\r\n\r\n").unwrap().1;
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["request"]["flavor"]["vcpus"], 2);
    assert_eq!(body["explain_hosts"], json!(["host-17", "host-18"]));
    assert_eq!(
        (&body["claim"], &body["explain"]),
        (&false.into(), &true.into())
    );
    for expected in [
        "warning: odd",
        "The best of 11 hosts that passed all filters",
        "2.5000   host-1 (node node-1), selected",
        "RAMWeigher 2.5000",
        "host-17: rank 9, score 1.2500",
        "host-18 (node node-18): excluded by the filter ComputeFilter",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let (code, _, error) = run(&["explain", "--host=host-17", "resources=VCPU:1"]);
    assert_eq!(code, 2, "{error}");
}

#[test]
fn the_rank_of_a_selected_host_that_is_not_among_the_best_is_not_invented() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("request.json");
    std::fs::write(&file, r#"{"flavor": {"vcpus": 2, "memory_mb": 4096}}"#).unwrap();
    // The server sends the ten best, and after them the selected host.
    let ranking = (1..=11).map(|number| {
        json!({
            "provider": "4f9a1c52-0000-4000-8000-000000000001", "host": format!("host-{number}"),
            "node": format!("host-{number}"), "score": 1.0, "selected": number == 11, "weights": []
        })
    });
    let ranking: Vec<Value> = ranking.collect();
    let selection = json!({"explanation": {"compared": 900, "ranking": ranking}});
    let destinations = json!({"selections": [selection]}).to_string();
    let server = listener();
    let url = format!("http://{}", server.local_addr().unwrap());
    let answering = thread::spawn(move || answer_once(&server, &destinations));
    let file = file.to_str().unwrap();
    let (code, text, error) = run(&["explain", "--scheduler-url", &url, "--destination", file]);
    answering.join().unwrap();
    assert_eq!(code, 0, "{error}");
    assert!(text.contains("    10      1.0000   host-10\n"), "{text}");
    assert!(
        text.contains("     ?      1.0000   host-11, selected\n"),
        "{text}"
    );
}

/// Answers one request with this body; returns the request.
fn answer_once(listener: &TcpListener, body: &str) -> String {
    let (mut client, _) = listener.accept().unwrap();
    let mut request = Vec::new();
    let is_whole = |request: &[u8]| {
        let text = String::from_utf8_lossy(request);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            return false;
        };
        let length = head.split("content-length: ").nth(1);
        let length = length.and_then(|rest| rest.lines().next()?.parse().ok());
        body.len() >= length.unwrap_or(0)
    };
    while !is_whole(&request) {
        let mut part = [0; 4096];
        let read = client.read(&mut part).unwrap();
        assert_ne!(read, 0, "the request ended");
        request.extend_from_slice(&part[..read]);
    }
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    client.write_all(answer.as_bytes()).unwrap();
    String::from_utf8(request).unwrap()
}

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

#[test]
fn the_topology_is_changed_by_a_user_who_signs_in() {
    let directory = tempfile::tempdir().unwrap();
    let (scheduler, identity) = (free_address().to_string(), free_address().to_string());
    let clouds_file = directory.path().join("clouds.yaml").display().to_string();
    let flags = [
        "--auth-strategy",
        "identity",
        "--scheduler-listen",
        &*scheduler,
        "--identity-listen",
        &*identity,
        "--identity-clouds-file",
        &*clouds_file,
    ];
    let server = Control::start(&directory.path().join("store"), &flags);
    let placement = format!("http://{}", server.address);
    let scheduler = format!("http://{scheduler}");
    let servers = ["--url", &placement, "--scheduler-url", &scheduler];
    let cloud = ["--cloud", "placewright", "--clouds-file", &clouds_file];
    let remove_with = |credentials: &[&str]| {
        let words = ["--row", "7"];
        run(&[&["topology", "remove"], &servers[..], credentials, &words].concat())
    };
    let (code, _, error) = remove_with(&cloud);
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("there is no level \"row\""), "{error}");
    let (code, _, error) = remove_with(&["--token", "admin"]);
    assert_eq!(code, 1, "{error}");
    assert!(error.contains("401"), "{error}");
}

#[test]
fn a_level_whose_places_have_names_of_aggregates_only_is_edited() {
    let directory = tempfile::tempdir().unwrap();
    let listen = free_address().to_string();
    let flags = ["--scheduler-listen", &*listen];
    let server = Control::start(&directory.path().join("store"), &flags);
    let host = r#"{"name": "node-1", "uuid": "00000000-0000-0000-0000-0000000000a1"}"#;
    let response = server.request("POST /resource_providers", host);
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    let scheduler = format!("http://{listen}");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = Client::new(&scheduler, "admin").unwrap();
        let mut topology = client.topology().await.unwrap();
        let mut places = BTreeSet::new();
        for (number, name) in [(1, "same"), (2, "same"), (3, "")] {
            let place = Uuid::from_u128(0xad_0000 + number);
            let metadata = BTreeMap::new();
            client.put_aggregate(place, name, &metadata).await.unwrap();
            places.insert(place);
        }
        topology.levels.push(Level {
            name: "pod".into(),
            aggregates: places,
            names: BTreeMap::new(),
        });
        client.put_topology(&topology).await.unwrap();
    });
    let url = format!("http://{}", server.address);
    let servers = ["--url", &*url, "--scheduler-url", &*scheduler];
    let add_to = |pod: &str| {
        let words = ["--pod", pod, "node-1"];
        run(&[&["topology", "add"], &servers[..], &words].concat())
    };
    let (code, _, error) = add_to("p4");
    assert_eq!(code, 0, "{error}");
    let (code, _, error) = add_to("same");
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("is not unique"), "{error}");
}
