//! A resource request: request groups, with the constraints on the request as a whole.

use std::collections::{BTreeMap, BTreeSet};

use placewright_placement::GroupPolicy;
use uuid::Uuid;

use crate::error::BadRequest;
use crate::extra_spec::is_suffix;
use crate::request::RequestGroup;

/// The resources to request from placement.
///
/// See [`to_candidate_query`](Self::to_candidate_query) for the typed query and
/// [`to_query_string`](Self::to_query_string) for the text that Nova would send.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourceRequest {
    /// The group without a suffix, which several providers of a host may serve.
    pub unsuffixed: Option<RequestGroup>,
    /// The groups with suffixes, each of which one provider serves, in the order of addition.
    pub suffixed: Vec<RequestGroup>,
    /// Whether several suffixed groups may be served by the same provider; `None` if nobody has chosen yet, or there
    /// are no two suffixed groups.
    pub group_policy: Option<GroupPolicy>,
    /// Traits that the root provider must have.
    pub root_required: BTreeSet<String>,
    /// Traits that the root provider must not have.
    pub root_forbidden: BTreeSet<String>,
    /// Sets of suffixes. The providers of each set must be in one subtree, whose root is one of
    /// them.
    pub same_subtree: Vec<BTreeSet<String>>,
    /// The `limit` of the query string; `None` for a query string without a limit.
    pub limit: Option<u32>,
    /// The acceptable compute nodes if the request names a host; otherwise empty.
    pub nodes: BTreeSet<Uuid>,
    /// The number of suffixed groups that come from the flavor.
    pub flavor_group_count: usize,
}

impl ResourceRequest {
    /// The group with this suffix, or the unsuffixed group for an empty suffix. It is added if it does not exist.
    pub fn group(&mut self, suffix: &str) -> &mut RequestGroup {
        if suffix.is_empty() {
            return self.unsuffixed.get_or_insert_default();
        }
        let position = self.position(suffix).unwrap_or_else(|| {
            self.suffixed.push(RequestGroup {
                requester_id: suffix.to_owned(),
                ..RequestGroup::default()
            });
            self.suffixed.len() - 1
        });
        &mut self.suffixed[position]
    }

    fn position(&self, suffix: &str) -> Option<usize> {
        self.suffixed
            .iter()
            .position(|group| group.requester_id == suffix)
    }

    /// All groups, the unsuffixed one first.
    pub fn groups(&self) -> impl Iterator<Item = &RequestGroup> {
        self.unsuffixed.iter().chain(&self.suffixed)
    }

    /// The sum of the amounts of all groups, by class.
    #[must_use]
    pub fn merged_resources(&self) -> BTreeMap<String, u64> {
        let mut merged: BTreeMap<String, u64> = BTreeMap::new();
        for (class, amount) in self.groups().flat_map(|group| &group.resources) {
            let sum = merged.entry(class.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
        merged
    }

    /// The traits that any group requires.
    #[must_use]
    pub fn all_required_traits(&self) -> BTreeSet<&str> {
        self.groups()
            .flat_map(|group| group.required_traits.iter().map(String::as_str))
            .collect()
    }

    /// Adds a group that does not come from the flavor. The contents of a group without a suffix are merged into the
    /// unsuffixed group, where its amounts replace those of the flavor.
    ///
    /// # Errors
    ///
    /// [`BadRequest`] for a group that is empty, or whose suffix is invalid or taken. The error
    /// names `field`.
    pub fn add_group(&mut self, group: RequestGroup, field: &str) -> Result<(), BadRequest> {
        if group.requester_id.is_empty() && !group.is_empty() {
            self.group("").merge(group);
            return Ok(());
        }
        let suffix = &group.requester_id;
        if !is_suffix(suffix) {
            return Err(BadRequest::malformed(
                field,
                suffix.clone(),
                "1 to 64 letters, digits, \"_\" and \"-\"",
            ));
        }
        if group.is_empty() {
            return Err(BadRequest::invalid(field, "the group asks for nothing"));
        }
        if self.position(suffix).is_some() {
            return Err(BadRequest::conflict(
                field,
                "another group",
                format!("both are called {suffix:?}"),
            ));
        }
        self.suffixed.push(group);
        Ok(())
    }

    /// Removes amounts of 0, and groups that are empty without them. With `resources:VCPU=0` a
    /// flavor requests that no VCPU are allocated.
    pub fn strip_zeros(&mut self) {
        let groups = self.unsuffixed.iter_mut().chain(&mut self.suffixed);
        for group in groups {
            group.resources.retain(|_, amount| *amount > 0);
        }
        self.unsuffixed = self.unsuffixed.take().filter(|group| !group.is_empty());
        self.suffixed.retain(|group| !group.is_empty());
    }

    /// Chooses the group policy if it is missing.
    ///
    /// # Errors
    ///
    /// [`BadRequest`] if several suffixed groups come from the flavor, because the flavor has to
    /// determine the policy then.
    pub fn choose_group_policy(&mut self) -> Result<(), BadRequest> {
        if self.suffixed.len() < 2 || self.group_policy.is_some() {
            return Ok(());
        }
        if self.flavor_group_count > 1 {
            return Err(BadRequest::missing(
                "flavor.extra_specs[\"group_policy\"]",
                "the flavor has several suffixed groups; \"none\" lets them share a provider, \
                 \"isolate\" gives each one of its own. The request's own group_policy does the same",
            ));
        }
        self.group_policy = Some(GroupPolicy::None);
        Ok(())
    }
}
