//! Checks that the explanations of a ranking agree with the linear ranking.

use placewright_placement::State;
use placewright_scheduler::prepare::Prepared;
use placewright_scheduler::rank::Ranked;
use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::select::weights::Weights;
use placewright_scheduler::select::{Scheduler, Scope};

/// The slots whose weights are asked for.
pub(crate) const REQUESTED_SLOTS: [u32; 3] = [7, 3, 9];

/// Asserts that what a ranking rests on, and the ranks and weights of the requested hosts, are those of the linear
/// ranking of all hosts.
pub(crate) fn assert_explained(
    scheduler: &mut Scheduler,
    (state, request, prepared, scope): (&State, &RequestSpec, &Prepared, &Scope),
    ranked: &[Ranked],
    (all, weights): (&[Ranked], &Weights),
) {
    assert_requested(all, weights);
    let result = scheduler.rank_with_basis(state, request, prepared, scope, ranked.len());
    let (again, basis) = result.unwrap();
    assert_eq!(again, ranked);
    assert_eq!(basis.hosts.len(), ranked.len());
    assert!(basis.feasible.is_none_or(|count| count == weights.compared));
    for (host, ranked) in basis.hosts.iter().zip(ranked) {
        assert_eq!(host.slot, ranked.slot);
        let mut indexes = all.iter();
        let index = indexes.position(|other| other.slot == host.slot).unwrap();
        // Weighers that add nothing to any score are left out.
        let mut linear = weights.of_best[index].iter();
        for (weigher, raw) in basis.weighers.iter().zip(&host.raw_values) {
            let is_same =
                linear.any(|weight| weight.weigher == weigher.name && weight.raw_value == *raw);
            assert!(is_same, "{weigher:?} {raw} {:?}", weights.of_best[index]);
        }
    }
}

/// Asserts that the requested hosts have the ranks and weights that they have in the whole ranking.
fn assert_requested(ranked: &[Ranked], weights: &Weights) {
    let expected = ranked.iter().zip(&weights.of_best).enumerate();
    let expected = expected.filter(|(_, (host, _))| REQUESTED_SLOTS.contains(&host.slot));
    let expected = expected.map(|(index, (host, weights))| (host.slot, index + 1, weights));
    let requested = weights.of_requested.iter();
    let requested = requested.map(|host| (host.slot, host.rank, &host.weights));
    assert!(requested.eq(expected));
}
