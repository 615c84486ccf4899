//! The search of one tree: which of its members and sharing providers serve which choice.

use smallvec::SmallVec;

use super::bits::Bits;
use super::complete::Scratch;
use super::order::Shuffle;
use super::plan::{Plan, ProviderCondition, headroom};
use super::sharing::Sharing;
use super::traits::CoverOptions;
use crate::hash::Map;
use crate::ids::ProviderId;

/// Marks a choice that no place is assigned to.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// By kind: a bit mask of the providers that may serve it.
pub(crate) type Matches = Vec<Vec<u64>>;

/// Enumerates all ways in which one tree, with the sharing providers in its reach, can serve a
/// request.
///
/// It backtracks over the choices in a fixed order. Before it descends it proves that the rest can
/// be completed, so it never searches a branch without a candidate.
pub(crate) struct TreeSearch {
    /// The usable providers ("places" below): members of the tree from the root downwards, then
    /// sharing providers.
    pub(super) places: Vec<ProviderId>,
    /// By kind: the places that may serve it, in the order of trial.
    pub(super) options: Vec<Vec<u32>>,
    /// By place: the kinds that it may serve.
    pub(super) serves: Vec<Bits>,
    /// By place and contended class: the remaining capacity.
    pub(super) residual: Vec<i64>,
    /// By place: whether it is a sharing provider, which other trees can use too.
    pub(super) shared: Vec<bool>,
    /// By place: its ancestors and itself. Filled only with `same_subtree`.
    pub(super) above: Vec<Bits>,
    /// By place: its descendants and itself. Filled only with `same_subtree`.
    pub(super) below: Vec<Bits>,
    /// By kind: the places that may serve it, as a set. Filled only with `same_subtree`.
    pub(super) serving: Vec<Bits>,
    /// By place: the collective trait lists that it satisfies. Filled only with such lists.
    pub(super) covers: Vec<Bits>,
    /// By kind: its offers of collective traits. Filled only with such lists.
    pub(super) offers: Vec<CoverOptions>,
    /// By place: the root of its tree. Filled only when a candidate may use one provider of a
    /// tree.
    pub(super) tree_of: Vec<ProviderId>,
    /// By place: the number of choices assigned to it, and of suffixed groups among them.
    pub(super) count_at: Vec<u32>,
    pub(super) granular_at: Vec<u32>,
    /// The choices in the order of assignment.
    pub(super) order: Vec<usize>,
    /// By choice: the assigned place, or [`NOWHERE`].
    pub(super) chosen: Vec<u32>,
    /// By depth: the index of the next option to try.
    cursor: Vec<usize>,
    /// By depth: options that were tried and proved infeasible.
    failed: Vec<SmallVec<[u32; 4]>>,
    /// By choice: its place in a known completion; valid while `witnessed`.
    pub(super) witness: Vec<u32>,
    /// Whether the witness completes the current assignment.
    witnessed: bool,
    /// Whether candidates that use sharing providers only are skipped, because another tree
    /// produced them.
    pub(super) only_with_own: bool,
    /// The number of candidates found in this tree.
    pub(super) made: usize,
    started: bool,
}

impl TreeSearch {
    /// Allocates buffers for searching trees with this plan.
    pub(crate) fn new(plan: &Plan<'_>) -> Self {
        let choices = plan.choices.len();
        Self {
            places: Vec::new(),
            options: vec![Vec::new(); plan.kinds.len()],
            serves: Vec::new(),
            residual: Vec::new(),
            shared: Vec::new(),
            above: Vec::new(),
            below: Vec::new(),
            serving: Vec::new(),
            covers: Vec::new(),
            offers: Vec::new(),
            tree_of: Vec::new(),
            count_at: Vec::new(),
            granular_at: Vec::new(),
            order: (0..choices).collect(),
            chosen: vec![NOWHERE; choices],
            cursor: vec![0; choices],
            failed: vec![SmallVec::new(); choices],
            witness: vec![NOWHERE; choices],
            witnessed: false,
            only_with_own: false,
            made: 0,
            started: false,
        }
    }

