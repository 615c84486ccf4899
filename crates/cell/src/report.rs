//! Merges the updates of a host's soft state.

use std::collections::BTreeMap;

use placewright_types::host_state::{HostReport, HostUpdate, InstanceReport};
use uuid::Uuid;

/// The newest soft state of one host, equivalent to one full update.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MergedReport {
    /// Everything except the instances; `None` before the first full report.
    rest: Option<Box<HostReport>>,
    instances: BTreeMap<Uuid, InstanceReport>,
}

impl MergedReport {
    /// Applies an update, which has to be the next one in order. Updates before the first full report
    /// are ignored.
    pub fn apply(&mut self, update: &HostUpdate) {
        if let HostUpdate::Full(report) = update {
            let mut rest = report.clone();
            let instances = std::mem::take(&mut rest.instances);
            let by_uuid = instances
                .into_iter()
                .map(|instance| (instance.uuid, instance));
            self.instances = by_uuid.collect();
            self.rest = Some(rest);
            return;
        }
        let Some(rest) = &mut self.rest else { return };
        match update {
            HostUpdate::Full(_) | HostUpdate::Alive => {}
            HostUpdate::Facts(facts) => rest.facts.clone_from(facts),
            HostUpdate::Load(load) => rest.load = *load,
            HostUpdate::Metrics(metrics) => rest.metrics.clone_from(metrics),
            HostUpdate::InstanceCame(instance, load) => {
                rest.load = *load;
                self.instances.insert(instance.uuid, (**instance).clone());
            }
            HostUpdate::InstanceWent(uuid, load) => {
                rest.load = *load;
                self.instances.remove(uuid);
            }
            HostUpdate::Disabled(reason) => rest.disabled.clone_from(reason),
            HostUpdate::ForcedDown(is_down) => rest.is_forced_down = *is_down,
            HostUpdate::Gone => *self = Self::default(),
        }
    }

    /// The state as one full update; [`HostUpdate::Gone`] if there was no full report yet, or the host is gone.
    #[must_use]
    pub fn full(&self) -> HostUpdate {
        let Some(rest) = &self.rest else {
            return HostUpdate::Gone;
        };
        let mut report = rest.clone();
        report.instances = self.instances.values().cloned().collect();
        HostUpdate::Full(report)
    }
}
