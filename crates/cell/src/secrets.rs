//! The secrets of instances: sealed when they arrive from control, opened for the step that
//! needs them, and sealed again when the key of the cell changes.

use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;
use std::time::{Duration, Instant};

use placewright_conductor::cell_conductor::{Effect, Event, Failure, Order, State, Step};
use placewright_conductor::{HostId, InstanceId, Message, Spec};
use placewright_link::LinkError;
use placewright_secrets::{OpenError, SecretCounts};

use crate::shared::{LeaderState, peer};

/// The interval at which the key file is checked for changes.
const KEY_CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// The interval at which a command that prints the keys is run again.
const COMMAND_INTERVAL: Duration = Duration::from_secs(300);
/// The interval at which all secrets are checked although no key has changed.
const FULL_PASS_INTERVAL: Duration = Duration::from_secs(60);
/// The most instances that are checked under one lock of the state.
const INSTANCES_AT_ONCE: usize = 1024;

/// Seals the secrets of a message from control, which sends them in the clear.
pub(crate) fn seal_message(shared: &LeaderState, message: &mut Message) -> Result<(), LinkError> {
    let instance = message.instance();
    let spec = match message {
        Message::Create(create) => Some(&mut create.spec),
        Message::Move(order) => order.spec.as_mut(),
        Message::Delete { .. }
        | Message::Reserve { .. }
        | Message::Cancel { .. }
        | Message::ConfirmOrRevert { .. } => None,
    };
    spec.map_or(Ok(()), |spec| seal_spec(shared, instance, spec))
}

/// Seals the secrets of a specification from control.
pub(crate) fn seal_spec(
    shared: &LeaderState,
    instance: InstanceId,
    spec: &mut Spec,
) -> Result<(), LinkError> {
    // Control sends secrets in the clear, in the body. Sealed secrets are dropped: control sends none, because the cell
    // does not have control's key.
    spec.forget_secrets();
    let sealed = shared.options.sealer.seal_spec(instance, spec);
    sealed.map(drop).map_err(|why| LinkError::Unavailable {
        peer: peer(shared.options.cell),
        why: format!("secrets cannot be sealed: {why}"),
    })
}

/// Opens the secrets of orders whose steps build a guest, and removes secrets from all other orders.
/// Orders whose secrets cannot be opened are left out, and added to the count `dropped`.
pub(crate) fn open_for_agents(
    shared: &LeaderState,
    effects: Vec<Effect>,
    dropped: &mut usize,
) -> Vec<Effect> {
    let has_no_secrets = |effect: &Effect| match effect {
        Effect::RequestStep { order, .. } => !order.spec.has_secrets(),
        Effect::Destroy { .. } | Effect::RequestClaim(_) => true,
    };
    // Nearly all batches of effects have no secrets.
    if effects.iter().all(has_no_secrets) {
        return effects;
    }
    let mut opened = Vec::with_capacity(effects.len());
    for mut effect in effects {
        if let Effect::RequestStep {
            host,
            session,
            order,
        } = &mut effect
            && let Err(why) = open(shared, order)
        {
            *dropped += 1;
            handle_unopened(shared, (*host, *session), order, &why);
            continue;
        }
        opened.push(effect);
    }
    opened
}

fn open(shared: &LeaderState, order: &mut Order) -> Result<(), OpenError> {
    if matches!(order.step, Step::Arrive | Step::Rebuild) {
        return shared
            .options
            .sealer
            .open_spec(order.instance, &mut order.spec);
    }
    order.spec.forget_secrets();
    Ok(())
}

/// Handles an order whose secrets cannot be opened. If the key is missing, nothing is done: the
/// order is repeated until the deadline of its step. With any other reason the step fails at once,
/// and is not tried on another host.
fn handle_unopened(
    shared: &LeaderState,
    (host, session): (HostId, u64),
    order: &Order,
    why: &OpenError,
) {
    let instance = order.instance;
    tracing::error!(%instance, %why, "a step waits or fails: the secrets cannot be opened");
    if matches!(why, OpenError::UnknownKey(_)) {
        return;
    }
    shared.submit_and_forget(Event::StepEnded {
        host,
        instance,
        session,
        attempt: order.attempt,
        failure: Some(Failure {
            message: format!("The secrets of the server cannot be opened: {why}."),
            may_retry: false,
        }),
    });
}

