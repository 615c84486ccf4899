//! One tree in the search: its usable providers, what each can serve, and the assignment so far.

use smallvec::SmallVec;

use super::bits::Bits;
use super::plan::{Plan, ProviderCondition};
use super::sharing::Sharing;
use super::shuffle::Shuffle;
use crate::hash::Map;
use crate::ids::ProviderId;

/// Marks a choice that no place is assigned to.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// By kind: a bit mask of the providers that may serve it.
pub(crate) type Matches = Vec<Vec<u64>>;

/// The places open to a choice, one representative for each distinct subset of the wanted traits.
pub(super) type CoverOptions = SmallVec<[(Bits, u32); 4]>;

/// One tree with the sharing providers in its reach, and the places assigned to the choices of a
/// request.
///
/// The files beside this one add to it, each using only those before it: [`traits`](super::traits)
/// and [`rules`](super::rules) say what binds the choices, [`bounds`](super::bounds) and
/// [`scratch`](super::scratch) what may still be open, [`branch`](super::branch) and
/// [`complete`](super::complete) whether the rest can be completed, and [`walk`](super::walk) goes
/// from candidate to candidate.
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
    pub(super) cursor: Vec<usize>,
    /// By depth: options that were tried and proved infeasible.
    pub(super) failed: Vec<SmallVec<[u32; 4]>>,
    /// By choice: its place in a known completion; valid while `witnessed`.
    pub(super) witness: Vec<u32>,
    /// Whether the witness completes the current assignment.
    pub(super) witnessed: bool,
    /// Whether candidates that use sharing providers only are skipped, because another tree
    /// produced them.
    pub(super) only_with_own: bool,
    /// The number of candidates found in this tree.
    pub(super) made: usize,
    /// Whether the first candidate was asked for.
    pub(super) started: bool,
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

    /// The cost of starting on the tree, in steps of about 10 ns.
    pub(super) fn size(&self, plan: &Plan<'_>) -> usize {
        // Members without use were scanned as well; most trees have few of them.
        8 + self.places.len() * (2 + plan.kinds.len() / 2)
    }

    /// Forgets the tree and keeps the buffers.
    pub(super) fn clear(&mut self) {
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

    /// Adds the members of the tree that may serve some choice.
    pub(super) fn add_members(&mut self, plan: &Plan<'_>, matches: &Matches, root: ProviderId) {
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
    pub(super) fn add_sharing(
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

    /// Records ancestors and descendants, which `same_subtree` asks for.
    pub(super) fn note_lineage(&mut self, plan: &Plan<'_>) {
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

    /// The provider assigned to a choice.
    pub(crate) fn place_of(&self, choice: usize) -> ProviderId {
        self.places[self.chosen[choice] as usize]
    }
}
