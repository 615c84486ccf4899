//! The stream of durable entries: recent ones from memory, older ones from the journal.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::{oneshot, watch};

use crate::history::HistoryRequest;
use crate::shared::{Progress, Shared};
use crate::{Machine, StoreError};

/// The approximate memory overhead of a block of [`RecentEntries`], in bytes.
const BLOCK_BYTES: usize = 128;

/// Consecutive entries that share a buffer.
pub(crate) struct EntryBlock {
    first: u64,
    buffer: Vec<u8>,
    ends: Vec<usize>,
}

impl EntryBlock {
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
        (self.first..self.next()).contains(&sequence)
    }

    /// The sequence after the last entry.
    fn next(&self) -> u64 {
        self.first + self.ends.len() as u64
    }

    fn bytes(&self) -> usize {
        BLOCK_BYTES + self.buffer.len() + self.ends.len() * size_of::<usize>()
    }

    fn record(&self, index: usize) -> &[u8] {
        let start = match index {
            0 => 0,
            _ => self.ends[index - 1],
        };
        &self.buffer[start..self.ends[index]]
    }
}

/// A cache of the newest durable entries, bounded in bytes.
pub(crate) struct RecentEntries {
    blocks: VecDeque<Arc<EntryBlock>>,
    bytes: usize,
    bytes_max: usize,
}

impl RecentEntries {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            blocks: VecDeque::new(),
            bytes: 0,
            bytes_max,
        }
    }

    pub(crate) fn push(&mut self, block: EntryBlock) {
        self.bytes += block.bytes();
        self.blocks.push_back(Arc::new(block));
        while self.bytes > self.bytes_max {
            let Some(oldest) = self.blocks.pop_front() else {
                break;
            };
            self.bytes -= oldest.bytes();
        }
    }

    /// The entries from `next` on, if that one is cached.
    fn get(&self, next: u64) -> Option<Entries> {
        let index = self.blocks.partition_point(|block| block.next() <= next);
        let block = self.blocks.get(index)?;
        (block.first <= next).then(|| Entries::new(Arc::clone(block), next))
    }
}

/// Consecutive durable entries in shared memory; cheap to clone.
#[derive(Clone)]
pub struct Entries {
    block: Arc<EntryBlock>,
    /// The first entry of the block that belongs to this value.
    from: u64,
}

impl Entries {
    pub(crate) fn new(block: Arc<EntryBlock>, from: u64) -> Self {
        Self { block, from }
    }

    /// The sequence number of the last entry.
    pub fn last_sequence(&self) -> u64 {
        self.block.next() - 1
    }

    /// The sequence number of the first entry.
    pub fn first_sequence(&self) -> u64 {
        self.from
    }

    /// The entries in order: each sequence with its record, for [`Machine::decode`].
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.iter_from(self.from)
    }

    /// The entries from `sequence` on.
    pub fn iter_from(&self, sequence: u64) -> impl Iterator<Item = (u64, &[u8])> {
        (sequence.max(self.from)..self.block.next()).map(|sequence| {
            let index = usize::try_from(sequence - self.block.first).unwrap_or(usize::MAX);
            (sequence, self.block.record(index))
        })
    }
}

/// Why entries cannot be followed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum FollowError {
    /// The entries were trimmed. Start from a newer entry, or from a copy of the state.
    #[error("entry {asked} is no longer held: the first held entry is {first_held}")]
    Trimmed {
        /// The entry that was asked for.
        asked: u64,
        /// The first entry still held.
        first_held: u64,
    },
    /// The entry does not exist yet.
    #[error("entry {after} does not exist: the last entry is {end}")]
    Ahead {
        /// The entry after which to follow.
        after: u64,
        /// The last entry that exists.
        end: u64,
    },
    /// The journal cannot be read.
    #[error("the store is unavailable")]
    Store(#[source] Arc<StoreError>),
}

/// Follows the durable entries in order. A slow follower costs the writer nothing: entries that
/// were evicted from memory are read from the journal.
pub struct Follower<M: Machine> {
    shared: Arc<Shared<M>>,
    progress: watch::Receiver<Progress>,
    next: u64,
}

impl<M: Machine> Follower<M> {
    pub(crate) fn new(shared: Arc<Shared<M>>, after: u64) -> Result<Self, FollowError> {
        let progress = shared.progress.subscribe();
        let end = shared.durable();
        if after > end {
            return Err(FollowError::Ahead { after, end });
        }
        let first_held = shared.first_held.load(Ordering::Acquire);
        if after + 1 < first_held {
            return Err(FollowError::Trimmed {
                asked: after + 1,
                first_held,
            });
        }
        Ok(Self {
            shared,
            progress,
            next: after + 1,
        })
    }

    /// Waits for the next entries and returns at least one; `None` after the engine was shut down.
    /// Cancel safe: dropping the future loses nothing.
    pub async fn next_entries(&mut self) -> Option<Result<Entries, FollowError>> {
        loop {
            let progress = *self.progress.borrow_and_update();
            let recent = self.shared.recent.read().get(self.next);
            let found = match recent {
                Some(entries) => Ok(entries),
                None if self.next <= progress.durable => self.ask_history().await?,
                None if progress.closed => return None,
                None => {
                    self.progress.changed().await.ok()?;
                    continue;
                }
            };
            if let Ok(entries) = &found {
                self.next = entries.last_sequence() + 1;
            }
            return Some(found);
        }
    }

    /// Makes [`Follower::next_entries`] continue with this entry, which must be one of those
    /// returned last. For readers with bounded buffers: entries that they keep stay in memory,
    /// entries that they request again do not.
    pub fn go_back_to(&mut self, sequence: u64) {
        self.next = sequence.min(self.next);
    }

    /// Reads from the journal; `None` after the engine was shut down.
    async fn ask_history(&self) -> Option<Result<Entries, FollowError>> {
        let (reply, answer) = oneshot::channel();
        let request = HistoryRequest::Read {
            from: self.next,
            until: self.shared.durable(),
            reply,
        };
        self.shared.history_requests.send(request).ok()?;
        answer.await.ok()
    }
}