    /// Starts on a tree. False when some choice has no place in it.
    pub(crate) fn open(
        &mut self,
        plan: &Plan<'_>,
        matches: &Matches,
        sharing: &Sharing,
        root: ProviderId,
    ) -> bool {
        self.clear();
        self.add_members(plan, matches, root);
        if !sharing.is_empty() {
            self.add_sharing(plan, matches, sharing, root);
        }
        if self.options.iter().any(Vec::is_empty) {
            return false;
        }
        let places = self.places.len();
        self.count_at.resize(places, 0);
        self.granular_at.resize(places, 0);
        self.shared.extend(
            self.places
                .iter()
                .map(|id| !sharing.is_empty() && sharing.contains(*id)),
        );
        for id in &self.places {
            let provider = plan.state.provider(*id);
            self.residual.extend(
                plan.contended
                    .iter()
                    .map(|class| provider.map_or(-1, |provider| headroom(provider, *class))),
            );
            if !plan.nested {
                self.tree_of
                    .push(provider.map_or(*id, |provider| provider.root));
            }
        }
        if !self.could_hold_all(plan) {
            return false;
        }
        self.note_lineage(plan);
        self.note_collective(plan);
        true
    }

    /// The cost of starting on the tree, in steps of about 10 ns.
    pub(super) fn size(&self, plan: &Plan<'_>) -> usize {
        // Members without use were scanned as well; most trees have few of them.
        8 + self.places.len() * (2 + plan.kinds.len() / 2)
    }

    fn clear(&mut self) {
        self.places.clear();
        for options in &mut self.options {
            options.clear();
        }
        self.serves.clear();
        self.residual.clear();
        self.shared.clear();
        self.above.clear();
        self.below.clear();
        self.serving.clear();
        self.covers.clear();
        self.offers.clear();
        self.tree_of.clear();
        self.count_at.clear();
        self.granular_at.clear();
        self.chosen.fill(NOWHERE);
        self.witness.fill(NOWHERE);
        self.cursor.fill(0);
        self.failed.iter_mut().for_each(SmallVec::clear);
        for (depth, choice) in self.order.iter_mut().enumerate() {
            *choice = depth;
        }
        self.witnessed = false;
        self.only_with_own = false;
        self.made = 0;
        self.started = false;
    }

    fn add_members(&mut self, plan: &Plan<'_>, matches: &Matches, root: ProviderId) {
        let mut stack = vec![root];
        while let Some(id) = stack.pop() {
            self.add_place(
                matches,
                id,
                |kind| {
                    kind.spanning.all.is_empty()
                        || kind.spanning.admits(plan.state, id)
                        || kind.spanning.admits(plan.state, root)
                },
                plan,
            );
            if let Some(provider) = plan.state.provider(id) {
                stack.extend(provider.children.iter().rev());
            }
        }
    }

    /// Adds the sharing providers in reach of any member.
    fn add_sharing(
        &mut self,
        plan: &Plan<'_>,
        matches: &Matches,
        sharing: &Sharing,
        root: ProviderId,
    ) {
        let mut sharers = Vec::new();
        for member in plan.state.subtree(root) {
            sharing.collect(plan, member, &mut sharers);
        }
        sharers.sort_unstable();
        sharers.dedup();
        for id in sharers {
            if plan.state.provider(id).map(|provider| provider.root) != Some(root) {
                self.add_place(
                    matches,
                    id,
                    |kind| kind.takes_shared && kind.spanning.admits(plan.state, id),
                    plan,
                );
            }
        }
    }

    fn add_place(
        &mut self,
        matches: &Matches,
        id: ProviderId,
        may_serve: impl Fn(&ProviderCondition) -> bool,
        plan: &Plan<'_>,
    ) {
        let (word, bit) = (id.index() / 64, id.0 % 64);
        let place = u32::try_from(self.places.len()).unwrap_or(NOWHERE);
        let mut serves = Bits::default();
        for (number, kind) in plan.kinds.iter().enumerate() {
            let is_match = match matches.get(number) {
                Some(words) => words[word] >> bit & 1 == 1,
                None => kind.admits(plan.state, id),
            };
            if is_match && may_serve(kind) {
                self.options[number].push(place);
                serves.insert(number);
            }
        }
        if !serves.is_empty() {
            self.places.push(id);
            self.serves.push(serves);
        }
    }

