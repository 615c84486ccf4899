//! The signal handlers of the roles, and the stop of a process of which a part failed.

use placewright_tasks::Task;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// How often a process was told to stop: by SIGTERM, by SIGINT, or because a part of it failed. Clones share the
/// number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stops(watch::Sender<u32>);

impl Stops {
    pub(crate) fn is_stopping(&self) -> bool {
        *self.0.borrow() > 0
    }

    fn add(&self) {
        self.0.send_modify(|stops| *stops += 1);
    }

    /// Returns the result of a part of the process. If the part failed, the process stops as after the first signal:
    /// the other parts would go on without it, and nobody would notice.
    pub(crate) fn stop_if_failed<T>(&self, result: anyhow::Result<T>) -> anyhow::Result<T> {
        if let Err(error) = &result {
            let stopped = self.0.send_if_modified(|stops| {
                let is_first = *stops == 0;
                *stops += u32::from(is_first);
                is_first
            });
            if stopped {
                tracing::error!("{error:#}: the process stops");
            }
        }
        result
    }
}

/// Handles SIGTERM and SIGINT: from now on they do not end the process by themselves, but are counted.
///
/// # Errors
/// The operating system does not install the handler.
pub(crate) fn count_stops() -> std::io::Result<Stops> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let counted = Stops::default();
    let stops = counted.clone();
    placewright_tasks::spawn(Task::Signals, async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => stops.add(),
                _ = interrupt.recv() => stops.add(),
            }
        }
    });
    Ok(counted)
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

/// Waits until the process was told to stop this number of times.
pub(crate) async fn wait_for_stops(stops: &Stops, number: u32) {
    let mut count = stops.0.subscribe();
    // There is no error, because `stops` is itself a sender of the channel.
    let _ = count.wait_for(|count| *count >= number).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[test]
    fn a_failure_stops_the_process_once_and_is_returned() {
        let stops = Stops::default();
        assert!(stops.stop_if_failed(Ok(1)).is_ok());
        assert_eq!(wait_for_stops(&stops, 1).now_or_never(), None);
        for _ in 0..2 {
            let failed = stops.stop_if_failed::<()>(Err(anyhow::anyhow!("no socket")));
            assert!(failed.is_err_and(|error| error.to_string() == "no socket"));
            assert!(stops.is_stopping());
            assert_eq!(wait_for_stops(&stops, 1).now_or_never(), Some(()));
            // A second stop would end the process at once, and cut requests under way.
            assert_eq!(wait_for_stops(&stops, 2).now_or_never(), None);
        }
    }
}
