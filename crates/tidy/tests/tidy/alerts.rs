//! Every metric that the alert rules, the dashboard or docs/replicas.md name has a row in docs/operations.md. A test of
//! the crate `cli` compares these rows with the metrics that servers show.

use std::collections::BTreeSet;
use std::fs;

use placewright_tidy::source::workspace;

/// The files that name metrics.
const NAMING: [&str; 4] = [
    "packaging/prometheus/alerts.yml",
    "packaging/prometheus/alerts.test.yml",
    "packaging/grafana/placewright.json",
    "docs/replicas.md",
];

fn read(file: &str) -> String {
    fs::read_to_string(workspace().join(file)).expect("it can be read")
}

/// The metrics that have a row in docs/operations.md. To each name those are added that queries use for the parts of a
/// histogram: the name with a suffix.
fn documented() -> BTreeSet<String> {
    let page = read("docs/operations.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let names = rows.filter_map(|row| row.split('`').next());
    let names = names.filter(|name| name.starts_with("placewright_"));
    names
        .flat_map(|name| ["", "_bucket", "_sum", "_count"].map(|part| format!("{name}{part}")))
        .collect()
}

/// The words of a text that look like names of metrics.
fn metrics(text: &str) -> BTreeSet<&str> {
    let is_in_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
    text.split(|character| !is_in_name(character))
        .filter(|word| word.starts_with("placewright_"))
        .collect()
}

#[test]
fn every_metric_of_an_alert_exists() {
    let documented = documented();
    let mut named = 0;
    let mut missing = Vec::new();
    for file in NAMING {
        let text = read(file);
        let metrics = metrics(&text);
        named += metrics.len();
        let gone = metrics
            .into_iter()
            .filter(|name| !documented.contains(*name));
        missing.extend(gone.map(|name| format!("{file} names {name}")));
    }
    assert!(
        missing.is_empty(),
        "no such metrics in docs/operations.md:\n{}",
        missing.join("\n")
    );
    assert!(named > 20, "few metrics are found");
}
