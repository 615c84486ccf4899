//! Which entries are known to be durable, and how a handle finds that out.
//!
//! A commit that is visible need not be on a standby. A primary that was started again shows everything on its own
//! disk, and a primary that is told to stop waiting for its standbys shows the commits that were waiting. A failover
//! loses such a commit. Two things prove that an entry is durable. One is the acknowledgement of a later write, because
//! a standby that has a part of the log has everything before it. The other is the head: each writer records there
//! which entries were acknowledged to it, together with its next append, or in a write of its own after its last one.

use std::time::{Duration, Instant};

use placewright_journal::JournalError;
use placewright_journal::batch::LogEnd;

use super::PostgresqlJournal;
use crate::failure::Failure;
use crate::rows::{StoreState, int};
use crate::schema::{ACKNOWLEDGE, READ_HEAD, READ_LAST};

/// The first pause between two queries for new entries. Each further pause is twice as long as the one before it.
const POLL_MIN: Duration = Duration::from_millis(1);
/// The longest pause between two queries for new entries.
const POLL_MAX: Duration = Duration::from_millis(16);

impl PostgresqlJournal {
    /// Reads the head, which may not be durable yet, and makes it the known one.
    ///
    /// # Errors
    /// [`JournalError::Lost`] when entries are missing that were durable: somebody restored the servers from a backup,
    /// or promoted a standby that did not have them.
    pub(super) fn read_state(&mut self, doing: &'static str) -> Result<StoreState, JournalError> {
        let acknowledged = self.store.acknowledged();
        let read = self.connection.repeat(|session| async move {
            let row = session
                .query_one(READ_HEAD, &[&int(acknowledged.last)])
                .await?;
            session.store_state(&row)
        });
        self.update_known_head(doing, read, acknowledged)
    }

    /// Reads the head, waits until it is durable, and makes it the known one. Each call makes a write that touches no
    /// table. The engine makes one call for all confirmed reads that wait at the same time.
    pub(super) fn confirm(&mut self, doing: &'static str) -> Result<StoreState, JournalError> {
        self.confirm_by(doing, true)
    }

    /// As [`Self::confirm`], with one attempt only.
    pub(super) fn confirm_once(&mut self, doing: &'static str) -> Result<StoreState, JournalError> {
        self.confirm_by(doing, false)
    }

    fn confirm_by(
        &mut self,
        doing: &'static str,
        is_repeated: bool,
    ) -> Result<StoreState, JournalError> {
        let acknowledged = self.store.acknowledged();
        // One session does both, so the write proves that the server whose head was read still has its standbys.
        let work = |session: std::sync::Arc<crate::session::Session>| async move {
            let row = session
                .query_confirmed(READ_HEAD, &[&int(acknowledged.last)])
                .await?;
            session.store_state(&row)
        };
        let read = match is_repeated {
            true => self.connection.repeat(work),
            false => self.connection.once(work),
        };
        let state = self.update_known_head(doing, read, acknowledged)?;
        self.store.acknowledge(state.head.end);
        Ok(state)
    }

    /// Replaces the known head by the one that the store has now, after checking that the batch at `acknowledged`,
    /// which was read with it, is still there.
    fn update_known_head(
        &mut self,
        doing: &'static str,
        read: Result<StoreState, Failure>,
        acknowledged: LogEnd,
    ) -> Result<StoreState, JournalError> {
        let state = read.map_err(|failure| self.store.error(doing, failure))?;
        let LogEnd { last, checksum, .. } = acknowledged;
        let end = state.head.end.last;
        if end < last {
            return Err(self.store.lost(end + 1, last));
        }
        let is_kept = match state.batch {
            _ if last == 0 || last < state.trimmed.last => true,
            _ if last == state.trimmed.last => checksum == state.trimmed.checksum,
            Some(batch) => batch == (last, checksum),
            None => false,
        };
        if !is_kept {
            // Other entries have replaced acknowledged ones. How many is not known, but the last one is among them.
            return Err(self.store.lost(last, last));
        }
        self.known = state.head.clone();
        Ok(state)
    }

    /// Records in the head which entries were acknowledged, so that readers need not confirm them. Nobody waits for
    /// this write; if it is lost, the next append records the same.
    pub(super) fn record_acknowledged(&mut self) {
        let last = int(self.store.acknowledged().last);
        self.connection.start(move |session| async move {
            session.execute(ACKNOWLEDGE, &[&last]).await.map(|_| ())
        });
    }

    /// Waits until there are entries after `after`, or `timeout` has passed.
    pub(super) fn poll_until(&mut self, after: u64, timeout: Duration) -> Result<(), JournalError> {
        let started = Instant::now();
        let mut pause = POLL_MIN;
        loop {
            let last = self.connection.repeat(|session| async move {
                let row = session.query_one(READ_LAST, &[]).await?;
                session.uint(&row, 0)
            });
            let last = last.map_err(|failure| self.store.error("read", failure))?;
            let left = timeout.saturating_sub(started.elapsed());
            if last > after || left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(POLL_MAX);
        }
    }
}
