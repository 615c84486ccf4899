//! Durable entries in memory, shared by followers.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::envelope::{self, CommandId, Envelope, inner_record};

/// The approximate memory overhead of a chunk of [`RecentEntries`], in bytes.
const CHUNK_OVERHEAD_BYTES: usize = 128;

/// Consecutive entries that share a buffer.
pub(crate) struct EntryChunk {
    /// The sequence of the first entry.
    first: u64,
    /// The records of the entries, one after the other.
    buffer: Vec<u8>,
    /// The end offset of each record in `buffer`.
    ends: Vec<usize>,
}

impl EntryChunk {
    pub(crate) fn new(first: u64, buffer: Vec<u8>, ends: Vec<usize>) -> Self {
        Self {
            first,
            buffer,
            ends,
        }
    }

    pub(crate) fn push(&mut self, record: &[u8]) {
        self.buffer.extend_from_slice(record);
        self.ends.push(self.buffer.len());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(crate) fn holds(&self, sequence: u64) -> bool {
        (self.first..self.next_sequence()).contains(&sequence)
    }

    /// The sequence after the last entry.
    fn next_sequence(&self) -> u64 {
        self.first + self.ends.len() as u64
    }

    /// The approximate memory that the chunk takes.
    pub(crate) fn bytes(&self) -> usize {
        CHUNK_OVERHEAD_BYTES + self.buffer.len() + self.ends.len() * size_of::<usize>()
    }

    fn record(&self, index: usize) -> &[u8] {
        let start = match index {
            0 => 0,
            _ => self.ends[index - 1],
        };
        &self.buffer[start..self.ends[index]]
    }

    /// The records as they are in the journal, each with its sequence.
    pub(crate) fn records(&self) -> impl Iterator<Item = (u64, &[u8])> {
        (0..self.ends.len()).map(|index| (self.first + index as u64, self.record(index)))
    }

    /// Removes all but the first `count` entries.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.ends.truncate(count);
        self.buffer.truncate(self.ends.last().copied().unwrap_or(0));
    }
}

/// A cache of the newest durable entries, bounded in bytes.
pub(crate) struct RecentEntries {
    chunks: VecDeque<Arc<EntryChunk>>,
    bytes: usize,
    bytes_max: usize,
}

impl RecentEntries {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            chunks: VecDeque::new(),
            bytes: 0,
            bytes_max,
        }
    }

    pub(crate) fn push(&mut self, chunk: EntryChunk) {
        self.bytes += chunk.bytes();
        self.chunks.push_back(Arc::new(chunk));
        while self.bytes > self.bytes_max {
            let Some(oldest) = self.chunks.pop_front() else {
                break;
            };
            self.bytes -= oldest.bytes();
        }
    }

    /// The sequence of the first entry that is cached; `None` if there is none.
    pub(crate) fn first(&self) -> Option<u64> {
        self.chunks.front().map(|chunk| chunk.first)
    }

    /// Removes all entries from the cache.
    pub(crate) fn clear(&mut self) {
        self.chunks.clear();
        self.bytes = 0;
    }

    /// The entries from `sequence` to the end of its chunk, if that chunk is cached.
    pub(crate) fn get(&self, sequence: u64) -> Option<Entries> {
        let index = self
            .chunks
            .partition_point(|chunk| chunk.next_sequence() <= sequence);
        let chunk = self.chunks.get(index)?;
        (chunk.first <= sequence).then(|| Entries::new(Arc::clone(chunk), sequence))
    }
}

/// One durable entry of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The entry's place in the journal.
    pub sequence: u64,
    /// The id of the command whose effect the entry is, if another replica submitted the command. `None` for a command
    /// that was submitted to the replica that led, for the entry with which a replica began to lead, and in a journal
    /// that one process alone writes.
    pub command: Option<CommandId>,
    /// The machine's record, for [`crate::Machine::decode`].
    pub record: &'a [u8],
}

/// Consecutive durable entries in shared memory; cheap to clone.
#[derive(Clone)]
pub struct Entries {
    chunk: Arc<EntryChunk>,
    /// The first entry of the chunk that belongs to this value.
    from: u64,
}

impl Entries {
    pub(crate) fn new(chunk: Arc<EntryChunk>, from: u64) -> Self {
        Self { chunk, from }
    }

    /// The sequence number of the last entry.
    pub fn last_sequence(&self) -> u64 {
        self.chunk.next_sequence() - 1
    }

    /// The sequence number of the first entry.
    pub fn first_sequence(&self) -> u64 {
        self.from
    }

    /// The entries in order: each sequence with its record, for [`crate::Machine::decode`].
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.iter_from(self.from)
    }

    /// The entries in order, each with the command whose effect it is, if that is known.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.raw_from(self.from).map(|(sequence, record)| {
            let (envelope, inner) = envelope::open(record).unwrap_or((Envelope::None, record));
            let command = match envelope {
                Envelope::Command(id) => Some(id),
                Envelope::None | Envelope::Leader(_) => None,
            };
            Entry {
                sequence,
                command,
                record: inner,
            }
        })
    }

    /// The entries from `sequence` on.
    pub fn iter_from(&self, sequence: u64) -> impl Iterator<Item = (u64, &[u8])> {
        let raw = self.raw_from(sequence);
        // An envelope that is not valid does not become durable, so there is always an inner record.
        raw.map(|(sequence, record)| (sequence, inner_record(record).unwrap_or(record)))
    }

    /// One entry as it is in the journal; `None` if it is after these entries. `sequence` must not be before
    /// [`Self::first_sequence`].
    pub(crate) fn raw(&self, sequence: u64) -> Option<&[u8]> {
        self.raw_from(sequence).next().map(|(_, record)| record)
    }

    /// The entries from `sequence` on, as they are in the journal.
    pub(crate) fn raw_from(&self, sequence: u64) -> impl Iterator<Item = (u64, &[u8])> {
        (sequence.max(self.from)..self.chunk.next_sequence()).map(|sequence| {
            let index = usize::try_from(sequence - self.chunk.first).unwrap_or(usize::MAX);
            (sequence, self.chunk.record(index))
        })
    }
}
