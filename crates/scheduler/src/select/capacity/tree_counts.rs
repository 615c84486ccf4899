//! Counts the instances of trees, by claims in a copy of the state until a claim is refused. Trees that are alike are
//! counted once.

use placewright_placement::{
    ConsumerUuid, HostSearch, PreparedQuery, ProviderId, State, Timestamp,
};
use uuid::Uuid;

use super::host_counts::HostCounts;
use super::limiting_factors::{factor_of_query, has_aggregates};
use super::simulation::{CANDIDATES_PER_HOST, SimulatedClaim};
use super::{Capacity, LimitingFactor};
use crate::select::Scheduler;
use crate::select::scope::SelectRefusal;
use crate::translate::prepare::Prepared;

type Map<K, V> = hashbrown::HashMap<K, V, foldhash::quality::FixedState>;

/// The number of kinds of trees whose counts are kept.
const KINDS_MAX: usize = 1_000;

impl Scheduler {
    /// Adds the instances of trees to the counts of the other hosts. At most `simulated_max` claims are counted. If a
    /// further claim succeeds, the remaining trees are not counted, and the result has `has_more`.
    pub(super) fn count_trees(
        &self,
        state: State,
        prepared: &Prepared,
        mut counts: HostCounts,
        roots: &[u32],
        simulated_max: usize,
        at: Timestamp,
    ) -> Result<Capacity, SelectRefusal> {
        let mut kinds: Map<Vec<u64>, (u64, LimitingFactor)> = Map::default();
        let (mut claims_left, mut has_more) = (simulated_max, false);
        let reads_aggregates = reads_aggregates(prepared);
        let mut tree = TreeClaims {
            state,
            prepared,
            prepared_query: None,
            consumer: 0,
            at,
        };
        for slot in roots {
            let root = ProviderId(*slot);
            let kind = kind_of_tree(&tree.state, root, reads_aggregates);
            if let Some((count, factor)) = kinds.get(&kind) {
                counts.add(*slot, *count);
                counts.add_limiting_factor(factor.clone(), 1);
                continue;
            }
            let mut count = 0;
            while self.claim_on(&mut tree, root)? {
                if claims_left == 0 {
                    has_more = true;
                    break;
                }
                (count, claims_left) = (count + 1, claims_left - 1);
            }
            counts.add(*slot, count);
            if has_more {
                counts.clear_bounds();
                break;
            }
            let factor = factor_of_query(&tree.state, &prepared.query, root)?;
            counts.add_limiting_factor(factor.clone(), 1);
            if kinds.len() < KINDS_MAX {
                kinds.insert(kind, (count, factor));
            }
        }
        Ok(counts.summarize(self, &tree.state, has_more))
    }

    /// Claims one instance of the request on a host. Returns whether the claim was accepted.
    fn claim_on(&self, tree: &mut TreeClaims<'_>, root: ProviderId) -> Result<bool, SelectRefusal> {
        let (prepared, query) = (tree.prepared, &tree.prepared.query);
        let rules = &prepared.translation.rules;
        if !rules.iter().all(|rule| rule.admits_host(&tree.state, root)) {
            return Ok(false);
        }
        // Claims change no names, so the query stays prepared.
        let resumed = tree.prepared_query.as_ref();
        let search = match resumed.and_then(|prepared| prepared.resume(&tree.state)) {
            Some(search) => search,
            None => match HostSearch::new(&tree.state, query)? {
                Some(search) => search,
                None => return Ok(false),
            },
        };
        let limit = CANDIDATES_PER_HOST;
        let candidates =
            self.candidates_of_host(&tree.state, &search, query, prepared, root, limit);
        if tree.prepared_query.is_none() {
            tree.prepared_query = search.to_prepared_query();
        }
        if candidates.is_empty() {
            return Ok(false);
        }
        let candidates = candidates.into_iter().map(|(candidate, _)| candidate);
        let claim = SimulatedClaim {
            instance: tree.next_consumer(),
            group: None,
            rules: Vec::new(),
            candidates: candidates.collect(),
            at: tree.at,
        };
        Ok(claim.execute(&mut tree.state).is_some())
    }
}

/// A copy of the state in which instances are claimed, with the inputs of the claims.
struct TreeClaims<'a> {
    state: State,
    prepared: &'a Prepared,
    prepared_query: Option<PreparedQuery>,
    /// The number of the last simulated consumer.
    consumer: u128,
    at: Timestamp,
}

impl TreeClaims<'_> {
    /// The lowest UUID after that of the last simulated consumer that no consumer has.
    fn next_consumer(&mut self) -> Uuid {
        loop {
            self.consumer += 1;
            let uuid = Uuid::from_u128(self.consumer);
            if self.state.consumer(ConsumerUuid::from_uuid(uuid)).is_none() {
                return uuid;
            }
        }
    }
}

/// Whether membership of hosts in aggregates can make a difference for a request.
fn reads_aggregates(prepared: &Prepared) -> bool {
    !prepared.translation.rules.is_empty() || has_aggregates(&prepared.query)
}

/// The key of a kind of trees: everything about a tree, apart from names, on which the candidates for a request depend.
/// Trees of one kind take the same number of instances.
fn kind_of_tree(state: &State, root: ProviderId, reads_aggregates: bool) -> Vec<u64> {
    let mut members = state.subtree(root);
    // Candidates come in the order of slots.
    members.sort_unstable();
    let mut kind = Vec::new();
    for id in &members {
        let Some(provider) = state.provider(*id) else {
            continue;
        };
        let parent = provider.parent.map(|parent| members.binary_search(&parent));
        let parent = parent.and_then(Result::ok);
        kind.push(parent.map_or(u64::MAX, |index| index as u64));
        kind.push(provider.traits.len() as u64);
        kind.extend(provider.traits.iter().map(|id| u64::from(id.0)));
        if reads_aggregates {
            kind.push(provider.aggregates.len() as u64);
            kind.extend(provider.aggregates.iter().map(|id| u64::from(id.0)));
        }
        kind.push(provider.inventories.len() as u64);
        for row in &provider.inventories {
            let inventory = &row.inventory;
            let units = [inventory.min_unit, inventory.max_unit, inventory.step_size];
            kind.push(u64::from(row.class.0));
            kind.extend(units.map(|unit| u64::from(unit.cast_unsigned())));
            kind.extend([row.capacity, row.used].map(i64::cast_unsigned));
        }
    }
    kind
}
