//! How many consumers a host can serve one after another, computed without making claims in a copy of the state.
//!
//! When a consumer takes something, candidates can only disappear; those that remain keep their order. So the first
//! candidate stays the first one until it does not fit any more, and all consumers for which it has room are counted at
//! once.

use smallvec::SmallVec;

use super::answer::{CandidateView, Candidates};
use super::enumeration::candidate_steps;
use super::hosts::HostSearch;
use super::plan::{CompiledQuery, Plan};
use super::taken::Taken;
use crate::ids::{ClassId, ProviderId};
use crate::rows::Allocation;

/// What one step of the exhaustive search costs, in the steps of about 10 ns in which this file counts: in each step
/// the search looks for suppliers of all variables.
const BACKTRACK_STEPS: usize = 30;

/// How many consumers a host can serve one after another, found by searches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostRoom {
    /// The number of consumers for which room was found.
    pub count: u64,
    /// What the searches cost, in steps of about 10 ns.
    pub steps: usize,
    /// False if the limit of steps ended the searches before it was known whether there is room for one more.
    pub is_complete: bool,
    /// Whether no candidate is left for a further consumer, not even one that the caller would not admit. False for
    /// flat hosts, which are not searched.
    pub is_exhausted: bool,
}

/// How much the searches for the room of a host may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomLimits {
    /// How many candidates are tried for a consumer.
    pub candidates: usize,
    /// The steps of about 10 ns after which no further search begins.
    pub steps: usize,
}

/// How many consumers a tree can serve one after another, computed from the amounts of each class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeRoom {
    /// The number of consumers.
    pub count: u64,
    /// The class of which there is then too little for one more consumer: of several such classes the one that the
    /// query names first.
    pub lacking: ClassId,
}

