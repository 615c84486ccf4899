//! The thread that reads from the journal for callers: old entries for followers, and the end for linearizable reads.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use placewright_journal::{Journal, JournalError};
use tokio::sync::oneshot;

use crate::entries::{Entries, EntryChunk};
use crate::error::{FollowError, StoreError};

/// The approximate size of an answer in bytes: small, so that no follower waits long while an answer for another
/// one is read.
const ANSWER_BYTES: usize = 1 << 20;

/// A request to the thread that reads from the journal for callers.
pub(crate) enum HistoryRequest {
    /// Reads entries from the entry `from` on.
    Read {
        from: u64,
        /// The last entry that may be returned, which is the last durable one.
        until: u64,
        reply: oneshot::Sender<Result<Entries, FollowError>>,
    },
    /// Asks for the last durable entry of the journal ([`Journal::durable_end`]).
    End(oneshot::Sender<Result<u64, Arc<StoreError>>>),
    /// Asks for another handle on the journal.
    Open(oneshot::Sender<Result<Box<dyn Journal>, JournalError>>),
    /// Ends the thread that reads.
    Stop,
}

/// The number of chunks that are cached. A slow follower may use only the beginning of a chunk and request the rest
/// later (`Follower::go_back_to`), and several followers may request the same entries.
const CACHED_CHUNKS_MAX: usize = 2;

/// Answers requests until it is told to stop. `end_acceptances` is how often the writer has accepted the present end of
/// the journal after a possible loss of entries. When it has grown, this thread has its own handle on the journal
/// accept the present end, too, and forgets the cached entries.
pub(crate) fn run(
    mut journal: Box<dyn Journal>,
    requests: &mpsc::Receiver<HistoryRequest>,
    end_acceptances: &AtomicU64,
) {
    let mut repeated_end_acceptances = 0;
    let mut cached: VecDeque<Arc<EntryChunk>> = VecDeque::with_capacity(CACHED_CHUNKS_MAX);
    // Requests that were taken from the channel together with one for the end, and that are not answered yet.
    let mut postponed: VecDeque<HistoryRequest> = VecDeque::new();
    while let Ok(request) = postponed.pop_front().map_or_else(|| requests.recv(), Ok) {
        placewright_tasks::injection_point(placewright_tasks::Task::EngineHistory);
        let acceptances = end_acceptances.load(Ordering::Acquire);
        if acceptances != repeated_end_acceptances && journal.accept_present_end().is_ok() {
            repeated_end_acceptances = acceptances;
            cached.clear();
        }
        let (from, until, reply) = match request {
            HistoryRequest::Read { from, until, reply } => (from, until, reply),
            HistoryRequest::End(reply) => {
                postponed.extend(requests.try_iter());
                answer_end(journal.as_mut(), reply, &mut postponed);
                continue;
            }
            HistoryRequest::Open(reply) => {
                // Sending fails if nobody waits for it any more.
                let _ = reply.send(journal.try_clone());
                continue;
            }
            HistoryRequest::Stop => return,
        };
        if reply.is_closed() {
            // The follower has been dropped.
            continue;
        }
        let cached_chunk = cached.iter().find(|chunk| chunk.holds(from));
        let answer = match cached_chunk {
            // A cached chunk needs no test of `until`, because it holds durable entries only.
            Some(chunk) => Ok(Arc::clone(chunk)),
            None => read(journal.as_mut(), from, until).map(Arc::new),
        };
        if let Ok(chunk) = &answer
            && cached_chunk.is_none()
        {
            cached.truncate(CACHED_CHUNKS_MAX - 1);
            cached.push_front(Arc::clone(chunk));
        }
        let _ = reply.send(answer.map(|chunk| Entries::new(chunk, from)));
    }
}

/// Reads the end of the journal once, and answers all waiting requests for it: `first_reply`, and those among the
/// `postponed` ones.
fn answer_end(
    journal: &mut dyn Journal,
    first_reply: oneshot::Sender<Result<u64, Arc<StoreError>>>,
    postponed: &mut VecDeque<HistoryRequest>,
) {
    let mut waiting = vec![first_reply];
    for request in std::mem::take(postponed) {
        match request {
            HistoryRequest::End(reply) => waiting.push(reply),
            other => postponed.push_back(other),
        }
    }
    let end = journal
        .durable_end()
        .map_err(|error| Arc::new(StoreError::Journal(error)));
    for reply in waiting {
        // Sending fails if the reader has stopped waiting.
        let _ = reply.send(end.clone());
    }
}

fn read(journal: &mut dyn Journal, from: u64, until: u64) -> Result<EntryChunk, FollowError> {
    let mut chunk = EntryChunk::new(from, Vec::new(), Vec::new());
    let mut bytes = 0;
    let read = journal.read(from, &mut |sequence, record| {
        chunk.push(record);
        bytes += record.len() + size_of::<usize>();
        if sequence >= until || bytes >= ANSWER_BYTES {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    match read {
        // Entries before a damaged one are returned; the next request reports the damage.
        _ if !chunk.is_empty() => Ok(chunk),
        Ok(_) => Err(store_error(JournalError::Missing {
            path: "the journal".into(),
            first: from,
            last: until,
        })),
        Err(JournalError::Trimmed { asked, first_held }) => {
            Err(FollowError::Trimmed { asked, first_held })
        }
        Err(error) => Err(store_error(error)),
    }
}

fn store_error(error: JournalError) -> FollowError {
    FollowError::Store(Arc::new(StoreError::Journal(error)))
}
