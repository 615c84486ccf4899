//! A journal that fails on demand, for tests of code that uses a journal.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::batch::Link;
use crate::{
    AppendError, Journal, JournalError, Resolution, SnapshotInfo, SnapshotWriter, Stats, Visit,
};

/// How an operation of a journal is made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The disk is full; nothing is kept.
    NoSpace,
    /// The store does not take writes; nothing is kept.
    ReadOnly,
    /// The disk fails; nothing is kept.
    Io,
    /// The operation is done, but its caller gets an error, as when a connection breaks before the answer arrives. The
    /// outcome of an append is then unknown.
    LostAnswer,
    /// The operation is not done, but its caller cannot know that, as when a connection breaks before the request
    /// arrives. The outcome of an append is then unknown.
    LostRequest,
}

/// The calls that an injected fault concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Appends of entries with [`Journal::append`].
    Append,
    /// Finding out the outcome of an append with [`Journal::resolve`].
    Resolve,
    /// Reads of entries with [`Journal::read`].
    Read,
    /// Asking for the end with [`Journal::durable_end`].
    DurableEnd,
    /// Writing a snapshot with [`Journal::write_snapshot`].
    WriteSnapshot,
    /// Reading a snapshot with [`Journal::read_snapshot`].
    ReadSnapshot,
    /// Trimming of entries with [`Journal::trim`].
    Trim,
}

/// A fault with which some calls of an operation fail.
#[derive(Debug)]
struct PlannedFault {
    operation: Operation,
    /// The number of calls that succeed first.
    after: u64,
    /// The number of calls that fail after those.
    times: u64,
    fault: Fault,
}

/// The planned faults, and the appends so far.
#[derive(Debug, Default)]
struct State {
    planned: Vec<PlannedFault>,
    /// The number of appends that were tried.
    appends: u64,
    /// The number of appends that are held at present.
    held: u64,
    /// Whether appends are held.
    is_holding: bool,
    /// The number of appends that may proceed while appends are held.
    let_through: u64,
    /// By how much each append is delayed.
    delay: Duration,
}

/// The state, and the condition variable on which its changes are awaited.
#[derive(Debug, Default)]
struct SharedState {
    state: Mutex<State>,
    changed: Condvar,
}

/// Controls one or more [`Faulty`] journals; clones control the same ones.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    shared: Arc<SharedState>,
}

impl Faults {
    /// Starts without planned faults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets `after` more calls of `operation` through, then fails the next `times`.
    pub fn fail(&self, operation: Operation, after: u64, times: u64, fault: Fault) {
        self.shared.state.lock().planned.push(PlannedFault {
            operation,
            after,
            times,
            fault,
        });
    }

    /// Cancels all planned faults.
    pub fn cancel_all(&self) {
        self.shared.state.lock().planned.clear();
    }

    /// Blocks appends before they do anything, until [`Faults::release`].
    pub fn hold(&self) {
        self.shared.state.lock().is_holding = true;
    }

    /// Lets all held appends proceed.
    pub fn release(&self) {
        self.shared.state.lock().is_holding = false;
        self.shared.changed.notify_all();
    }

    /// Lets this many held appends proceed, and holds the appends after them.
    pub fn let_through(&self, appends: u64) {
        self.shared.state.lock().let_through = appends;
        self.shared.changed.notify_all();
    }

    /// Waits until this many appends were tried.
    pub fn wait_for_appends(&self, appends: u64) {
        let mut state = self.shared.state.lock();
        while state.appends < appends {
            self.shared.changed.wait(&mut state);
        }
    }

    /// Waits until an append is held.
    pub fn wait_until_held(&self) {
        let mut state = self.shared.state.lock();
        while state.held == 0 {
            self.shared.changed.wait(&mut state);
        }
    }

    /// Makes each append take this much longer, like a slow disk.
    pub fn delay_appends(&self, delay: Duration) {
        self.shared.state.lock().delay = delay;
    }

    /// The number of appends that were tried.
    pub fn appends(&self) -> u64 {
        self.shared.state.lock().appends
    }

    /// Begins an operation: holds and delays an append as required, and returns the fault with which the
    /// operation has to fail, if any.
    fn begin(&self, operation: Operation) -> Option<Fault> {
        let mut state = self.shared.state.lock();
        let mut delay = Duration::ZERO;
        if operation == Operation::Append {
            state.appends += 1;
            state.held += 1;
            self.shared.changed.notify_all();
            while state.is_holding && state.let_through == 0 {
                self.shared.changed.wait(&mut state);
            }
            state.let_through = state.let_through.saturating_sub(1);
            state.held -= 1;
            delay = state.delay;
        }
        let fault = state.take_due_fault(operation);
        drop(state);
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
        fault
    }
}

impl State {
    /// Counts a call of an operation, and returns the fault with which it has to fail, if any. Of several
    /// faults that are planned for one operation, each begins to count after the one before it is used up.
    fn take_due_fault(&mut self, operation: Operation) -> Option<Fault> {
        let index = (self.planned.iter()).position(|planned| planned.operation == operation)?;
        let planned = &mut self.planned[index];
        if planned.after > 0 {
            planned.after -= 1;
            return None;
        }
        planned.times = planned.times.saturating_sub(1);
        let fault = planned.fault;
        if planned.times == 0 {
            self.planned.remove(index);
        }
        Some(fault)
    }
}

