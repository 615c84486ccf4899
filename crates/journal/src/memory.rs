//! A journal in memory, for tests and for stores that need not outlive the process.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Cursor, Read, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::batch::{self, Link};
use crate::{AppendError, Journal, JournalError, SnapshotInfo, SnapshotWriter, Stats, Visit};

/// The maximum number of entries that a read copies during one hold of the lock.
const ENTRIES_PER_CHUNK: usize = 4096;

/// A journal in memory. All handles share one store, which is freed with the last of them.
#[derive(Debug, Default)]
pub struct MemoryJournal {
    store: Arc<Mutex<Store>>,
    /// The last entry of the last batch that this handle has read, appended or accepted, and that batch's checksum.
    verified: (u64, u32),
    /// The batch that this handle appended last.
    appended: Option<Link>,
}

/// The content of a store, which all handles on the store share.
#[derive(Debug, Default)]
struct Store {
    /// The number of entries trimmed from the front.
    trimmed: u64,
    entries: VecDeque<Arc<[u8]>>,
    /// The ends of the batches, in order.
    batch_ends: VecDeque<BatchEnd>,
    /// The content of each snapshot, by its sequence.
    snapshots: BTreeMap<u64, Arc<[u8]>>,
    /// The address of the store that replaces this one, if this one is sealed.
    moved_to: Option<String>,
}

/// The end of a batch.
#[derive(Debug, Clone, Copy)]
struct BatchEnd {
    /// The last entry.
    last: u64,
    checksum: u32,
    /// When the batch was appended, in microseconds since 1970.
    appended_at: i64,
}

impl Store {
    fn end(&self) -> u64 {
        self.trimmed + self.entries.len() as u64
    }

    /// The last entry, and the checksum of its batch.
    fn last_batch(&self) -> (u64, u32) {
        let end = self.end();
        let batch = self.batch_ends.back().filter(|batch| batch.last == end);
        (end, batch.map_or(0, |batch| batch.checksum))
    }

    /// The end of the first batch that ends at `sequence` or later.
    fn batch_end_from(&self, sequence: u64) -> Option<BatchEnd> {
        let index = self
            .batch_ends
            .partition_point(|batch| batch.last < sequence);
        self.batch_ends.get(index).copied()
    }

    /// The error for an append to a sealed store; `None` if the store is not sealed.
    fn sealed(&self) -> Option<JournalError> {
        let moved_to = self.moved_to.clone()?;
        Some(JournalError::Sealed {
            url: "memory".into(),
            end: self.end(),
            moved_to,
        })
    }

    fn snapshots(&self) -> Vec<SnapshotInfo> {
        let info = |(&sequence, bytes): (&u64, &Arc<[u8]>)| SnapshotInfo {
            sequence,
            bytes: bytes.len() as u64,
        };
        self.snapshots.iter().rev().map(info).collect()
    }
}

impl MemoryJournal {
    /// Creates an empty journal with a store of its own.
    pub fn new() -> Self {
        Self::default()
    }

    /// Loses the entries after `sequence`, as a store does whose older copy was restored.
    pub fn drop_after(&self, sequence: u64) {
        let mut store = self.store.lock();
        let kept = sequence.saturating_sub(store.trimmed);
        store
            .entries
            .truncate(usize::try_from(kept).unwrap_or(usize::MAX));
        store.snapshots.retain(|at, _| *at <= sequence);
        store.batch_ends.retain(|batch| batch.last <= sequence);
    }

    fn visit_entries(&self, from: u64, visit: &mut Visit<'_>) -> Result<u64, JournalError> {
        let mut next = from;
        loop {
            let chunk: Vec<Arc<[u8]>> = {
                let store = self.store.lock();
                let first_held = store.trimmed + 1;
                if next < first_held {
                    return Err(JournalError::Trimmed {
                        asked: next,
                        first_held,
                    });
                }
                let end = store.end();
                if next > end + 1 {
                    return Err(JournalError::Missing {
                        path: path(),
                        first: end + 1,
                        last: next - 1,
                    });
                }
                let skip = usize::try_from(next - first_held).unwrap_or(usize::MAX);
                let held = store.entries.iter().skip(skip);
                held.take(ENTRIES_PER_CHUNK).cloned().collect()
            };
            if chunk.is_empty() {
                return Ok(next);
            }
            for record in chunk {
                next += 1;
                if let ControlFlow::Break(()) = visit(next - 1, &record) {
                    return Ok(next);
                }
            }
        }
    }
}

/// The path that errors name.
fn path() -> PathBuf {
    PathBuf::from("memory")
}

impl Journal for MemoryJournal {
    fn append(&mut self, next_sequence: u64, records: &[&[u8]]) -> Result<(), AppendError> {
        self.appended = None;
        let mut store = self.store.lock();
        if let Some(sealed) = store.sealed() {
            return Err(sealed.into());
        }
        let next = store.end() + 1;
        if next != next_sequence {
            return Err(AppendError::Conflict {
                next_sequence: next,
            });
        }
        if records.is_empty() {
            return Ok(());
        }
        let (before, previous) = store.last_batch();
        // The store has another batch in the place of the last one that this handle knows.
        if self.verified.0 == before && self.verified.1 != previous {
            return Err(AppendError::Failed(JournalError::Lost {
                path: path(),
                first: before,
                last: before,
            }));
        }
        let payload = batch::encode(records)?;
        let last = before + records.len() as u64;
        let checksum = batch::checksum(previous, next, last, &payload);
        store.entries.extend(records.iter().map(|r| Arc::from(*r)));
        store.batch_ends.push_back(BatchEnd {
            last,
            checksum,
            appended_at: batch::now(),
        });
        drop(store);
        self.verified = (last, checksum);
        self.appended = Some(Link {
            first: next,
            last,
            previous,
            checksum,
        });
        Ok(())
    }

