//! Counting host by host, where the instances of one host have no effect on the other hosts. It goes through the hosts
//! in slices, so that nobody waits long for the scheduler and the state.

use std::collections::BTreeMap;
use std::ops::Range;

use placewright_placement::explain::FirstFailed;
use placewright_placement::slot_set::bits;
use placewright_placement::{
    CandidateQuery, ClassId, HostSearch, HostWord, ProviderId, RoomLimits, State, Taken,
};
use uuid::Uuid;

use super::LimitingFactor;
use super::host_counts::HostCounts;
use super::limiting_factors::{KnownFactors, factor_of};
use super::simulation::CANDIDATES_PER_HOST;
use super::tree_kinds::TreeKinds;
use crate::policy::{CompiledFilters, FilterKind};
use crate::request::RequestSpec;
use crate::select::Scheduler;
use crate::select::candidate_rules::rules_on;
use crate::select::scope::SelectRefusal;
use crate::select::search_context::CANDIDATES_TRIED_MAX;
use crate::translate::prepare::Prepared;
use crate::translate::rule::CandidateRule;

/// The steps that a host costs, if nothing has to be searched: a step takes about 100 ns.
const HOST_STEPS: usize = 1;
/// The steps that each tree costs; a tree costs no more if its room follows from the amounts of each class.
const TREE_STEPS: usize = 5;
/// The steps that a search of a tree or of the first obstacle on a host costs at least.
const SEARCH_STEPS: usize = 20;
/// The steps of a search in placement that take as long as one step here.
const PLACEMENT_STEPS: usize = 10;
/// How often a count may begin. It begins anew when names or the topology change between two slices, and is given up
/// when they change more often.
const BEGINNINGS_MAX: u32 = 16;

/// The progress of a count host by host.
#[derive(Debug, Default)]
pub(super) struct HostCounting {
    pub(super) counts: HostCounts,
    next_word: usize,
    /// The hosts of the next word that are counted already, as bits.
    counted: u64,
    /// The tree in which the last slice ended.
    open_tree: Option<OpenTree>,
    known: Known,
    /// The version of names and of the topology that the numbers in the other fields are from; `None` at first.
    structure_version: Option<u64>,
    /// How often the count has begun; see [`BEGINNINGS_MAX`].
    beginnings: u32,
}

/// What is known of hosts that are alike.
#[derive(Debug, Default)]
struct Known {
    factors: KnownFactors,
    trees: TreeKinds,
}

/// A tree of which a part of the room is counted.
#[derive(Debug)]
struct OpenTree {
    slot: u32,
    /// The number of instances so far, and what they take.
    count: u64,
    taken: Taken,
    /// The kind of the tree, as [`TreeKinds::kind`] has it.
    kind: Option<Vec<u64>>,
    /// The position of the tree's last change in placement's tree change log, when `kind` was computed.
    last_change: u64,
}

/// The result of one slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slice {
    Unfinished,
    Complete,
    /// Names or the topology changed too often.
    GivenUp,
    /// The instances of a host can have an effect on other hosts or on the verdicts of filters, so the count has to be
    /// simulated.
    NotByHost,
}

impl HostCounting {
    /// Counts further hosts, for about this many steps.
    pub(super) fn run_slice(
        &mut self,
        scheduler: &Scheduler,
        state: &State,
        request: &RequestSpec,
        prepared: &Prepared,
        steps: usize,
    ) -> Result<Slice, SelectRefusal> {
        if may_affect_others(scheduler, state, request, prepared) {
            return Ok(Slice::NotByHost);
        }
        // The instances that are counted do not exist, so they have no UUID of their own.
        let compiled = scheduler
            .policy
            .compile(request, &scheduler.hosts, Uuid::nil())?;
        if compiled.filters.may_change_with_instances() {
            return Ok(Slice::NotByHost);
        }
        let query = &prepared.query;
        let search = HostSearch::new(state, query)?;
        if search.as_ref().is_some_and(HostSearch::depends_on_sharing) {
            return Ok(Slice::NotByHost);
        }
        let structure_version = Some(state.tree_changes().structure_version());
        if self.structure_version != structure_version {
            *self = Self {
                structure_version,
                beginnings: self.beginnings + 1,
                ..Self::default()
            };
        }
        if self.beginnings > BEGINNINGS_MAX {
            return Ok(Slice::GivenUp);
        }
        let first_word = self.next_word;
        let end_word = scheduler
            .hosts
            .slot_count()
            .max(state.provider_slots())
            .div_ceil(64);
        let mut counter = SliceCounter {
            scheduler,
            state,
            prepared,
            filters: &compiled.filters,
            search,
            first_failed: FirstFailed::new(state, query)?,
            counts: &mut self.counts,
            known: &mut self.known,
            lacking_hosts: BTreeMap::new(),
            rejected_hosts: BTreeMap::new(),
            taken: Taken::default(),
            open_tree: self.open_tree.take(),
            steps_left: steps,
        };
        while self.next_word < end_word && counter.steps_left > 0 {
            self.counted = counter.count_word(self.next_word, self.counted);
            if self.counted != u64::MAX {
                break;
            }
            self.next_word += 1;
            self.counted = 0;
        }
        self.open_tree = counter.open_tree.take();
        counter.finish(first_word..self.next_word);
        Ok(match self.next_word < end_word {
            true => Slice::Unfinished,
            false => Slice::Complete,
        })
    }
}

