//! The interface of every journal implementation.

use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::time::Duration;

use crate::batch::Link;
use crate::{AppendError, JournalError};

/// Receives an entry, as sequence and record, and returns whether to continue.
pub type Visit<'a> = dyn FnMut(u64, &[u8]) -> ControlFlow<()> + 'a;

/// A durable, ordered log of opaque records, with snapshots. Every call blocks until it is done.
///
/// One value serves one thread at a time; [`Journal::try_clone`] opens a further handle on the same store.
pub trait Journal: Send {
    /// Appends `records` as the entries `next_sequence`, `next_sequence + 1`, …
    ///
    /// On `Ok` all of them are on stable storage. If there are no records, nothing is appended, but a
    /// `next_sequence` that is not the journal's next sequence is an error, too.
    ///
    /// # Errors
    /// [`AppendError::Conflict`] when `next_sequence` is not the journal's next sequence; [`AppendError::Failed`]
    /// when the store failed, after which a later append may succeed. In both cases no record is kept. After
    /// [`AppendError::Unknown`] the records may be kept, now or later: [`Journal::resolve`] has to be called until it
    /// returns the outcome, before the next append.
    fn append(&mut self, next_sequence: u64, records: &[&[u8]]) -> Result<(), AppendError>;

    /// Finds out the outcome of the last append, which ended with [`AppendError::Unknown`]. An implementation may
    /// append its records again, if they are not kept yet and nobody else has appended anything. The outcome is told
    /// once: after an `Ok` no append is in doubt any more, and a further call may return [`Resolution::NotKept`].
    ///
    /// # Errors
    /// When the outcome cannot be found out, for example because the store does not answer. The outcome is still
    /// unknown then; call again later. After [`JournalError::Trimmed`] it can never be found out, because the log does
    /// not have the entries any more, and no append is in doubt any more.
    fn resolve(&mut self) -> Result<Resolution, JournalError> {
        // The outcome of each append is known in an implementation that does not define this function.
        Ok(Resolution::NotKept)
    }

    /// The place in the chain of the batch that this handle has just appended, by which another process's handle
    /// accepts the batch ([`Journal::accept`]). `None` if the last append was not made, or the implementation does not
    /// hand batches over. It may be `None`, too, if the outcome of the last append was unknown at first.
    fn appended(&self) -> Option<Link> {
        None
    }

    /// Takes a batch that another process has appended to this store, as if this handle had read it: its records in the
    /// form of [`crate::batch::encode`]. The caller has to know that the append was acknowledged.
    ///
    /// Returns false, and changes nothing, if the batch does not continue the chain right behind the last batch that
    /// this handle has read, appended or accepted, or if it is damaged. Then its entries have to be read from the
    /// store.
    fn accept(&mut self, link: Link, payload: &[u8]) -> bool {
        let _ = (link, payload);
        false
    }

    /// Does the work that the last append put off until after its acknowledgement, such as an fsync of a file beside
    /// the log. If this is not called, the next append does that work first, and takes longer.
    fn finish_deferred(&mut self) {}

