//! `placewright why`.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use crate::common::run;
use serde_json::{Value, json};

const SERVER: &str = "5f0c7e5e-3b77-4d0c-9a3f-0f6f6d0c8a11";

fn weights(ram: f64) -> Value {
    json!([{"weigher": "RAMWeigher", "number": 61440.0, "normalised": ram, "multiplier": 1.0, "share": ram}])
}

fn decisions() -> Value {
    let host = |number: u32| format!("4f9a1c52-0000-4000-8000-00000000000{number}");
    json!({
        "left_cell": {
            "cell": host(8), "at": "2026-11-21T10:00:00Z",
            "attempts": [{"provider": host(4), "host": "host-4", "reason": "no disk"}],
        },
        "instance": SERVER, "project": "p", "cell": host(9), "waiting": false,
        "host": {"provider": host(1), "host": "host-1"},
        "decisions": [{
            "kind": "build", "at": "2026-11-21T10:00:00Z", "provider": host(1), "host": "host-1", "is_present": true,
            "fallen": [{"provider": host(2), "host": "host-2", "reason": "too little VCPU"}], "fallen_count": 1,
            "alternates": 2,
            "search": {
                "sequence": 4711, "round": 0, "siblings": 0, "known_hosts": 900, "feasible": null, "ranked": 19,
                "named": 3, "excluded": 0, "from_fallback": false, "avoided_cells": [], "lost": [],
                "ranking": [
                    {"provider": host(2), "host": "host-2", "score": 1.5, "selected": false, "weights": weights(1.5)},
                    {"provider": host(1), "host": "host-1", "score": 1.25, "selected": true, "weights": weights(1.25)},
                    {"provider": host(3), "host": null, "score": 0.5, "selected": false, "weights": weights(0.5)},
                ],
            },
        }],
    })
}

/// What a server answers to a path.
fn answer_to(path: &str, servers: &Value) -> Value {
    let server = json!({"id": SERVER, "name": "web-1", "status": "ACTIVE"});
    if path.starts_with("/v1/decisions/") {
        assert_eq!(path, format!("/v1/decisions/{SERVER}"));
        return decisions();
    }
    if path.starts_with("/v2.1/servers/detail") {
        return servers.clone();
    }
    if path.ends_with("/os-instance-actions") {
        return json!({"instanceActions": [{"action": "create", "request_id": "req-1"}]});
    }
    if path.contains("/os-instance-actions/") {
        let events = json!([
            {"event": "compute_create_try_2", "start_time": "2026-11-21T10:00:02", "result": "Success", "host": "host-1"},
            {"event": "compute_create_try_1", "start_time": "2026-11-21T10:00:01", "result": "Error", "host": "host-3",
             "details": "no disk"},
        ]);
        return json!({"instanceAction": {"action": "create", "events": events}});
    }
    json!({"server": server})
}

/// A server of both APIs, which lists these servers; ends with the process.
fn start(servers: Value) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        while let Ok((client, _)) = listener.accept() {
            answer(client, &servers);
        }
    });
    url
}

fn answer(mut client: TcpStream, servers: &Value) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut part = [0; 4096];
        let read = client.read(&mut part).unwrap();
        assert_ne!(read, 0, "the request ended");
        request.extend_from_slice(&part[..read]);
    }
    let request = String::from_utf8(request).unwrap();
    let path = request.split(' ').nth(1).unwrap();
    if path.starts_with("/v2.1/") {
        assert!(
            request.contains("openstack-api-version: compute 2."),
            "{request}"
        );
    }
    let body = answer_to(path, servers).to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}",
        body.len()
    );
    client
        .write_all(format!("{head}\r\n\r\n{body}").as_bytes())
        .unwrap();
}

fn why(server: &str, url: &str, flags: &[&str]) -> (i32, String, String) {
    let urls = ["why", server, "--scheduler-url", url, "--compute-url", url];
    run(&[&urls[..], flags].concat())
}

#[test]
fn a_server_is_found_by_its_name_and_explained() {
    let url = start(json!({"servers": [{"id": SERVER, "name": "web-1", "status": "ACTIVE"}]}));
    let (code, text, error) = why("web-1", &url, &[]);
    assert_eq!(code, 0, "{error}");
    for expected in [
        "web-1 (5f0c7e5e-3b77-4d0c-9a3f-0f6f6d0c8a11) is on host-1, status ACTIVE.",
        "Built on host-1, decided 2026-11-21T10:00:00Z.",
        "Of 900 hosts, as they were after entry 4711 of the journal. At least 19 were feasible",
        "     1      1.5000   host-2\n",
        "     2      1.2500   host-1, selected\n",
        "4f9a1c52-0000-4000-8000-000000000003 (removed)",
        "RAMWeigher 1.2500 (of 61440)",
        "host-2: too little VCPU",
        "2 alternates",
        "compute_create_try_1 on host-3: Error: no disk",
        "compute_create_try_2 on host-1: Success",
        "Taken from cell 4f9a1c52-0000-4000-8000-000000000008 at 2026-11-21T10:00:00Z, because the build failed on: host-4 (no disk).",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn a_uuid_needs_no_compute_api_and_programs_get_json() {
    let url = start(json!({"servers": []}));
    let arguments = [
        "why",
        SERVER,
        "--scheduler-url",
        &url,
        "--compute-url",
        "http://127.0.0.1:1",
    ];
    let (code, text, error) = run(&arguments);
    assert_eq!(code, 0, "{error}");
    assert!(
        text.contains("What was tried on hosts is not known"),
        "{text}"
    );
    let (code, text, error) = why(SERVER, &url, &["--json"]);
    assert_eq!(code, 0, "{error}");
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["decisions"][0]["search"]["sequence"], 4711);
    assert_eq!(json["server"]["name"], "web-1");
    assert_eq!(json["actions"][0]["events"][1]["details"], "no disk");
}

#[test]
fn a_name_that_none_or_several_have_is_wrong() {
    let url = start(json!({"servers": []}));
    let (code, _, error) = why("web-1", &url, &[]);
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("no server \"web-1\""), "{error}");
    let url = start(json!({"servers": [{"id": SERVER}, {"id": "other"}]}));
    let (code, _, error) = why("web-1", &url, &[]);
    assert_eq!(code, 2, "{error}");
    assert!(
        error.contains(SERVER) && error.contains("several"),
        "{error}"
    );
}
