//! Recovers a state from the journal: the newest valid snapshot, then the entries after it.

use std::io::{self, BufReader};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use placewright_journal::Journal;

use crate::envelope::{self, Envelope};
use crate::error::{RecoverError, StoreError};
use crate::leadership::Leadership;
use crate::throttle::{Stopped, Throttle, Throttled};
use crate::{LoadError, Machine, Observer, RecoveryProgress};

/// The approximate number of bytes in one read of the journal, during which the journal may have a read
/// transaction open.
const READ_BYTES: usize = 4 << 20;
/// The size of the buffer for reading and writing snapshots.
pub(crate) const BUFFER_BYTES: usize = 256 << 10;
/// The interval between reports of progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

/// A recovered state and its position in the journal.
#[derive(Debug)]
pub struct Recovered<M> {
    /// The state after entry `sequence`.
    pub machine: M,
    /// The last entry that was applied.
    pub sequence: u64,
    /// The sequence of the snapshot that the recovery started from; 0 if it started without one.
    pub snapshot: u64,
    /// The size of the snapshot in bytes; 0 without a snapshot.
    pub snapshot_bytes: u64,
    /// The total size in bytes of the entries applied on top of the snapshot.
    pub replayed_bytes: u64,
    /// The replica that leads, if an entry after the snapshot names it. Snapshots do not record who leads.
    pub leader: Option<Leadership>,
}

/// Builds the state at the journal's end without changing the journal. Blocks.
///
/// A damaged snapshot is skipped if an older one, or the whole journal, is still there.
///
/// # Errors
/// A damaged or missing entry, a newer release's entry or snapshot, or the store cannot be read.
pub fn recover<M: Machine>(
    journal: &mut dyn Journal,
    observer: &dyn Observer,
) -> Result<Recovered<M>, RecoverError> {
    recover_at(journal, u64::MAX, observer)
}

/// Builds the state after the entry `until`, or at the journal's end if the journal ends before, as [`recover`]
/// does.
///
/// # Errors
/// As [`recover`]; also when the journal has no snapshot up to `until`, and no longer its first entries: they were
/// trimmed, or they were lost and an operator accepted the loss.
pub fn recover_at<M: Machine>(
    journal: &mut dyn Journal,
    until: u64,
    observer: &dyn Observer,
) -> Result<Recovered<M>, RecoverError> {
    recover_until(journal, until, observer, &mut Throttle::unlimited())
}

impl<M: Machine> Recovered<M> {
    /// Applies the entries after `sequence`, up to `until` or the journal's end.
    ///
    /// # Errors
    /// As [`recover`].
    pub fn advance(
        &mut self,
        journal: &mut dyn Journal,
        until: u64,
        observer: &dyn Observer,
    ) -> Result<(), RecoverError> {
        let end = journal.end()?.min(until).max(self.sequence);
        replay(journal, self, end, observer, &mut Throttle::unlimited())
    }
}

/// Builds the state after the entry `until`, or at the journal's end if the journal ends before.
pub(crate) fn recover_until<M: Machine>(
    journal: &mut dyn Journal,
    until: u64,
    observer: &dyn Observer,
    throttle: &mut Throttle,
) -> Result<Recovered<M>, RecoverError> {
    let mut recovered = load_newest(journal, until, observer, throttle)?;
    let end = journal.end()?.min(until);
    replay(journal, &mut recovered, end, observer, throttle)?;
    Ok(recovered)
}

