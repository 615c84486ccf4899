//! The secrets of instances: sealed again when the key of control changes, and opened for the cells, each of which
//! seals them with a key of its own.

use std::ops::Bound::{Excluded, Unbounded};
use std::time::{Duration, Instant};

use placewright_conductor::super_conductor::{Command, State};
use placewright_conductor::{InstanceId, Message, Spec};
use placewright_secrets::{Sealer, SecretCounts};

use crate::handle::ControlHandle;

/// The interval at which the key file is checked for changes.
const KEY_CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// The interval at which a command that prints the keys is run again.
const COMMAND_INTERVAL: Duration = Duration::from_secs(300);
/// The interval at which all secrets are checked although no key has changed.
const FULL_PASS_INTERVAL: Duration = Duration::from_secs(60);
/// The most instances that are checked under one lock of the state.
const INSTANCES_AT_ONCE: usize = 1024;

/// Opens the secrets of a message for its cell. Returns false if they cannot be opened: the message
/// is not sent, and repeated later.
pub(crate) fn open_for_cell(sealer: &Sealer, message: &mut Message) -> bool {
    let instance = message.instance();
    let spec = match message {
        Message::Create(create) => Some(&mut create.spec),
        Message::Move(order) => order.spec.as_mut(),
        Message::Delete { .. }
        | Message::Reserve { .. }
        | Message::Cancel { .. }
        | Message::ConfirmOrRevert { .. } => None,
    };
    let Some(spec) = spec else { return true };
    match sealer.open_spec(instance, spec) {
        Ok(()) => true,
        Err(why) => {
            tracing::error!(%instance, %why, "an instance waits: its secrets cannot be opened");
            false
        }
    }
}

/// What a pass over all secrets did.
#[derive(Debug, Default)]
pub(crate) struct SealPass {
    /// The number of specifications that were replaced.
    pub(crate) replaced: usize,
    /// The number of specifications that are as before, because the store did not accept their replacement.
    pub(crate) refused: usize,
}

/// Seals secrets that are in the clear or sealed with an older key. With `with_bodies`, also secrets that an earlier
/// release left in the bodies of specifications.
pub(crate) async fn seal_again(control: &ControlHandle, with_bodies: bool) -> SealPass {
    let sealer = control.sealer();
    let mut counts = SecretCounts::default();
    let mut after = None;
    let mut pass = SealPass::default();
    loop {
        let (specs, last) = control
            .engine()
            .read_now(|machine| specs_to_check(&machine.state.conductor, after, with_bodies));
        for (instance, spec) in specs {
            match sealer.resealed(instance, &spec, with_bodies) {
                // Only the replica that leads replaces specifications. Any other one counts what there is.
                Ok(Some(_)) if !control.engine().leads() => sealer.count(&spec, &mut counts),
                Ok(Some(new)) => {
                    let command = Command::Reseal {
                        instance,
                        from: Box::new(spec.clone()),
                        to: Box::new(new.clone()),
                    };
                    // The next pass repeats the commands that the store refused.
                    if let Ok(Ok(_)) = control.submit(command).await {
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
        match last {
            Some(last) => after = Some(last),
            None => break,
        }
        tokio::task::yield_now().await;
    }
    sealer.set_secret_counts(counts);
    pass
}

/// The specifications that have secrets, or all of them with `with_bodies`, of the instances that are read
/// next; and the last of these instances, or `None` when all were read.
fn specs_to_check(
    state: &State,
    after: Option<InstanceId>,
    with_bodies: bool,
) -> (Vec<(InstanceId, Spec)>, Option<InstanceId>) {
    let after = after.map_or(Unbounded, Excluded);
    let mut found = Vec::new();
    let mut count = 0;
    for (instance, mapping) in state.mappings().range((after, Unbounded)) {
        let of_moves = mapping.migrations.iter();
        let of_moves = of_moves.filter_map(|id| state.moves().get(id)?.spec.as_ref());
        let rebuild = state.rebuilds().get(instance).map(|row| &row.spec);
        let specs = state.specs().get(instance).into_iter();
        let specs = specs.chain(rebuild).chain(of_moves);
        let wanted = specs.filter(|spec| with_bodies || spec.has_secrets());
        found.extend(wanted.map(|spec| (*instance, spec.clone())));
        count += 1;
        if count == INSTANCES_AT_ONCE {
            return (found, Some(*instance));
        }
    }
    (found, None)
}

/// Keeps all secrets sealed with the current key, as long as the task lives.
pub(crate) async fn keep_sealed(control: ControlHandle) {
    let mut last_pass = Instant::now();
    // The first pass also counts the secrets, for metrics.
    let mut is_due = true;
    loop {
        let sealer = control.sealer().clone();
        let read = tokio::task::spawn_blocking(move || sealer.refresh(COMMAND_INTERVAL));
        match read.await {
            Ok(Ok(true)) => {
                let current = control.sealer().keyring().current().id();
                tracing::info!(%current, "other keys for secrets are used from now on");
                is_due = true;
            }
            Ok(Err(error)) => tracing::error!(%error, "the keys for secrets stay as they are"),
            Ok(Ok(false)) | Err(_) => {}
        }
        // Only the replica that leads seals anew. The other replicas count which secrets are sealed with which key.
        if is_due || last_pass.elapsed() >= FULL_PASS_INTERVAL {
            let with_bodies = false;
            let replaced = seal_again(&control, with_bodies).await.replaced;
            if replaced > 0 {
                tracing::info!(replaced, "secrets were sealed with the current key");
            }
            (last_pass, is_due) = (Instant::now(), false);
        }
        tokio::time::sleep(KEY_CHECK_INTERVAL).await;
    }
}
