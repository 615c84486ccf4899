//! Flat hosts (no tree, no sharing provider in reach), evaluated 64 at a time on bit masks.

use smallvec::SmallVec;

use super::lookup::{SetFilter, capacity_word, room_for_total};
use super::plan::Plan;
use super::taken::Taken;
use crate::ids::{ClassId, ProviderId};

/// A query compiled for flat hosts, each of which has to serve all of it alone.
#[derive(Debug)]
pub(crate) struct FlatQuery {
    filter: SetFilter,
    /// The amounts that the host must be able to give as one allocation each.
    single: SmallVec<[(ClassId, i64); 6]>,
    /// The sum of all groups by class, in rising order of class: the allocations of a candidate.
    pub(crate) total: SmallVec<[(ClassId, i64); 6]>,
    /// The classes of `total` that several groups request: their sums must fit, too.
    contended_total: SmallVec<[(ClassId, i64); 4]>,
    /// False when no single host can serve the request, whatever it has.
    is_possible: bool,
}

impl FlatQuery {
    pub(crate) fn new(plan: &Plan<'_>) -> Self {
        let state = plan.state;
        let mut flat = Self {
            filter: plan.root.clone(),
            single: SmallVec::new(),
            total: SmallVec::new(),
            contended_total: SmallVec::new(),
            is_possible: true,
        };
        for condition in &plan.conditions {
            flat.filter
                .required
                .extend(condition.filter.required.iter().cloned());
            flat.filter
                .required
                .extend(condition.provider_or_root.required.iter().cloned());
            flat.filter
                .forbidden
                .extend(condition.filter.forbidden.iter().copied());
            for resource in &condition.resources {
                if !flat.single.contains(resource) {
                    flat.single.push(*resource);
                }
            }
        }
        flat.filter.required.extend(plan.collective.iter().cloned());
        for group in &plan.resolved {
            for (class, amount) in &group.resources {
                match flat.total.iter_mut().find(|(other, _)| other == class) {
                    Some((_, total)) => *total = total.saturating_add(*amount),
                    None => flat.total.push((*class, *amount)),
                }
            }
        }
        flat.total.sort_unstable();
        flat.contended_total = flat
            .total
            .iter()
            .filter(|(class, _)| plan.contended.contains(class))
            .copied()
            .collect();
        flat.is_possible =
            !(plan.isolates_groups && plan.suffixed_count > 1) && state.provider_count() > 0;
        flat
    }

    /// Which of the 64 hosts of a mask satisfy everything but capacity and `in_tree`.
    pub(crate) fn eligible_word(&self, plan: &Plan<'_>, word: usize, mask: u64) -> u64 {
        if self.is_possible {
            self.filter.word(plan.state, word, mask)
        } else {
            0
        }
    }

    /// Which of the 64 hosts from `64 * word` on are feasible, restricted to the mask.
    #[inline]
    pub(crate) fn word(&self, plan: &Plan<'_>, word: usize, mut mask: u64) -> u64 {
        if !self.is_possible || mask == 0 {
            return 0;
        }
        mask = self.filter.word(plan.state, word, mask);
        for tree in plan
            .conditions
            .iter()
            .filter_map(|condition| condition.tree.as_ref())
        {
            mask &= tree.word(word);
        }
        for (class, amount) in &self.single {
            if mask == 0 {
                return 0;
            }
            mask = capacity_word(plan.state, *class, *amount, word, mask);
        }
        for (class, amount) in &self.contended_total {
            mask = room_for_total(plan.state, *class, *amount, word, mask);
        }
        mask
    }

    /// Whether a feasible host stays feasible when `taken` is taken from it.
    pub(crate) fn fits_without(&self, plan: &Plan<'_>, host: ProviderId, taken: &Taken) -> bool {
        taken.leaves(plan.state, host, &self.single)
            && taken.leaves(plan.state, host, &self.contended_total)
    }

    /// How many consumers have room on a feasible host at the same time, and the class of which it then has too little
    /// for another one; of several such classes the lowest. `None` if the query has no resources, so that there is no
    /// such class.
    pub(crate) fn room(&self, plan: &Plan<'_>, host: ProviderId) -> Option<(u64, ClassId)> {
        let provider = plan.state.provider(host)?;
        let by_class = self.total.iter().map(|(class, amount)| {
            let row = provider.inventory(*class);
            let free = row.map_or(0, |row| row.capacity.saturating_sub(row.used));
            let consumers = free.checked_div(*amount).unwrap_or(0);
            (u64::try_from(consumers).unwrap_or(0), *class)
        });
        by_class.min()
    }

    /// The first class of which an eligible host cannot give the amount of one consumer; `None` if it can give all.
    pub(crate) fn lacking_class(&self, plan: &Plan<'_>, host: ProviderId) -> Option<ClassId> {
        let (word, bit) = (host.index() / 64, 1 << (host.0 % 64));
        let lacks_single = |(class, amount): &&(ClassId, i64)| {
            capacity_word(plan.state, *class, *amount, word, bit) == 0
        };
        let lacks_total = |(class, amount): &&(ClassId, i64)| {
            room_for_total(plan.state, *class, *amount, word, bit) == 0
        };
        let single = self.single.iter().find(lacks_single);
        let lacking = single.or_else(|| self.contended_total.iter().find(lacks_total));
        lacking.map(|(class, _)| *class)
    }
}
