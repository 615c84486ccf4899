//! Why a request finds what it finds: the answer behind `GET /explain`.
//!
//! [`explain`] takes the query of [`find_candidates`](crate::find_candidates) apart into
//! constraints and asks of every root which of them it fails. It answers how many roots each
//! constraint removed, in the order applied and alone; the smallest set of constraints that leaves
//! nothing; and the roots that nearly fit, with what they lack.
//!
//! Flat hosts (no tree, no sharing provider in reach) are evaluated exactly, 64 at a time.
//! Trees are counted in the same way as far as no two constraints meet in one provider. Beyond that
//! they are searched, one for each kind of trees that the query cannot tell apart. When there are
//! too many kinds the search stops after a fixed amount of work and [`Explanation::unsearched`] says
//! how many trees are missing.

mod constraint;
mod effects;
mod first_failed;
mod lineage;
mod misses;
mod relaxed;
mod shortfall;
mod smallest;
mod tree_classes;

pub use constraint::{Constraint, Scope};
pub use first_failed::first_failed;
pub use misses::NearMiss;
pub use shortfall::Shortfall;

use crate::candidates::{CandidateQuery, QueryRefusal};
use crate::state::State;
use constraint::Parts;
use effects::{ConstraintTable, FleetIndex};

/// What each constraint of a query does to the roots of a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The number of roots.
    pub roots: usize,
    /// The number of roots that can serve the request; a lower bound when trees are unsearched.
    pub left: usize,
    /// The number of trees that the work allowed did not suffice to search.
    pub unsearched: usize,
    /// The constraints in the order of application, each with its effect.
    pub effects: Vec<Effect>,
    /// Indexes into `effects`: the smallest set of constraints that is infeasible for every root;
    /// of several smallest ones the first. `None` if some root is feasible, or if it was not found
    /// within the work allowed.
    pub smallest: Option<Vec<usize>>,
    /// The roots that fail the fewest constraints, those that lack least first; at most ten kinds.
    pub near_misses: Vec<NearMiss>,
    /// Whether the work allowed was enough: no tree is unsearched and no near miss is missing for
    /// lack of time. Otherwise counts say "at least".
    pub is_exact: bool,
}

/// The effect of one constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The condition of the query that this is about.
    pub constraint: Constraint,
    /// How many roots fail at this constraint after passing all those before it.
    pub removed: usize,
    /// How many roots fail this constraint even on its own.
    pub removed_alone: usize,
}

/// The roots that an explanation counts as feasible.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Serving {
    /// Bit mask of the roots that can serve the query.
    pub roots: Vec<u64>,
    /// Bit mask of the trees that were not searched within the work allowed: feasible or not.
    pub unknown: Vec<u64>,
}

/// Explains a query.
///
/// # Errors
///
/// [`QueryRefusal`] for a resource class or trait that does not exist. (The search may answer such
/// a query, with nothing, when something before the name already leaves nothing.)
pub fn explain(state: &State, query: &CandidateQuery) -> Result<Explanation, QueryRefusal> {
    explain_and_serve(state, query).map(|(explanation, _)| explanation)
}

/// As [`explain`], and says which roots are left.
///
/// # Errors
///
/// As [`explain`].
pub fn explain_and_serve(
    state: &State,
    query: &CandidateQuery,
) -> Result<(Explanation, Serving), QueryRefusal> {
    let parts = Parts::new(state, query)?;
    let basis = FleetIndex::new(state);
    let mut ledger = ConstraintTable::new(state, query, &parts, &basis);
    let outcomes = ledger.apply_in_order();
    let effects: Vec<Effect> = parts
        .constraints
        .iter()
        .zip(outcomes.removed)
        .enumerate()
        .map(|(index, (constraint, removed))| Effect {
            constraint: constraint.clone(),
            removed,
            removed_alone: ledger.removed_alone(index),
        })
        .collect();
    let is_refused = outcomes.left == 0 && ledger.unsearched == 0 && !state.roots().is_empty();
    let smallest = is_refused.then(|| ledger.smallest()).flatten();
    let near_misses = ledger.near_misses();
    let is_cut = ledger.unsearched > 0 || ledger.is_cut();
    let explanation = Explanation {
        roots: state.roots().len(),
        left: outcomes.left,
        unsearched: ledger.unsearched,
        effects,
        smallest,
        near_misses,
        is_exact: !is_cut,
    };
    let serving = Serving {
        roots: outcomes.serving,
        unknown: outcomes.unknown,
    };
    Ok((explanation, serving))
}

#[cfg(test)]
mod tests;
