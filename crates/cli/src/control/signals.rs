//! The signals that a service listens to.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Takes SIGTERM, SIGINT and SIGHUP over: from now on none of them ends the process by itself. The
/// answer is how many signals to stop have come.
///
/// # Errors
/// The system refuses.
pub(crate) fn count_stops() -> std::io::Result<watch::Receiver<u32>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let (stops, counted) = watch::channel(0);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => stops.send_modify(|stops| *stops += 1),
                _ = interrupt.recv() => stops.send_modify(|stops| *stops += 1),
                _ = hang_up.recv() => tracing::info!(
                    "SIGHUP: nothing to do. A changed htpasswd file is read by itself, everything \
                     else needs a restart"
                ),
            }
        }
    });
    Ok(counted)
}

/// Waits until so many signals to stop have come.
pub(crate) async fn nth(stops: &watch::Receiver<u32>, number: u32) {
    let mut stops = stops.clone();
    if stops.wait_for(|stops| *stops >= number).await.is_err() {
        // The task that counts ends with the runtime only.
        std::future::pending::<()>().await;
    }
}
