//! The check of a store's tables against each other.

use placewright_journal::JournalError;

use super::PostgresqlJournal;
use crate::rows::int;
use crate::schema::{FIND_GAP, FIND_INCOMPLETE, READ_END_BEFORE};

impl PostgresqlJournal {
    /// The batches follow each other, the last one is that of the head, and every snapshot has its chunks. Reading the
    /// entries verifies the batches themselves.
    pub(super) fn check_tables(&mut self) -> Result<(), JournalError> {
        let state = self.read_state("check")?;
        let (head, trimmed) = (state.head.end, state.trimmed);
        let checked = self.connection.repeat(|session| async move {
            let rows = session
                .query(READ_END_BEFORE, &[&int(head.last + 1)])
                .await?;
            let end = rows
                .first()
                .map(|row| session.log_end(row, 0))
                .transpose()?;
            let rows = session.query(FIND_GAP, &[]).await?;
            let gap = rows.first().map(|row| session.uint(row, 0)).transpose()?;
            let rows = session.query(FIND_INCOMPLETE, &[]).await?;
            let incomplete = rows.first().map(|row| session.uint(row, 0)).transpose()?;
            Ok((end, gap, incomplete))
        });
        let store = &self.store;
        let checked = checked.map_err(|failure| store.error("check", failure))?;
        let (end, gap, incomplete) = checked;
        if trimmed.last > head.last {
            let reason = "the table trim is ahead of the head".into();
            return Err(store.damaged_store(trimmed.last, reason));
        }
        // Without batches the log ends where the trimmed entries end.
        let end = end.unwrap_or(trimmed);
        if end != head {
            let reason = format!("the head ends at entry {}, the batches do not", head.last);
            return Err(store.damaged_store(end.last, reason));
        }
        if let Some(first) = gap {
            let reason = "a batch does not follow the one before it".into();
            return Err(store.damaged_store(first, reason));
        }
        match incomplete {
            Some(sequence) => Err(JournalError::DamagedSnapshot {
                path: store.path(),
                sequence,
                reason: "it does not have all of its chunks".into(),
            }),
            None => Ok(()),
        }
    }
}
