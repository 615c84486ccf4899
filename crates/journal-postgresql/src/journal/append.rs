//! Appends, each of which is one statement, and the search for the outcome of an append that got no answer.
//!
//! The statement's condition is that the head is the one that this handle saw. So the statement can be sent again
//! whenever its outcome is not known: it takes effect at most once, and never after another writer's append.

use std::sync::Arc;
use std::time::{Duration, Instant};

use placewright_journal::batch::{self, Link, LogEnd};
use placewright_journal::{AppendError, JournalError, Resolution};

use super::PostgresqlJournal;
use crate::failure::{Cause, Failure};
use crate::rows::{Head, id_bytes, int};
use crate::schema::{APPEND, READ_BATCH_ID};
use crate::session::Session;

/// The pause between two attempts to find out the outcome of an append.
const RESOLVE_PAUSE: Duration = Duration::from_millis(20);

/// An append that was sent.
pub(super) struct Pending {
    first: u64,
    id: [u8; 16],
    /// The checksum of the batch before.
    previous: u32,
    appended_at: i64,
    payload: Vec<u8>,
    /// The head after the append.
    head: Head,
    /// The head that the append is compared with.
    before: Head,
}

/// The outcome of an append as the head shows it.
enum AppendOutcome {
    /// The batch is in the log.
    Kept,
    /// The batch is not in the log, and never will be.
    NotKept,
    /// The head is still the one that the append is compared with, so the statement may be sent again.
    Open,
}

impl Pending {
    /// Sends the append. True if the batch was written. False if the head is not the expected one any more: another
    /// writer was first, the store was sealed, or this append had already been written by an earlier attempt.
    async fn send(&self, session: &Session) -> Result<bool, Failure> {
        let LogEnd {
            last,
            checksum,
            record_bytes,
        } = self.head.end;
        let warnings_before = session.warnings();
        let row = session
            .query_one(
                APPEND,
                &[
                    &int(self.first),
                    &int(last),
                    &i64::from(self.previous),
                    &i64::from(checksum),
                    &int(record_bytes),
                    &&self.id[..],
                    &self.appended_at,
                    &&self.payload[..],
                    &int(self.head.acknowledged),
                    &&self.before.batch_id[..],
                    &session.allow_async,
                ],
            )
            .await?;
        if session.get(&row, 0)? {
            // The batch is committed. A server that stops waiting for its standbys commits nevertheless, and says so
            // with a warning; after one, this waits until the batch is on the standbys. If anything fails from now on,
            // it is not known whether the batch is durable.
            let confirmed = session.confirm_after(warnings_before).await;
            return match confirmed {
                Ok(()) => Ok(true),
                Err(failure) => Err(Failure::new(Cause::Unknown, failure.reason)),
            };
        }
        // On a server without synchronous standbys the statement does nothing either. That is a failure, and does not
        // mean that the head has changed.
        session.check_standbys(&row, 1)?;
        Ok(false)
    }
}

impl PostgresqlJournal {
    pub(super) fn append_batch(
        &mut self,
        next_sequence: u64,
        records: &[&[u8]],
    ) -> Result<(), AppendError> {
        self.appended = None;
        if self.pending.is_some() {
            let reason = "the outcome of the append before it is not known yet".into();
            return Err(AppendError::Unknown(JournalError::Unreachable {
                url: self.store.url.clone(),
                doing: "append",
                reason,
            }));
        }
        if self.known.end.last + 1 != next_sequence || records.is_empty() {
            // This updates `known`, because another writer may have appended. An empty append makes only these checks.
            self.read_state("append")?;
        }
        if let Some(sealed) = self.store.sealed(&self.known) {
            return Err(sealed.into());
        }
        if self.known.end.last + 1 != next_sequence {
            return Err(self.conflict());
        }
        if records.is_empty() {
            return Ok(());
        }
        let pending = Arc::new(self.prepare(records)?);
        self.send(pending)
    }

    /// The error for an append that does not follow the known head.
    fn conflict(&self) -> AppendError {
        AppendError::Conflict {
            next_sequence: self.known.end.last + 1,
        }
    }

    /// Encodes records as the batch that follows the known head.
    fn prepare(&self, records: &[&[u8]]) -> Result<Pending, JournalError> {
        let payload = batch::encode(records)?;
        let before = self.known.clone();
        let id = id_bytes(batch::new_id());
        let head = Head {
            end: before.end.with_batch(records, &payload),
            batch_id: id.to_vec(),
            acknowledged: self.store.acknowledged().last.max(before.acknowledged),
            ..before.clone()
        };
        Ok(Pending {
            first: before.end.last + 1,
            id,
            previous: before.end.checksum,
            appended_at: batch::now(),
            payload,
            head,
            before,
        })
    }

