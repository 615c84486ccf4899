//! The candidate rules of a request that apply to a host.

use crate::hosts::service_versions::ServiceVersions;
use crate::translate::prepare::Prepared;
use crate::translate::rule::CandidateRule;

/// The candidate rules of a request that apply to the host in a slot. A rule of `rules_since` applies only if no
/// compute service of the host's cell has a version before the one that is given with the rule.
pub(super) fn rules_on<'a>(
    prepared: &'a Prepared,
    versions: &ServiceVersions,
    slot: u32,
) -> impl Iterator<Item = &'a CandidateRule> + Clone {
    let translation = &prepared.translation;
    let since = translation.rules_since.iter();
    let used = since.filter(move |(version, _)| versions.is_used_on(slot, *version));
    translation.rules.iter().chain(used.map(|(_, rule)| rule))
}
