//! The signal handlers of the roles.

use placewright_tasks::Task;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// Handles SIGTERM and SIGINT: from now on they do not end the process by themselves. The returned receiver
/// has the number of such signals so far.
///
/// # Errors
/// The operating system does not install the handler.
pub(crate) fn count_stops() -> std::io::Result<watch::Receiver<u32>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (stops, stop_count) = watch::channel(0);
    placewright_tasks::spawn(Task::Signals, async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => stops.send_modify(|stops| *stops += 1),
                _ = interrupt.recv() => stops.send_modify(|stops| *stops += 1),
            }
        }
    });
    Ok(stop_count)
}

/// Handles SIGHUP: from now on it does not end the process. The returned stream yields once for all signals that have
/// come since its last item.
///
/// # Errors
/// The operating system does not install the handler.
pub(crate) fn hang_ups() -> std::io::Result<Signal> {
    signal(SignalKind::hangup())
}

/// Ignores SIGHUP, for a role that has no files to read again.
///
/// # Errors
/// The operating system does not install the handler.
pub(crate) fn ignore_hang_ups() -> std::io::Result<()> {
    let mut hang_ups = hang_ups()?;
    placewright_tasks::spawn(Task::HangUps, async move {
        while hang_ups.recv().await.is_some() {
            tracing::info!("SIGHUP: nothing to do. What changed in a file needs a restart");
        }
    });
    Ok(())
}

/// Waits until this number of signals to stop has come.
pub(crate) async fn wait_for_stops(stops: &watch::Receiver<u32>, number: u32) {
    let mut stops = stops.clone();
    if stops.wait_for(|stops| *stops >= number).await.is_err() {
        // The task that counts the signals ends only with the runtime.
        std::future::pending::<()>().await;
    }
}