    /// Sends an append. If it fails without an answer before its time-out, its outcome is found out at once: perhaps
    /// only the connection was lost.
    fn send(&mut self, pending: Arc<Pending>) -> Result<(), AppendError> {
        let started = Instant::now();
        let mut failure = match self.send_once(&pending) {
            Ok(true) => {
                self.keep(&pending);
                return Ok(());
            }
            Ok(false) => {
                self.read_state("append")?;
                return Err(self.not_kept());
            }
            Err(failure) if failure.cause == Cause::Unknown => failure,
            Err(failure) => return Err(self.store.error("append", failure).into()),
        };
        self.pending = Some(pending);
        while started.elapsed() < self.store.servers.options().request_timeout {
            match self.resolve_pending() {
                Ok(Resolution::Kept) => return Ok(()),
                Ok(Resolution::NotKept) => return Err(self.not_kept()),
                Err(JournalError::Unreachable { reason, .. }) => failure.reason = reason,
                Err(error) => return Err(AppendError::Unknown(error)),
            }
            std::thread::sleep(RESOLVE_PAUSE);
        }
        Err(AppendError::Unknown(self.store.error("append", failure)))
    }

    /// Sends an append once. Returns whether the head was still the known one, so that the batch was written.
    fn send_once(&mut self, pending: &Arc<Pending>) -> Result<bool, Failure> {
        self.connection.append(pending.payload.len(), |session| {
            let pending = Arc::clone(pending);
            async move { pending.send(&session).await }
        })
    }

    /// The error for an append that is not in the log, because another writer appended first or the store was sealed.
    fn not_kept(&self) -> AppendError {
        match self.store.sealed(&self.known) {
            Some(sealed) => sealed.into(),
            None => self.conflict(),
        }
    }

    /// Tells the caller of an append its outcome, once.
    pub(super) fn tell_outcome(&mut self) -> Result<Resolution, JournalError> {
        let outcome = self.resolve_pending();
        if matches!(outcome, Err(JournalError::Trimmed { .. })) {
            // Nothing in the log will ever show the outcome.
            self.pending = None;
        }
        outcome
    }

    fn resolve_pending(&mut self) -> Result<Resolution, JournalError> {
        let Some(pending) = self.pending.clone() else {
            return Ok(Resolution::NotKept);
        };
        let resolution = match self.determine_outcome(&pending)? {
            AppendOutcome::Kept => Resolution::Kept,
            AppendOutcome::NotKept => Resolution::NotKept,
            AppendOutcome::Open => return Err(self.store.error("append", still_open())),
        };
        self.pending = None;
        Ok(resolution)
    }

    /// Reads the head, and sends the statement again if the head is unchanged. Even a definite failure of the
    /// repeated statement proves nothing: the first one may still be under way.
    fn determine_outcome(&mut self, pending: &Arc<Pending>) -> Result<AppendOutcome, JournalError> {
        // No request whose outcome is not known is made again here, so that the caller, who repeats this, can refuse
        // other commands between the attempts.
        match self.outcome_from_head(pending)? {
            AppendOutcome::Open => {}
            outcome => return Ok(outcome),
        }
        let doing = "find out the outcome of an append";
        let sent = self.send_once(pending);
        if sent.map_err(|failure| self.store.error(doing, failure))? {
            self.keep(pending);
            return Ok(AppendOutcome::Kept);
        }
        self.outcome_from_head(pending)
    }

    /// Records the head that an append wrote as the known one.
    fn keep(&mut self, pending: &Pending) {
        self.known = pending.head.clone();
        self.verified = pending.head.end;
        self.appended = Some(Link {
            first: pending.first,
            last: pending.head.end.last,
            previous: pending.previous,
            checksum: pending.head.end.checksum,
        });
        self.store.acknowledge(pending.head.end);
    }

    /// Decides the outcome of an append from a durable head. A head that may still be lost would decide nothing,
    /// because the append may be lost together with it.
    fn outcome_from_head(&mut self, pending: &Pending) -> Result<AppendOutcome, JournalError> {
        let now = self.confirm_once("find out the outcome of an append")?.head;
        if now.batch_id == pending.before.batch_id
            && now.end == pending.before.end
            && now.moved_to.is_none()
        {
            return Ok(AppendOutcome::Open);
        }
        // If the head names another batch, later batches may have been appended after this one.
        let is_kept = now.batch_id == pending.id
            || (now.end.last >= pending.head.end.last && self.is_batch_of(pending)?);
        if is_kept {
            self.verified = pending.head.end;
            return Ok(AppendOutcome::Kept);
        }
        Ok(AppendOutcome::NotKept)
    }

    /// Whether the batch that begins with the first entry of an append is the batch of this append, and not of another.
    fn is_batch_of(&mut self, pending: &Pending) -> Result<bool, JournalError> {
        let first = pending.first;
        let found = self.connection.once(|session| async move {
            let row = session.query_one(READ_BATCH_ID, &[&int(first)]).await?;
            let id: Option<Vec<u8>> = session.get(&row, 0)?;
            Ok((id, session.uint(&row, 1)?))
        });
        let doing = "find out the outcome of an append";
        match found.map_err(|failure| self.store.error(doing, failure))? {
            (Some(id), _) => Ok(id == pending.id),
            (None, trimmed) if first <= trimmed => Err(JournalError::Trimmed {
                asked: first,
                first_held: trimmed + 1,
            }),
            (None, _) => Ok(false),
        }
    }
}

/// The failure of an append whose outcome is still unknown after an attempt to find it out.
fn still_open() -> Failure {
    let reason = "the head did not change, but the append was refused";
    Failure::new(Cause::Unknown, reason)
}