/// Whether an instance of a request can have an effect on other hosts than its own, apart from the verdicts of filters.
fn may_affect_others(
    scheduler: &Scheduler,
    state: &State,
    request: &RequestSpec,
    prepared: &Prepared,
) -> bool {
    let has_sharing_provider = state
        .sharing_trait()
        .is_some_and(|sharing| !state.trait_members(sharing).is_empty());
    let requests_nothing = (prepared.query.groups.iter()).all(|group| group.resources.is_empty());
    request.instance_group.is_some()
        || !request.topology_rules.is_empty()
        || prepared.fallback.is_some()
        || scheduler.hosts.fragmentation_data().is_some()
        || has_sharing_provider
        || requests_nothing
}

/// Counts the hosts of one slice.
struct SliceCounter<'a> {
    scheduler: &'a Scheduler,
    state: &'a State,
    prepared: &'a Prepared,
    filters: &'a CompiledFilters<'a>,
    /// `None` if the names in the query alone show that no host can serve it.
    search: Option<HostSearch<'a>>,
    first_failed: FirstFailed<'a>,
    counts: &'a mut HostCounts,
    known: &'a mut Known,
    /// By resource class: the number of hosts on which one more instance would lack this class.
    lacking_hosts: BTreeMap<ClassId, usize>,
    /// The number of hosts by the name of the first filter that rejects them.
    rejected_hosts: BTreeMap<&'a str, usize>,
    /// What the instances that were found take from the tree that is being counted.
    taken: Taken,
    /// The tree of which only a part is counted.
    open_tree: Option<OpenTree>,
    /// The steps that the slice may still cost.
    steps_left: usize,
}

