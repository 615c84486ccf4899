//! The data that the searches of one request share: buffers, the budget of steps, and the suppliers that the rules
//! allow each variable.

use super::plan::Plan;
use super::tree::{TreeSearch, UNASSIGNED};

/// The budget of steps of the exhaustive search. All searches of one request share it, unless [`Scratch::reset_steps`]
/// gives the next search a full one. Looking for augmenting paths (as in bipartite matching) takes nothing from it.
const STEPS: u32 = 100_000;

/// Buffers and the step budget that all searches of one request share.
pub(crate) struct Scratch {
    /// By variable: the suppliers that the rules allow it, regardless of capacity.
    allowed: Vec<AllowedSuppliers>,
    /// The number of the current call of [`TreeSearch::complete`].
    pub(super) call: u32,
    /// By variable: its supplier in the completion under construction, which assigns a supplier to each variable that
    /// does not have one yet.
    pub(super) completion: Vec<u32>,
    /// By supplier and component of variables (see `SearchVariable`): the round in which an augmenting path last
    /// visited it.
    pub(super) visited: Vec<u32>,
    /// The number of the current search for an augmenting path.
    pub(super) round: u32,
    /// By symmetry class (of variables that are interchangeable; see `SearchVariable`) and supplier: whether no
    /// completion assigns the supplier to a variable of that class.
    pub(super) refuted: Vec<bool>,
    /// The steps that remain of the budget. At 0 the search is abandoned.
    pub(super) steps: u32,
}

/// The suppliers that the rules allow a variable.
#[derive(Clone, Debug, Default)]
struct AllowedSuppliers {
    /// The number of the call that computed the suppliers; see [`Scratch::call`].
    call: u32,
    suppliers: Vec<u32>,
}

impl Scratch {
    pub(crate) fn new(plan: &Plan<'_>) -> Self {
        let variables = plan.variables.len();
        Self {
            allowed: vec![AllowedSuppliers::default(); variables],
            call: 0,
            completion: vec![UNASSIGNED; variables],
            visited: Vec::new(),
            round: 0,
            refuted: Vec::new(),
            steps: STEPS,
        }
    }

    /// Resets the budget for the next search.
    pub(crate) fn reset_steps(&mut self) {
        self.steps = STEPS;
    }

    /// The steps that were used since the budget was reset.
    pub(crate) fn used_steps(&self) -> usize {
        (STEPS - self.steps) as usize
    }

    /// Whether the budget is used up, so that a branch may have been abandoned.
    pub(crate) fn ran_out_of_steps(&self) -> bool {
        self.steps == 0
    }
}

impl TreeSearch {
    /// The number of suppliers that the rules allow a variable, regardless of capacity.
    pub(super) fn allowed_count(
        &self,
        plan: &Plan<'_>,
        variable: usize,
        scratch: &mut Scratch,
    ) -> usize {
        // Variables that require the same of a provider share a condition, and so a domain.
        let domain = &self.domains[plan.variables[variable].condition];
        if plan.only_capacity_matters() {
            return domain.len();
        }
        let allowed = &mut scratch.allowed[variable];
        if allowed.call != scratch.call {
            allowed.call = scratch.call;
            allowed.suppliers.clear();
            allowed.suppliers.extend(
                domain
                    .iter()
                    .filter(|supplier| self.leaves_rules_satisfiable(plan, variable, **supplier)),
            );
        }
        allowed.suppliers.len()
    }

    /// One of the suppliers that [`Self::allowed_count`] counted.
    pub(super) fn allowed_supplier(
        &self,
        plan: &Plan<'_>,
        variable: usize,
        index: usize,
        scratch: &Scratch,
    ) -> u32 {
        if plan.only_capacity_matters() {
            self.domains[plan.variables[variable].condition][index]
        } else {
            scratch.allowed[variable].suppliers[index]
        }
    }
}
