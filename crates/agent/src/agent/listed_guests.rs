//! Corrects the guest log by the driver's list of guests, when an agent starts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::stream::{self, StreamExt as _};
use placewright_conductor::HostId;

use super::AgentError;
use crate::description::HostDescription;
use crate::driver::{Driver, DriverRequest, ListedGuest, Operation};
use crate::guest_log::{Guest, GuestKey, GuestLog, GuestState};

/// The maximum number of guests that are removed concurrently.
const REMOVALS_MAX: usize = 32;

/// Makes the guest log match the driver's list, and removes the guests that are [`GuestState::Incomplete`]: their build
/// or removal was under way when the agent ended, or it failed or was cancelled before. The cell orders again what it
/// still wants.
pub(super) async fn correct_guest_log(
    guest_log: &mut GuestLog,
    hosts: &BTreeMap<HostId, Arc<HostDescription>>,
    driver: &dyn Driver,
) -> Result<(), AgentError> {
    let listed = driver.list().await?;
    let logged: BTreeMap<(HostId, GuestKey), GuestState> = guest_log
        .guests()
        .filter(|(host, _, _)| hosts.contains_key(host))
        .map(|(host, key, guest)| ((host, key), guest.state))
        .collect();
    if let Some(listed) = listed {
        let listed: BTreeSet<_> = listed.iter().map(host_and_key).collect();
        for (host, key) in &listed {
            if !logged.contains_key(&(*host, *key)) && hosts.contains_key(host) {
                let (instance, number) = *key;
                tracing::warn!(%host, %instance, number, "a guest was found that is not in the guest log");
                guest_log.put(*host, *key, &Guest::unlogged());
            }
        }
        for ((host, key), state) in &logged {
            // An incomplete guest is destroyed below, whether the driver lists it or not.
            if *state != GuestState::Incomplete && !listed.contains(&(*host, *key)) {
                let (instance, number) = *key;
                tracing::warn!(%host, %instance, number, "a guest is gone");
                guest_log.erase(*host, *key);
            }
        }
    }
    let incomplete = logged
        .iter()
        .filter(|(_, state)| **state == GuestState::Incomplete);
    let requests = incomplete.filter_map(|((host, (instance, number)), _)| {
        let description = hosts.get(host)?;
        Some(DriverRequest {
            operation: Operation::Destroy,
            host: *host,
            host_name: description.name.as_str().into(),
            instance: *instance,
            number: *number,
            order: None,
        })
    });
    let removed = stream::iter(requests)
        .map(|request| async move {
            let host_and_key = (request.host, (request.instance, request.number));
            (host_and_key, driver.carry_out(request).await)
        })
        .buffer_unordered(REMOVALS_MAX);
    let removed: Vec<_> = removed.collect().await;
    for ((host, key), result) in removed {
        match result {
            Ok(()) => guest_log.erase(host, key),
            // The guest stays in the log, and the cell will order its removal.
            Err(error) => {
                let (instance, _) = key;
                tracing::warn!(%host, %instance, %error, "an incomplete guest cannot be removed");
            }
        }
    }
    Ok(())
}

fn host_and_key(guest: &ListedGuest) -> (HostId, GuestKey) {
    (guest.host, (guest.instance, guest.number))
}
