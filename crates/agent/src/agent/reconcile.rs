//! Reconciles the record and the driver's list of guests at the start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::stream::{self, StreamExt as _};
use placewright_conductor::HostId;

use super::AgentError;
use crate::description::HostDescription;
use crate::driver::{Driver, ListedGuest, Operation, Task};
use crate::record::{Guest, GuestKey, GuestLog, GuestState};

/// The most guests that are removed concurrently.
const REMOVED_AT_ONCE: usize = 32;

/// Removes half-built guests, and makes the record match the driver's list.
pub(super) async fn reconcile(
    record: &mut GuestLog,
    hosts: &BTreeMap<HostId, Arc<HostDescription>>,
    driver: &dyn Driver,
) -> Result<(), AgentError> {
    let listed = driver.list().await?;
    let on_record: BTreeMap<(HostId, GuestKey), GuestState> = record
        .guests()
        .filter(|(host, _, _)| hosts.contains_key(host))
        .map(|(host, key, guest)| ((host, key), guest.state))
        .collect();
    if let Some(listed) = listed {
        let listed: BTreeSet<(HostId, GuestKey)> = listed.iter().map(key).collect();
        for (host, guest) in &listed {
            if !on_record.contains_key(&(*host, *guest)) && hosts.contains_key(host) {
                tracing::warn!(%host, instance = %guest.0, number = guest.1, "a guest is there that is not on record");
                record.keep(*host, *guest, &Guest::found());
            }
        }
        for ((host, guest), state) in &on_record {
            if *state != GuestState::Making && !listed.contains(&(*host, *guest)) {
                tracing::warn!(%host, instance = %guest.0, number = guest.1, "a guest is gone");
                record.erase(*host, *guest);
            }
        }
    }
    let half = on_record
        .iter()
        .filter(|(_, state)| **state == GuestState::Making);
    let tasks = half.filter_map(|((host, guest), _)| {
        let description = hosts.get(host)?;
        Some(Task {
            operation: Operation::Destroy,
            host: *host,
            host_name: description.name.as_str().into(),
            instance: guest.0,
            number: guest.1,
            order: None,
        })
    });
    let removed = stream::iter(tasks)
        .map(|task| async move {
            let place = (task.host, (task.instance, task.number));
            (place, driver.carry_out(task).await)
        })
        .buffer_unordered(REMOVED_AT_ONCE);
    let removed: Vec<_> = removed.collect().await;
    for ((host, guest), result) in removed {
        match result {
            Ok(()) => record.erase(host, guest),
            // The guest stays recorded, and the cell will order its removal.
            Err(error) => {
                tracing::warn!(%host, instance = %guest.0, %error, "an interrupted build cannot be removed");
            }
        }
    }
    Ok(())
}

fn key(guest: &ListedGuest) -> (HostId, GuestKey) {
    (guest.host, (guest.instance, guest.number))
}