impl HostSearch<'_> {
    /// How many consumers a host can serve one after another, in addition to those that have `taken` something. Each
    /// gets the first candidate that `admits` accepts, of those among the first `limits.candidates` that still fit.
    /// What they get is added to `taken`, so that a further call continues where the limit of steps ended this one.
    ///
    /// The query must request resources. Without them the number would be infinite; the result is then 0.
    pub fn room(
        &self,
        host: ProviderId,
        limits: RoomLimits,
        taken: &mut Taken,
        admits: impl Fn(CandidateView<'_>) -> bool,
    ) -> HostRoom {
        let classified = self.root_selection.classify(&self.plan, host);
        // The masks have no bits but that of the host. So `hosts` is not 0 if the host is flat and feasible.
        if classified.hosts != 0 {
            return HostRoom {
                count: self.room_of_flat_host(host, taken, admits),
                steps: 0,
                is_complete: true,
                is_exhausted: false,
            };
        }
        let mut room = HostRoom::default();
        if classified.trees == 0 {
            room.is_complete = true;
            return room;
        }
        let mut found = Candidates::new(self.plan.group_count);
        while room.steps < limits.steps {
            let (mut consumers, mut tried, mut is_abandoned) = (0, 0, false);
            self.search_tree(host, taken, |search, scratch| {
                while tried < limits.candidates && search.next(&self.plan, scratch) {
                    tried += 1;
                    found.push_assignment(&self.plan, search);
                    if let Some(candidate) = found.get(0).filter(|candidate| admits(*candidate)) {
                        consumers = consumers_of(&self.plan, candidate.allocations(), taken);
                        break;
                    }
                    found.pop();
                }
                room.steps += search.start_steps(&self.plan)
                    + tried * candidate_steps(&self.plan)
                    + scratch.used_steps() * BACKTRACK_STEPS;
                is_abandoned = scratch.ran_out_of_steps();
                true
            });
            if consumers <= 0 {
                room.is_complete = true;
                room.is_exhausted = tried == 0 && !is_abandoned;
                break;
            }
            if let Some(candidate) = found.get(0) {
                taken.take(candidate.allocations(), consumers);
            }
            found.pop();
            room.count = room.count.saturating_add(consumers.unsigned_abs());
        }
        room
    }

    fn room_of_flat_host(
        &self,
        host: ProviderId,
        taken: &mut Taken,
        admits: impl Fn(CandidateView<'_>) -> bool,
    ) -> u64 {
        let mut found = Candidates::new(self.plan.group_count);
        found.push_host(host, &self.root_selection.flat.total, self.plan.group_count);
        let Some(candidate) = found.get(0).filter(|candidate| admits(*candidate)) else {
            return 0;
        };
        let consumers = consumers_of(&self.plan, candidate.allocations(), taken).max(0);
        taken.take(candidate.allocations(), consumers);
        consumers.unsigned_abs()
    }

    /// How many consumers a tree can serve one after another, if the number follows from the amounts of each class
    /// alone. It does if the query has one group, which may take each class from a different provider, and if the
    /// traits that the group requires are covered whichever providers are taken. `None` if it does not, or if the tree
    /// has no room for a single consumer.
    #[must_use]
    pub fn independent_room(&self, host: ProviderId) -> Option<TreeRoom> {
        let plan = &self.plan;
        if !has_independent_classes(plan) || !self.root_selection.sharing.is_empty() {
            return None;
        }
        if self.root_selection.classify(plan, host).trees == 0 {
            return None;
        }
        let mut rooms: SmallVec<[ClassRoom; 6]> = SmallVec::new();
        rooms.resize_with(plan.variables.len(), || ClassRoom::new(plan));
        self.add_rooms(host, host, &mut rooms);
        let is_covered = |list: usize| rooms.iter().any(|room| room.covers >> list & 1 == 1);
        if !(0..plan.collective.len()).all(is_covered) {
            return None;
        }
        let least = rooms.iter().map(|room| room.count).min()?;
        let lacking = rooms.iter().position(|room| room.count == least)?;
        let condition = &plan.conditions[plan.variables[lacking].condition];
        let (class, _) = condition.resources.first()?;
        (least > 0).then_some(TreeRoom {
            count: least,
            lacking: *class,
        })
    }

    /// Adds what a provider and its descendants give to each variable.
    fn add_rooms(&self, root: ProviderId, id: ProviderId, rooms: &mut [ClassRoom]) {
        let plan = &self.plan;
        let Some(provider) = plan.state.provider(id) else {
            return;
        };
        for (variable, room) in plan.variables.iter().zip(rooms.iter_mut()) {
            let condition = &plan.conditions[variable.condition];
            let Some((class, amount)) = condition.resources.first() else {
                continue;
            };
            let Some(row) = provider.inventory(*class) else {
                continue;
            };
            let or_root = &condition.provider_or_root;
            let is_match = condition.admits(plan.state, id)
                && (or_root.required.is_empty()
                    || or_root.admits(plan.state, id)
                    || or_root.admits(plan.state, root));
            if !is_match {
                continue;
            }
            let free = row.capacity.saturating_sub(row.used);
            let consumers = free.checked_div(*amount).unwrap_or(0);
            room.count = room
                .count
                .saturating_add(u64::try_from(consumers).unwrap_or(0));
            for (list, sets) in plan.collective.iter().enumerate() {
                if !sets.iter().any(|set| set.slots(plan.state).contains(id.0)) {
                    room.covers &= !(1 << list);
                }
            }
        }
        for child in &provider.children {
            self.add_rooms(root, *child, rooms);
        }
    }
}

/// What a tree can give of one class.
struct ClassRoom {
    /// The number of consumers that can get the class.
    count: u64,
    /// The lists of collective traits (see `CompiledQuery`) of which every provider that could give the class has one,
    /// as bits: whichever of them gives it, the list is satisfied.
    covers: u64,
}

impl ClassRoom {
    fn new(plan: &CompiledQuery) -> Self {
        let lists = u32::try_from(plan.collective.len()).unwrap_or(u32::MAX);
        Self {
            count: 0,
            covers: 1u64.checked_shl(lists).map_or(u64::MAX, |bit| bit - 1),
        }
    }
}

/// Whether the variables of a query do not depend on each other, apart from the traits that they cover together.
fn has_independent_classes(plan: &CompiledQuery) -> bool {
    plan.suffixed_count == 0
        && plan.contended.is_empty()
        && plan.subtrees.is_empty()
        && plan.may_use_several_per_tree
        && plan.collective.len() < 64
        && plan
            .conditions
            .iter()
            .all(|condition| condition.resources.len() == 1)
}

/// How many consumers with these allocations fit one after another into what is left.
fn consumers_of(plan: &Plan<'_>, allocations: &[Allocation], taken: &Taken) -> i64 {
    let consumers = allocations.iter().map(|allocation| {
        let free = taken.free(plan.state, allocation.provider, allocation.class);
        free.checked_div(i64::from(allocation.amount)).unwrap_or(0)
    });
    consumers.min().unwrap_or(0)
}
