//! The candidate rules of a request that count on a host.

use crate::hosts::service_versions::ServiceVersions;
use crate::translate::prepare::Prepared;
use crate::translate::rule::CandidateRule;

/// The candidate rules of a request that count on the host in a slot.
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
