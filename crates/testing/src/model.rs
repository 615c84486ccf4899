//! A model of the search for candidates, in its plainest form: it generates every combination of
//! providers and tests each. It is slow, and shares no code with the search: it works on the
//! description of a fleet, not on a state. Providers are indexes into the fleet.

use std::collections::{BTreeMap, BTreeSet};

use placewright_placement::{CandidateQuery, GroupPolicy, ProviderQuery, RequestGroup};

use crate::fleet::{CLASSES, Fleet, SHARING, TRAITS, uuid_at};

/// Amounts by provider and resource class.
pub type Amounts = BTreeMap<(usize, String), i64>;

/// A candidate: its allocations, and the providers that serve each group.
pub type ModelCandidate = (Amounts, Vec<BTreeSet<usize>>);

/// The result that a query has to return.
#[derive(Debug, PartialEq)]
pub enum QueryResult {
    /// A resource class is unknown.
    UnknownClass(String),
    /// A trait is unknown.
    UnknownTrait(String),
    /// The candidates, and the providers of the summaries.
    Found(BTreeSet<ModelCandidate>, BTreeSet<usize>),
}

/// A choice of resources and providers that satisfies one request group.
#[derive(Clone)]
struct Way {
    amounts: Amounts,
    providers: BTreeSet<usize>,
}

/// The search on one fleet.
pub struct Model<'a> {
    fleet: &'a Fleet,
}

impl<'a> Model<'a> {
    pub fn new(fleet: &'a Fleet) -> Self {
        Self { fleet }
    }

    fn root(&self, provider: usize) -> usize {
        self.fleet[provider]
            .parent
            .map_or(provider, |parent| self.root(parent))
    }

    fn provider_and_ancestors(&self, provider: usize) -> BTreeSet<usize> {
        let mut ancestors = self.fleet[provider]
            .parent
            .map(|parent| self.provider_and_ancestors(parent))
            .unwrap_or_default();
        ancestors.insert(provider);
        ancestors
    }

    /// Whether a provider has one of these traits.
    fn has_any(&self, provider: usize, names: &[String]) -> bool {
        let traits = &self.fleet[provider].traits;
        names.iter().any(|name| traits.contains(&name.as_str()))
    }

    /// Whether a provider is in an aggregate of each list.
    fn is_in_each_list(&self, provider: usize, lists: &[Vec<String>]) -> bool {
        let aggregates = &self.fleet[provider].aggregates;
        lists
            .iter()
            .all(|list| list.iter().any(|aggregate| aggregates.contains(aggregate)))
    }

    /// Whether a provider is in one of the aggregates.
    fn is_in_any(&self, provider: usize, list: &[String]) -> bool {
        self.is_in_each_list(provider, &[list.to_vec()])
    }

    /// Whether an inventory of a provider can serve this amount. As in the reference, the capacity is not rounded
    /// here, and is rounded down where the amounts of several groups are added.
    fn can_allocate(&self, provider: usize, class: &str, amount: i64) -> bool {
        self.fleet[provider].stocks.iter().any(|stock| {
            let inventory = &stock.inventory;
            let capacity =
                f64::from(inventory.total - inventory.reserved) * inventory.allocation_ratio;
            stock.class == class
                && (stock.used + amount) as f64 <= capacity
                && i64::from(inventory.min_unit) <= amount
                && i64::from(inventory.max_unit) >= amount
                && amount % i64::from(inventory.step_size) == 0
        })
    }

    /// Whether a sharing provider serves the tree of a root.
    fn shares_with(&self, provider: usize, root: usize) -> bool {
        self.fleet[provider].traits.contains(&SHARING)
            && (0..self.fleet.len()).any(|other| {
                self.root(other) == root
                    && self.fleet[other]
                        .aggregates
                        .iter()
                        .any(|aggregate| self.fleet[provider].aggregates.contains(aggregate))
            })
    }

    fn provider_with_uuid(&self, uuid: &str) -> Option<usize> {
        (0..self.fleet.len()).find(|provider| uuid_at(*provider).to_string() == uuid)
    }