impl Fault {
    fn error(self) -> JournalError {
        let path = "planned failure".into();
        match self {
            Self::NoSpace => JournalError::NoSpace { path },
            Self::ReadOnly => JournalError::ReadOnly {
                path,
                reason: "planned".into(),
            },
            Self::Io | Self::LostAnswer | Self::LostRequest => JournalError::Io {
                path,
                doing: "work",
                source: io::Error::other("planned failure"),
            },
        }
    }
}

/// Wraps a journal and injects the faults planned with [`Faults`].
pub struct Faulty {
    inner: Box<dyn Journal>,
    faults: Faults,
    /// The outcome of the last append, if its caller does not know it; otherwise [`Resolution::NotKept`].
    unresolved: Resolution,
}

impl Faulty {
    /// Wraps `inner`; keep a clone of `faults` to control it.
    pub fn new(inner: impl Journal + 'static, faults: Faults) -> Self {
        Self {
            inner: Box::new(inner),
            faults,
            unresolved: Resolution::NotKept,
        }
    }

    /// Runs one operation, or makes it fail as planned.
    fn attempt<T>(
        &mut self,
        operation: Operation,
        run: impl FnOnce(&mut dyn Journal) -> Result<T, JournalError>,
    ) -> Result<T, JournalError> {
        match self.faults.begin(operation) {
            None => run(self.inner.as_mut()),
            Some(fault) => {
                if fault == Fault::LostAnswer {
                    run(self.inner.as_mut())?;
                }
                Err(fault.error())
            }
        }
    }
}

impl Journal for Faulty {
    fn append(&mut self, next_sequence: u64, records: &[&[u8]]) -> Result<(), AppendError> {
        let Some(fault) = self.faults.begin(Operation::Append) else {
            return self.inner.append(next_sequence, records);
        };
        self.unresolved = match fault {
            Fault::LostAnswer => {
                self.inner.append(next_sequence, records)?;
                Resolution::Kept
            }
            Fault::LostRequest => Resolution::NotKept,
            Fault::NoSpace | Fault::ReadOnly | Fault::Io => return Err(fault.error().into()),
        };
        Err(AppendError::Unknown(fault.error()))
    }

    fn resolve(&mut self) -> Result<Resolution, JournalError> {
        let resolution = self.unresolved;
        let resolution = self.attempt(Operation::Resolve, |_| Ok(resolution))?;
        // As the journals on servers do, this one forgets the append.
        self.unresolved = Resolution::NotKept;
        Ok(resolution)
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

    fn wait_for_entries(&mut self, after: u64, timeout: Duration) -> Result<(), JournalError> {
        self.inner.wait_for_entries(after, timeout)
    }

    fn accept_present_end(&mut self) -> Result<u64, JournalError> {
        self.inner.accept_present_end()
    }

    fn durable_end(&mut self) -> Result<u64, JournalError> {
        self.attempt(Operation::DurableEnd, |inner| inner.durable_end())
    }

    fn read(&mut self, from: u64, visit: &mut Visit<'_>) -> Result<u64, JournalError> {
        self.attempt(Operation::Read, |inner| inner.read(from, visit))
    }

    fn end(&mut self) -> Result<u64, JournalError> {
        self.inner.end()
    }

    fn appended_at(&mut self, sequence: u64) -> Result<Option<i64>, JournalError> {
        self.inner.appended_at(sequence)
    }

    fn first_held(&mut self) -> Result<u64, JournalError> {
        self.inner.first_held()
    }

    fn snapshots(&mut self) -> Result<Vec<SnapshotInfo>, JournalError> {
        self.inner.snapshots()
    }

    fn write_snapshot(&mut self, sequence: u64) -> Result<Box<dyn SnapshotWriter>, JournalError> {
        self.attempt(Operation::WriteSnapshot, |inner| {
            inner.write_snapshot(sequence)
        })
    }

    fn read_snapshot(&mut self, sequence: u64) -> Result<Box<dyn Read + Send>, JournalError> {
        self.attempt(Operation::ReadSnapshot, |inner| {
            inner.read_snapshot(sequence)
        })
    }

    fn drop_snapshots(&mut self, keep: usize) -> Result<(), JournalError> {
        self.inner.drop_snapshots(keep)
    }

    fn trim(&mut self, before_sequence: u64) -> Result<(), JournalError> {
        self.attempt(Operation::Trim, |inner| inner.trim(before_sequence))
    }

    fn stats(&mut self) -> Result<Stats, JournalError> {
        self.inner.stats()
    }

    fn begin_after(&mut self, sequence: u64) -> Result<(), JournalError> {
        self.inner.begin_after(sequence)
    }

    fn seal(&mut self, moved_to: &str) -> Result<u64, JournalError> {
        self.inner.seal(moved_to)
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

    fn try_clone(&self) -> Result<Box<dyn Journal>, JournalError> {
        Ok(Box::new(Self {
            inner: self.inner.try_clone()?,
            faults: self.faults.clone(),
            unresolved: Resolution::NotKept,
        }))
    }
}
