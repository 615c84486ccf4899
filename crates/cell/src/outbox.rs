//! Sends the messages that durable changes require: orders to agents, claim requests to placement, and
//! changes to followers.

use std::sync::Arc;

use placewright_conductor::cell_conductor::{Change, Effect};
use placewright_engine::{Entries, FollowError, Follower, Machine as _};
use placewright_link::ToAgent;

use crate::build_span;
use crate::counters::add_to;
use crate::machine::CellMachine;
use crate::read_model::ReadModel;
use crate::secrets;
use crate::shared::{LeaderState, now};

/// The most journal entries that are handled under one lock of the state.
const ENTRIES_AT_ONCE: usize = 128;

/// Follows the durable changes until the cell ends.
pub(crate) async fn run(shared: Arc<LeaderState>, mut follower: Follower<CellMachine>) {
    loop {
        let next = tokio::select! {
            next = follower.next_entries() => next,
            () = shared.stopped() => return,
        };
        match next {
            None => return,
            Some(Ok(entries)) => process(&shared, &entries).await,
            Some(Err(error)) => match follow_again(&shared, &error).await {
                Some(new) => follower = new,
                None => return,
            },
        }
    }
}

async fn process(shared: &LeaderState, entries: &Entries) {
    let mut decoded = Vec::new();
    for (sequence, record) in entries.iter() {
        match CellMachine::decode(record) {
            Ok(changes) => decoded.push(changes),
            // The engine wrote the entry, so this cannot happen. If it did, the timer that repeats unanswered
            // messages (`timers.rs`) would still send the messages that the entry's changes call for.
            Err(error) => tracing::error!(sequence, %error, "an entry cannot be read"),
        }
    }
    let at = now();
    for batch in decoded.chunks(ENTRIES_AT_ONCE) {
        let effects = if changes_a_host(batch) {
            // For a changed host, `effects_of` returns all effects on it in the present state, even those of later
            // changes. So `read` waits until the whole present state is durable.
            let read = shared.engine.read(|machine| effects_of(machine, batch));
            read.await
        } else {
            // Without a changed host, all effects belong to changes of this batch, which are durable already.
            shared.engine.read_now(|machine| effects_of(machine, batch))
        };
        if let Some(tracer) = placewright_spans::tracer() {
            let engine = &shared.engine;
            let spans = engine.read_now(|machine| build_span::of_changes(&machine.state, batch));
            build_span::record(tracer, spans);
        }
        shared.read_model.lock().apply_changes(batch, at);
        carry_out(shared, effects);
        tokio::task::yield_now().await;
    }
}

fn changes_a_host(entries: &[Vec<Change>]) -> bool {
    let mut changes = entries.iter().flatten();
    changes.any(|change| matches!(change, Change::Host(_, Some(_))))
}

fn effects_of(machine: &CellMachine, entries: &[Vec<Change>]) -> Vec<Effect> {
    let effects = |changes: &Vec<Change>| machine.state.effects_of(changes);
    entries.iter().flat_map(effects).collect()
}

/// Passes orders to the connections of agents and claim requests to their queue. It never waits: orders
/// that a connection does not accept are repeated later.
pub(crate) fn carry_out(shared: &LeaderState, effects: Vec<Effect>) {
    if effects.is_empty() {
        return;
    }
    let mut claim_requests = Vec::new();
    let (mut sent, mut dropped) = (0, 0);
    let effects = secrets::open_for_agents(shared, effects, &mut dropped);
    {
        let read_model = shared.read_model.lock();
        for effect in effects {
            let (host, message) = match effect {
                Effect::RequestClaim(request) => {
                    claim_requests.push(request);
                    continue;
                }
                Effect::RequestStep {
                    host,
                    session,
                    order,
                } => (
                    host,
                    ToAgent::Step {
                        host,
                        session,
                        order,
                    },
                ),
                Effect::Destroy {
                    host,
                    session,
                    instance,
                    number,
                } => (
                    host,
                    ToAgent::Destroy {
                        host,
                        session,
                        instance,
                        number,
                    },
                ),
            };
            let route = read_model
                .find_host(host)
                .and_then(|host| host.route.as_ref());
            match route.map(|route| route.to_agent.try_send(message)) {
                Some(Ok(())) => sent += 1,
                Some(Err(_)) | None => dropped += 1,
            }
        }
    }
    add_to(&shared.counts.orders, sent);
    add_to(&shared.counts.orders_dropped, dropped);
    shared.claim_requests.add(claim_requests.into_iter());
}

/// Recovers after changes were missed: loads the read model from the state and follows again. The orders and claim
/// requests that the missed changes call for are left to the timer that repeats unanswered messages (`timers.rs`).
/// Returns `None` once the cell has stopped.
async fn follow_again(shared: &LeaderState, error: &FollowError) -> Option<Follower<CellMachine>> {
    tracing::warn!(%error, "changes were missed; everything is taken from the state");
    loop {
        let follower = shared.engine.follow(shared.engine.durable_sequence());
        if let Ok(follower) = follower {
            let state = shared.engine.read(|machine| machine.state.clone()).await;
            let read_model: &mut ReadModel = &mut shared.read_model.lock();
            read_model.load(&state, now());
            return Some(follower);
        }
        tokio::select! {
            () = tokio::time::sleep(std::time::Duration::from_secs(1)) => {}
            () = shared.stopped() => return None,
        }
    }
}