    fn note_lineage(&mut self, plan: &Plan<'_>) {
        if plan.subtrees.is_empty() {
            return;
        }
        let place_of: Map<ProviderId, usize> =
            (0..).zip(&self.places).map(|(at, id)| (*id, at)).collect();
        for (place, id) in self.places.iter().enumerate() {
            let mut above = Bits::default();
            above.insert(place);
            let mut parent = plan
                .state
                .provider(*id)
                .and_then(|provider| provider.parent);
            while let Some(id) = parent {
                if let Some(place) = place_of.get(&id) {
                    above.insert(*place);
                }
                parent = plan.state.provider(id).and_then(|provider| provider.parent);
            }
            self.above.push(above);
        }
        self.below.resize(self.places.len(), Bits::default());
        for (place, above) in self.above.iter().enumerate() {
            for top in above.iter() {
                self.below[top].insert(place);
            }
        }
        for options in &self.options {
            let mut serving = Bits::default();
            for place in options {
                serving.insert(*place as usize);
            }
            self.serving.push(serving);
        }
    }

    /// Shuffles the choices and the options of each.
    pub(crate) fn shuffle(&mut self, shuffle: &mut Shuffle) {
        shuffle.order(&mut self.order);
        for options in &mut self.options {
            shuffle.order(options);
        }
    }

    /// A signature of the sharing providers that each kind can use: trees with equal signatures
    /// produce the same sharing-only candidates. Empty when some choice has none.
    pub(crate) fn shared_options(&self) -> Vec<u32> {
        let mut signature = Vec::new();
        for options in &self.options {
            let before = signature.len();
            signature.extend(
                options
                    .iter()
                    .filter(|place| self.shared[**place as usize])
                    .map(|place| self.places[*place as usize].0),
            );
            signature[before..].sort_unstable();
            if signature.len() == before {
                return Vec::new();
            }
            signature.push(NOWHERE);
        }
        signature
    }

    /// Whether the tree itself has a usable provider.
    pub(crate) fn has_own(&self) -> bool {
        self.shared.contains(&false)
    }

    /// Whether the assignment uses sharing providers only.
    pub(crate) fn all_shared(&self) -> bool {
        self.chosen.iter().all(|place| self.shared[*place as usize])
    }

    /// Advances to the next candidate; [`Self::place_of`] reads it. False at the end.
    pub(crate) fn next(&mut self, plan: &Plan<'_>, scratch: &mut Scratch) -> bool {
        let count = self.order.len();
        let mut depth = 0;
        if self.started {
            depth = count - 1;
            self.take(plan, self.order[depth]);
            self.witnessed = false;
        } else {
            self.started = true;
            if count == 0 || !self.complete(plan, 0, scratch) {
                return false;
            }
            self.witnessed = true;
        }
        loop {
            if self.advance(plan, depth, scratch) {
                depth += 1;
                if depth == count {
                    self.made += 1;
                    return true;
                }
                self.cursor[depth] = 0;
                self.failed[depth].clear();
            } else if depth == 0 {
                return false;
            } else {
                depth -= 1;
                self.take(plan, self.order[depth]);
                self.witnessed = false;
            }
        }
    }

    /// Assigns the next feasible option at a depth.
    fn advance(&mut self, plan: &Plan<'_>, depth: usize, scratch: &mut Scratch) -> bool {
        let choice = self.order[depth];
        let kind = plan.choices[choice].kind;
        while let Some(place) = self.options[kind].get(self.cursor[depth]).copied() {
            self.cursor[depth] += 1;
            if !self.admits(plan, choice, place) || !self.leaves_own(plan, depth, place) {
                continue;
            }
            // An option that is interchangeable with a failed one fails too.
            if self.failed[depth]
                .iter()
                .any(|other| self.alike(plan, *other, place))
            {
                continue;
            }
            self.put(plan, choice, place);
            if (self.witnessed && self.witness[choice] == place)
                || self.complete(plan, depth + 1, scratch)
            {
                self.witnessed = true;
                return true;
            }
            self.take(plan, choice);
            self.failed[depth].push(place);
        }
        false
    }

    /// The provider assigned to a choice.
    pub(crate) fn place_of(&self, choice: usize) -> ProviderId {
        self.places[self.chosen[choice] as usize]
    }
}
