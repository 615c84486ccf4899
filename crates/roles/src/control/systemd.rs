//! Notifications to systemd. Without systemd (no `$NOTIFY_SOCKET`) all of this does nothing.

use placewright_tasks::Task;
use sd_notify::NotifyState;

/// Sends a message; a failure is ignored.
fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "systemd could not be told");
    }
}

/// Reports that the service has started.
pub(crate) fn ready() {
    notify(&[NotifyState::Ready]);
}

/// Reports that the service is stopping.
pub(crate) fn stopping() {
    notify(&[NotifyState::Stopping]);
}

/// Reports the progress of the start, for `systemctl status`, and extends the time-out of the start.
pub(crate) fn loading(status: &str) {
    /// How long the start may still take after this report, in microseconds: a minute, as reports come more often.
    const MORE_TIME_US: u32 = 60_000_000;
    notify(&[
        NotifyState::Status(status),
        NotifyState::ExtendTimeoutUsec(MORE_TIME_US),
    ]);
}

/// Starts a task that notifies systemd's watchdog, for as long as the runtime makes progress and no
/// long-lived task has failed.
pub(crate) fn feed_watchdog() {
    let Some(limit) = sd_notify::watchdog_enabled() else {
        return;
    };
    placewright_tasks::spawn(Task::Watchdog, async move {
        let mut ticks = tokio::time::interval(limit / 2);
        while !placewright_tasks::has_failed_task() {
            ticks.tick().await;
            notify(&[NotifyState::Watchdog]);
        }
    });
}
