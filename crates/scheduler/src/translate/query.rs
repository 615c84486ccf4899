//! A resource request as a query: typed for our own search, and as text.

use std::collections::BTreeSet;
use std::fmt::Write;

use placewright_placement::{CandidateQuery, GroupPolicy, RequestGroup as QueryGroup};
use uuid::Uuid;

use crate::error::BadRequest;
use crate::request::RequestGroup;
use crate::translate::resource_request::ResourceRequest;
use crate::translate::rule::CandidateRule;

impl ResourceRequest {
    /// The query for our own search.
    ///
    /// A group without a suffix whose amounts are all 0 cannot be asked for. What it says then
    /// holds for the host itself: its traits are asked of the root, its tree of every other group,
    /// and its aggregates are the [`host_rule`](Self::host_rule).
    ///
    /// # Errors
    ///
    /// [`BadRequest`] for what no provider can ever fulfil: a trait both required and forbidden, a
    /// group that takes nothing, a set of groups with one that does not exist.
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
        let taking = unsuffixed.filter(|group| !group.resources.is_empty());
        let groups = taking.into_iter().chain(&self.suffixed);
        query.groups.extend(groups.map(query_group));
        if let Some(group) = unsuffixed.filter(|group| group.resources.is_empty()) {
            ask_of_host(group, &mut query);
        }
        Ok(query)
    }

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
                    format!("{name} asks for traits or aggregates but no resources"),
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

    /// The constraint on the host itself that no query can express, if any: see
    /// [`to_candidate_query`](Self::to_candidate_query).
    #[must_use]
    pub fn host_rule(&self) -> Option<CandidateRule> {
        let group = self.unsuffixed.as_ref()?;
        let has_aggregates = !group.aggregates.is_empty() || !group.forbidden_aggregates.is_empty();
        (group.resources.is_empty() && has_aggregates).then(|| CandidateRule::Host {
            member_of: group.aggregates.clone(),
            forbidden_aggregates: group.forbidden_aggregates.clone(),
        })
    }

    /// The query string as Nova would write it, parameters in alphabetical order.
    ///
    /// For logs and comparison: also where Placement would refuse it, such as for a group without
    /// a suffix that asks for traits but no resources.
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
        let of_root = traits(&self.root_required, &self.root_forbidden);
        if !of_root.is_empty() {
            parameters.push(("root_required".to_owned(), of_root));
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

/// Moves the constraints of an unsuffixed group without resources to the host.
fn ask_of_host(group: &RequestGroup, query: &mut CandidateQuery) {
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
            // All groups are in one tree, so a request for two different trees finds nothing.
            other.in_tree.get_or_insert_with(|| in_tree.clone());
        }
    }
}

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
            .map(|any| any.iter().map(Uuid::to_string).collect())
            .collect(),
        forbidden_aggregates: group
            .forbidden_aggregates
            .iter()
            .map(Uuid::to_string)
            .collect(),
        in_tree: group.in_tree.map(|uuid| uuid.to_string()),
    }
}

fn check_traits(
    of: &str,
    required: &BTreeSet<String>,
    forbidden: &BTreeSet<String>,
) -> Result<(), BadRequest> {
    match required.intersection(forbidden).next() {
        None => Ok(()),
        Some(name) => Err(BadRequest::conflict(
            format!("trait:{name}"),
            of,
            "it is both required and forbidden, counting flavor, image and what was added to them",
        )),
    }
}

/// Refuses a set of traits that are all forbidden, and a set without resources in the unsuffixed
/// group, which no query can express.
fn check_any_traits(of: &str, group: &RequestGroup) -> Result<(), BadRequest> {
    let field = || format!("placewright:any_trait{}", group.requester_id);
    if group.resources.is_empty() && group.requester_id.is_empty() && !group.any_traits.is_empty() {
        return Err(BadRequest::invalid(
            field(),
            format!("{of} asks for one of several traits but no resources"),
        ));
    }
    let mut sets = group.any_traits.iter();
    if sets.any(|set| set.is_subset(&group.forbidden_traits)) {
        return Err(BadRequest::conflict(
            field(),
            of,
            "all of them are forbidden",
        ));
    }
    Ok(())
}

fn to_list(set: &BTreeSet<String>) -> Vec<String> {
    set.iter().cloned().collect()
}

fn traits(required: &BTreeSet<String>, forbidden: &BTreeSet<String>) -> String {
    let forbidden = forbidden.iter().map(|name| format!("!{name}"));
    let all: Vec<_> = required.iter().cloned().chain(forbidden).collect();
    all.join(",")
}

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
    for any in &group.any_traits {
        add("required", format!("in:{}", to_list(any).join(",")));
    }
    for any in &group.aggregates {
        let mut any: Vec<_> = any.iter().map(Uuid::to_string).collect();
        any.sort_unstable();
        add("member_of", format!("in:{}", any.join(",")));
    }
    if let Some(uuid) = group.in_tree {
        add("in_tree", uuid.to_string());
    }
    if !group.forbidden_aggregates.is_empty() {
        let none = group.forbidden_aggregates.iter().map(Uuid::to_string);
        let none: Vec<_> = none.collect();
        add("member_of", format!("!in:{}", none.join(",")));
    }
}

/// Percent-encodes a text as forms do: `+` for a blank, `%XX` for all but letters, digits and
/// `_.-~`.
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
