//! Wakes the engine of a follower when the journal has new entries, so that the follower need not poll the store.

use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use placewright_journal::batch::Link;
use placewright_journal::{
    AppendError, Journal, JournalError, Resolution, SnapshotInfo, SnapshotWriter, Stats, Visit,
};

/// The interval at which a follower asks the store for new entries while no leader reports them.
const LEADERLESS_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long a follower that has found new entries in the store waits for the leader to send them, before it reads
/// them from the store.
const SEND_TIME_MAX: Duration = Duration::from_millis(10);

/// Wakes the reader of a follower's journal when the leader or the store reports new entries.
#[derive(Debug, Default)]
pub(crate) struct Wake {
    state: Mutex<WakeState>,
    changed: Condvar,
}

/// What is known of the journal's end.
#[derive(Debug, Default)]
struct WakeState {
    /// The newest entry that the leader has reported. If the leader sends entries to this replica, it has sent those up
    /// to this one, except for any that did not fit into its messages.
    end: u64,
    /// The newest entry that the store has reported. The leader may be about to send it.
    store_end: u64,
    /// Whether a leader reports new entries to this replica.
    has_leader: bool,
    /// Whether the engine has to read the journal now, even if there may be no new entries.
    is_wake_requested: bool,
}

impl Wake {
    /// Records that the journal has entries up to this one at least, according to the leader.
    pub(crate) fn note_end_from_leader(&self, end: u64) {
        let mut state = self.state.lock();
        if end > state.end {
            state.end = end;
            self.changed.notify_all();
        }
    }

    /// Records that the journal has entries up to this one at least, according to the store.
    fn note_end_from_store(&self, end: u64) {
        let mut state = self.state.lock();
        if end > state.store_end {
            state.store_end = end;
            if end > state.end {
                self.changed.notify_all();
            }
        }
    }

    /// Records whether a leader reports new entries to this replica from now on.
    pub(crate) fn set_has_leader(&self, has_leader: bool) {
        self.state.lock().has_leader = has_leader;
        self.changed.notify_all();
    }

    /// Makes the engine read the journal now, and do the other work that is due.
    pub(crate) fn wake_now(&self) {
        self.state.lock().is_wake_requested = true;
        self.changed.notify_all();
    }

    /// Waits until there may be entries after `after`, or [`Self::wake_now`] is called; not longer than `timeout`.
    fn wait(&self, after: u64, timeout: Duration) {
        let started = Instant::now();
        let mut store_reported_at = None;
        let mut state = self.state.lock();
        while state.end <= after && !state.is_wake_requested {
            let is_in_store = state.store_end > after;
            let until = match (state.has_leader, is_in_store) {
                // The leader will report new entries.
                (true, false) => started + timeout,
                // The leader is about to send the entries.
                (true, true) => *store_reported_at.get_or_insert_with(Instant::now) + SEND_TIME_MAX,
                // Nobody reports new entries, so the caller has to read the store soon.
                (false, false) => started + timeout.min(LEADERLESS_POLL_INTERVAL),
                // The store has the entries, and nobody sends them.
                (false, true) => break,
            };
            if Instant::now() >= until {
                break;
            }
            self.changed.wait_until(&mut state, until);
        }
        state.is_wake_requested = false;
    }
}

/// A journal whose readers wait until the leader reports new entries, instead of polling the store.
pub(crate) struct WakingJournal {
    pub(crate) inner: Box<dyn Journal>,
    pub(crate) wake: Arc<Wake>,
}

impl Journal for WakingJournal {
    fn wait_for_entries(&mut self, after: u64, timeout: Duration) -> Result<(), JournalError> {
        self.wake.wait(after, timeout);
        Ok(())
    }

    fn durable_end(&mut self) -> Result<u64, JournalError> {
        let end = self.inner.durable_end()?;
        // Whoever asks for the end, for a confirmed read, waits until this entry is applied. So the engine is woken to
        // read the entry, even if no leader has reported it.
        self.wake.note_end_from_store(end);
        Ok(end)
    }