    /// The ways to serve a group with a suffix from one root.
    fn ways_of_suffixed(&self, group: &RequestGroup, root: usize) -> Vec<Way> {
        // In the reference a group without resources has to require a trait or an aggregate, whatever it
        // forbids, and `in_tree` has no effect on it.
        let has_constraint = !(group.resources.is_empty()
            && group.required.is_empty()
            && group.member_of.is_empty());
        let tree = (group.in_tree.as_deref())
            .filter(|_| !group.resources.is_empty())
            .and_then(|uuid| self.provider_with_uuid(uuid))
            .map(|provider| self.root(provider));
        (0..self.fleet.len())
            .filter(|provider| {
                has_constraint
                    && (self.root(*provider) == root || self.shares_with(*provider, root))
                    && tree.is_none_or(|tree| self.root(*provider) == tree)
                    && group
                        .required
                        .iter()
                        .all(|any| self.has_any(*provider, any))
                    && !self.has_any(*provider, &group.forbidden)
                    && self.is_in_each_list(*provider, &group.member_of)
                    && !self.is_in_any(*provider, &group.forbidden_aggregates)
                    && (group.resources.iter())
                        .all(|(class, amount)| self.can_allocate(*provider, class, *amount))
            })
            .map(|provider| Way {
                amounts: (group.resources.iter())
                    .map(|(class, amount)| ((provider, class.clone()), *amount))
                    .collect(),
                providers: BTreeSet::from([provider]),
            })
            .collect()
    }

    /// Whether a provider may serve a class of the group without suffix, for a candidate of a root.
    ///
    /// A provider of the root's tree may serve it if the provider or the root is in the aggregates of `member_of`. A
    /// sharing provider may serve it only if the sharing provider itself is in these aggregates. If the group has
    /// `in_tree`, no sharing provider may serve it; if that names another tree than the root's, no provider may.
    fn serves_class(&self, group: &RequestGroup, root: usize, provider: usize) -> bool {
        let is_in_tree = self.root(provider) == root;
        let is_in_reach = match group.in_tree.as_deref() {
            Some(uuid) => {
                is_in_tree
                    && self
                        .provider_with_uuid(uuid)
                        .is_some_and(|named_provider| self.root(named_provider) == root)
            }
            None => {
                let shares = self.shares_with(provider, root)
                    && self.is_in_each_list(provider, &group.member_of);
                is_in_tree || shares
            }
        };
        is_in_reach
            && (self.is_in_each_list(provider, &group.member_of)
                || self.is_in_each_list(root, &group.member_of))
            && !self.is_in_any(provider, &group.forbidden_aggregates)
            && !self.is_in_any(root, &group.forbidden_aggregates)
    }

    /// The ways to serve the group without suffix from one root.
    fn ways_of_unsuffixed(&self, group: &RequestGroup, root: usize) -> Vec<Way> {
        let mut ways = vec![Way {
            amounts: Amounts::new(),
            providers: BTreeSet::new(),
        }];
        for (class, amount) in &group.resources {
            let mut extended_ways = Vec::new();
            for way in &ways {
                for provider in 0..self.fleet.len() {
                    if self.can_allocate(provider, class, *amount)
                        && self.serves_class(group, root, provider)
                    {
                        let mut way = way.clone();
                        way.amounts.insert((provider, class.clone()), *amount);
                        way.providers.insert(provider);
                        extended_ways.push(way);
                    }
                }
            }
            ways = extended_ways;
        }
        ways.retain(|way| {
            let has_one_of = |any: &Vec<String>| {
                way.providers
                    .iter()
                    .any(|provider| self.has_any(*provider, any))
            };
            group.required.iter().all(has_one_of)
                && !way
                    .providers
                    .iter()
                    .any(|provider| self.has_any(*provider, &group.forbidden))
        });
        ways
    }

    /// The ways to serve a group from one root; none if the query does not admit the root.
    fn ways(&self, query: &CandidateQuery, group: &RequestGroup, root: usize) -> Vec<Way> {
        let root_is_admitted = self.fleet[root].parent.is_none()
            && (query.root_required.iter())
                .all(|name| self.has_any(root, std::slice::from_ref(name)))
            && !self.has_any(root, &query.root_forbidden);
        if !root_is_admitted {
            Vec::new()
        } else if group.suffix.is_empty() {
            self.ways_of_unsuffixed(group, root)
        } else {
            self.ways_of_suffixed(group, root)
        }
    }

