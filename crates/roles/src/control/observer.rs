//! Reports the engine's events to the log, and the loading of the store also to systemd.

use std::error::Error;

use placewright_engine::{
    Commit, Loss, Observer, RecoveryProgress, SnapshotError, SnapshotReport, StoreError,
};

use super::systemd;
use crate::config::chain;

/// Logs the engine's events, and passes them to the wrapped observer.
#[derive(Debug)]
pub(crate) struct LoggingObserver<O>(pub(crate) O);

impl<O: Observer> Observer for LoggingObserver<O> {
    fn recovering(&self, progress: &RecoveryProgress) {
        let RecoveryProgress {
            snapshot,
            sequence,
            end,
        } = *progress;
        if sequence < end {
            tracing::info!(snapshot, sequence, end, "loading the state");
            systemd::loading(&format!("loading: entry {sequence} of {end}"));
        }
        self.0.recovering(progress);
    }

    fn snapshot_unusable(&self, sequence: u64, reason: &dyn Error) {
        tracing::warn!(
            sequence,
            reason = chain(reason),
            "a snapshot is unusable; an older one is tried"
        );
        self.0.snapshot_unusable(sequence, reason);
    }

    fn committed(&self, commit: &Commit) {
        self.0.committed(commit);
    }

    fn append_failed(&self, reason: &StoreError, commands: usize) {
        tracing::error!(
            reason = chain(reason),
            commands,
            "the store failed; these writes got 503"
        );
        self.0.append_failed(reason, commands);
    }

    fn append_unknown(&self, reason: &StoreError, commands: usize) {
        tracing::warn!(
            reason = chain(reason),
            commands,
            "the store did not say whether it made an append; these writes wait until that is known"
        );
        self.0.append_unknown(reason, commands);
    }

    fn append_resolved(&self, is_kept: bool) {
        tracing::info!(is_kept, "the outcome of the append is known");
        self.0.append_resolved(is_kept);
    }

    fn following_failed(&self, reason: &StoreError) {
        tracing::warn!(
            reason = chain(reason),
            "the journal cannot be followed at present"
        );
        self.0.following_failed(reason);
    }

    fn entries_lost(&self, loss: &Loss) {
        let Loss { first, last, .. } = *loss;
        tracing::error!(
            first,
            last,
            "the store has lost acknowledged entries: no requests are taken until they are there again; see \
             `placewright status`"
        );
        self.0.entries_lost(loss);
    }

    fn entries_appended_again(&self, first: u64, last: u64) {
        tracing::warn!(
            first,
            last,
            "lost entries were appended again, as an operator said"
        );
        self.0.entries_appended_again(first, last);
    }

    fn entries_back(&self) {
        tracing::info!("the store has all entries again: requests are taken");
        self.0.entries_back();
    }

    fn conflict(&self, commands: usize, missed: u64) {
        tracing::warn!(commands, missed, "another writer was first; decided again");
        self.0.conflict(commands, missed);
    }

    fn snapshot_written(&self, report: &SnapshotReport) {
        let SnapshotReport {
            sequence,
            bytes,
            elapsed,
            first_held,
        } = *report;
        let elapsed_ms = elapsed.as_millis();
        tracing::info!(sequence, bytes, elapsed_ms, first_held, "snapshot written");
        self.0.snapshot_written(report);
    }

    fn snapshot_failed(&self, reason: &SnapshotError) {
        tracing::error!(
            reason = chain(reason),
            "the snapshot failed; it is tried again"
        );
        self.0.snapshot_failed(reason);
    }
}