    fn try_clone(&self) -> Result<Box<dyn Journal>, JournalError> {
        Ok(Box::new(Self {
            inner: self.inner.try_clone()?,
            wake: Arc::clone(&self.wake),
        }))
    }

    fn appended_at(&mut self, sequence: u64) -> Result<Option<i64>, JournalError> {
        self.inner.appended_at(sequence)
    }

    fn append(&mut self, next_sequence: u64, records: &[&[u8]]) -> Result<(), AppendError> {
        self.inner.append(next_sequence, records)
    }

    fn begin_after(&mut self, sequence: u64) -> Result<(), JournalError> {
        self.inner.begin_after(sequence)
    }

    fn seal(&mut self, text: &str) -> Result<u64, JournalError> {
        self.inner.seal(text)
    }

    fn resolve(&mut self) -> Result<Resolution, JournalError> {
        self.inner.resolve()
    }

    fn appended(&self) -> Option<Link> {
        self.inner.appended()
    }

    fn accept(&mut self, link: Link, payload: &[u8]) -> bool {
        self.inner.accept(link, payload)
    }

    fn finish_deferred(&mut self) {
        self.inner.finish_deferred();
    }

    fn read(&mut self, from: u64, visit: &mut Visit<'_>) -> Result<u64, JournalError> {
        self.inner.read(from, visit)
    }

    fn end(&mut self) -> Result<u64, JournalError> {
        self.inner.end()
    }

    fn accept_present_end(&mut self) -> Result<u64, JournalError> {
        self.inner.accept_present_end()
    }

    fn first_held(&mut self) -> Result<u64, JournalError> {
        self.inner.first_held()
    }

    fn snapshots(&mut self) -> Result<Vec<SnapshotInfo>, JournalError> {
        self.inner.snapshots()
    }

    fn write_snapshot(&mut self, sequence: u64) -> Result<Box<dyn SnapshotWriter>, JournalError> {
        self.inner.write_snapshot(sequence)
    }

    fn read_snapshot(&mut self, sequence: u64) -> Result<Box<dyn Read + Send>, JournalError> {
        self.inner.read_snapshot(sequence)
    }

    fn drop_snapshots(&mut self, keep: usize) -> Result<(), JournalError> {
        self.inner.drop_snapshots(keep)
    }

    fn trim(&mut self, before_sequence: u64) -> Result<(), JournalError> {
        self.inner.trim(before_sequence)
    }

    fn stats(&mut self) -> Result<Stats, JournalError> {
        self.inner.stats()
    }

    fn check_store(&mut self) -> Result<(), JournalError> {
        self.inner.check_store()
    }

    fn check_acknowledged(&mut self) -> Result<(), JournalError> {
        self.inner.check_acknowledged()
    }

    fn reclaim(&mut self) -> Result<(), JournalError> {
        self.inner.reclaim()
    }

    fn checkpoint(&mut self) -> Result<(), JournalError> {
        self.inner.checkpoint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_wait_ends_with_new_entries_and_when_it_is_woken() {
        let wake = Arc::new(Wake::default());
        wake.set_has_leader(true);
        wake.note_end_from_leader(3);
        wake.wait(2, LONG);
        for wake_up in [|wake: &Wake| wake.note_end_from_leader(4), Wake::wake_now] {
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| wake.wait(3, LONG));
                wake_up(&wake);
                waiting.join().unwrap();
            });
        }
    }

    #[test]
    fn entries_in_the_store_end_the_wait_at_once_without_a_leader_and_soon_with_one() {
        let wake = Wake::default();
        wake.note_end_from_store(4);
        wake.wait(3, LONG);
        wake.set_has_leader(true);
        let started = Instant::now();
        wake.wait(3, LONG);
        assert!((SEND_TIME_MAX..LONG).contains(&started.elapsed()));
    }

    #[test]
    fn without_a_leader_the_wait_is_short() {
        let wake = Wake::default();
        let started = Instant::now();
        wake.wait(3, LONG);
        assert!(started.elapsed() < LONG);
    }
}
