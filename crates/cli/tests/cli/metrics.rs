//! `docs/operations.md` has a row for each metric, and no row for a metric that does not exist.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Stdio};

use crate::common::{Control, free_address, placewright};

/// Metrics that the servers of this test do not show: those of TLS, for which a server needs a certificate
/// (`tests/tls/run` reads them), the findings of an audit, of which there are none here, and those of
/// traces, which nobody records here.
const NOT_SHOWN_HERE: [&str; 8] = [
    "placewright_audit_findings",
    "placewright_tls_certificate_expiry_timestamp_seconds",
    "placewright_tls_handshake_failures_total",
    "placewright_tls_handshakes_total",
    "placewright_tls_plain_refused_total",
    "placewright_tls_reloads_total",
    "placewright_trace_spans_dropped_total",
    "placewright_trace_spans_sent_total",
];

/// A cell that is killed in the end.
struct Cell {
    child: Child,
    /// Kept open, because the cell may log as long as it runs.
    log: BufReader<ChildStderr>,
}

impl Drop for Cell {
    fn drop(&mut self) {
        // An error only means that the cell has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Cell {
    fn start(store: &Path, metrics: &str) -> Self {
        let listen = free_address().to_string();
        let mut child = placewright(&["cell", "--config", "/dev/null", "--cell-store-path"])
            .arg(store)
            .args(["--cell-listen", &listen, "--cell-metrics-listen", metrics])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let mut cell = Self { child, log };
        let mut line = String::new();
        while !line.contains("ready") {
            line.clear();
            assert!(cell.log.read_line(&mut line).unwrap() > 0, "the cell ended");
        }
        cell
    }
}

/// The names on a page of metrics, as queries use them: counters end with `_total`.
fn names(address: &str) -> BTreeSet<String> {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(head).unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let names = types.map(
        |name_and_type| match name_and_type.split_once(' ').unwrap() {
            (name, "counter") => format!("{name}_total"),
            (name, _) => name.to_owned(),
        },
    );
    names.collect()
}

#[test]
fn the_manual_has_every_metric() {
    let directory = tempfile::tempdir().unwrap();
    let health = free_address().to_string();
    // With the compute API there are also metrics of the conductor and of secrets of servers.
    let compute = free_address().to_string();
    let flags = ["--health-listen", &*health, "--compute-listen", &*compute];
    let control = Control::start(&directory.path().join("store"), &flags);
    // A claim that is refused, so that claims and refusals are counted.
    let body = r#"{"allocations": {"00000000-0000-4000-8000-000000000001": {"resources": {"VCPU": 1}}},
        "consumer_generation": null, "consumer_type": "INSTANCE", "project_id": "p", "user_id": "u"}"#;
    let claim = "PUT /allocations/00000000-0000-4000-8000-000000000002";
    let response = control.request(claim, body);
    assert!(response.starts_with("HTTP/1.1 400"), "{response}");
    // This address is chosen only once control listens on all of its own. Before, control could have taken it.
    let cell_metrics = free_address().to_string();
    let _cell = Cell::start(&directory.path().join("cell"), &cell_metrics);
    let mut names_on_page = names(&health);
    names_on_page.extend(names(&cell_metrics));
    names_on_page.extend(NOT_SHOWN_HERE.map(str::to_owned));

    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let rows = rows.filter_map(|row| row.split('`').next());
    let documented: BTreeSet<String> = rows
        .filter(|name| name.starts_with("placewright_"))
        .map(str::to_owned)
        .collect();
    let missing: Vec<_> = names_on_page.difference(&documented).collect();
    assert!(
        missing.is_empty(),
        "docs/operations.md has no row for {missing:?}"
    );
    let gone: Vec<_> = documented.difference(&names_on_page).collect();
    assert!(
        gone.is_empty(),
        "docs/operations.md tells of {gone:?}, which are not there"
    );
}
