//! Whether this process works as the cell. Of several replicas on one journal, the one that leads works as the cell,
//! and the others stand by.
//!
//! The journal says which replica leads, and a former leader cannot append. But a former leader may not know yet that
//! it was replaced. Two more rules keep it from misleading agents and control meanwhile:
//!
//! - It takes no new connection before the journal has confirmed that it leads ([`confirm`]).
//! - If its store does not answer for a while, it ends its connections, because another replica may lead, and agents
//!   and control have to look for that one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use placewright_engine::{Leadership, SubmitError};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::active::ActiveCell;
use crate::shared::{CellParts, LeaderState};

/// The pause before another attempt to start.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// The data of the running cell, for the calls that it serves; `None` while this replica stands by.
pub(crate) type Current = Arc<RwLock<Option<Arc<LeaderState>>>>;

/// Why it is not certain that a replica leads.
pub(crate) enum Unconfirmed {
    /// Another replica leads, or may lead.
    NotLeading,
    /// The store did not show whether this replica leads: reading it failed with this error, or timed out (`None`).
    Store(Option<SubmitError>),
}

/// Finds out whether this replica leads. If it does, it has then applied every change that any replica appended before
/// the call. A cell that has no replicas always leads.
pub(crate) async fn confirm(parts: &CellParts) -> Result<(), Unconfirmed> {
    let engine = &parts.engine;
    let Some(leadership) = engine.replica().leadership() else {
        return Ok(());
    };
    let epoch = |leadership: &Leadership| leadership.is_own.then_some(leadership.epoch);
    let before = epoch(&leadership.borrow());
    if before.is_none() {
        return Err(Unconfirmed::NotLeading);
    }
    // Half, so that a second attempt can succeed before this replica gives up (see `until_unconfirmed`).
    match tokio::time::timeout(parts.options.confirmation_timeout / 2, engine.confirm()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(Unconfirmed::Store(Some(error))),
        Err(_) => return Err(Unconfirmed::Store(None)),
    }
    if epoch(&leadership.borrow()) == before {
        Ok(())
    } else {
        Err(Unconfirmed::NotLeading)
    }
}

/// Works as the cell whenever this replica leads, until the cell is stopped.
pub(crate) async fn run(parts: CellParts, current: Current, mut stop: watch::Receiver<bool>) {
    let Some(mut leadership) = parts.engine.replica().leadership() else {
        return;
    };
    loop {
        let (active, epoch) = tokio::select! {
            started = start(&parts, &mut leadership) => started,
            () = stopped(&mut stop) => return,
        };
        tracing::info!(cell = %parts.options.cell, epoch, "this replica works as the cell from now on");
        *current.write() = Some(Arc::clone(&active.shared));
        tokio::select! {
            why = until_lost(&parts, &mut leadership, epoch) => {
                tracing::warn!(cell = %parts.options.cell, epoch, why, "this replica stands by from now on");
            }
            () = stopped(&mut stop) => {}
        }
        *current.write() = None;
        active.stop().await;
    }
}

/// Works as the cell until it is stopped, in a process that is no replica.
pub(crate) async fn run_alone(
    active: ActiveCell,
    current: Current,
    mut stop: watch::Receiver<bool>,
) {
    stopped(&mut stop).await;
    *current.write() = None;
    active.stop().await;
}

/// Waits until this replica leads, and starts to work as the cell. Also returns the epoch.
async fn start(
    parts: &CellParts,
    leadership: &mut watch::Receiver<Leadership>,
) -> (ActiveCell, u64) {
    loop {
        // The engine holds the sender of this channel and outlives this task, so the channel is open.
        let epoch = leadership.wait_for(|leadership| leadership.is_own).await;
        let epoch = epoch.map_or(0, |leadership| leadership.epoch);
        if confirm(parts).await.is_ok() {
            match ActiveCell::start(parts).await {
                Ok(active) => return (active, epoch),
                Err(error) => tracing::warn!(%error, "the cell cannot start; it tries again"),
            }
        }
        sleep(RETRY_PAUSE).await;
    }
}

/// Waits until this replica does not lead any more, or cannot be sure that it does; returns the reason as text.
async fn until_lost(
    parts: &CellParts,
    leadership: &mut watch::Receiver<Leadership>,
    epoch: u64,
) -> &'static str {
    let is_other = |leadership: &Leadership| !leadership.is_own || leadership.epoch != epoch;
    tokio::select! {
        _ = leadership.wait_for(is_other) => "another one leads",
        () = until_unconfirmed(parts) => "its store does not answer",
    }
}

/// Waits until no confirmation has succeeded for the whole time-out.
async fn until_unconfirmed(parts: &CellParts) {
    let timeout = parts.options.confirmation_timeout;
    let mut confirmed_at = Instant::now();
    loop {
        sleep(timeout / 5).await;
        match confirm(parts).await {
            Ok(()) => confirmed_at = Instant::now(),
            Err(_) if confirmed_at.elapsed() >= timeout => return,
            Err(_) => {}
        }
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the cell was dropped, which stops it too.
    let _ = stop.wait_for(|is_stopped| *is_stopped).await;
}
