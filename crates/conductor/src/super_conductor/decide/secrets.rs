//! The sealed secrets of specifications: those for the first build are removed when no cell needs them any more, and a
//! specification is replaced by one whose secrets were sealed again with the present key.

use super::{DecisionContext, Outcome};
use crate::ids::InstanceId;
use crate::spec::Spec;
use crate::super_conductor::rows::{Move, Rebuild};
use crate::super_conductor::state::Change;

impl DecisionContext<'_> {
    /// Removes the secrets for an instance's first build, because its cell has them or the instance is never built.
    pub(super) fn forget_build_secrets(&mut self, instance: InstanceId) {
        let spec = self.state.specs.get(&instance);
        if let Some(spec) = spec.filter(|spec| !spec.build_secrets.is_empty()) {
            let mut spec = spec.clone();
            spec.forget_build_secrets();
            self.record(Change::Spec(instance, Some(Box::new(spec))));
        }
    }

    /// Replaces a specification by one with other sealed secrets, wherever the instance, its rebuild or one
    /// of its moves has it.
    pub(super) fn reseal(&mut self, instance: InstanceId, from: &Spec, to: &Spec) -> Outcome {
        if self.state.specs.get(&instance) == Some(from) {
            self.record(Change::Spec(instance, Some(Box::new(to.clone()))));
        }
        if let Some(row) = self.state.rebuilds.get(&instance)
            && row.spec == *from
        {
            let row = Rebuild {
                spec: to.clone(),
                ..row.clone()
            };
            self.record(Change::Rebuild(instance, Some(Box::new(row))));
        }
        let mapping = self.state.mappings.get(&instance);
        for migration in mapping.iter().flat_map(|mapping| &mapping.migrations) {
            if let Some(row) = self.state.moves.get(migration)
                && row.spec.as_ref() == Some(from)
            {
                let row = Move {
                    spec: Some(to.clone()),
                    ..row.clone()
                };
                self.record(Change::Move(*migration, Some(Box::new(row))));
            }
        }
        Outcome::Done
    }
}
