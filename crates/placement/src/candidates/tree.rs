//! One tree as the search sees it: who in it, or sharing with it, may serve which choice.

use smallvec::SmallVec;

use super::bits::Bits;
use super::complete::Scratch;
use super::order::Shuffle;
use super::plan::{Kind, Plan, headroom};
use super::sharing::Sharing;
use super::traits::Offers;
use crate::hash::Map;
use crate::ids::ProviderId;

/// No place chosen.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// The providers that may serve the kinds of a plan, as words of 64 each.
pub(crate) type Matches = Vec<Vec<u64>>;

/// The search for all ways in which one tree, with those who share with it, can serve a request.
///
/// It goes through the choices one after the other and tries the places of each. Before it goes
/// deeper it makes sure that the rest can be completed, so it never looks for the next candidate in
/// a branch that has none.
pub(crate) struct TreeSearch {
    /// The providers that may serve anything: members of the tree from its root downwards, then
    /// those who share.
    pub(super) places: Vec<ProviderId>,
    /// By kind: the places that may serve it, in the order in which they are tried.
    pub(super) options: Vec<Vec<u32>>,
    /// By place: the kinds that it may serve.
    pub(super) serves: Vec<Bits>,
    /// By place and contended class: what is left.
    pub(super) residual: Vec<i64>,
    /// By place: whether other trees can use it too.
    pub(super) shared: Vec<bool>,
    /// By place: the places above it, and itself. Only with `same_subtree`.
    pub(super) above: Vec<Bits>,
    /// By place: the places under it, and itself. Only with `same_subtree`.
    pub(super) below: Vec<Bits>,
    /// By kind: the places that may serve it, as a set. Only with `same_subtree`.
    pub(super) serving: Vec<Bits>,
    /// By place: which lists of collective traits it has one of. Only with such lists.
    pub(super) covers: Vec<Bits>,
    /// By kind: places that may serve it, for each set of lists that one has. Only with such lists.
    pub(super) offers: Vec<Offers>,
    /// By place: the root of its tree. Only when no two providers of a tree may be taken.
    pub(super) tree_of: Vec<ProviderId>,
    /// By place: how many choices are there, and how many of them are suffixed groups.
    pub(super) count_at: Vec<u32>,
    pub(super) granular_at: Vec<u32>,
    /// The choices in the order in which they are made.
    pub(super) order: Vec<usize>,
    /// By choice: its place.
    pub(super) chosen: Vec<u32>,
    /// By depth: the next option to try.
    cursor: Vec<usize>,
    /// By depth: options that were tried and leave nothing.
    failed: Vec<SmallVec<[u32; 4]>>,
    /// By choice: a place in a completion that is known to work, as far as `witnessed` says.
    pub(super) witness: Vec<u32>,
    /// Whether the witness completes what is chosen now.
    witnessed: bool,
    /// Whether candidates of shared places only were found from another tree.
    pub(super) only_with_own: bool,
    /// How many candidates were made of this tree.
    pub(super) made: usize,
    started: bool,
}

impl TreeSearch {
    /// Buffers for trees of this plan.
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

    /// Takes up a tree. False when some choice has no place in it.
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

    /// What taking the tree up cost, in steps of about 10 ns.
    pub(super) fn size(&self, plan: &Plan<'_>) -> usize {
        // Members that may serve nothing were looked at as well; most trees have few of them.
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

    /// Adds the providers of other trees that share with any member of this one.
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
        may_serve: impl Fn(&Kind) -> bool,
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

    /// Puts choices and their places into a random order.
    pub(crate) fn shuffle(&mut self, shuffle: &mut Shuffle) {
        shuffle.order(&mut self.order);
        for options in &mut self.options {
            shuffle.order(options);
        }
    }

    /// The sharing providers that each kind could take: trees that agree in this have the same
    /// candidates of sharing providers only. Empty when some choice has none.
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

    /// Whether any place is one that only this tree can use.
    pub(crate) fn has_own(&self) -> bool {
        self.shared.contains(&false)
    }

    /// Whether every place chosen can be used by other trees too.
    pub(crate) fn all_shared(&self) -> bool {
        self.chosen.iter().all(|place| self.shared[*place as usize])
    }

    /// Goes to the next way to serve the request; [`Self::place_of`] tells it.
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

    /// Makes the next possible choice at a depth.
    fn advance(&mut self, plan: &Plan<'_>, depth: usize, scratch: &mut Scratch) -> bool {
        let choice = self.order[depth];
        let kind = plan.choices[choice].kind;
        while let Some(place) = self.options[kind].get(self.cursor[depth]).copied() {
            self.cursor[depth] += 1;
            if !self.admits(plan, choice, place) || !self.leaves_own(plan, depth, place) {
                continue;
            }
            // What only the name tells from a place without a future has none either.
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

    /// Where a choice is.
    pub(crate) fn place_of(&self, choice: usize) -> ProviderId {
        self.places[self.chosen[choice] as usize]
    }
}
