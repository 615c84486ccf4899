//! The reason why one root is infeasible: the first constraint of a query that it does not pass.

use super::constraint::{Constraint, ConstraintList};
use super::relaxed::RelaxedQuery;
use crate::candidates::{CandidateQuery, QueryRefusal};
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
    let mut constraint_list = ConstraintList::new(state, query)?;
    let serves = |length: usize| {
        let relaxed = RelaxedQuery::new(state, query, &constraint_list, |index| index < length);
        relaxed.is_some_and(|mut relaxed| relaxed.root_fits(root))
    };
    let count = constraint_list.resolved.len();
    if count == 0 || serves(count) {
        return Ok(None);
    }
    // Binary search: the first `low` constraints can be served, the first `high` cannot.
    let (mut low, mut high) = (0, count);
    while high - low > 1 {
        let middle = low.midpoint(high);
        if serves(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(Some(constraint_list.constraints.swap_remove(high - 1)))
}
