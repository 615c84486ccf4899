//! The journal of control in etcd, on real members.

use std::time::{Duration, Instant};

use crate::common::{Control, run};
use placewright_journal_testing::EtcdCluster;

fn add_provider(control: &Control, number: u32) -> String {
    let uuid = format!("7a9d7a9d-0000-4000-8000-{number:012}");
    let body = format!("{{\"name\": \"host{number}\", \"uuid\": \"{uuid}\"}}");
    control.request("POST /resource_providers", &body)
}

fn providers(control: &Control) -> usize {
    let response = control.request("GET /resource_providers", "");
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    response.matches("\"parent_provider_uuid\"").count()
}

#[test]
fn what_was_acknowledged_is_there_on_another_machine() {
    if !EtcdCluster::available() {
        return;
    }
    let mut cluster = EtcdCluster::start(3).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let url = format!("etcd://{}/placewright/control", cluster.address());
    let flags = ["--store-url", url.as_str()];
    let control = Control::start(&folder.path().join("one machine"), &flags);
    assert!(add_provider(&control, 1).starts_with("HTTP/1.1 200"));
    // Two of three members are enough.
    cluster.kill(0).unwrap();
    assert!(add_provider(&control, 2).starts_with("HTTP/1.1 200"));
    // Control is killed (SIGKILL), and started with the store's address in another directory.
    drop(control);
    let control = Control::start(&folder.path().join("another machine"), &flags);
    assert_eq!(providers(&control), 2);

    // Without a majority nothing is written, and reads go on.
    cluster.kill(1).unwrap();
    let head = "PUT /resource_classes/CUSTOM_AWAY";
    let started = Instant::now();
    let waiting = std::thread::scope(|scope| {
        let in_doubt = scope.spawn(|| control.request(head, ""));
        // The outcome of the first write may be unknown, so that it waits; the writes after it are refused.
        std::thread::sleep(Duration::from_secs(4));
        let refused = add_provider(&control, 3);
        assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
        assert_eq!(providers(&control), 2);
        cluster.start_again(0).unwrap();
        cluster.start_again(1).unwrap();
        in_doubt.join().unwrap()
    });
    let is_answered = waiting.starts_with("HTTP/1.1 201") || waiting.starts_with("HTTP/1.1 503");
    assert!(is_answered, "after {:?}: {waiting}", started.elapsed());
    cluster.wait_until_healthy(0).unwrap();
    let again = loop {
        let response = add_provider(&control, 3);
        if !response.starts_with("HTTP/1.1 503") || started.elapsed() > Duration::from_secs(40) {
            break response;
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(again.starts_with("HTTP/1.1 200"), "{again}");
}

#[test]
fn an_address_that_is_not_valid_is_named() {
    for (url, reason) in [
        ("mysql://localhost/db", "allowed: sqlite:DIRECTORY"),
        ("etcd:///prefix", "endpoints"),
        ("etcd://localhost:2379/p?password=secret", "password"),
        ("sqlite:/elsewhere", "named twice"),
    ] {
        let store = tempfile::tempdir().unwrap();
        let path = store.path().join("store");
        let flags = ["--store-path", path.to_str().unwrap(), "--store-url", url];
        let (code, _, error) = run(&[
            &["config", "check", "control", "--config", "/dev/null"][..],
            &flags,
        ]
        .concat());
        assert_eq!(code, 2, "{url}: {error}");
        assert!(
            error.contains("store.url") && error.contains(reason),
            "{error}"
        );
        assert!(!error.contains("secret"), "{error}");
    }
}
