//! The records of rebuilds.

use super::{DecisionContext, Outcome, Refusal, wrong_state};
use crate::ids::InstanceId;
use crate::spec::Spec;
use crate::super_conductor::command::RebuildEvent;
use crate::super_conductor::rows::Rebuild;
use crate::super_conductor::state::Change;

impl DecisionContext<'_> {
    /// Records the progress of a rebuild. Events of any but the latest rebuild are ignored.
    pub(super) fn rebuild(
        &mut self,
        instance: InstanceId,
        event: &RebuildEvent,
    ) -> Result<Outcome, Refusal> {
        let latest = self.state.rebuilds.get(&instance);
        let latest_with = |digest: u64| latest.filter(|row| row.spec.digest() == digest);
        match event {
            RebuildEvent::Begun {
                spec,
                view_updated_at,
            } => {
                if self.mapping(instance)?.is_deleting {
                    return Err(wrong_state("instance", &instance, "being deleted"));
                }
                let mut spec = Spec::clone(spec);
                // Only the cell needs the build secrets, and gets them with the request for the rebuild.
                spec.forget_build_secrets();
                let row = Rebuild {
                    spec,
                    at: self.at,
                    view_updated_at: *view_updated_at,
                };
                self.record(Change::Rebuild(instance, Some(Box::new(row))));
            }
            RebuildEvent::Refused { digest } => {
                if latest_with(*digest).is_some() {
                    self.record(Change::Rebuild(instance, None));
                }
            }
            RebuildEvent::Done { digest } => {
                if let Some(row) = latest_with(*digest) {
                    let spec = self.with_usage_kept(instance, &row.spec);
                    self.record(Change::Spec(instance, Some(Box::new(spec))));
                    self.record(Change::Rebuild(instance, None));
                }
            }
        }
        Ok(Outcome::Done)
    }
}
