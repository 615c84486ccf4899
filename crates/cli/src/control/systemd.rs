//! What systemd is told. Without systemd (no `$NOTIFY_SOCKET`) all of this does nothing.

use placewright_tasks::Task;
use sd_notify::NotifyState;

/// Sends a message; that nobody hears it is no reason to stop.
fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "systemd could not be told");
    }
}

/// The service answers.
pub(crate) fn ready() {
    tell(&[NotifyState::Ready]);
}

/// The service is on its way out.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// What the service is doing, for `systemctl status`, and that starting may take a while longer.
pub(crate) fn loading(status: &str) {
    const MORE_TIME_US: u32 = 60_000_000;
    tell(&[
        NotifyState::Status(status),
        NotifyState::ExtendTimeoutUsec(MORE_TIME_US),
    ]);
}

/// Feeds the watchdog for as long as the runtime makes progress and no task is lost.
pub(crate) fn feed_watchdog() {
    let Some(limit) = sd_notify::watchdog_enabled() else {
        return;
    };
    placewright_tasks::spawn(Task::Watchdog, async move {
        let mut ticks = tokio::time::interval(limit / 2);
        while !placewright_tasks::has_fault() {
            ticks.tick().await;
            tell(&[NotifyState::Watchdog]);
        }
    });
}
