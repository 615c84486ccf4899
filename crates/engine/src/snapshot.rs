//! Snapshots in the background.
//!
//! A snapshot is never made of the live state, because saving it would block writers. Instead a thread loads the
//! newest snapshot, applies the entries after it, and saves the result. This costs memory for a second
//! state meanwhile, and a bounded share of a core.

use std::io::{BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use placewright_journal::{Journal, JournalError, SnapshotInfo};

use crate::error::{RecoverError, SnapshotError};
use crate::recover::{self, BUFFER_BYTES};
use crate::shared::Shared;
use crate::snapshot_schedule::SnapshotRequest;
use crate::throttle::{Stopped, Throttle, Throttled};
use crate::{Machine, Options, SnapshotReport};

/// Requests a snapshot if one is due. Called after each append of `bytes`.
pub(crate) fn request_if_due<M: Machine>(shared: &Shared<M>, bytes: u64) {
    let mut schedule = shared.snapshot_schedule.lock();
    schedule.entry_bytes += bytes;
    if schedule.is_due(shared.durable(), &shared.options) {
        schedule.is_requested = true;
        // Sending fails if the snapshot thread has stopped.
        let _ = shared.snapshot_requests.send(SnapshotRequest::Due);
    }
}

/// Makes a snapshot for each request, until it is told to stop.
pub(crate) fn run<M: Machine>(
    shared: &Arc<Shared<M>>,
    mut journal: Box<dyn Journal>,
    requests: &mpsc::Receiver<SnapshotRequest>,
    stop: &Arc<AtomicBool>,
) {
    // How many of the writer's acceptances of the journal's end this thread has repeated for its own handle.
    let mut repeated_end_acceptances = 0;
    while let Ok(request) = requests.recv() {
        placewright_tasks::injection_point(placewright_tasks::Task::EngineSnapshot);
        let reply = match request {
            SnapshotRequest::Due => None,
            SnapshotRequest::Now(reply) => Some(reply),
            SnapshotRequest::Stop => return,
        };
        if stop.load(Ordering::Relaxed) {
            // A caller that requested a snapshot gets an error, because its reply channel is dropped.
            return;
        }
        let end_acceptances = shared.lost.end_acceptances.load(Ordering::Acquire);
        if end_acceptances != repeated_end_acceptances && journal.accept_present_end().is_ok() {
            repeated_end_acceptances = end_acceptances;
        }
        let result = make_snapshot(shared, journal.as_mut(), stop);
        {
            let mut schedule = shared.snapshot_schedule.lock();
            schedule.is_requested = false;
            schedule.retry_at =
                (result.is_err()).then(|| Instant::now() + shared.options.snapshot_retry);
        }
        match &result {
            Ok(report) => shared.observer.snapshot_written(report),
            Err(SnapshotError::Stopped) => {}
            Err(error) => shared.observer.snapshot_failed(error),
        }
        if let Some(reply) = reply {
            let _ = reply.send(result);
        }
    }
}

/// Makes a snapshot of the state after the last durable entry, unless there is one, and trims the journal.
fn make_snapshot<M: Machine>(
    shared: &Shared<M>,
    journal: &mut dyn Journal,
    stop: &Arc<AtomicBool>,
) -> Result<SnapshotReport, SnapshotError> {
    let started = Instant::now();
    let target = shared.durable();
    let covered_bytes = shared.snapshot_schedule.lock().entry_bytes;
    let newest = journal.snapshots()?.first().copied();
    let info = match newest {
        Some(info) if info.sequence == target => info,
        _ => {
            let mut throttle = Throttle::new(Arc::clone(stop), shared.options.snapshot_duty);
            write_snapshot::<M>(journal, target, &mut throttle)?
        }
    };
    {
        let mut schedule = shared.snapshot_schedule.lock();
        schedule.snapshot_sequence = info.sequence;
        schedule.newest_snapshot_bytes = info.bytes;
        // Entries that were appended while the snapshot was made still count.
        schedule.entry_bytes = schedule.entry_bytes.saturating_sub(covered_bytes);
    }
    trim(journal, &shared.options)?;
    let first_held = journal.first_held()?;
    shared.first_held.store(first_held, Ordering::Release);
    Ok(SnapshotReport {
        sequence: info.sequence,
        bytes: info.bytes,
        elapsed: started.elapsed(),
        first_held,
    })
}

/// Builds the state after the entry `target`, and writes it as a snapshot.
fn write_snapshot<M: Machine>(
    journal: &mut dyn Journal,
    target: u64,
    throttle: &mut Throttle,
) -> Result<SnapshotInfo, SnapshotError> {
    let no_observer = &();
    let recovered = recover::recover_until::<M>(journal, target, no_observer, throttle);
    let recovered = recovered.map_err(|error| match error {
        RecoverError::Stopped => SnapshotError::Stopped,
        error @ (RecoverError::Store(_) | RecoverError::Snapshot { .. }) => error.into(),
    })?;
    let mut writer = journal.write_snapshot(recovered.sequence)?;
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, Throttled::new(&mut writer, throttle));
    let saved = recovered.machine.save(&mut out).and_then(|()| out.flush());
    // After a failure dropping the `BufWriter` would try to write its buffer again.
    let _ = out.into_parts();
    saved.map_err(|error| match error.get_ref() {
        Some(inner) if inner.is::<Stopped>() => SnapshotError::Stopped,
        _ => SnapshotError::Save(error),
    })?;
    Ok(writer.finish()?)
}

/// Drops old snapshots, and the entries that neither recovery nor followers need.
fn trim(journal: &mut dyn Journal, options: &Options) -> Result<(), JournalError> {
    let snapshots_kept = options.snapshots_kept.max(1);
    journal.drop_snapshots(snapshots_kept)?;
    let snapshots = journal.snapshots()?;
    // Until there are as many snapshots as configured, all entries are kept, so that the state can be
    // recovered without the snapshots.
    if snapshots.len() < snapshots_kept {
        return Ok(());
    }
    let oldest_snapshot = snapshots.last().map_or(0, |s| s.sequence);
    let first_retained = (journal.end()? + 1).saturating_sub(options.retain_entries);
    let trim_before = first_retained.min(oldest_snapshot + 1);
    if trim_before > journal.first_held()? {
        journal.trim(trim_before)?;
    }
    Ok(())
}
