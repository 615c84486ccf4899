//! Appends: each is one transaction; and how the outcome of an append without an answer is found out.
//!
//! The transaction's condition is that the head is the one that this handle saw. So the transaction can be sent again
//! whenever its outcome is not known: it takes effect at most once, and never after another writer's append.

use std::time::{Duration, Instant};

use placewright_journal::batch;
use placewright_journal::{AppendError, Fence, JournalError, Resolution};
use prost::bytes::Bytes;

use super::EtcdJournal;
use crate::client::Repeat;
use crate::failure::{Cause, Failure};
use crate::kv;
use crate::proto::{TxnRequest, TxnResponse};
use crate::rows::{BatchHeader, Head, PayloadLocation};
use crate::store::KnownHead;

/// The maximum size in bytes of the records in one value. etcd keeps the last 5,000 requests or more in memory,
/// and is slowed down by large ones.
const VALUE_BYTES_MAX: usize = 64 << 10;
/// The maximum size in bytes of the records in one transaction. etcd's limit for the whole request is 1.5 MiB.
const TRANSACTION_BYTES_MAX: usize = 1 << 20;
/// The size in bytes of the parts that are written before their transaction.
const UPLOAD_BYTES: usize = 256 << 10;

/// The pause between two attempts to find out the outcome of an append.
const RESOLVE_PAUSE: Duration = Duration::from_millis(20);

/// An append that was sent.
pub(super) struct Pending {
    transaction: TxnRequest,
    header: BatchHeader,
    /// The head after the append.
    head: Head,
    /// The head that the store must still have for the append to succeed.
    before: KnownHead,
}

/// The outcome of an append as the head shows it.
enum AppendOutcome {
    /// The batch is in the log.
    Kept,
    /// The batch is not in the log, and never will be.
    NotKept,
    /// The head is still the one on which the append is conditional, so the transaction may be sent again.
    Open,
}

