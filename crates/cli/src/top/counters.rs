//! The counters of the service's metrics, and how fast they grow.

use std::collections::BTreeMap;
use std::time::Instant;

/// The counters at a point in time. The keys are their names with labels, as the page of metrics has them.
#[derive(Debug)]
pub(super) struct Counters {
    read_at: Instant,
    values: BTreeMap<String, f64>,
}

/// What happened between two readings, in events a second.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Rates {
    /// Claims over the APIs of placement and of the scheduler.
    pub(super) api_claims: f64,
    /// Claims of builds and moves.
    pub(super) placements: f64,
    /// How often another claim took a host first, or another client changed a consumer first.
    pub(super) conflicts: f64,
    /// Builds and moves for which there was no host.
    pub(super) no_host: f64,
    /// Commands that were refused, because the state did not allow them.
    pub(super) refusals: f64,
    /// All commands that were decided, whatever they change.
    pub(super) commands: f64,
}

impl Counters {
    /// Parses a page of metrics, in the text format of Prometheus.
    pub(super) fn parse(page: &str, read_at: Instant) -> Self {
        let lines = page.lines().filter(|line| !line.starts_with('#'));
        let values = lines.filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            let is_bucket = name.contains("_bucket{");
            (!is_bucket).then_some((name.to_owned(), value.parse().ok()?))
        });
        Self {
            read_at,
            values: values.collect(),
        }
    }

    /// The sum of the counters of this name whose labels contain the text `labels`.
    pub(super) fn sum(&self, name: &str, labels: &str) -> f64 {
        let values = self.values.range(name.to_owned()..);
        let values = values.take_while(|(full_name, _)| full_name.starts_with(name));
        let of_metric = values.filter_map(|(full_name, value)| {
            // Either nothing, or the labels in braces, or the end of a longer name.
            let after_name = &full_name[name.len()..];
            let is_same = after_name.is_empty() || after_name.starts_with('{');
            (is_same && after_name.contains(labels)).then_some(*value)
        });
        of_metric.sum()
    }

    /// How fast the counters grew since an earlier reading. A counter that is smaller than it was belongs to a process
    /// that started since then, and counts as 0.
    pub(super) fn rates_since(&self, before: &Self) -> Rates {
        let seconds = self.read_at.duration_since(before.read_at).as_secs_f64();
        let rate = |name: &str, labels: &str| {
            let grown = self.sum(name, labels) - before.sum(name, labels);
            match seconds > 0.0 {
                true => grown.max(0.0) / seconds,
                false => 0.0,
            }
        };
        Rates {
            api_claims: rate("placewright_claims_total", r#"result="done""#),
            placements: rate("placewright_placements_total", r#"result="claimed""#),
            conflicts: rate("placewright_claims_total", r#"result="conflict""#)
                + rate("placewright_placement_conflicts_total", ""),
            no_host: rate("placewright_placements_total", r#"result="no_host""#),
            refusals: rate("placewright_refusals_total", ""),
            commands: rate("placewright_journal_batch_commands_sum", ""),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const PAGE: &str = r#"# HELP placewright_claims Claims.
# TYPE placewright_claims counter
placewright_claims_total{result="done"} 10
placewright_claims_total{result="conflict"} 3
placewright_claims_total_other 99
placewright_placement_conflicts_total 1
placewright_journal_batch_commands_sum 20.0
placewright_journal_batch_commands_bucket{le="1.0"} 7
placewright_audit_findings{kind="a"} 1
placewright_audit_findings{kind="b"} 2
"#;

    #[test]
    fn rates_are_by_the_second_and_never_negative() {
        let start = Instant::now();
        let before = Counters::parse(PAGE, start);
        assert_eq!(
            before.sum("placewright_audit_findings", "").to_string(),
            "3"
        );
        let later = PAGE
            .replace("\"done\"} 10", "\"done\"} 30")
            .replace("conflicts_total 1", "conflicts_total 5")
            .replace("_sum 20.0", "_sum 2.0");
        let after = Counters::parse(&later, start + Duration::from_secs(2));
        let expected = Rates {
            api_claims: 10.0,
            conflicts: 2.0,
            ..Rates::default()
        };
        assert_eq!(after.rates_since(&before), expected);
        assert_eq!(before.rates_since(&before), Rates::default());
    }
}
