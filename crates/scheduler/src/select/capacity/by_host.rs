//! Counting host by host, where the instances of one host have no effect on the other hosts.

use std::collections::BTreeMap;

use placewright_placement::slot_set::bits;
use placewright_placement::{ClassId, HostSearch, ProviderId, State};
use uuid::Uuid;

use super::LimitingFactor;
use super::host_counts::HostCounts;
use super::limiting_factors::FactorsByTraits;
use crate::policy::{CompiledFilters, FilterKind};
use crate::request::RequestSpec;
use crate::select::Scheduler;
use crate::select::scope::SelectRefusal;
use crate::translate::prepare::Prepared;

impl Scheduler {
    /// Counts the instances of all flat hosts. Returns also the roots that pass the filters and have to be counted as
    /// trees. `None` if the count has to be simulated, for example because an instance of the request can have an
    /// effect on other hosts or on the verdicts of filters.
    pub(super) fn count_by_host(
        &self,
        state: &State,
        request: &RequestSpec,
        prepared: &Prepared,
    ) -> Result<Option<(HostCounts, Vec<u32>)>, SelectRefusal> {
        let has_rules = request.instance_group.is_some() || !request.topology_rules.is_empty();
        if has_rules || prepared.fallback.is_some() || self.hosts.fragmentation_data().is_some() {
            return Ok(None);
        }
        let compiled = self.policy.compile(request, &self.hosts, Uuid::nil())?;
        let filters = &compiled.filters;
        if filters.may_change_with_instances() {
            return Ok(None);
        }
        let query = &prepared.query;
        let Some(search) = HostSearch::new(state, query)? else {
            return Ok(None);
        };
        if search.depends_on_sharing() || search.to_prepared_query().is_none() {
            return Ok(None);
        }
        let has_candidate_rules = !prepared.translation.rules.is_empty();
        let mut counts = HostCounts::default();
        let (mut trees, mut excluded) = (Vec::new(), FactorsByTraits::default());
        let mut lacking_hosts: BTreeMap<ClassId, usize> = BTreeMap::new();
        for word in 0..search
            .word_count()
            .max(self.hosts.slot_count().div_ceil(64))
        {
            let passing = self.count_filtered(filters, word, &mut counts);
            if passing == 0 {
                continue;
            }
            let fitting = search.word(word);
            let flat = passing & fitting.feasible;
            let searched = if has_candidate_rules { flat } else { 0 };
            trees.extend(bits(passing & fitting.undecided | searched, word));
            for slot in bits(flat & !searched, word) {
                let Some((count, class)) = search.flat_room(ProviderId(slot)) else {
                    return Ok(None);
                };
                counts.add(slot, count);
                *lacking_hosts.entry(class).or_default() += 1;
            }
            let lacking = passing & !fitting.feasible & !fitting.undecided;
            let eligible = lacking & search.eligible_word(word);
            for slot in bits(lacking, word) {
                let host = ProviderId(slot);
                let is_eligible = eligible >> (slot % 64) & 1 == 1;
                let lacking_class = is_eligible.then(|| search.lacking_class(host));
                match lacking_class.flatten() {
                    Some(class) => *lacking_hosts.entry(class).or_default() += 1,
                    None => counts.add_limiting_factor(excluded.factor(state, query, host)?, 1),
                }
            }
        }
        for (class, host_count) in lacking_hosts {
            let name = state.class_name(class).to_owned();
            counts.add_limiting_factor(LimitingFactor::ResourceClass(name), host_count);
        }
        Ok(Some((counts, trees)))
    }

    /// The hosts of a word that pass all filters. The other hosts are counted under the first filter that excludes
    /// them.
    fn count_filtered(
        &self,
        filters: &CompiledFilters<'_>,
        word: usize,
        counts: &mut HostCounts,
    ) -> u64 {
        let hosts = self.hosts.slots().word(word);
        let mut passing = hosts;
        for kind in [FilterKind::ForClass, FilterKind::ForSingleRequest] {
            passing &= filters.word(word, kind);
            if filters.needs_predicate(kind) {
                for slot in bits(passing, word) {
                    if !filters.passes_predicates(slot, kind) {
                        passing &= !(1 << (slot % 64));
                    }
                }
            }
        }
        for slot in bits(hosts & !passing, word) {
            let filter = filters.rejecting_filter(slot).unwrap_or_default();
            counts.add_limiting_factor(LimitingFactor::Filter(filter.to_owned()), 1);
        }
        passing
    }
}