    fn appended(&self) -> Option<Link> {
        self.appended
    }

    fn accept(&mut self, link: Link, payload: &[u8]) -> bool {
        let (last, checksum) = self.verified;
        let follows = batch::check_next(link, payload, last, checksum).is_some();
        if follows {
            self.verified = (link.last, link.checksum);
        }
        follows
    }

    fn read(&mut self, from: u64, visit: &mut Visit<'_>) -> Result<u64, JournalError> {
        let next = self.visit_entries(from, visit)?;
        let last = next - 1;
        let batch_end = self.store.lock().batch_end_from(last);
        if let Some(batch_end) = batch_end.filter(|batch_end| batch_end.last == last) {
            self.verified = (last, batch_end.checksum);
        }
        Ok(next)
    }

    fn end(&mut self) -> Result<u64, JournalError> {
        Ok(self.store.lock().end())
    }

    fn accept_present_end(&mut self) -> Result<u64, JournalError> {
        self.verified = self.store.lock().last_batch();
        Ok(self.verified.0)
    }

    fn appended_at(&mut self, sequence: u64) -> Result<Option<i64>, JournalError> {
        let store = self.store.lock();
        let is_held = sequence > store.trimmed && sequence <= store.end();
        let batch_end = store.batch_end_from(sequence).filter(|_| is_held);
        Ok(batch_end.map(|batch_end| batch_end.appended_at))
    }

    fn first_held(&mut self) -> Result<u64, JournalError> {
        Ok(self.store.lock().trimmed + 1)
    }

    fn snapshots(&mut self) -> Result<Vec<SnapshotInfo>, JournalError> {
        Ok(self.store.lock().snapshots())
    }

    fn write_snapshot(&mut self, sequence: u64) -> Result<Box<dyn SnapshotWriter>, JournalError> {
        let end = self.store.lock().end();
        if sequence > end {
            return Err(JournalError::Missing {
                path: path(),
                first: end + 1,
                last: sequence,
            });
        }
        Ok(Box::new(MemorySnapshot {
            store: Arc::clone(&self.store),
            sequence,
            bytes: Vec::new(),
        }))
    }

    fn read_snapshot(&mut self, sequence: u64) -> Result<Box<dyn Read + Send>, JournalError> {
        match self.store.lock().snapshots.get(&sequence) {
            Some(bytes) => Ok(Box::new(Cursor::new(Arc::clone(bytes)))),
            None => Err(JournalError::NoSnapshot { sequence }),
        }
    }

    fn drop_snapshots(&mut self, keep: usize) -> Result<(), JournalError> {
        let mut store = self.store.lock();
        while store.snapshots.len() > keep.max(1) {
            store.snapshots.pop_first();
        }
        Ok(())
    }

    fn trim(&mut self, before_sequence: u64) -> Result<(), JournalError> {
        let mut store = self.store.lock();
        let snapshot = store.snapshots.last_key_value().map_or(0, |(&s, _)| s);
        if before_sequence > snapshot + 1 {
            return Err(JournalError::TrimBeyondSnapshot {
                before: before_sequence,
                snapshot,
            });
        }
        while store.trimmed + 1 < before_sequence && store.entries.pop_front().is_some() {
            store.trimmed += 1;
        }
        let trimmed = store.trimmed;
        // The checksum of the last trimmed batch stays, because that of the next batch covers it.
        store.batch_ends.retain(|batch| batch.last >= trimmed);
        Ok(())
    }

    fn begin_after(&mut self, sequence: u64) -> Result<(), JournalError> {
        let mut store = self.store.lock();
        match store.end() {
            0 => store.trimmed = sequence,
            end if end == sequence && store.entries.is_empty() => {}
            end => return Err(JournalError::NotEmpty { path: path(), end }),
        }
        Ok(())
    }

    fn seal(&mut self, moved_to: &str) -> Result<u64, JournalError> {
        let mut store = self.store.lock();
        match &store.moved_to {
            Some(address) if address != moved_to => {
                return store.sealed().map_or(Ok(store.end()), Err);
            }
            _ => store.moved_to = Some(moved_to.to_owned()),
        }
        Ok(store.end())
    }

    fn stats(&mut self) -> Result<Stats, JournalError> {
        let store = self.store.lock();
        let record_bytes = store.entries.iter().map(|r| r.len() as u64).sum();
        let held = store
            .batch_ends
            .iter()
            .filter(|batch| batch.last > store.trimmed);
        Ok(Stats {
            entries: store.entries.len() as u64,
            batches: held.count() as u64,
            record_bytes,
            first_held: store.trimmed + 1,
            end: store.end(),
            snapshots: store.snapshots(),
            file_bytes: record_bytes,
        })
    }

    fn try_clone(&self) -> Result<Box<dyn Journal>, JournalError> {
        Ok(Box::new(Self {
            store: Arc::clone(&self.store),
            verified: self.verified,
            appended: None,
        }))
    }
}

/// A snapshot in memory while it is written.
struct MemorySnapshot {
    store: Arc<Mutex<Store>>,
    sequence: u64,
    bytes: Vec<u8>,
}

impl Write for MemorySnapshot {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SnapshotWriter for MemorySnapshot {
    fn finish(self: Box<Self>) -> Result<SnapshotInfo, JournalError> {
        let info = SnapshotInfo {
            sequence: self.sequence,
            bytes: self.bytes.len() as u64,
        };
        let mut store = self.store.lock();
        store.snapshots.insert(self.sequence, self.bytes.into());
        Ok(info)
    }
}