    /// All candidates, or the refusal that comes first in the reference's order of evaluation.
    pub fn candidates(&self, query: &CandidateQuery) -> QueryResult {
        let no_candidates = || QueryResult::Found(BTreeSet::new(), BTreeSet::new());
        let unknown_trait = |names: &[String]| {
            let unknown = names.iter().find(|name| !TRAITS.contains(&name.as_str()));
            unknown.map(|name| QueryResult::UnknownTrait(name.clone()))
        };
        let roots =
            || (0..self.fleet.len()).filter(|provider| self.fleet[*provider].parent.is_none());
        for names in [&query.root_required, &query.root_forbidden] {
            if let Some(refusal) = unknown_trait(names) {
                return refusal;
            }
        }
        let root_fits = |root: usize| {
            (query.root_required.iter()).all(|name| self.has_any(root, std::slice::from_ref(name)))
                && !self.has_any(root, &query.root_forbidden)
        };
        if !roots().any(root_fits) {
            return no_candidates();
        }
        for group in &query.groups {
            let is_class = |class: &str| CLASSES.contains(&class);
            if let Some((class, _)) = group.resources.iter().find(|(class, _)| !is_class(class)) {
                return QueryResult::UnknownClass(class.clone());
            }
            if !(0..self.fleet.len())
                .any(|provider| self.is_in_each_list(provider, &group.member_of))
            {
                return no_candidates();
            }
            let names = group.required.iter().chain([&group.forbidden]);
            if let Some(refusal) = names
                .map(|names| unknown_trait(names))
                .find_map(|refusal| refusal)
            {
                return refusal;
            }
            let is_unknown = |uuid: &String| self.provider_with_uuid(uuid).is_none();
            if group.in_tree.as_ref().is_some_and(is_unknown)
                || roots().all(|root| self.ways(query, group, root).is_empty())
            {
                return no_candidates();
            }
        }
        let mut candidates = BTreeSet::new();
        for root in roots() {
            let mut chosen = Vec::new();
            self.combine(query, root, &mut chosen, &mut candidates);
        }
        let in_summaries = self.providers_in_summaries(query, &candidates);
        QueryResult::Found(candidates, in_summaries)
    }

    /// The number of roots with a candidate.
    pub fn count_serving_roots(&self, query: &CandidateQuery) -> usize {
        let serves = |root: &usize| {
            let mut candidates = BTreeSet::new();
            self.combine(query, *root, &mut Vec::new(), &mut candidates);
            self.fleet[*root].parent.is_none() && !candidates.is_empty()
        };
        let mut trees = query
            .groups
            .iter()
            .filter_map(|group| group.in_tree.as_ref());
        if trees.any(|uuid| self.provider_with_uuid(uuid).is_none()) {
            return 0;
        }
        (0..self.fleet.len()).filter(serves).count()
    }

    /// Combines one way for each group in every possible manner.
    fn combine(
        &self,
        query: &CandidateQuery,
        root: usize,
        chosen: &mut Vec<Way>,
        candidates: &mut BTreeSet<ModelCandidate>,
    ) {
        let Some(group) = query.groups.get(chosen.len()) else {
            candidates.extend(self.checked_candidate(query, chosen));
            return;
        };
        for way in self.ways(query, group, root) {
            chosen.push(way);
            self.combine(query, root, chosen, candidates);
            chosen.pop();
        }
    }

