//! Why a query finds candidates or none: the answer behind `GET /placewright/v1/explain`.
//!
//! [`explain`] splits the query of [`find_candidates`](crate::find_candidates) into constraints and
//! finds which of them each root fails. The result says how many roots each constraint removed, in
//! the order of application and on its own; the smallest set of constraints that no root satisfies;
//! and the roots that nearly fit, with the amounts and traits that they lack.
//!
//! Flat hosts (no tree, no sharing provider in reach) are evaluated exactly, 64 at a time. So are
//! trees, as long as no two constraints concern the same provider. Other trees are searched, one of
//! each tree class (trees that the query cannot distinguish). When there are too many classes the
//! search stops after a fixed amount of work, and [`Explanation::unsearched`] is the number of
//! trees that were not searched.

mod constraint;
mod constraint_table;
mod first_failed;
mod lineage;
mod misses;
mod relaxed;
mod shortfall;
mod smallest;
mod tree_classes;

pub use constraint::{Constraint, Subject};
pub use first_failed::{FirstFailed, first_failed};
pub use misses::NearMiss;
pub use shortfall::Shortfall;

use crate::candidates::{CandidateQuery, QueryRefusal};
use crate::state::State;
use constraint::ConstraintList;
use constraint_table::{ConstraintTable, FleetIndex};

/// Why roots of a fleet cannot serve a query: how many of them each constraint excludes, and which come nearest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The number of roots.
    pub roots: usize,
    /// The number of roots that can serve the request; a lower bound when trees are unsearched.
    pub left: usize,
    /// The number of trees that were not searched, because the work allowed was used up.
    pub unsearched: usize,
    /// The constraints in the order of application, each with its effect.
    pub effects: Vec<Effect>,
    /// Indexes into `effects`: the smallest set of constraints that is infeasible for every root; of several smallest
    /// ones the first. `None` if some root is feasible, if there are no roots, or if the set was not found within the
    /// work allowed.
    pub smallest: Option<Vec<usize>>,
    /// The roots that fail the fewest constraints, those with the smallest shortfalls first; at most ten.
    pub near_misses: Vec<NearMiss>,
    /// Whether the work allowed was enough: no tree is unsearched, and neither a near miss nor the
    /// smallest set is missing for lack of time. Otherwise the counts are lower bounds.
    pub is_exact: bool,
}

/// The effect of one constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The constraint that has this effect.
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
/// [`QueryRefusal`] for a resource class or trait that does not exist. (The search answers such a
/// query with no candidates when what precedes the name already excludes every provider.)
pub fn explain(state: &State, query: &CandidateQuery) -> Result<Explanation, QueryRefusal> {
    explain_with_serving(state, query).map(|(explanation, _)| explanation)
}

/// As [`explain`], and returns the feasible roots too.
///
/// # Errors
///
/// As [`explain`].
pub fn explain_with_serving(
    state: &State,
    query: &CandidateQuery,
) -> Result<(Explanation, Serving), QueryRefusal> {
    let constraint_list = ConstraintList::new(state, query)?;
    let fleet_index = FleetIndex::new(state);
    let mut table = ConstraintTable::new(state, query, &constraint_list, &fleet_index);
    let outcome = table.apply_in_order();
    let effects: Vec<Effect> = constraint_list
        .constraints
        .iter()
        .zip(outcome.removed)
        .enumerate()
        .map(|(index, (constraint, removed))| Effect {
            constraint: constraint.clone(),
            removed,
            removed_alone: table.removed_alone(index),
        })
        .collect();
    let is_infeasible = outcome.left == 0 && table.unsearched == 0 && !state.roots().is_empty();
    let smallest = is_infeasible.then(|| table.smallest()).flatten();
    let is_smallest_unknown = is_infeasible && smallest.is_none();
    let near_misses = table.near_misses();
    let is_exact = table.unsearched == 0 && !table.budget_is_used_up() && !is_smallest_unknown;
    let explanation = Explanation {
        roots: state.roots().len(),
        left: outcome.left,
        unsearched: table.unsearched,
        effects,
        smallest,
        near_misses,
        is_exact,
    };
    let serving = Serving {
        roots: outcome.serving,
        unknown: outcome.unknown,
    };
    Ok((explanation, serving))
}

#[cfg(test)]
mod tests;
