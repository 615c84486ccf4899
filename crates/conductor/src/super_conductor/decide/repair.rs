//! Decides the repairs that an audit requests.

use placewright_placement as placement;

use super::{DecisionContext, Outcome, Refusal, not_found, wrong_state};
use crate::claims;
use crate::ids::{HostId, InstanceId};
use crate::spec::Candidate;
use crate::super_conductor::rows::Mapping;

impl DecisionContext<'_> {
    /// Claims the allocations that an instance needs on its host, if they fit.
    pub(super) fn reclaim(
        &mut self,
        instance: InstanceId,
        host: HostId,
        candidates: &[Candidate],
    ) -> Result<Outcome, Refusal> {
        let mapping = self.mapping(instance)?;
        if mapping.is_deleting {
            return Err(wrong_state("instance", &instance, "being deleted"));
        }
        if self.state.builds.contains_key(&instance) {
            return Err(wrong_state("instance", &instance, "being scheduled"));
        }
        let mut moves = mapping.migrations.iter();
        if moves.any(|migration| self.state.moves.contains_key(migration)) {
            return Err(wrong_state("instance", &instance, "being moved"));
        }
        if mapping.cell.is_none() || self.cell_of(host) != mapping.cell {
            return Err(wrong_state("host", &host, "in another cell"));
        }
        if claims::has_allocations_on(self.placement, instance, host) {
            return Ok(Outcome::Done);
        }
        let spec = self.state.specs.get(&instance);
        let spec = spec.ok_or_else(|| not_found("instance", &instance))?;
        let on_host = candidates.iter().filter(|candidate| candidate.host == host);
        let on_host: Vec<Candidate> = on_host.cloned().collect();
        let (consumer, at) = ((instance, spec), self.at);
        let changes = &mut self.changes.placement;
        // The instance is not moved, so no migration takes over former allocations.
        let claimed = claims::claim_first(self.placement, consumer, &on_host, None, at, changes);
        claimed.map_err(|first_refusal| {
            Refusal::Placement(placement::Refusal::NothingFits {
                fitting: 0,
                required: 1,
                first: first_refusal.map(Box::new),
            })
        })?;
        // The new claim number invalidates earlier claim requests of the cell.
        let mapping = Mapping {
            claim_number: mapping.claim_number.saturating_add(1),
            claim_response: None,
            ..mapping.clone()
        };
        self.set_mapping(instance, mapping);
        Ok(Outcome::Done)
    }
}