    /// Waits until there may be entries after `after`, or the time is over. An implementation whose store notifies it
    /// of new entries returns as soon as there are some.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn wait_for_entries(&mut self, after: u64, timeout: Duration) -> Result<(), JournalError> {
        if self.end()? <= after {
            std::thread::sleep(timeout);
        }
        Ok(())
    }

    /// The sequence of the last entry that will not be lost: every append that was acknowledged before the call is at
    /// or before it. If entries can be read that may still be lost, this waits until they are durable.
    ///
    /// # Errors
    /// When the end cannot be read, for example because the store does not answer.
    fn durable_end(&mut self) -> Result<u64, JournalError> {
        self.end()
    }

    /// Visits the entries from `from` on, in order, until the end or until the visitor breaks. Returns the sequence to
    /// continue with. An implementation may leave the last entries for the next call, as long as it visits at least
    /// one.
    ///
    /// A long-running visitor should break now and then: during the call an implementation may have a
    /// read transaction open, which prevents it from freeing the space of old data.
    ///
    /// # Errors
    /// [`JournalError::Trimmed`] when `from` is no longer held; [`JournalError::Damaged`] and
    /// [`JournalError::Missing`] with the numbers of the entries; or the store failed. If `from` is greater
    /// than `end() + 1`, the entries in between are reported as missing.
    fn read(&mut self, from: u64, visit: &mut Visit<'_>) -> Result<u64, JournalError>;

    /// The sequence of the last entry, even if it was trimmed; 0 if nothing was ever appended.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn end(&mut self) -> Result<u64, JournalError>;

    /// As [`Journal::end`], but for use after entries were lost: accepts the present end, even if it is before what
    /// this handle has seen, or follows other entries. The outcome of an append that is still unknown can then no
    /// longer be found out.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn accept_present_end(&mut self) -> Result<u64, JournalError> {
        // An implementation that does not define this function remembers nothing of the end.
        self.end()
    }

    /// The sequence of the first entry that was not trimmed; `end() + 1` if no entry is held.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn first_held(&mut self) -> Result<u64, JournalError>;

    /// The snapshots, the newest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn snapshots(&mut self) -> Result<Vec<SnapshotInfo>, JournalError>;

    /// Starts the snapshot of the state after entry `sequence`. The snapshot becomes visible with
    /// [`SnapshotWriter::finish`]; a writer that is dropped before leaves nothing.
    ///
    /// # Errors
    /// [`JournalError::Missing`] when the journal ends before `sequence`, or the store failed.
    fn write_snapshot(&mut self, sequence: u64) -> Result<Box<dyn SnapshotWriter>, JournalError>;

    /// Opens a snapshot. A damaged one fails while it is read, with [`std::io::ErrorKind::InvalidData`]
    /// around a [`JournalError::DamagedSnapshot`], at the latest when its end is reached.
    ///
    /// # Errors
    /// [`JournalError::NoSnapshot`] when there is none at `sequence`, or the store failed.
    fn read_snapshot(&mut self, sequence: u64) -> Result<Box<dyn Read + Send>, JournalError>;

    /// Removes all but the newest `keep` snapshots; the newest one always stays.
    ///
    /// # Errors
    /// When the store failed.
    fn drop_snapshots(&mut self, keep: usize) -> Result<(), JournalError>;

    /// Removes the entries before `before_sequence`. An implementation may leave a few of them, because it
    /// can remove whole batches only.
    ///
    /// # Errors
    /// [`JournalError::TrimBeyondSnapshot`] when an entry would be removed that no snapshot covers, or the
    /// store failed.
    fn trim(&mut self, before_sequence: u64) -> Result<(), JournalError>;

    /// Counts the entries, batches and bytes that are held.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn stats(&mut self) -> Result<Stats, JournalError>;

    /// Lets an empty store begin after entry `sequence`, as if all entries up to it had been trimmed. It is for copies
    /// of journals: without a snapshot the store cannot be used.
    ///
    /// # Errors
    /// [`JournalError::NotEmpty`] when the store has had entries, or the store cannot be written. It is no error if the
    /// store already begins after `sequence` and holds no entry.
    fn begin_after(&mut self, sequence: u64) -> Result<(), JournalError>;

    /// Seals the store, because its installation was moved to the store at `moved_to`: every append fails with
    /// [`JournalError::Sealed`] from now on, even appends of other handles and processes. There is no way back. Returns
    /// the last entry.
    ///
    /// # Errors
    /// [`JournalError::Sealed`] when it is sealed with another address, or the store cannot be written, in which case
    /// it may be sealed nevertheless.
    fn seal(&mut self, moved_to: &str) -> Result<u64, JournalError>;

    /// Checks the implementation's own files beyond entries and snapshots.
    ///
    /// # Errors
    /// [`JournalError::DamagedStore`], or the store cannot be read.
    fn check_store(&mut self) -> Result<(), JournalError> {
        Ok(())
    }

    /// Checks that every acknowledged entry is in the log, as far as the implementation records outside of
    /// the log which entries it acknowledged.
    ///
    /// # Errors
    /// [`JournalError::Lost`] and [`JournalError::NoMark`] name the missing entries or mark. Other errors if the store
    /// cannot be read.
    fn check_acknowledged(&mut self) -> Result<(), JournalError> {
        Ok(())
    }

    /// Returns the space of trimmed entries to the file system. May take long, and blocks appends.
    ///
    /// # Errors
    /// When the store failed.
    fn reclaim(&mut self) -> Result<(), JournalError> {
        Ok(())
    }

    /// Moves the content of a write-ahead log into the main file, so that the next start is shorter. Entries are
    /// durable without it.
    ///
    /// # Errors
    /// When the store failed.
    fn checkpoint(&mut self) -> Result<(), JournalError> {
        Ok(())
    }

    /// When an entry was appended, in microseconds since 1970 by the clock of the process that appended it. `None` if
    /// the entry is not held, or the store does not say.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn appended_at(&mut self, sequence: u64) -> Result<Option<i64>, JournalError>;

    /// Opens another handle on the same store, for another thread.
    ///
    /// # Errors
    /// When the store cannot be opened.
    fn try_clone(&self) -> Result<Box<dyn Journal>, JournalError>;
}