/// Keeps all secrets sealed with the current key, until the cell ends. The first pass also seals the
/// secrets that an earlier release left in the clear in the bodies of specifications.
pub(crate) async fn keep_sealed(shared: Arc<LeaderState>) {
    let mut last_pass = Instant::now();
    let (mut is_pass_due, mut with_bodies) = (true, true);
    loop {
        let sealer = shared.options.sealer.clone();
        let read = tokio::task::spawn_blocking(move || sealer.refresh(COMMAND_INTERVAL));
        match read.await {
            Ok(Ok(true)) => {
                let current = shared.options.sealer.keyring().current().id();
                tracing::info!(%current, "other keys for secrets are used from now on");
                is_pass_due = true;
            }
            Ok(Err(error)) => tracing::error!(%error, "the keys for secrets stay as they are"),
            Ok(Ok(false)) | Err(_) => {}
        }
        if is_pass_due || last_pass.elapsed() >= FULL_PASS_INTERVAL {
            let pass = reseal_all(&shared, with_bodies).await;
            if pass.replaced > 0 {
                let replaced = pass.replaced;
                tracing::info!(replaced, "secrets were sealed with the current key");
            }
            (last_pass, is_pass_due) = (Instant::now(), false);
            // The bodies are read again until each specification that needed it was replaced.
            with_bodies &= pass.refused > 0;
        }
        tokio::select! {
            () = tokio::time::sleep(KEY_CHECK_INTERVAL) => {}
            () = shared.stopped() => return,
        }
    }
}

/// What a pass over all secrets did.
#[derive(Debug, Default)]
struct ResealPass {
    /// The number of specifications that were replaced.
    replaced: usize,
    /// The number of specifications that are as before, because the store did not accept their replacement.
    refused: usize,
}

/// Seals all secrets that are not sealed with the current key, and those in bodies if `with_bodies`.
async fn reseal_all(shared: &LeaderState, with_bodies: bool) -> ResealPass {
    let sealer = &shared.options.sealer;
    let mut counts = SecretCounts::default();
    let mut after = None;
    let mut pass = ResealPass::default();
    loop {
        let (specs, next) = shared
            .engine
            .read_now(|machine| specs_after(&machine.state, after, with_bodies));
        for (instance, spec) in specs {
            match sealer.resealed(instance, &spec, with_bodies) {
                Ok(Some(new)) => {
                    let event = Event::Reseal {
                        instance,
                        from: Box::new(spec.clone()),
                        to: Box::new(new.clone()),
                    };
                    // The next pass repeats the events that the store refused.
                    if let Ok(Ok(_)) = shared.submit(event).await {
                        sealer.count(&new, &mut counts);
                        pass.replaced += 1;
                    } else {
                        sealer.count(&spec, &mut counts);
                        pass.refused += 1;
                    }
                }
                Ok(None) | Err(_) => sealer.count(&spec, &mut counts),
            }
        }
        match next {
            Some(next) => after = Some(next),
            None => break,
        }
        tokio::task::yield_now().await;
    }
    sealer.set_secret_counts(counts);
    pass
}

/// Reads up to [`INSTANCES_AT_ONCE`] instances that follow `after`. Returns those of their specifications
/// that have sealed secrets, or all of them if `with_bodies`, because the bodies may have secrets; and the
/// last of these instances, or `None` if no instance follows.
fn specs_after(
    state: &State,
    after: Option<InstanceId>,
    with_bodies: bool,
) -> (Vec<(InstanceId, Spec)>, Option<InstanceId>) {
    let after = after.map_or(Unbounded, Excluded);
    let mut found = Vec::new();
    let mut count = 0;
    for (instance, spec) in state.specs().range((after, Unbounded)) {
        // A job, such as a resize, may have a new specification beside the present one of its instance.
        let of_job = state.jobs().get(instance);
        let of_job = of_job.and_then(|job| job.spec.as_ref());
        let specs = std::iter::once(spec).chain(of_job);
        let wanted = specs.filter(|spec| with_bodies || spec.has_secrets());
        found.extend(wanted.map(|spec| (*instance, spec.clone())));
        count += 1;
        if count == INSTANCES_AT_ONCE {
            return (found, Some(*instance));
        }
    }
    (found, None)
}
