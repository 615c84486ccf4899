//! The periodic work of a cell.

use std::sync::Arc;
use std::time::{Duration, Instant};

use placewright_conductor::cell_conductor::{EffectPlace, Event};
use placewright_placement::Timestamp;
use tokio::time::MissedTickBehavior;

use crate::outbox::carry_out;
use crate::retry_schedule::{RetrySchedule, micros};
use crate::shared::{Shared, count, now};

/// Old deletions are forgotten once in so many ticks of a second.
const FORGET_TICKS: u64 = 3600;
/// How often a part of the state is searched for unanswered requests.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The rows of the state that are searched each time.
const ROWS_AT_ONCE: usize = 2000;
/// The interval at which an agent is asked again for a full report.
const STATE_AGAIN: Duration = Duration::from_secs(5);

/// Every second: advances the state machine's time, marks silent hosts down, and sends heartbeats
/// to followers.
pub(crate) async fn tick(shared: Arc<Shared>) {
    let mut interval = tokio::time::interval(Duration::from_secs(1));
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = Instant::now();
    let mut silent_since = last;
    let mut ticks = 0u64;
    loop {
        tokio::select! {
            _ = interval.tick() => {}
            () = shared.stopped() => return,
        }
        // A process that was suspended heard from nobody: the silence is no reason to mark hosts
        // down.
        let slept = last.elapsed();
        last = Instant::now();
        if slept > shared.options.host_timeout / 4 + Duration::from_secs(1) {
            silent_since = last;
        }
        shared.submit_and_forget(Event::Tick);
        give_up_silent(&shared, silent_since);
        {
            let mut known = shared.known.lock();
            known.ask_for_states(STATE_AGAIN);
            known.queue_heartbeat();
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

/// Marks hosts down that were silent for too long, counted from `silent_since` at the earliest.
fn give_up_silent(shared: &Shared, silent_since: Instant) {
    let mut silent = Vec::new();
    {
        let known = shared.known.lock();
        for (id, host) in known.hosts() {
            let heard = host.heard.max(silent_since);
            if host.is_up() && heard.elapsed() > shared.options.host_timeout {
                silent.push((id, host.name.clone()));
            }
        }
    }
    for (host, name) in silent {
        tracing::warn!(%host, name, "the host was silent for too long: it is down");
        shared.submit_and_forget(Event::HostDown { host });
    }
}

/// Repeats what was not answered, for a part of the state at a time.
pub(crate) async fn repeat(shared: Arc<Shared>) {
    let repeats = RetrySchedule::new(shared.options.resend_after, shared.options.resend_max);
    let mut interval = tokio::time::interval(LOOK_EVERY);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut place = EffectPlace::Start;
    // The first round repeats everything: what was under way when the cell ended was lost.
    let mut last_round: Option<Timestamp> = None;
    let mut round = now();
    loop {
        tokio::select! {
            _ = interval.tick() => {}
            () = shared.stopped() => return,
        }
        let is_due = |since: Timestamp| {
            last_round.is_none_or(|last_round| repeats.is_due(since, last_round, round))
        };
        let (effects, next) = shared
            .engine
            .read(|machine| machine.0.effects_from(place, ROWS_AT_ONCE, is_due))
            .await;
        if last_round.is_some() {
            count(&shared.counts.repeated, effects.len());
        }
        carry_out(&shared, effects);
        place = next.unwrap_or_default();
        if next.is_none() {
            last_round = Some(round);
            round = now();
        }
    }
}
