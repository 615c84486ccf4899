//! The typed query of the search for candidates.

use thiserror::Error;

/// A request for allocation candidates, checked for form but not against the state.
///
/// Source: Placement API reference, "List allocation candidates".
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CandidateQuery {
    /// The groups in the order in which the query first names them: unknown names in a later group are noticed only if
    /// some providers satisfy the groups before it.
    pub groups: Vec<RequestGroup>,
    /// How the suffixed groups relate to each other. `None` is as [`GroupPolicy::None`].
    pub group_policy: Option<GroupPolicy>,
    /// Sets of suffixes: one of the providers of each set must be an ancestor of the others.
    pub same_subtree: Vec<Vec<String>>,
    /// Traits that the root of the tree must have.
    pub root_required: Vec<String>,
    /// Traits that the root of the tree must not have.
    pub root_forbidden: Vec<String>,
    /// The maximum number of candidates in the answer; `None` if the client gives none.
    pub limit: Option<usize>,
    /// Whether the client knows of nested providers (microversion 1.29): without it no candidate
    /// takes two providers of one tree, and the summaries name only providers in use.
    pub nested: bool,
    /// Operator settings of the search.
    pub options: SearchOptions,
}

/// Resources and the rules about which providers may provide them.
///
/// The group with an empty suffix may take each resource class from a different provider of a tree, or
/// from one that shares with it; every other group takes all from one provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RequestGroup {
    /// The suffix that distinguishes the group from others; empty for the unsuffixed group.
    pub suffix: String,
    /// Names of resource classes, each once, with amounts of at least 1. A suffixed group that
    /// `same_subtree` names may have none.
    pub resources: Vec<(String, i64)>,
    /// Lists of names of traits: at least one trait of each list is required.
    pub required: Vec<Vec<String>>,
    /// Names of traits that are forbidden.
    pub forbidden: Vec<String>,
    /// Lists of UUIDs of aggregates, as the client wrote them: a provider has to be a member of one aggregate of each
    /// list.
    pub member_of: Vec<Vec<String>>,
    /// UUIDs of aggregates, as the client wrote them: a provider must not be a member of any of them.
    pub forbidden_aggregates: Vec<String>,
    /// The UUID of any provider of the tree that must serve the group, as the client wrote it: only
    /// the canonical form in lower case names a provider.
    pub in_tree: Option<String>,
}

/// How the suffixed groups of a request relate to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupPolicy {
    /// Several groups may be served by one provider.
    None,
    /// Each group is served by a provider of its own.
    Isolate,
}

/// Operator settings of the search; the same for all requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SearchOptions {
    /// The order in which trees are searched.
    pub strategy: Strategy,
    /// The maximum number of candidates to generate for any request, whatever its limit; `None` for no such bound.
    pub max_candidates: Option<usize>,
    /// Shuffles the order of trees and of variables within them; equal seeds give equal answers. `None`: nothing is
    /// shuffled.
    pub seed: Option<u64>,
}

/// The order in which candidates are enumerated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// All candidates of one tree before the next tree.
    #[default]
    DepthFirst,
    /// One candidate of every tree, before a second candidate of any tree.
    BreadthFirst,
}

/// Why a query cannot be answered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum QueryRefusal {
    /// No resource class has this name.
    #[error("No such resource class {name}.")]
    UnknownClass {
        /// The name that no resource class has.
        name: String,
    },
    /// No trait has this name.
    #[error("No such trait(s): {name}.")]
    UnknownTrait {
        /// The name that no trait has.
        name: String,
    },
}
