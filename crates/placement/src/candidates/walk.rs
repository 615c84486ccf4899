//! The walk over the candidates of one tree.
//!
//! It backtracks over the choices in a fixed order. Before it descends it proves that the rest can
//! be completed, so it never searches a branch without a candidate.

use super::plan::{Plan, headroom};
use super::scratch::Scratch;
use super::sharing::Sharing;
use super::tree::{Matches, TreeSearch};
use crate::ids::ProviderId;

impl TreeSearch {
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
}
