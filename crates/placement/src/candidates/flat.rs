//! Flat hosts (no tree, no sharing provider in reach), evaluated 64 at a time on bit masks.

use smallvec::SmallVec;

use super::lookup::{SetFilter, capacity_word, room_for_total};
use super::plan::Plan;
use crate::ids::ClassId;

/// A query as seen by a single host that has to serve all of it.
#[derive(Debug)]
pub(crate) struct FlatPass {
    filter: SetFilter,
    /// Amounts that must each be possible as one allocation.
    single: SmallVec<[(ClassId, i64); 6]>,
    /// The sum of all groups by class, in rising order of class: the allocations of a candidate.
    pub(crate) total: SmallVec<[(ClassId, i64); 6]>,
    /// Classes that several groups request, with the sum that must fit too.
    merged: SmallVec<[(ClassId, i64); 4]>,
    /// False when no single host can serve the request, whatever it has.
    possible: bool,
}

impl FlatPass {
    pub(crate) fn new(plan: &Plan<'_>) -> Self {
        let state = plan.state;
        let mut pass = Self {
            filter: plan.root.clone(),
            single: SmallVec::new(),
            total: SmallVec::new(),
            merged: SmallVec::new(),
            possible: true,
        };
        for kind in &plan.kinds {
            pass.filter.all.extend(kind.filter.all.iter().cloned());
            pass.filter.all.extend(kind.spanning.all.iter().cloned());
            pass.filter.none.extend(kind.filter.none.iter().copied());
            for resource in &kind.resources {
                if !pass.single.contains(resource) {
                    pass.single.push(*resource);
                }
            }
        }
        pass.filter.all.extend(plan.collective.iter().cloned());
        for group in &plan.resolved {
            for (class, amount) in &group.resources {
                match pass.total.iter_mut().find(|(other, _)| other == class) {
                    Some((_, total)) => *total = total.saturating_add(*amount),
                    None => pass.total.push((*class, *amount)),
                }
            }
        }
        pass.total.sort_unstable();
        pass.merged = pass
            .total
            .iter()
            .filter(|(class, _)| plan.contended.contains(class))
            .copied()
            .collect();
        pass.possible = !(plan.isolate && plan.granular > 1) && state.provider_count() > 0;
        pass
    }

    /// Which of the 64 hosts of a mask satisfy everything but capacity.
    pub(crate) fn eligible_word(&self, plan: &Plan<'_>, word: usize, mask: u64) -> u64 {
        if self.possible {
            self.filter.word(plan.state, word, mask)
        } else {
            0
        }
    }

    /// Which of the 64 hosts from `64 * word` on are feasible, restricted to the mask.
    #[inline]
    pub(crate) fn word(&self, plan: &Plan<'_>, word: usize, mut mask: u64) -> u64 {
        if !self.possible || mask == 0 {
            return 0;
        }
        mask = self.filter.word(plan.state, word, mask);
        for tree in plan.kinds.iter().filter_map(|kind| kind.tree.as_ref()) {
            mask &= tree.word(word);
        }
        for (class, amount) in &self.single {
            if mask == 0 {
                return 0;
            }
            mask = capacity_word(plan.state, *class, *amount, word, mask);
        }
        for (class, amount) in &self.merged {
            mask = room_for_total(plan.state, *class, *amount, word, mask);
        }
        mask
    }
}
