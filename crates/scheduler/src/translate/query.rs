//! The queries of a resource request: typed for this scheduler's search, and as Nova's query
//! string.

use std::collections::BTreeSet;
use std::fmt::Write;

use placewright_placement::{CandidateQuery, GroupPolicy, RequestGroup as QueryGroup};
use uuid::Uuid;

use crate::error::BadRequest;
use crate::request::RequestGroup;
use crate::translate::resource_request::ResourceRequest;
use crate::translate::rule::CandidateRule;

impl ResourceRequest {
    /// The query for this scheduler's search.
    ///
    /// A query cannot have an unsuffixed group without resources. The constraints of such a group
    /// are moved to the host: the root provider has to have its traits, every other group has to be
    /// in its tree, and the [`host_rule`](Self::host_rule) checks its aggregates.
    ///
    /// # Errors
    ///
    /// [`BadRequest`] for a request that no provider can ever serve: a trait that is both required
    /// and forbidden, a group without resources, a set of suffixes of which one does not exist.
    pub fn to_candidate_query(&self) -> Result<CandidateQuery, BadRequest> {
        self.check()?;
        let mut query = CandidateQuery {
            groups: Vec::with_capacity(self.suffixed.len() + 1),
            group_policy: self.group_policy,
            same_subtree: self.same_subtree.iter().map(to_list).collect(),
            root_required: to_list(&self.root_required),
            root_forbidden: to_list(&self.root_forbidden),
            nested: true,
            ..CandidateQuery::default()
        };
        let unsuffixed = self.unsuffixed.as_ref();
        let with_resources = unsuffixed.filter(|group| !group.resources.is_empty());
        let groups = with_resources.into_iter().chain(&self.suffixed);
        query.groups.extend(groups.map(query_group));
        if let Some(group) = unsuffixed.filter(|group| group.resources.is_empty()) {
            require_of_host(group, &mut query);
        }
        Ok(query)
    }

    /// Refuses a request that no provider can ever serve.
    fn check(&self) -> Result<(), BadRequest> {
        if self.groups().all(|group| group.resources.is_empty()) {
            return Err(BadRequest::invalid("flavor", "it asks for no resources"));
        }
        check_traits("the host", &self.root_required, &self.root_forbidden)?;
        let in_subtree = |suffix: &String| self.same_subtree.iter().any(|set| set.contains(suffix));
        for group in self.groups() {
            let suffix = &group.requester_id;
            let name = if suffix.is_empty() {
                "the group without a suffix".to_owned()
            } else {
                format!("group {suffix:?}")
            };
            check_traits(&name, &group.required_traits, &group.forbidden_traits)?;
            check_any_traits(&name, group)?;
            if group.resources.is_empty() && !suffix.is_empty() && !in_subtree(suffix) {
                return Err(BadRequest::missing(
                    format!("resources{suffix}"),
                    format!("{name} asks for traits, aggregates or a tree but no resources"),
                ));
            }
        }
        for suffix in self.same_subtree.iter().flatten() {
            let mut groups = self.suffixed.iter();
            if !groups.any(|group| group.requester_id == *suffix) {
                return Err(BadRequest::invalid(
                    "request_level_params.same_subtree",
                    format!("there is no group {suffix:?}"),
                ));
            }
        }
        Ok(())
    }

    /// The constraint on the host that [`to_candidate_query`](Self::to_candidate_query) cannot
    /// express, if there is one.
    #[must_use]
    pub fn host_rule(&self) -> Option<CandidateRule> {
        let group = self.unsuffixed.as_ref()?;
        let has_aggregates = !group.aggregates.is_empty() || !group.forbidden_aggregates.is_empty();
        (group.resources.is_empty() && has_aggregates).then(|| CandidateRule::Host {
            member_of: group.aggregates.clone(),
            forbidden_aggregates: group.forbidden_aggregates.clone(),
        })
    }

    /// The query string that Nova would send, with parameters in alphabetical order.
    ///
    /// It is for logs and comparisons. It is also defined for requests that Placement would refuse,
    /// such as an unsuffixed group with traits but no resources.
    #[must_use]
    pub fn to_query_string(&self) -> String {
        let mut parameters = Vec::new();
        if let Some(limit) = self.limit {
            parameters.push(("limit".to_owned(), limit.to_string()));
        }
        if let Some(policy) = self.group_policy {
            let policy = match policy {
                GroupPolicy::None => "none",
                GroupPolicy::Isolate => "isolate",
            };
            parameters.push(("group_policy".to_owned(), policy.to_owned()));
        }
        let root_traits = traits(&self.root_required, &self.root_forbidden);
        if !root_traits.is_empty() {
            parameters.push(("root_required".to_owned(), root_traits));
        }
        for suffixes in &self.same_subtree {
            let suffixes = to_list(suffixes).join(",");
            parameters.push(("same_subtree".to_owned(), suffixes));
        }
        for group in self.groups() {
            add_parameters(group, &mut parameters);
        }
        parameters.sort_unstable();
        let encoded = parameters
            .iter()
            .map(|(name, value)| format!("{}={}", encode(name), encode(value)));
        encoded.collect::<Vec<_>>().join("&")
    }
}

