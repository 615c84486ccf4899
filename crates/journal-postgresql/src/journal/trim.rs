//! Removing entries that a snapshot covers.
//!
//! The snapshot may have been written by another process, so that this one does not know whether it is durable. That
//! does no harm: the snapshot is before the trim in the log of the servers, so no standby has the trim without the
//! snapshot.

use placewright_journal::JournalError;

use super::PostgresqlJournal;
use crate::rows::int;
use crate::schema::TRIM;
use crate::snapshot;

/// The number of batches that are removed in one transaction.
const BATCHES_PER_TRIM: i64 = 256;

impl PostgresqlJournal {
    pub(super) fn trim_entries(&mut self, before_sequence: u64) -> Result<(), JournalError> {
        let snapshots = snapshot::list(&self.store, &mut self.connection)?;
        let snapshot = snapshots.first().map_or(0, |snapshot| snapshot.sequence);
        if before_sequence > snapshot + 1 {
            return Err(JournalError::TrimBeyondSnapshot {
                before: before_sequence,
                snapshot,
            });
        }
        loop {
            let removed = self.connection.repeat(|session| async move {
                session
                    .execute(TRIM, &[&int(before_sequence), &BATCHES_PER_TRIM])
                    .await
            });
            if removed.map_err(|failure| self.store.error("trim", failure))? == 0 {
                return Ok(());
            }
        }
    }
}