impl<'a> SliceCounter<'a> {
    fn query(&self) -> &'a CandidateQuery {
        &self.prepared.query
    }

    fn spend(&mut self, steps: usize) {
        self.steps_left = self.steps_left.saturating_sub(steps);
    }

    /// Counts the 64 hosts from slot `64 * word` on, without those in the mask `counted`. Returns the mask of the hosts
    /// that are counted now: all of them, or all but some trees if the steps were used up.
    fn count_word(&mut self, word: usize, counted: u64) -> u64 {
        let hosts = self.scheduler.hosts.slots().word(word) & !counted;
        let passing = self.filter_and_count_rejected(word, hosts);
        self.spend(1 + HOST_STEPS * hosts.count_ones() as usize);
        if passing == 0 {
            return u64::MAX;
        }
        let nothing = HostWord {
            feasible: 0,
            undecided: 0,
        };
        let fitting = (self.search.as_ref()).map_or(nothing, |search| search.word(word));
        let parents = self.state.parents().word(word);
        let flat = passing & fitting.feasible;
        let searched = match self.prepared.translation.has_rules() {
            // A flat host may have candidates of which none satisfies the rules.
            true => flat,
            false => 0,
        };
        for slot in bits(flat & !searched, word) {
            let search = self.search.as_ref();
            let room = search.and_then(|search| search.flat_room(ProviderId(slot)));
            if let Some((count, class)) = room {
                self.counts.add(slot, count);
                *self.lacking_hosts.entry(class).or_default() += 1;
            }
        }
        let lacking = passing & !flat & !fitting.undecided & !parents;
        if lacking != 0 {
            self.count_lacking(word, lacking);
        }
        // A tree that cannot serve the query is searched, too, because its root alone does not tell why it cannot.
        let mut trees = passing & (fitting.undecided | parents) | searched;
        // At least one search is made in each slice, so that every slice brings the count nearer to its end.
        for slot in bits(trees, word) {
            if !self.count_tree(slot) {
                break;
            }
            trees &= !(1 << (slot % 64));
            if self.steps_left == 0 {
                break;
            }
        }
        !trees
    }

    /// The hosts of a word that pass all filters. The other hosts are counted under the first filter that excludes
    /// them.
    fn filter_and_count_rejected(&mut self, word: usize, hosts: u64) -> u64 {
        let mut passing = hosts;
        for kind in [FilterKind::ForClass, FilterKind::ForSingleRequest] {
            passing &= self.filters.word(word, kind);
            if self.filters.needs_predicate(kind) {
                for slot in bits(passing, word) {
                    if !self.filters.passes_predicates(slot, kind) {
                        passing &= !(1 << (slot % 64));
                    }
                }
            }
        }
        for slot in bits(hosts & !passing, word) {
            let filter = self.filters.rejecting_filter(slot).unwrap_or_default();
            *self.rejected_hosts.entry(filter).or_default() += 1;
        }
        passing
    }

    /// Counts, for flat hosts that cannot serve the request, what each of them lacks.
    fn count_lacking(&mut self, word: usize, lacking: u64) {
        let (search, query) = (self.search.as_ref(), self.query());
        let eligible = search.map_or(0, |search| search.eligible_word(word));
        for slot in bits(lacking, word) {
            let host = ProviderId(slot);
            let is_eligible = eligible >> (slot % 64) & 1 == 1;
            let search = self.search.as_ref().filter(|_| is_eligible);
            if let Some(class) = search.and_then(|search| search.lacking_class(host)) {
                *self.lacking_hosts.entry(class).or_default() += 1;
                continue;
            }
            let is_known = self.known.factors.add_to(
                self.counts,
                self.state,
                query,
                host,
                &mut self.first_failed,
            );
            if !is_known {
                self.spend(SEARCH_STEPS);
            }
        }
    }

    /// Counts a host of which the columns do not tell how much room it has: a tree, or any host if the request has
    /// rules for candidates. Returns false if the steps ended before its room was known.
    fn count_tree(&mut self, slot: u32) -> bool {
        let root = ProviderId(slot);
        // Which rules apply depends on the versions of the compute services in the host's cell.
        let versions = self.scheduler.hosts.service_versions();
        let rules = rules_on(self.prepared, versions, slot);
        let rule_count = rules.clone().count();
        self.spend(TREE_STEPS);
        let begun = self.open_tree.take().filter(|tree| tree.slot == slot);
        if let Some(tree) = begun {
            self.taken = tree.taken;
            let is_unchanged = self.state.tree_changes().last_change(root) == tree.last_change;
            let kind = tree.kind.filter(|_| is_unchanged);
            return self.count_by_search(slot, tree.count, kind, rules);
        }
        let search = self.search.as_ref();
        if let Some(room) = search
            .filter(|_| rule_count == 0)
            .and_then(|search| search.independent_room(root))
        {
            self.counts.add(slot, room.count);
            *self.lacking_hosts.entry(room.lacking).or_default() += 1;
            return true;
        }
        let kind = self.known.trees.kind(self.state, self.prepared, root);
        let kind = kind.map(|mut kind| {
            kind.push(rule_count as u64);
            kind
        });
        if let Some((count, factor)) = self.known.trees.get(&kind) {
            self.counts.add(slot, count);
            self.counts.add_limiting_factor(factor, 1);
            return true;
        }
        self.taken.clear();
        self.count_by_search(slot, 0, kind, rules)
    }

    /// Searches a host for one more instance after the other, in addition to `count` instances, which have taken what
    /// `self.taken` says. Returns false if the steps ended before its room was known.
    fn count_by_search(
        &mut self,
        slot: u32,
        mut count: u64,
        kind: Option<Vec<u64>>,
        rules: impl Iterator<Item = &'a CandidateRule> + Clone,
    ) -> bool {
        let root = ProviderId(slot);
        let (state, query) = (self.state, self.query());
        let search = self.search.as_ref();
        let mut is_exhausted = false;
        if let Some(search) =
            search.filter(|_| rules.clone().all(|rule| rule.admits_host(state, root)))
        {
            let limits = RoomLimits {
                candidates: match rules.clone().next() {
                    None => CANDIDATES_PER_HOST,
                    Some(_) => CANDIDATES_TRIED_MAX,
                },
                steps: self.steps_left.saturating_mul(PLACEMENT_STEPS).max(1),
            };
            let room = search.room(root, limits, &mut self.taken, |candidate| {
                let mut rules = rules.clone();
                rules.all(|rule| rule.admits(state, query, candidate))
            });
            count = count.saturating_add(room.count);
            self.spend(room.steps / PLACEMENT_STEPS);
            if !room.is_complete {
                self.open_tree = Some(OpenTree {
                    slot,
                    count,
                    taken: std::mem::take(&mut self.taken),
                    kind,
                    last_change: state.tree_changes().last_change(root),
                });
                return false;
            }
            is_exhausted = room.is_exhausted;
        }
        self.spend(2 * SEARCH_STEPS);
        // Where the search ended without a candidate, the search for the first obstacle need not try the whole query.
        let first_failed = match is_exhausted {
            true => self.first_failed.of_infeasible(root, &self.taken),
            false => self.first_failed.of(root, &self.taken),
        };
        let factor = factor_of(first_failed);
        self.counts.add(slot, count);
        self.counts.add_limiting_factor(&factor, 1);
        self.known.trees.insert(kind, count, factor);
        true
    }

    /// Adds what was counted of the hosts of these words to the sums.
    fn finish(self, words: Range<usize>) {
        for (class, host_count) in self.lacking_hosts {
            let name = self.state.class_name(class).to_owned();
            let factor = LimitingFactor::ResourceClass(name);
            self.counts.add_limiting_factor(&factor, host_count);
        }
        for (filter, host_count) in self.rejected_hosts {
            let factor = LimitingFactor::Filter(filter.to_owned());
            self.counts.add_limiting_factor(&factor, host_count);
        }
        let slots = words.start * 64..words.end * 64;
        self.counts.add_to_sums(self.scheduler, self.state, slots);
    }
}