/// Moves the traits and the tree of an unsuffixed group without resources to the root provider and
/// the other groups.
fn require_of_host(group: &RequestGroup, query: &mut CandidateQuery) {
    let add = |to: &mut Vec<String>, from: &BTreeSet<String>| {
        to.extend(from.iter().cloned());
        to.sort_unstable();
        to.dedup();
    };
    add(&mut query.root_required, &group.required_traits);
    add(&mut query.root_forbidden, &group.forbidden_traits);
    let in_tree = group.in_tree.map(|uuid| uuid.to_string());
    if let Some(in_tree) = in_tree {
        for other in &mut query.groups {
            // A group that names a tree itself keeps it. One tree serves all groups, so if a group beside it
            // gets another tree here, the query finds nothing.
            other.in_tree.get_or_insert_with(|| in_tree.clone());
        }
    }
}

/// A request group in the form of a query.
fn query_group(group: &RequestGroup) -> QueryGroup {
    let resources = group.resources.iter();
    QueryGroup {
        suffix: group.requester_id.clone(),
        resources: resources
            .map(|(class, amount)| (class.clone(), i64::try_from(*amount).unwrap_or(i64::MAX)))
            .collect(),
        required: group
            .required_traits
            .iter()
            .map(|name| vec![name.clone()])
            .chain(group.any_traits.iter().map(to_list))
            .collect(),
        forbidden: to_list(&group.forbidden_traits),
        member_of: group
            .aggregates
            .iter()
            .map(|aggregates| aggregates.iter().map(Uuid::to_string).collect())
            .collect(),
        forbidden_aggregates: group
            .forbidden_aggregates
            .iter()
            .map(Uuid::to_string)
            .collect(),
        in_tree: group.in_tree.map(|uuid| uuid.to_string()),
    }
}

/// Refuses a trait that is both required and forbidden. `owner` is who requires it, for the error.
fn check_traits(
    owner: &str,
    required: &BTreeSet<String>,
    forbidden: &BTreeSet<String>,
) -> Result<(), BadRequest> {
    match required.intersection(forbidden).next() {
        None => Ok(()),
        Some(name) => Err(BadRequest::conflict(
            format!("trait:{name}"),
            owner,
            "it is both required and forbidden, counting flavor, image and what was added to them",
        )),
    }
}

/// Refuses a set of alternative traits that are all forbidden, and such a set in an unsuffixed
/// group without resources, which no query can express.
fn check_any_traits(name: &str, group: &RequestGroup) -> Result<(), BadRequest> {
    let field = || format!("placewright:any_trait{}", group.requester_id);
    if group.resources.is_empty() && group.requester_id.is_empty() && !group.any_traits.is_empty() {
        return Err(BadRequest::invalid(
            field(),
            format!("{name} asks for one of several traits but no resources"),
        ));
    }
    let mut sets = group.any_traits.iter();
    if sets.any(|set| set.is_subset(&group.forbidden_traits)) {
        return Err(BadRequest::conflict(
            field(),
            name,
            "all of them are forbidden",
        ));
    }
    Ok(())
}

fn to_list(set: &BTreeSet<String>) -> Vec<String> {
    set.iter().cloned().collect()
}

/// Required and forbidden traits in the format of query strings.
fn traits(required: &BTreeSet<String>, forbidden: &BTreeSet<String>) -> String {
    let forbidden = forbidden.iter().map(|name| format!("!{name}"));
    let signed_names: Vec<_> = required.iter().cloned().chain(forbidden).collect();
    signed_names.join(",")
}

/// Adds the parameters of a request group.
fn add_parameters(group: &RequestGroup, parameters: &mut Vec<(String, String)>) {
    let suffix = &group.requester_id;
    let mut add = |name: &str, value: String| parameters.push((format!("{name}{suffix}"), value));
    let resources = group.resources.iter();
    let mut resources: Vec<_> = resources
        .map(|(class, amount)| format!("{class}:{amount}"))
        .collect();
    resources.sort_unstable();
    add("resources", resources.join(","));
    let traits = traits(&group.required_traits, &group.forbidden_traits);
    if !traits.is_empty() {
        add("required", traits);
    }
    for alternatives in &group.any_traits {
        add(
            "required",
            format!("in:{}", to_list(alternatives).join(",")),
        );
    }
    for alternatives in &group.aggregates {
        let mut uuids: Vec<_> = alternatives.iter().map(Uuid::to_string).collect();
        uuids.sort_unstable();
        add("member_of", format!("in:{}", uuids.join(",")));
    }
    if let Some(uuid) = group.in_tree {
        add("in_tree", uuid.to_string());
    }
    if !group.forbidden_aggregates.is_empty() {
        let forbidden = group.forbidden_aggregates.iter().map(Uuid::to_string);
        let forbidden: Vec<_> = forbidden.collect();
        add("member_of", format!("!in:{}", forbidden.join(",")));
    }
}

/// Percent-encodes a text as HTML forms do: a space becomes `+`, and all bytes but letters, digits
/// and `_.-~` become `%XX`.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => {
                encoded.push(char::from(byte));
            }
            b' ' => encoded.push('+'),
            _ => {
                // Writing to a `String` cannot fail.
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}