impl EtcdJournal {
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
        if self.known.head.end.last + 1 != next_sequence || records.is_empty() {
            self.refresh("append")?;
        }
        if let Some(sealed) = self.store.sealed(&self.known.head) {
            return Err(sealed.into());
        }
        if self.known.head.end.last + 1 != next_sequence {
            return Err(self.conflict());
        }
        if records.is_empty() {
            return Ok(());
        }
        let pending = self.prepare(records)?;
        self.send(pending)
    }

    fn conflict(&self) -> AppendError {
        AppendError::Conflict {
            next_sequence: self.known.head.end.last + 1,
        }
    }

    /// Makes the transaction of an append. If the batch is too large for one transaction, its parts are written at
    /// once.
    fn prepare(&self, records: &[&[u8]]) -> Result<Box<Pending>, JournalError> {
        let payload = Bytes::from(batch::encode(records)?);
        let before = self.known.head.end;
        let first = before.last + 1;
        let header = BatchHeader {
            first,
            end: before.with_batch(records, &payload),
            previous: before.checksum,
            id: batch::new_id(),
            appended_at: batch::now(),
            location: match payload.len() {
                bytes if bytes <= VALUE_BYTES_MAX => PayloadLocation::Inline,
                bytes if bytes <= TRANSACTION_BYTES_MAX => PayloadLocation::Parts,
                _ => PayloadLocation::Upload,
            },
            payload_bytes: payload.len() as u64,
        };
        let head = Head {
            end: header.end,
            batch_id: header.id,
            ..self.known.head.clone()
        };
        let keys = &self.store.keys;
        let inline: &[u8] = match header.location {
            PayloadLocation::Inline => &payload,
            PayloadLocation::Parts | PayloadLocation::Upload => &[],
        };
        let mut success = vec![
            kv::put(keys.batch(first), header.encode(inline)),
            kv::put(keys.head(), head.encode()),
        ];
        match header.location {
            PayloadLocation::Inline => {}
            PayloadLocation::Parts => {
                let parts = slices(&payload, VALUE_BYTES_MAX).enumerate();
                success.extend(parts.map(|(n, part)| kv::put(keys.part(first, n), part)));
            }
            PayloadLocation::Upload => self.upload(&header, &payload)?,
        }
        let transaction = TxnRequest {
            compare: if Fence::Append.is_left_out() {
                Vec::new()
            } else {
                self.known.is_unchanged(keys)
            },
            success,
            failure: vec![kv::read(kv::get(keys.head()))],
        };
        Ok(Box::new(Pending {
            transaction,
            header,
            head,
            before: self.known.clone(),
        }))
    }

    /// Writes the parts of a batch, which nobody reads before the batch is there.
    fn upload(&self, header: &BatchHeader, payload: &Bytes) -> Result<(), JournalError> {
        for (number, part) in slices(payload, UPLOAD_BYTES).enumerate() {
            let key = (self.store.keys).uploaded_part(header.first, header.id, number);
            let uploaded = (self.store).repeat("append", kv::all(vec![kv::put(key, part)]));
            if let Err(error) = uploaded {
                self.remove_upload(header);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Removes the uploaded parts of a batch, if it has any.
    fn remove_upload(&self, header: &BatchHeader) {
        if header.location == PayloadLocation::Upload {
            let range = self.store.keys.upload(header.first, header.id);
            self.store.delete_if_possible(range);
        }
    }

    /// Sends an append. If it fails without an answer before its time-out, its outcome is found out at once: perhaps
    /// only the connection to the member was lost, or the cluster has lost its leader.
    fn send(&mut self, pending: Box<Pending>) -> Result<(), AppendError> {
        let started = Instant::now();
        let request = pending.transaction.clone();
        let mut failure = match self.store.client.txn(request, Repeat::UntilSent) {
            Ok(response) => return self.finish(&pending, response),
            Err(failure) if failure.cause == Cause::Unknown => failure,
            Err(failure) => {
                self.remove_upload(&pending.header);
                return Err(self.store.error("append", failure).into());
            }
        };
        self.pending = Some(pending);
        while started.elapsed() < self.store.client.request_timeout() {
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

    /// The error for an append that is not in the log, because another writer appended first or the store was sealed.
    fn not_kept(&self) -> AppendError {
        match self.store.sealed(&self.known.head) {
            Some(sealed) => sealed.into(),
            None => self.conflict(),
        }
    }

    /// Ends an append whose transaction was sent once and answered. The response then proves whether the append is in
    /// the log.
    fn finish(&mut self, pending: &Pending, response: TxnResponse) -> Result<(), AppendError> {
        if response.succeeded {
            self.keep(pending, kv::revision(&response));
            return Ok(());
        }
        self.remove_upload(&pending.header);
        let head = kv::one(kv::ranges(response).next());
        let now = self.store.known_head(head)?;
        self.update_known_head(now)?;
        Err(self.not_kept())
    }

    /// Tells the caller of an append its outcome, once.
    pub(super) fn tell_outcome(&mut self) -> Result<Resolution, JournalError> {
        let outcome = self.resolve_pending();
        if matches!(outcome, Err(JournalError::Trimmed { .. }))
            && let Some(pending) = self.pending.take()
        {
            // Nothing in the log will ever show the outcome.
            self.remove_upload(&pending.header);
        }
        outcome
    }

    /// Finds out the outcome of the append that is pending. `NotKept` if none is.
    fn resolve_pending(&mut self) -> Result<Resolution, JournalError> {
        let Some(pending) = self.pending.take() else {
            return Ok(Resolution::NotKept);
        };
        match self.determine_outcome(&pending) {
            Ok(AppendOutcome::Kept) => Ok(Resolution::Kept),
            Ok(AppendOutcome::NotKept) => {
                self.remove_upload(&pending.header);
                Ok(Resolution::NotKept)
            }
            Ok(AppendOutcome::Open) => {
                self.pending = Some(pending);
                Err(self.store.error("append", still_open()))
            }
            Err(error) => {
                self.pending = Some(pending);
                Err(error)
            }
        }
    }

    /// Reads the head, and sends the transaction again if the head is unchanged. Even a definite failure of the
    /// repeated transaction proves nothing: the first one may still be under way.
    fn determine_outcome(&mut self, pending: &Pending) -> Result<AppendOutcome, JournalError> {
        // Only one attempt is made, so that the caller, who repeats this, can refuse other commands between the
        // attempts.
        let read = kv::all(vec![kv::read(kv::get(self.store.keys.head()))]);
        let response = (self.store.client.txn(read, Repeat::UntilSent)).map_err(|failure| {
            self.store
                .error("find out the outcome of an append", failure)
        })?;
        let now = (self.store).known_head(kv::one(kv::ranges(response).next()))?;
        let outcome = self.outcome_from_head(pending, now)?;
        let AppendOutcome::Open = outcome else {
            return Ok(outcome);
        };
        let request = pending.transaction.clone();
        match self.store.client.txn(request, Repeat::UntilSent) {
            Ok(response) => self.outcome_from_response(pending, response),
            Err(failure) => Err(self.store.error("append", failure)),
        }
    }

    fn outcome_from_response(
        &mut self,
        pending: &Pending,
        response: TxnResponse,
    ) -> Result<AppendOutcome, JournalError> {
        if response.succeeded {
            self.keep(pending, kv::revision(&response));
            return Ok(AppendOutcome::Kept);
        }
        let head = kv::one(kv::ranges(response).next());
        let now = self.store.known_head(head)?;
        self.outcome_from_head(pending, now)
    }

    /// Records the head that an append wrote at a revision as the known one.
    fn keep(&mut self, pending: &Pending, revision: i64) {
        self.known = KnownHead {
            value: pending.head.encode(),
            head: pending.head.clone(),
            revision,
        };
        self.verified = pending.header.end;
        self.appended = Some(pending.header.link());
    }

    /// Tells the outcome of an append from the head.
    fn outcome_from_head(
        &mut self,
        pending: &Pending,
        now: KnownHead,
    ) -> Result<AppendOutcome, JournalError> {
        if now.revision == pending.before.revision && now.value == pending.before.value {
            return Ok(AppendOutcome::Open);
        }
        let BatchHeader { first, id, end, .. } = pending.header;
        // If the head names another batch, later batches may have been appended after this one.
        let is_kept = now.head.batch_id == id
            || (now.head.end.last >= end.last && self.is_batch_of(first, id)?);
        if is_kept {
            self.update_known_head(now)?;
            self.verified = end;
            return Ok(AppendOutcome::Kept);
        }
        self.update_known_head(now)?;
        Ok(AppendOutcome::NotKept)
    }

    /// Whether the batch at `first` has this id.
    pub(super) fn is_batch_of(&self, first: u64, id: u128) -> Result<bool, JournalError> {
        let keys = &self.store.keys;
        let reads = [kv::get(keys.batch(first)), kv::get(keys.trim())];
        let mut ranges = (self.store).read("find out the outcome of an append", reads)?;
        let found = kv::one(ranges.next());
        let trimmed = self.store.trimmed(kv::one(ranges.next()).as_ref())?;
        match found {
            Some(found) => {
                let header = BatchHeader::decode(&found.value);
                let (header, _) = header.map_err(|error| self.store.row_error(error, "a batch"))?;
                Ok(header.id == id)
            }
            None if first <= trimmed.last => Err(JournalError::Trimmed {
                asked: first,
                first_held: trimmed.last + 1,
            }),
            None => Ok(false),
        }
    }
}

/// The failure of an append whose outcome is still unknown after an attempt to find it out.
fn still_open() -> Failure {
    Failure {
        cause: Cause::Unknown,
        reason: "the head did not change, but the append was refused".into(),
        is_connection_doubtful: false,
    }
}

/// The parts of a payload of `bytes` each, the last one shorter.
fn slices(payload: &Bytes, bytes: usize) -> impl Iterator<Item = Bytes> {
    (0..payload.len())
        .step_by(bytes)
        .map(move |start| payload.slice(start..payload.len().min(start + bytes)))
}
