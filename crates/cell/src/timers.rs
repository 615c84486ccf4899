//! The periodic work of a cell.

use std::sync::Arc;
use std::time::{Duration, Instant};

use placewright_conductor::cell_conductor::{EffectPosition, Event};
use placewright_placement::Timestamp;
use tokio::time::MissedTickBehavior;

use crate::counters::add_to;
use crate::outbox::carry_out;
use crate::retry_schedule::{RetrySchedule, micros};
use crate::shared::{LeaderState, now};

/// The number of ticks, one a second, between two removals of old tombstones.
const FORGET_TICKS: u64 = 3600;
/// How often a part of the state is searched for unanswered requests.
const SCAN_INTERVAL: Duration = Duration::from_millis(250);
/// The number of rows of the state that are searched each time.
const ROWS_AT_ONCE: usize = 2000;
/// The interval at which a full report is requested from an agent again, while updates are missing.
const FULL_REPORT_RETRY: Duration = Duration::from_secs(5);

/// Every second: advances the state machine's time, marks silent hosts down, and sends heartbeats
/// to followers.
pub(crate) async fn tick(shared: Arc<LeaderState>) {
    let mut interval = tokio::time::interval(Duration::from_secs(1));
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last_tick = Instant::now();
    let mut silence_counts_from = last_tick;
    let mut ticks = 0u64;
    loop {
        tokio::select! {
            _ = interval.tick() => {}
            () = shared.stopped() => return,
        }
        // A process that was suspended received no messages, so silence during that time is no reason
        // to mark hosts down.
        let since_last = last_tick.elapsed();
        last_tick = Instant::now();
        let was_suspended = since_last > shared.options.host_timeout / 4 + Duration::from_secs(1);
        if was_suspended {
            silence_counts_from = last_tick;
        }
        shared.submit_and_forget(Event::Tick);
        mark_silent_hosts_down(&shared, silence_counts_from);
        {
            let mut read_model = shared.read_model.lock();
            read_model.request_full_reports(FULL_REPORT_RETRY);
            read_model.queue_heartbeat();
        }
        if ticks.is_multiple_of(FORGET_TICKS) {
            let before = now()
                .0
                .saturating_sub(micros(shared.options.remember_deleted));
            let before = Timestamp(before.max(0));
            shared.submit_and_forget(Event::Forget { before });
        }
        ticks += 1;
    }
}

/// Marks hosts down that were silent for too long. Silence before `counts_from` is ignored.
fn mark_silent_hosts_down(shared: &LeaderState, counts_from: Instant) {
    let mut silent = Vec::new();
    {
        let read_model = shared.read_model.lock();
        for (id, host) in read_model.hosts() {
            let last_contact = host.last_contact_instant.max(counts_from);
            if host.is_up() && last_contact.elapsed() > shared.options.host_timeout {
                silent.push((id, host.name.clone()));
            }
        }
    }
    for (host, name) in silent {
        tracing::warn!(%host, name, "the host was silent for too long: it is down");
        shared.submit_and_forget(Event::HostDown { host });
    }
}

/// Repeats the effects of the state that no answer has ended, for a part of the state at a time.
pub(crate) async fn resend_unanswered(shared: Arc<LeaderState>) {
    let schedule = RetrySchedule::new(shared.options.resend_after, shared.options.resend_max);
    let mut interval = tokio::time::interval(SCAN_INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut position = EffectPosition::Start;
    // A round is one scan of the whole state. The first one repeats everything, because messages that
    // were under way when the cell ended may be lost.
    let mut last_round_at: Option<Timestamp> = None;
    let mut round_at = now();
    loop {
        tokio::select! {
            _ = interval.tick() => {}
            () = shared.stopped() => return,
        }
        let is_due = |since: Timestamp| {
            last_round_at.is_none_or(|last| schedule.is_due(since, last, round_at))
        };
        let (effects, next) = shared
            .engine
            .read(|machine| machine.state.effects_from(position, ROWS_AT_ONCE, is_due))
            .await;
        if last_round_at.is_some() {
            add_to(&shared.counts.effects_repeated, effects.len());
        }
        carry_out(&shared, effects);
        position = next.unwrap_or_default();
        if next.is_none() {
            last_round_at = Some(round_at);
            round_at = now();
        }
    }
}
