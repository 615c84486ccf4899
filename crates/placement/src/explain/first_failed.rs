//! The reason why one root is infeasible: the first constraint of a query that it does not pass.

use super::constraint::{Constraint, ConstraintList};
use super::relaxed::RelaxedQuery;
use crate::candidates::{CandidateQuery, QueryRefusal, Taken};
use crate::ids::ProviderId;
use crate::state::State;

/// The first constraint that a root cannot serve together with those before it, in the order in
/// which [`explain`](super::explain) applies them; `None` if it can serve all.
///
/// # Errors
///
/// As [`explain`](super::explain).
pub fn first_failed(
    state: &State,
    query: &CandidateQuery,
    root: ProviderId,
) -> Result<Option<Constraint>, QueryRefusal> {
    let mut first_failed = FirstFailed::new(state, query)?;
    Ok(first_failed.of(root, &Taken::default()).cloned())
}

/// Finds the first constraint that a root does not pass, for many roots: what does not depend on the root is kept.
pub struct FirstFailed<'a> {
    state: &'a State,
    query: &'a CandidateQuery,
    constraint_list: ConstraintList,
    /// By length: the query that consists of this many of the first constraints.
    prefixes: Vec<Prefix<'a>>,
    /// The length of the shortest prefix that the previous root could not serve. Many roots fail at the same
    /// constraint, so this length is tried first.
    last_failed: usize,
}

/// The query that consists of the first constraints.
enum Prefix<'a> {
    NotPrepared,
    /// No provider can serve it.
    Infeasible,
    Prepared(Box<RelaxedQuery<'a>>),
}

impl<'a> FirstFailed<'a> {
    /// Prepares a query.
    ///
    /// # Errors
    ///
    /// As [`explain`](super::explain).
    pub fn new(state: &'a State, query: &'a CandidateQuery) -> Result<Self, QueryRefusal> {
        let constraint_list = ConstraintList::new(state, query)?;
        let count = constraint_list.resolved.len();
        Ok(Self {
            state,
            query,
            constraint_list,
            prefixes: (0..=count).map(|_| Prefix::NotPrepared).collect(),
            last_failed: count,
        })
    }

    /// The first constraint that a root cannot serve together with those before it, when `taken` is taken from the
    /// providers of its tree; `None` if it can serve all.
    pub fn of(&mut self, root: ProviderId, taken: &Taken) -> Option<&Constraint> {
        let is_infeasible = false;
        self.find(root, taken, is_infeasible)
    }

    /// As [`Self::of`], for a root that cannot serve all constraints together, as a search has already found. That
    /// search is not made again.
    pub fn of_infeasible(&mut self, root: ProviderId, taken: &Taken) -> Option<&Constraint> {
        let is_infeasible = true;
        self.find(root, taken, is_infeasible)
    }

    /// As [`Self::of`]. `is_infeasible` says that the root is known not to serve all constraints together.
    fn find(
        &mut self,
        root: ProviderId,
        taken: &Taken,
        is_infeasible: bool,
    ) -> Option<&Constraint> {
        let count = self.constraint_list.resolved.len();
        if count == 0 {
            return None;
        }
        // The first `low` constraints can be served, the first `high` cannot.
        let (mut low, mut high) = (0, count);
        let guess = self.last_failed;
        let is_known = is_infeasible && guess == count;
        if is_known || !self.serves(guess, root, taken) {
            high = guess;
            if guess > 1 && self.serves(guess - 1, root, taken) {
                low = guess - 1;
            }
        } else if guess == count || !is_infeasible && self.serves(count, root, taken) {
            return None;
        } else {
            low = guess;
        }
        while high - low > 1 {
            let middle = low.midpoint(high);
            if self.serves(middle, root, taken) {
                low = middle;
            } else {
                high = middle;
            }
        }
        self.last_failed = high;
        self.constraint_list.constraints.get(high - 1)
    }

    /// Whether a root can serve the first `length` constraints together.
    fn serves(&mut self, length: usize, root: ProviderId, taken: &Taken) -> bool {
        let prefix = &mut self.prefixes[length];
        if matches!(prefix, Prefix::NotPrepared) {
            let is_included = |index: usize| index < length;
            let relaxed =
                RelaxedQuery::new(self.state, self.query, &self.constraint_list, is_included);
            *prefix = relaxed.map_or(Prefix::Infeasible, |relaxed| {
                Prefix::Prepared(Box::new(relaxed))
            });
        }
        match prefix {
            Prefix::NotPrepared | Prefix::Infeasible => false,
            Prefix::Prepared(relaxed) => {
                relaxed.reset_steps();
                relaxed.root_fits_without(root, taken)
            }
        }
    }
}
