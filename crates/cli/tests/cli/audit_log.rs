//! The audit log of `placewright control`.

use crate::common;

use std::path::Path;

use common::Control;
use rustix::process::Signal;
use serde_json::{Value, json};

const PROVIDER: &str = "11111111-0000-4000-8000-000000000001";
const CONSUMER: &str = "22222222-0000-4000-8000-000000000002";

fn start(directory: &Path) -> Control {
    Control::start(&directory.join("store"), &["--audit-destination=file"])
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

/// Stops control as an operator does.
fn stop(control: Control) {
    control.signal(Signal::TERM);
    let (code, log) = control.end();
    assert_eq!(code, 0, "{log}");
}

fn create_provider(control: &Control) {
    let body = json!({"name": "one", "uuid": PROVIDER}).to_string();
    let response = control.request("POST /resource_providers", &body);
    assert!(response.starts_with("HTTP/1.1 20"), "{response}");
}

#[test]
fn each_write_and_each_refusal_has_a_line_once_control_has_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let control = start(directory.path());
    create_provider(&control);
    control.request("GET /resource_providers", "");
    // With `noauth2`, a token is USER:PROJECT. This user has no role.
    control.request_with("GET /resource_providers", "X-Auth-Token: anna:red");
    // This request has no token.
    control.request_with("DELETE /resource_providers/1", "X-Other: none");
    stop(control);

    let lines = lines(&directory.path().join("store/audit.log"));
    let records: Vec<Value> = lines
        .iter()
        .map(|line| {
            let code = &line["reason"]["reasonCode"];
            json!([
                line["action"],
                line["outcome"],
                code,
                line["initiator"]["id"]
            ])
        })
        .collect();
    assert_eq!(
        records,
        [
            json!(["create", "success", "200", "admin"]),
            json!(["read", "failure", "403", "anna"]),
            json!(["delete", "failure", "401", null]),
        ],
        "{lines:#?}"
    );
    assert_eq!(lines[0]["target"]["id"], PROVIDER);
    assert!(lines[0]["sequence"].is_u64());
}

#[test]
fn lines_say_what_a_consumer_holds() {
    let directory = tempfile::tempdir().unwrap();
    let control = start(directory.path());
    create_provider(&control);
    let inventories = json!({"resource_provider_generation": 0,
        "inventories": {"VCPU": {"total": 8}}});
    let path = format!("PUT /resource_providers/{PROVIDER}/inventories");
    control.request(&path, &inventories.to_string());
    let allocations = json!({"allocations": {PROVIDER: {"resources": {"VCPU": 3}}},
        "project_id": "red", "user_id": "anna", "consumer_generation": null,
        "consumer_type": "INSTANCE"});
    let path = format!("/allocations/{CONSUMER}");
    control.request(&format!("PUT {path}"), &allocations.to_string());
    // The request says that the consumer is new, and now the consumer exists: the request is refused.
    control.request(&format!("PUT {path}"), &allocations.to_string());
    control.request(&format!("DELETE {path}"), "");
    stop(control);

    let lines = lines(&directory.path().join("store/audit.log"));
    let [.., put, refused, delete] = lines.as_slice() else {
        panic!("{lines:#?}");
    };
    let held = |line: &Value| line["held"][0].clone();
    assert_eq!(held(put)["consumer"], CONSUMER);
    assert_eq!(held(put)["project_id"], "red");
    assert_eq!(held(put)["allocations"], json!({PROVIDER: {"VCPU": 3}}));
    assert_eq!(refused["reason"]["reasonCode"], "409");
    assert_eq!(
        (held(refused), &refused["sequence"]),
        (Value::Null, &Value::Null)
    );
    assert_eq!(held(delete)["allocations"], json!({}));
    assert!(held(delete)["sequence"].as_u64() > held(put)["sequence"].as_u64());
}

#[test]
fn a_hang_up_opens_the_file_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut control = start(directory.path());
    let log = directory.path().join("store/audit.log");
    let old = directory.path().join("old");
    std::fs::rename(&log, &old).unwrap();
    control.signal(Signal::HUP);
    control.wait_for_line("SIGHUP: read");
    create_provider(&control);
    stop(control);
    assert_eq!((lines(&old).len(), lines(&log).len()), (0, 1));
}

#[test]
fn a_log_that_cannot_be_opened_keeps_control_from_starting() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let (code, _, errors) = common::run(&[
        "control",
        "--store-path",
        store.to_str().unwrap(),
        "--placement-listen=127.0.0.1:0",
        "--audit-destination=file",
        "--audit-file=/nowhere/audit.log",
    ]);
    assert_eq!(code, 2, "{errors}");
    assert!(errors.contains("/nowhere/audit.log"), "{errors}");
}
