//! The metrics of the journal for Prometheus.

use std::error::Error;

use placewright_engine::{
    Commit, Observer, RecoveryProgress, SnapshotError, SnapshotReport, StoreError,
};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Metrics of the engine's appends and snapshots in its journal.
#[derive(Debug)]
pub(crate) struct JournalMetrics {
    batch_commands: Histogram,
    batch_bytes: Histogram,
    append_duration: Histogram,
    decide_duration: Histogram,
    entries: Counter,
    append_failures: Counter,
    conflicts: Counter,
    snapshots: Counter,
    snapshot_failures: Counter,
    sequence: Gauge,
    snapshot_sequence: Gauge,
    snapshot_bytes: Gauge,
    queued: Gauge,
}

/// A histogram with `count` bucket bounds: the first is `first`, each further one `factor` times larger.
fn histogram(first: f64, factor: f64, count: usize) -> Histogram {
    Histogram::new(
        std::iter::successors(Some(first), move |bound| Some(bound * factor)).take(count),
    )
}

impl JournalMetrics {
    /// Registers the journal's metrics.
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            // From 1 to 8,192 commands; the largest batch has 4,096 by default.
            batch_commands: histogram(1.0, 2.0, 14),
            // From 256 bytes to 4 MiB.
            batch_bytes: histogram(256.0, 4.0, 8),
            // From 50 µs (a very fast disk) to 13 s (a disk that hangs).
            append_duration: histogram(50e-6, 2.0, 19),
            // From 1 µs to 4 s.
            decide_duration: histogram(1e-6, 4.0, 12),
            entries: Counter::default(),
            append_failures: Counter::default(),
            conflicts: Counter::default(),
            snapshots: Counter::default(),
            snapshot_failures: Counter::default(),
            sequence: Gauge::default(),
            snapshot_sequence: Gauge::default(),
            snapshot_bytes: Gauge::default(),
            queued: Gauge::default(),
        };
        metrics.register(registry.sub_registry_with_prefix("placewright_journal"));
        metrics
    }

    fn register(&self, journal: &mut Registry) {
        journal.register(
            "batch_commands",
            "Commands that one append made durable",
            self.batch_commands.clone(),
        );
        journal.register_with_unit(
            "batch",
            "Size of the records of one append",
            Unit::Bytes,
            self.batch_bytes.clone(),
        );
        journal.register_with_unit(
            "append_duration",
            "Time of one append, its fsync included",
            Unit::Seconds,
            self.append_duration.clone(),
        );
        journal.register_with_unit(
            "decide_duration",
            "Time to decide and apply the commands of one append",
            Unit::Seconds,
            self.decide_duration.clone(),
        );
        journal.register("entries", "Entries appended", self.entries.clone());
        journal.register(
            "append_failures",
            "Appends that failed; their commands had no effect",
            self.append_failures.clone(),
        );
        journal.register(
            "conflicts",
            "Appends that lost their place to another writer and were decided again",
            self.conflicts.clone(),
        );
        journal.register("snapshots", "Snapshots written", self.snapshots.clone());
        journal.register(
            "snapshot_failures",
            "Snapshots that could not be written, or not be read at a start",
            self.snapshot_failures.clone(),
        );
        journal.register("sequence", "The last durable entry", self.sequence.clone());
        journal.register(
            "snapshot_sequence",
            "The entry that the newest snapshot was made at",
            self.snapshot_sequence.clone(),
        );
        journal.register_with_unit(
            "snapshot",
            "Size of the newest snapshot",
            Unit::Bytes,
            self.snapshot_bytes.clone(),
        );
        journal.register(
            "queued",
            "Commands that wait to be decided",
            self.queued.clone(),
        );
    }
}

/// Converts a number for a gauge. No number here exceeds the largest `i64`.
fn gauge(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a number for a histogram.
#[allow(
    clippy::cast_precision_loss,
    reason = "its buckets are wider than the rounding"
)]
fn observation(number: usize) -> f64 {
    number as f64
}

impl Observer for JournalMetrics {
    fn recovering(&self, progress: &RecoveryProgress) {
        self.sequence.set(gauge(progress.sequence));
        self.snapshot_sequence.set(gauge(progress.snapshot));
    }

    fn snapshot_unusable(&self, _sequence: u64, _reason: &dyn Error) {
        self.snapshot_failures.inc();
    }

    fn committed(&self, commit: &Commit) {
        let Commit {
            sequence,
            commands,
            entries,
            bytes,
            decide_time,
            append_time,
            queued,
        } = *commit;
        self.batch_commands.observe(observation(commands));
        self.batch_bytes.observe(observation(bytes));
        self.append_duration.observe(append_time.as_secs_f64());
        self.decide_duration.observe(decide_time.as_secs_f64());
        self.entries.inc_by(entries as u64);
        self.sequence.set(gauge(sequence));
        self.queued.set(gauge(queued as u64));
    }

    fn append_failed(&self, _reason: &StoreError, _commands: usize) {
        self.append_failures.inc();
    }

    fn conflict(&self, _commands: usize, _missed: u64) {
        self.conflicts.inc();
    }

    fn snapshot_written(&self, report: &SnapshotReport) {
        self.snapshots.inc();
        self.snapshot_sequence.set(gauge(report.sequence));
        self.snapshot_bytes.set(gauge(report.bytes));
    }

    fn snapshot_failed(&self, _reason: &SnapshotError) {
        self.snapshot_failures.inc();
    }
}