    /// The candidate made of one way for each group; `None` if these ways may not be combined.
    fn checked_candidate(&self, query: &CandidateQuery, chosen: &[Way]) -> Option<ModelCandidate> {
        let suffixed: Vec<&Way> = (chosen.iter().zip(&query.groups))
            .filter(|(_, group)| !group.suffix.is_empty())
            .map(|(way, _)| way)
            .collect();
        let distinct_providers: BTreeSet<_> =
            suffixed.iter().flat_map(|way| &way.providers).collect();
        if query.group_policy == Some(GroupPolicy::Isolate)
            && distinct_providers.len() != suffixed.len()
        {
            return None;
        }
        for suffixes in &query.same_subtree {
            let providers: BTreeSet<usize> = (chosen.iter().zip(&query.groups))
                .filter(|(_, group)| suffixes.contains(&group.suffix))
                .flat_map(|(way, _)| way.providers.iter().copied())
                .collect();
            let is_common_ancestor = |ancestor: &usize| {
                providers
                    .iter()
                    .all(|provider| self.provider_and_ancestors(*provider).contains(ancestor))
            };
            if !providers.iter().any(is_common_ancestor) {
                return None;
            }
        }
        let mut total = Amounts::new();
        for ((provider, class), amount) in chosen.iter().flat_map(|way| &way.amounts) {
            *total.entry((*provider, class.clone())).or_default() += amount;
        }
        let fits = |((provider, class), amount): (&(usize, String), &i64)| {
            self.fleet[*provider].stocks.iter().any(|stock| {
                let inventory = &stock.inventory;
                let capacity = (f64::from(inventory.total - inventory.reserved)
                    * inventory.allocation_ratio) as i64;
                stock.class == class
                    && stock.used + amount <= capacity
                    && *amount <= i64::from(inventory.max_unit)
            })
        };
        let used: BTreeSet<usize> = total.keys().map(|(provider, _)| *provider).collect();
        let trees: BTreeSet<usize> = used.iter().map(|provider| self.root(*provider)).collect();
        // Clients that do not know trees (before microversion 1.29) get only candidates with one provider of each tree.
        let is_one_per_tree = used.len() == trees.len();
        if !total.iter().all(fits) || (!query.nested && !is_one_per_tree) {
            return None;
        }
        Some((
            total,
            chosen.iter().map(|way| way.providers.clone()).collect(),
        ))
    }

    /// The providers of the summaries: the whole trees of all candidates, or, for clients that do not
    /// know trees, the providers in use.
    pub fn providers_in_summaries(
        &self,
        query: &CandidateQuery,
        candidates: &BTreeSet<ModelCandidate>,
    ) -> BTreeSet<usize> {
        let used: BTreeSet<usize> = (candidates.iter())
            .flat_map(|(amounts, _)| amounts.keys().map(|(provider, _)| *provider))
            .collect();
        if !query.nested {
            return used;
        }
        let roots: BTreeSet<usize> = used.iter().map(|provider| self.root(*provider)).collect();
        (0..self.fleet.len())
            .filter(|provider| roots.contains(&self.root(*provider)))
            .collect()
    }

    /// The providers that `GET /resource_providers` lists, or the name of an unknown trait or resource class.
    pub fn providers(&self, query: &ProviderQuery) -> Result<Vec<usize>, String> {
        let all_providers = || 0..self.fleet.len();
        let mut tree = None;
        if let Some(uuid) = &query.in_tree {
            match self.provider_with_uuid(uuid) {
                Some(provider) => tree = Some(self.root(provider)),
                None => return Ok(Vec::new()),
            }
        }
        let check_traits = |names: &[String]| {
            let unknown = names.iter().find(|name| !TRAITS.contains(&name.as_str()));
            unknown.map_or(Ok(()), |name| Err(name.clone()))
        };
        for any in &query.required {
            check_traits(any)?;
        }
        let has_all =
            |provider: usize| query.required.iter().all(|any| self.has_any(provider, any));
        if !all_providers().any(has_all) {
            return Ok(Vec::new());
        }
        check_traits(&query.forbidden)?;
        if !all_providers().any(|provider| self.is_in_each_list(provider, &query.member_of)) {
            return Ok(Vec::new());
        }
        for (class, _) in &query.resources {
            if !CLASSES.contains(&class.as_str()) {
                return Err(class.clone());
            }
        }
        Ok(all_providers()
            .filter(|provider| {
                has_all(*provider)
                    && tree.is_none_or(|tree| self.root(*provider) == tree)
                    && !self.has_any(*provider, &query.forbidden)
                    && self.is_in_each_list(*provider, &query.member_of)
                    && !self.is_in_any(*provider, &query.forbidden_aggregates)
                    && (query.resources.iter())
                        .all(|(class, amount)| self.can_allocate(*provider, class, *amount))
                    && (query.name.iter()).all(|name| *name == format!("p{provider}"))
                    && (query.uuid.iter()).all(|uuid| *uuid == uuid_at(*provider).to_string())
            })
            .collect())
    }
}
