//! Shared by the tests: a minimal state machine, and engines that run it on a journal in memory with
//! injected failures.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use placewright_engine::{
    Commit, Engine, Machine, Observer, Options, SnapshotError, SnapshotReport, StoreError,
    SubmitError, recover,
};
use placewright_journal::{Faults, Faulty, Journal, MemoryJournal};

pub(crate) use placewright_testing::counters::{self, Command, Counters};

/// The events that an engine reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    Recovered {
        snapshot: u64,
        sequence: u64,
    },
    UnusableSnapshot(u64),
    Committed {
        sequence: u64,
        commands: usize,
        entries: usize,
    },
    AppendFailed(usize),
    AppendUnknown(usize),
    AppendResolved {
        is_kept: bool,
    },
    Conflict {
        commands: usize,
        missed: u64,
    },
    Snapshot(u64),
    SnapshotFailed,
}

/// Records the events of an engine.
#[derive(Debug, Clone, Default)]
pub(crate) struct Events(Arc<Mutex<Vec<Event>>>);

impl Events {
    pub(crate) fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.0.lock())
    }

    fn push(&self, event: Event) {
        self.0.lock().push(event);
    }
}

impl Observer for Events {
    fn recovering(&self, progress: &placewright_engine::RecoveryProgress) {
        self.push(Event::Recovered {
            snapshot: progress.snapshot,
            sequence: progress.sequence,
        });
    }

    fn snapshot_unusable(&self, sequence: u64, _: &dyn std::error::Error) {
        self.push(Event::UnusableSnapshot(sequence));
    }

    fn committed(&self, commit: &Commit) {
        self.push(Event::Committed {
            sequence: commit.sequence,
            commands: commit.commands,
            entries: commit.entries,
        });
    }

    fn append_failed(&self, _: &StoreError, commands: usize) {
        self.push(Event::AppendFailed(commands));
    }

    fn append_unknown(&self, _: &StoreError, commands: usize) {
        self.push(Event::AppendUnknown(commands));
    }

    fn append_resolved(&self, is_kept: bool) {
        self.push(Event::AppendResolved { is_kept });
    }

    fn conflict(&self, commands: usize, missed: u64) {
        self.push(Event::Conflict { commands, missed });
    }

    fn snapshot_written(&self, report: &SnapshotReport) {
        self.push(Event::Snapshot(report.sequence));
    }

    fn snapshot_failed(&self, _: &SnapshotError) {
        self.push(Event::SnapshotFailed);
    }
}

/// An engine that runs a minimal state machine, and its journal, which outlives the engine.
pub(crate) struct Toy {
    pub(crate) engine: Engine<Counters>,
    pub(crate) journal: Box<dyn Journal>,
    pub(crate) faults: Faults,
    pub(crate) events: Events,
}

impl Toy {
    /// Starts an engine on a journal in memory.
    pub(crate) fn new(options: Options) -> Self {
        Self::on(&MemoryJournal::new(), options)
    }

    /// Starts an engine on a further handle of this journal.
    pub(crate) fn on(journal: &dyn Journal, options: Options) -> Self {
        let faults = Faults::new();
        let events = Events::default();
        let faulty = Faulty::new(journal.try_clone().unwrap(), faults.clone());
        Self {
            engine: Engine::open(faulty, options, events.clone()).unwrap(),
            journal: journal.try_clone().unwrap(),
            faults,
            events,
        }
    }

    /// Stops the engine and starts one again on the same journal.
    pub(crate) fn restart(&mut self, options: Options) {
        self.engine.shutdown();
        *self = Self::on(self.journal.as_ref(), options);
    }

    pub(crate) fn add(&self, counter: usize, amount: u64) -> counters::Answer {
        self.engine
            .submit_blocking(Command::Add { counter, amount })
    }

    pub(crate) fn digest(&self) -> u128 {
        self.engine.read_now(Machine::digest)
    }

    /// The digest of the state that a restart would recover.
    pub(crate) fn recovered_digest(&mut self) -> u128 {
        let recovered = recover::<Counters>(self.journal.as_mut(), &()).unwrap();
        recovered.machine.digest()
    }
}

impl Drop for Toy {
    /// If a test fails while appends are held, the engine must not wait for them for ever.
    fn drop(&mut self) {
        self.faults.cancel_all();
        self.faults.release();
    }
}

/// Polls a future once.
pub(crate) fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Runs a future to completion without a runtime, because the engine needs none.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    placewright_testing::replicas::block_on(future)
}

/// Submitting commands without a runtime.
pub(crate) trait SubmitBlocking<M: Machine> {
    /// Blocks until the outcome is known.
    fn submit_blocking(
        &self,
        command: M::Command,
    ) -> Result<Result<M::Outcome, M::Refusal>, SubmitError>;
}

impl<M: Machine> SubmitBlocking<M> for Engine<M> {
    fn submit_blocking(
        &self,
        command: M::Command,
    ) -> Result<Result<M::Outcome, M::Refusal>, SubmitError> {
        block_on(self.submit(command))
    }
}

/// Waits for a condition that becomes true because of what a thread of the engine does.
pub(crate) fn eventually(mut holds: impl FnMut() -> bool) {
    let started = std::time::Instant::now();
    while !holds() {
        assert!(started.elapsed().as_secs() < 20, "the condition never held");
        std::thread::yield_now();
    }
}
