//! Pending instances: claimed for a host, and not reported by its agent yet.

use placewright_placement::tree_changes::ChangeKind;
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

    /// Removes a pending instance whose claim was released before the agent reported it.
    pub fn remove_pending_instance(&mut self, slot: u32, instance: Uuid) {
        let Some(mut state) = self.hosts.get_mut(slot as usize).and_then(Option::take) else {
            return;
        };
        let counted = state.instances.get(&instance);
        if counted.is_some_and(|instance| instance.is_pending) {
            self.remove_instance(Some(slot), &mut state, instance);
        }
        self.put_back(Some(slot), state, ChangeKind::CapacityChange);
    }
}