/// Loads the newest usable snapshot that is not after `until`; without one, starts with the empty state. It is an error
/// if there are only unusable snapshots and the journal no longer has its first entries.
pub(crate) fn load_newest<M: Machine>(
    journal: &mut dyn Journal,
    until: u64,
    observer: &dyn Observer,
    throttle: &mut Throttle,
) -> Result<Recovered<M>, RecoverError> {
    let mut unusable = None;
    for snapshot in journal.snapshots()? {
        let sequence = snapshot.sequence;
        if sequence > until {
            continue;
        }
        match load(journal, sequence, throttle) {
            Ok(machine) => {
                return Ok(Recovered {
                    machine,
                    sequence,
                    snapshot: sequence,
                    snapshot_bytes: snapshot.bytes,
                    replayed_bytes: 0,
                    leader: None,
                });
            }
            Err(LoadError::Io(error)) if is_stop(&error) => return Err(RecoverError::Stopped),
            // An older snapshot would not help: the entries after this one are of the newer release, too.
            Err(source @ LoadError::Newer { .. }) => {
                return Err(RecoverError::Snapshot { sequence, source });
            }
            Err(source) => {
                observer.snapshot_unusable(sequence, &source);
                unusable.get_or_insert((sequence, source));
            }
        }
    }
    match unusable {
        Some((sequence, source)) if journal.first_held()? > 1 => {
            Err(RecoverError::Snapshot { sequence, source })
        }
        _ => Ok(Recovered {
            machine: M::empty(),
            sequence: 0,
            snapshot: 0,
            snapshot_bytes: 0,
            replayed_bytes: 0,
            leader: None,
        }),
    }
}

/// Whether the error means that the throttle ended the work.
fn is_stop(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Stopped>())
}

/// Loads the state from the snapshot at an entry.
fn load<M: Machine>(
    journal: &mut dyn Journal,
    sequence: u64,
    throttle: &mut Throttle,
) -> Result<M, LoadError> {
    let reader = journal.read_snapshot(sequence).map_err(io::Error::other)?;
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, Throttled::new(reader, throttle));
    let machine = M::load(&mut reader)?;
    // The journal verifies a snapshot's checksums only when it is read to its end.
    if io::copy(&mut reader, &mut io::sink())? > 0 {
        return Err(LoadError::Damaged("it has bytes after its end".into()));
    }
    Ok(machine)
}

/// Applies the entries up to `end`.
pub(crate) fn replay<M: Machine>(
    journal: &mut dyn Journal,
    recovered: &mut Recovered<M>,
    end: u64,
    observer: &dyn Observer,
    throttle: &mut Throttle,
) -> Result<(), RecoverError> {
    let mut reported_at = Instant::now();
    let report_progress = |recovered: &Recovered<M>| {
        observer.recovering(&RecoveryProgress {
            snapshot: recovered.snapshot,
            sequence: recovered.sequence,
            end: end.max(recovered.sequence),
        });
    };
    if recovered.sequence > end {
        // The journal ends before the snapshot, so this read fails with an error that names the missing entries.
        journal.read(recovered.sequence + 1, &mut |_, _| ControlFlow::Break(()))?;
    }
    while recovered.sequence < end {
        replay_chunk(journal, recovered, end)?;
        throttle.pause()?;
        if reported_at.elapsed() >= PROGRESS_EVERY {
            reported_at = Instant::now();
            report_progress(recovered);
        }
    }
    report_progress(recovered);
    Ok(())
}

/// Applies the entries of one read of the journal.
fn replay_chunk<M: Machine>(
    journal: &mut dyn Journal,
    recovered: &mut Recovered<M>,
    end: u64,
) -> Result<(), StoreError> {
    let mut decode_error = None;
    let mut bytes = 0;
    journal.read(recovered.sequence + 1, &mut |sequence, record| {
        let opened = envelope::open(record);
        match opened.and_then(|(envelope, inner)| Ok((envelope, M::decode(inner)?))) {
            Ok((envelope, changes)) => {
                if let Envelope::Leader(note) = envelope {
                    recovered.leader = Some(note.leadership(sequence));
                }
                (changes.iter()).for_each(|change| recovered.machine.replay(change));
            }
            Err(source) => {
                decode_error = Some(StoreError::Record { sequence, source });
                return ControlFlow::Break(());
            }
        }
        recovered.sequence = sequence;
        bytes += record.len();
        if bytes >= READ_BYTES || sequence >= end {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    recovered.replayed_bytes += bytes as u64;
    decode_error.map_or(Ok(()), Err)
}
