//! The rules of candidates in their plain form: every combination is generated and then tested.
//!
//! Slow, and independent of the search: it works on the description of a fleet, not on the state.

use std::collections::{BTreeMap, BTreeSet};

use placewright_placement::{CandidateQuery, GroupPolicy, ProviderQuery, RequestGroup};

use crate::fleet::{CLASSES, Fleet, SHARING, TRAITS, uuid_at};

/// Amounts by provider and class.
pub type Amounts = BTreeMap<(usize, String), i64>;

/// A candidate: allocations by place and class, and the places that serve each group.
pub type Found = (Amounts, Vec<BTreeSet<usize>>);

/// The result of a query.
#[derive(Debug, PartialEq)]
pub enum Verdict {
    /// A resource class is unknown.
    NoClass(String),
    /// A trait is unknown.
    NoTrait(String),
    /// The candidates, and the places for the summaries.
    Found(BTreeSet<Found>, BTreeSet<usize>),
}

/// A way to serve one group.
#[derive(Clone)]
struct Way {
    amounts: Amounts,
    places: BTreeSet<usize>,
}

pub struct Model<'a>(pub &'a Fleet);

impl Model<'_> {
    fn root(&self, place: usize) -> usize {
        self.0[place]
            .parent
            .map_or(place, |parent| self.root(parent))
    }

    fn ancestors(&self, place: usize) -> BTreeSet<usize> {
        let mut found = self.0[place]
            .parent
            .map(|parent| self.ancestors(parent))
            .unwrap_or_default();
        found.insert(place);
        found
    }

    fn has_any(&self, place: usize, names: &[String]) -> bool {
        let has = &self.0[place].traits;
        names.iter().any(|name| has.contains(&name.as_str()))
    }

    fn in_all(&self, place: usize, lists: &[Vec<String>]) -> bool {
        let within = &self.0[place].aggregates;
        lists
            .iter()
            .all(|list| list.iter().any(|aggregate| within.contains(aggregate)))
    }

    fn in_any(&self, place: usize, list: &[String]) -> bool {
        self.in_all(place, &[list.to_vec()])
    }

    fn gives(&self, place: usize, class: &str, amount: i64) -> bool {
        self.0[place].stocks.iter().any(|stock| {
            let of = &stock.inventory;
            let capacity = f64::from(of.total - of.reserved) * of.allocation_ratio;
            stock.class == class
                && (stock.used + amount) as f64 <= capacity
                && i64::from(of.min_unit) <= amount
                && i64::from(of.max_unit) >= amount
                && amount % i64::from(of.step_size) == 0
        })
    }

    /// The other trees that a sharing provider serves.
    fn shares_with(&self, place: usize, root: usize) -> bool {
        self.0[place].traits.contains(&SHARING)
            && (0..self.0.len()).any(|other| {
                self.root(other) == root
                    && self.0[other]
                        .aggregates
                        .iter()
                        .any(|aggregate| self.0[place].aggregates.contains(aggregate))
            })
    }

    fn place_of(&self, uuid: &str) -> Option<usize> {
        (0..self.0.len()).find(|place| uuid_at(*place).to_string() == uuid)
    }

    /// The ways to serve a suffixed group from one root.
    fn granular(&self, group: &RequestGroup, root: usize) -> Vec<Way> {
        let asks = !(group.resources.is_empty()
            && group.required.is_empty()
            && group.member_of.is_empty());
        let tree = (group.in_tree.as_deref())
            .filter(|_| !group.resources.is_empty())
            .and_then(|uuid| self.place_of(uuid))
            .map(|place| self.root(place));
        (0..self.0.len())
            .filter(|place| {
                asks && (self.root(*place) == root || self.shares_with(*place, root))
                    && tree.is_none_or(|tree| self.root(*place) == tree)
                    && group.required.iter().all(|any| self.has_any(*place, any))
                    && !self.has_any(*place, &group.forbidden)
                    && self.in_all(*place, &group.member_of)
                    && !self.in_any(*place, &group.forbidden_aggregates)
                    && (group.resources.iter())
                        .all(|(class, amount)| self.gives(*place, class, *amount))
            })
            .map(|place| Way {
                amounts: (group.resources.iter())
                    .map(|(class, amount)| ((place, class.clone()), *amount))
                    .collect(),
                places: BTreeSet::from([place]),
            })
            .collect()
    }

    fn serves_class(&self, group: &RequestGroup, root: usize, place: usize) -> bool {
        let own = self.root(place) == root;
        let within = match group.in_tree.as_deref() {
            Some(uuid) => {
                own && self
                    .place_of(uuid)
                    .is_some_and(|named| self.root(named) == root)
            }
            None => {
                let shared = self.shares_with(place, root) && self.in_all(place, &group.member_of);
                own || shared
            }
        };
        within
            && (self.in_all(place, &group.member_of) || self.in_all(root, &group.member_of))
            && !self.in_any(place, &group.forbidden_aggregates)
            && !self.in_any(root, &group.forbidden_aggregates)
    }

    /// The ways to serve the group without suffix from one root.
    fn unsuffixed(&self, group: &RequestGroup, root: usize) -> Vec<Way> {
        let mut ways = vec![Way {
            amounts: Amounts::new(),
            places: BTreeSet::new(),
        }];
        for (class, amount) in &group.resources {
            let mut longer = Vec::new();
            for way in &ways {
                for place in 0..self.0.len() {
                    if self.gives(place, class, *amount) && self.serves_class(group, root, place) {
                        let mut way = way.clone();
                        way.amounts.insert((place, class.clone()), *amount);
                        way.places.insert(place);
                        longer.push(way);
                    }
                }
            }
            ways = longer;
        }
        ways.retain(|way| {
            let one_has = |any: &Vec<String>| way.places.iter().any(|p| self.has_any(*p, any));
            group.required.iter().all(one_has)
                && !way
                    .places
                    .iter()
                    .any(|p| self.has_any(*p, &group.forbidden))
        });
        ways
    }

    fn ways(&self, query: &CandidateQuery, group: &RequestGroup, root: usize) -> Vec<Way> {
        let is_anchor = self.0[root].parent.is_none()
            && (query.root_required.iter())
                .all(|name| self.has_any(root, std::slice::from_ref(name)))
            && !self.has_any(root, &query.root_forbidden);
        if !is_anchor {
            Vec::new()
        } else if group.suffix.is_empty() {
            self.unsuffixed(group, root)
        } else {
            self.granular(group, root)
        }
    }

    /// Everything that the query admits, in the reference's order of evaluation.
    pub fn candidates(&self, query: &CandidateQuery) -> Verdict {
        let nothing = || Verdict::Found(BTreeSet::new(), BTreeSet::new());
        let no_trait = |names: &[String]| {
            let unknown = names.iter().find(|name| !TRAITS.contains(&name.as_str()));
            unknown.map(|name| Verdict::NoTrait(name.clone()))
        };
        let roots = || (0..self.0.len()).filter(|place| self.0[*place].parent.is_none());
        for names in [&query.root_required, &query.root_forbidden] {
            if let Some(refusal) = no_trait(names) {
                return refusal;
            }
        }
        let root_fits = |root: usize| {
            (query.root_required.iter()).all(|name| self.has_any(root, std::slice::from_ref(name)))
                && !self.has_any(root, &query.root_forbidden)
        };
        if !roots().any(root_fits) {
            return nothing();
        }
        for group in &query.groups {
            let known = |class: &str| CLASSES.contains(&class);
            if let Some((class, _)) = group.resources.iter().find(|(class, _)| !known(class)) {
                return Verdict::NoClass(class.clone());
            }
            if !(0..self.0.len()).any(|place| self.in_all(place, &group.member_of)) {
                return nothing();
            }
            let names = group.required.iter().chain([&group.forbidden]);
            if let Some(refusal) = names
                .map(|names| no_trait(names))
                .find_map(|refusal| refusal)
            {
                return refusal;
            }
            let lost = |uuid: &String| self.place_of(uuid).is_none();
            if group.in_tree.as_ref().is_some_and(lost)
                || roots().all(|root| self.ways(query, group, root).is_empty())
            {
                return nothing();
            }
        }
        let mut found = BTreeSet::new();
        for root in roots() {
            let mut chosen = Vec::new();
            self.combine(query, root, &mut chosen, &mut found);
        }
        let told = self.told(query, &found);
        Verdict::Found(found, told)
    }

    /// The number of roots with a candidate.
    pub fn serving_roots(&self, query: &CandidateQuery) -> usize {
        let serves = |root: &usize| {
            let mut found = BTreeSet::new();
            self.combine(query, *root, &mut Vec::new(), &mut found);
            self.0[*root].parent.is_none() && !found.is_empty()
        };
        let mut trees = query
            .groups
            .iter()
            .filter_map(|group| group.in_tree.as_ref());
        if trees.any(|uuid| self.place_of(uuid).is_none()) {
            return 0;
        }
        (0..self.0.len()).filter(serves).count()
    }

    /// Combines one way for each group in every possible manner.
    fn combine(
        &self,
        query: &CandidateQuery,
        root: usize,
        chosen: &mut Vec<Way>,
        found: &mut BTreeSet<Found>,
    ) {
        let Some(group) = query.groups.get(chosen.len()) else {
            found.extend(self.judge(query, chosen));
            return;
        };
        for way in self.ways(query, group, root) {
            chosen.push(way);
            self.combine(query, root, chosen, found);
            chosen.pop();
        }
    }

    fn judge(&self, query: &CandidateQuery, chosen: &[Way]) -> Option<Found> {
        let granular: Vec<&Way> = (chosen.iter().zip(&query.groups))
            .filter(|(_, group)| !group.suffix.is_empty())
            .map(|(way, _)| way)
            .collect();
        let distinct: BTreeSet<_> = granular.iter().flat_map(|way| &way.places).collect();
        if query.group_policy == Some(GroupPolicy::Isolate) && distinct.len() != granular.len() {
            return None;
        }
        for suffixes in &query.same_subtree {
            let places: BTreeSet<usize> = (chosen.iter().zip(&query.groups))
                .filter(|(_, group)| suffixes.contains(&group.suffix))
                .flat_map(|(way, _)| way.places.iter().copied())
                .collect();
            let tops = |top: &usize| places.iter().all(|one| self.ancestors(*one).contains(top));
            if !places.iter().any(tops) {
                return None;
            }
        }
        let mut total = Amounts::new();
        for ((place, class), amount) in chosen.iter().flat_map(|way| &way.amounts) {
            *total.entry((*place, class.clone())).or_default() += amount;
        }
        let fits = |((place, class), amount): (&(usize, String), &i64)| {
            self.0[*place].stocks.iter().any(|stock| {
                let of = &stock.inventory;
                let capacity = (f64::from(of.total - of.reserved) * of.allocation_ratio) as i64;
                stock.class == class
                    && stock.used + amount <= capacity
                    && *amount <= i64::from(of.max_unit)
            })
        };
        let used: BTreeSet<usize> = total.keys().map(|(place, _)| *place).collect();
        let trees: BTreeSet<usize> = used.iter().map(|place| self.root(*place)).collect();
        if !total.iter().all(fits) || (!query.nested && used.len() != trees.len()) {
            return None;
        }
        Some((total, chosen.iter().map(|way| way.places.clone()).collect()))
    }

    /// Whole trees, or, for clients that know of none, the providers in use.
    pub fn told(&self, query: &CandidateQuery, found: &BTreeSet<Found>) -> BTreeSet<usize> {
        let used: BTreeSet<usize> = (found.iter())
            .flat_map(|(amounts, _)| amounts.keys().map(|(place, _)| *place))
            .collect();
        if !query.nested {
            return used;
        }
        let roots: BTreeSet<usize> = used.iter().map(|place| self.root(*place)).collect();
        (0..self.0.len())
            .filter(|place| roots.contains(&self.root(*place)))
            .collect()
    }

    /// The providers that pass a filter; an unknown name is an error.
    pub fn providers(&self, query: &ProviderQuery) -> Result<Vec<usize>, String> {
        let all = || 0..self.0.len();
        let mut tree = None;
        if let Some(uuid) = &query.in_tree {
            match self.place_of(uuid) {
                Some(place) => tree = Some(self.root(place)),
                None => return Ok(Vec::new()),
            }
        }
        let unknown = |names: &[String]| {
            let unknown = names.iter().find(|name| !TRAITS.contains(&name.as_str()));
            unknown.map_or(Ok(()), |name| Err(name.clone()))
        };
        for any in &query.required {
            unknown(any)?;
        }
        let has_all = |place: usize| query.required.iter().all(|any| self.has_any(place, any));
        if !all().any(has_all) {
            return Ok(Vec::new());
        }
        unknown(&query.forbidden)?;
        if !all().any(|place| self.in_all(place, &query.member_of)) {
            return Ok(Vec::new());
        }
        for (class, _) in &query.resources {
            if !CLASSES.contains(&class.as_str()) {
                return Err(class.clone());
            }
        }
        Ok(all()
            .filter(|place| {
                has_all(*place)
                    && tree.is_none_or(|tree| self.root(*place) == tree)
                    && !self.has_any(*place, &query.forbidden)
                    && self.in_all(*place, &query.member_of)
                    && !self.in_any(*place, &query.forbidden_aggregates)
                    && (query.resources.iter())
                        .all(|(class, amount)| self.gives(*place, class, *amount))
                    && (query.name.iter()).all(|name| *name == format!("p{place}"))
                    && (query.uuid.iter()).all(|uuid| *uuid == uuid_at(*place).to_string())
            })
            .collect())
    }
}
