//! Pending instances: claimed for a host, and not reported by its agent yet.

use placewright_placement::tree_changes::ChangeKind;
use placewright_placement::{ConsumerUuid, State};
use uuid::Uuid;

use super::HostTable;
use super::track::KnownFrom;
use crate::hosts::state::InstanceReport;

impl HostTable {
    /// Counts an instance that was just claimed for a host, until its agent reports it.
    pub fn add_pending_instance(&mut self, slot: u32, instance: &InstanceReport) {
        let Some(mut state) = self.hosts.get_mut(slot as usize).and_then(Option::take) else {
            return;
        };
        // The agent may report the instance before the claim is observed here.
        if !state.instances.contains_key(&instance.uuid) {
            self.put_instance(Some(slot), &mut state, instance, KnownFrom::Claim);
        }
        self.put_back(Some(slot), state, ChangeKind::CapacityLoss);
    }

    /// Counts an instance that was just claimed, if it still holds allocations on the host in `state`. That state may
    /// be newer than the claim, and the instance may have released its claim since.
    pub fn add_claimed_instance(&mut self, state: &State, slot: u32, instance: &InstanceReport) {
        if holds_in_tree(state, instance.uuid, slot) {
            self.add_pending_instance(slot, instance);
        }
    }

    /// Removes a pending instance that is not going to the host any more.
    pub fn remove_pending_instance(&mut self, slot: u32, instance: Uuid) {
        let counted = self
            .get(slot)
            .and_then(|host| host.instances.get(&instance));
        if !counted.is_some_and(|instance| instance.is_pending) {
            return;
        }
        let Some(mut state) = self.hosts.get_mut(slot as usize).and_then(Option::take) else {
            return;
        };
        self.remove_instance(Some(slot), &mut state, instance);
        self.put_back(Some(slot), state, ChangeKind::CapacityChange);
    }

    /// Removes the pending instances whose claims were released since the last call, whoever released them.
    ///
    /// An instance whose first claim is still under way has released nothing, so it stays.
    pub(super) fn remove_released(&mut self, state: &State) {
        let log = state.tree_changes();
        let since = std::mem::replace(&mut self.release_position, log.release_position());
        let Some(released) = log.released_since(since) else {
            // The log no longer says which claims were released. So all pending instances without allocations are
            // removed, even those whose first claim is still under way.
            for slot in 0..u32::try_from(self.hosts.len()).unwrap_or(u32::MAX) {
                self.remove_released_from(state, slot);
            }
            return;
        };
        for instance in released {
            for slot in self.hosts_of(instance).to_vec() {
                if !holds_in_tree(state, instance, slot) {
                    self.remove_pending_instance(slot, instance);
                }
            }
        }
    }

    /// Removes the pending instances of a host that hold nothing there.
    pub(super) fn remove_released_from(&mut self, state: &State, slot: u32) {
        let Some(host) = self.get(slot).filter(|host| host.pending_count() > 0) else {
            return;
        };
        let instances = host.instances.iter();
        let pending = instances.filter(|(_, instance)| instance.is_pending);
        let uuids: Vec<Uuid> = pending.map(|(uuid, _)| *uuid).collect();
        for instance in uuids {
            if !holds_in_tree(state, instance, slot) {
                self.remove_pending_instance(slot, instance);
            }
        }
    }
}

/// Whether an instance holds allocations from the tree of a host.
fn holds_in_tree(state: &State, instance: Uuid, slot: u32) -> bool {
    let consumer = state.consumer(ConsumerUuid::from_uuid(instance));
    let mut held = consumer.iter().flat_map(|consumer| &consumer.allocations);
    held.any(|allocation| {
        let provider = state.provider(allocation.provider);
        provider.is_some_and(|provider| provider.root.0 == slot)
    })
}