impl<J: Journal + ?Sized> Journal for Box<J> {
    fn append(&mut self, next_sequence: u64, records: &[&[u8]]) -> Result<(), AppendError> {
        (**self).append(next_sequence, records)
    }

    fn resolve(&mut self) -> Result<Resolution, JournalError> {
        (**self).resolve()
    }

    fn appended(&self) -> Option<Link> {
        (**self).appended()
    }

    fn accept(&mut self, link: Link, payload: &[u8]) -> bool {
        (**self).accept(link, payload)
    }

    fn finish_deferred(&mut self) {
        (**self).finish_deferred();
    }

    fn wait_for_entries(&mut self, after: u64, timeout: Duration) -> Result<(), JournalError> {
        (**self).wait_for_entries(after, timeout)
    }

    fn durable_end(&mut self) -> Result<u64, JournalError> {
        (**self).durable_end()
    }

    fn read(&mut self, from: u64, visit: &mut Visit<'_>) -> Result<u64, JournalError> {
        (**self).read(from, visit)
    }

    fn end(&mut self) -> Result<u64, JournalError> {
        (**self).end()
    }

    fn accept_present_end(&mut self) -> Result<u64, JournalError> {
        (**self).accept_present_end()
    }

    fn first_held(&mut self) -> Result<u64, JournalError> {
        (**self).first_held()
    }

    fn snapshots(&mut self) -> Result<Vec<SnapshotInfo>, JournalError> {
        (**self).snapshots()
    }

    fn write_snapshot(&mut self, sequence: u64) -> Result<Box<dyn SnapshotWriter>, JournalError> {
        (**self).write_snapshot(sequence)
    }

    fn read_snapshot(&mut self, sequence: u64) -> Result<Box<dyn Read + Send>, JournalError> {
        (**self).read_snapshot(sequence)
    }

    fn drop_snapshots(&mut self, keep: usize) -> Result<(), JournalError> {
        (**self).drop_snapshots(keep)
    }

    fn trim(&mut self, before_sequence: u64) -> Result<(), JournalError> {
        (**self).trim(before_sequence)
    }

    fn stats(&mut self) -> Result<Stats, JournalError> {
        (**self).stats()
    }

    fn begin_after(&mut self, sequence: u64) -> Result<(), JournalError> {
        (**self).begin_after(sequence)
    }

    fn seal(&mut self, moved_to: &str) -> Result<u64, JournalError> {
        (**self).seal(moved_to)
    }

    fn check_store(&mut self) -> Result<(), JournalError> {
        (**self).check_store()
    }

    fn check_acknowledged(&mut self) -> Result<(), JournalError> {
        (**self).check_acknowledged()
    }

    fn reclaim(&mut self) -> Result<(), JournalError> {
        (**self).reclaim()
    }

    fn checkpoint(&mut self) -> Result<(), JournalError> {
        (**self).checkpoint()
    }

    fn appended_at(&mut self, sequence: u64) -> Result<Option<i64>, JournalError> {
        (**self).appended_at(sequence)
    }

    fn try_clone(&self) -> Result<Box<dyn Journal>, JournalError> {
        (**self).try_clone()
    }
}

/// The outcome of an append, after it was unknown at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// All of its records are kept, and no entry of another writer is before them.
    Kept,
    /// None of its records is kept, and none of them ever will be.
    NotKept,
}

/// Receives the bytes of one snapshot.
pub trait SnapshotWriter: Write + Send {
    /// Makes the snapshot durable, then visible.
    ///
    /// # Errors
    /// When the store failed; nothing is kept then.
    fn finish(self: Box<Self>) -> Result<SnapshotInfo, JournalError>;
}

/// One snapshot of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The snapshot holds the state after this entry.
    pub sequence: u64,
    /// The size of the snapshot in the store.
    pub bytes: u64,
}

/// The content of a store in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// The number of entries held.
    pub entries: u64,
    /// The number of batches that are held. A batch has the entries of one append, or a part of them if the append is
    /// large.
    pub batches: u64,
    /// The total size of the held records.
    pub record_bytes: u64,
    /// The first entry held; `end + 1` if no entry is held.
    pub first_held: u64,
    /// The last entry ever appended; 0 if nothing was ever appended.
    pub end: u64,
    /// The snapshots, the newest first.
    pub snapshots: Vec<SnapshotInfo>,
    /// The size of the journal's files without the snapshots.
    pub file_bytes: u64,
}
