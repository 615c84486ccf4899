//! The record of why an instance is placed where it is, which is kept with the instance's mapping.

use super::DecisionContext;
use crate::claims;
use crate::decision::{Decision, FALLEN_MAX, FallenHost, RankingRecord, add_decision};
use crate::ids::{HostId, InstanceId, MigrationId};
use crate::spec::{Amounts, Candidate, Spec};
use crate::super_conductor::rows::Mapping;

/// A claim that was decided: the candidates that it named, and which of them it got.
pub(super) struct Decided<'d> {
    pub(super) instance: InstanceId,
    pub(super) candidates: &'d [Candidate],
    /// The index of the claimed candidate.
    pub(super) chosen: usize,
    pub(super) ranking: &'d RankingRecord,
    /// The move that needs the host, with the specification that it moves, and the allocations that it takes over.
    pub(super) migration: Option<(MigrationId, &'d Spec, &'d [Amounts])>,
}

impl DecisionContext<'_> {
    /// The mapping of an instance after a claim was decided, with the record of the decision.
    pub(super) fn mapping_after(
        &self,
        mapping: &Mapping,
        decided: &Decided<'_>,
        alternate_count: usize,
    ) -> Mapping {
        let mut mapping = Mapping {
            claim_number: mapping.claim_number.saturating_add(1),
            claim_response: None,
            ..mapping.clone()
        };
        let decision = self.decision(decided, alternate_count);
        let present = claims::host_of(self.placement, decided.instance);
        add_decision(&mut mapping.decisions, decision, present);
        mapping
    }

    fn decision(&self, decided: &Decided<'_>, alternate_count: usize) -> Decision {
        let Decided {
            candidates, chosen, ..
        } = *decided;
        let host = candidates[chosen].host;
        let (fallen, fallen_count) = match chosen {
            0 => (Vec::new(), 0),
            _ => self.fallen(decided),
        };
        Decision {
            host,
            at: self.at,
            migration: decided.migration.map(|(migration, ..)| migration),
            ranking: decided.ranking.clone(),
            fallen,
            fallen_count,
            alternate_count: u32::try_from(alternate_count).unwrap_or(u32::MAX),
        }
    }

    /// The fallen hosts: those that were named before the claimed one and did not fit any more. Returns the first few
    /// of them, each with the reason, and the number of all.
    fn fallen(&self, decided: &Decided<'_>) -> (Vec<FallenHost>, u32) {
        let claimed = decided.candidates[decided.chosen].host;
        let mut hosts: Vec<HostId> = Vec::new();
        let mut fallen = Vec::new();
        for candidate in &decided.candidates[..decided.chosen] {
            // A host may have several candidates; the first one tells why.
            if candidate.host == claimed || hosts.contains(&candidate.host) {
                continue;
            }
            hosts.push(candidate.host);
            if fallen.len() < FALLEN_MAX {
                let reason = self.reason_to_fall(decided, candidate);
                fallen.push(FallenHost::new(candidate.host, reason));
            }
        }
        (fallen, u32::try_from(hosts.len()).unwrap_or(u32::MAX))
    }

    /// Why a candidate did not fit; empty if it fits on this state, which is that before the claim: then other
    /// instances of the same claim took its room.
    fn reason_to_fall(&self, decided: &Decided<'_>, candidate: &Candidate) -> String {
        let accepts = self
            .cell_of(candidate.host)
            .and_then(|cell| self.state.cells.get(&cell))
            .is_some_and(crate::super_conductor::Cell::accepts_instances);
        // A move stays in its cell, whether or not that accepts new instances.
        if decided.migration.is_none() && !accepts {
            return "its cell accepts no instances".to_owned();
        }
        let spec = match decided.migration {
            Some((_, spec, _)) => Some(spec),
            None => self.state.specs.get(&decided.instance),
        };
        let Some(spec) = spec else {
            return String::new();
        };
        // The claim only says why the first candidate of all did not fit, so each is tried again, on the same state.
        let tried = claims::claim_first(
            self.placement,
            (decided.instance, spec),
            std::slice::from_ref(candidate),
            decided
                .migration
                .map(|(migration, _, held)| (migration, held)),
            self.at,
            &mut Vec::new(),
        );
        match tried {
            // `None` would mean that there was no candidate, and there is one.
            Ok(_) | Err(None) => String::new(),
            Err(Some(refusal)) => refusal.to_string(),
        }
    }
}
