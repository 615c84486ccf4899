//! The journal of control in PostgreSQL, on real servers, and journals that move between engines.

use std::time::{Duration, Instant};

use crate::common::{Control, run};
use placewright_journal_testing::{EtcdCluster, PostgresqlCluster};

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
fn what_was_acknowledged_is_there_after_a_failover_and_on_another_machine() {
    if !PostgresqlCluster::available() {
        return;
    }
    let mut cluster = PostgresqlCluster::start(2).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let address = cluster.address();
    let url = format!("postgresql://{address}/placewright?target_session_attrs=read-write");
    let flags = ["--store-url", url.as_str()];
    let control = Control::start(&folder.path().join("one machine"), &flags);
    assert!(add_provider(&control, 1).starts_with("HTTP/1.1 200"));
    cluster.kill(0).unwrap();
    // While there is no primary, the outcome of a write may be unknown, so that it waits. Reads go on.
    let in_doubt = std::thread::scope(|scope| {
        let in_doubt = scope.spawn(|| add_provider(&control, 2));
        assert_eq!(providers(&control), 1);
        cluster.fail_over().unwrap();
        in_doubt.join().unwrap()
    });
    let started = Instant::now();
    let mut written = in_doubt;
    while written.starts_with("HTTP/1.1 503") && started.elapsed() < Duration::from_secs(40) {
        written = add_provider(&control, 2);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(written.starts_with("HTTP/1.1 200"), "{written}");
    // Control is killed (SIGKILL), and started with the store's address in another directory.
    drop(control);
    let control = Control::start(&folder.path().join("another machine"), &flags);
    assert_eq!(providers(&control), 2);
}

#[test]
fn a_journal_moves_between_all_engines() {
    if !PostgresqlCluster::available() || !EtcdCluster::available() {
        return;
    }
    let postgresql = PostgresqlCluster::start(1).unwrap();
    let etcd = EtcdCluster::start(1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let directory = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let in_postgresql = |schema: &str| {
        format!(
            "postgresql://{}/placewright?schema={schema}",
            postgresql.address()
        )
    };
    let in_etcd = |prefix: &str| format!("etcd://{}/{prefix}", etcd.address());
    // In this order the journal moves once from each kind of store to each kind, also from a kind to itself.
    let stores = [
        directory("first"),
        in_etcd("first"),
        in_postgresql("first"),
        in_etcd("second"),
        in_etcd("third"),
        directory("second"),
        directory("third"),
        in_postgresql("second"),
        in_postgresql("third"),
        format!("sqlite:{}", directory("fourth")),
    ];
    let state = folder.path().join("state");
    let start = |store: &str| {
        let url = match store.contains(':') {
            true => store.to_owned(),
            false => format!("sqlite:{store}"),
        };
        // A directory given by its address takes the same entries and snapshots as any other store.
        let flags = match url.starts_with("sqlite:") {
            true => vec!["--store-url", url.as_str()],
            false => vec!["--store-path", state.to_str().unwrap(), "--store-url", &url],
        };
        Control::start_at(&flags)
    };
    let control = start(&stores[0]);
    assert!(add_provider(&control, 0).starts_with("HTTP/1.1 200"));
    drop(control);
    for (number, pair) in (1..).zip(stores.windows(2)) {
        let [from, to] = pair else { unreachable!() };
        let (code, output, error) = run(&["journal", "copy", from, to]);
        assert_eq!(code, 0, "{from} {to}: {error}");
        assert!(output.contains("is sealed"), "{output}");
        let control = start(to);
        assert_eq!(providers(&control), number, "{from} {to}");
        let added = add_provider(&control, u32::try_from(number).unwrap());
        assert!(added.starts_with("HTTP/1.1 200"), "{added}");
        drop(control);
        // The old store is sealed and takes no more entries, and the new one has entries that the old one lacks.
        let (code, _, error) = run(&["journal", "copy", from, to]);
        assert_eq!(code, 2, "{error}");
        assert!(error.contains("not a copy"), "{error}");
        let control = start(from);
        let refused = add_provider(&control, 99);
        assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    }
}

#[test]
fn what_cannot_be_copied_is_named_and_nothing_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (nothing, target) = (path("nothing"), path("target"));
    for (from, to, said) in [
        (nothing.as_str(), target.as_str(), "no journal"),
        (&nothing, &nothing, "the same store"),
        (&nothing, "mysql://a/b", "TO: allowed"),
        ("etcd:///p", &target, "FROM: the store's address, endpoints"),
        ("postgresql://a/b?password=secret", &target, "password_file"),
    ] {
        let (code, _, error) = run(&["journal", "copy", from, to]);
        assert_eq!(code, 2, "{from} {to}: {error}");
        assert!(error.contains(said) && !error.contains("secret"), "{error}");
        assert!(!folder.path().join("nothing").exists());
        assert!(!folder.path().join("target").exists());
    }
}
