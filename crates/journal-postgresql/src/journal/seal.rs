//! The seal of a store that was moved, and the beginning of a copy.

use placewright_journal::JournalError;

use super::PostgresqlJournal;
use crate::rows::{Head, int};
use crate::schema::{BEGIN, SEAL};

impl PostgresqlJournal {
    pub(super) fn seal_store(&mut self, moved_to: &str) -> Result<u64, JournalError> {
        loop {
            // A seal of another process has to be durable, too, before it is reported.
            let head = self.confirm("seal")?.head;
            match &head.moved_to {
                Some(address) if address == moved_to => return Ok(head.end.last),
                Some(_) => return self.store.sealed(&head).map_or(Ok(head.end.last), Err),
                None => {}
            }
            // The next round of the loop sees whether this seal was made or another append came first.
            self.send_seal(head, moved_to)?;
        }
    }

    pub(super) fn begin_store_after(&mut self, sequence: u64) -> Result<(), JournalError> {
        loop {
            let state = self.confirm("begin")?;
            let end = state.head.end.last;
            if end == sequence && state.trimmed.last == sequence {
                return Ok(());
            }
            if end > 0 {
                let path = self.store.path();
                return Err(JournalError::NotEmpty { path, end });
            }
            // The next round of the loop sees whether this change was made.
            let begun = self
                .connection
                .repeat(|session| async move { session.write(BEGIN, &[&int(sequence)]).await });
            begun.map_err(|failure| self.store.error("begin", failure))?;
        }
    }

    fn send_seal(&mut self, head: Head, moved_to: &str) -> Result<(), JournalError> {
        let moved_to = moved_to.to_owned();
        let sent = self.connection.repeat(|session| {
            let (head, moved_to) = (head.clone(), moved_to.clone());
            async move {
                let (last, id) = (int(head.end.last), &head.batch_id[..]);
                session.write(SEAL, &[&last, &id, &moved_to]).await
            }
        });
        sent.map(|_| ())
            .map_err(|failure| self.store.error("seal", failure))
    }
}
