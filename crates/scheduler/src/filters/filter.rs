//! What a filter is.

use crate::context::Context;
use crate::error::BadRequest;
use crate::hosts::verdict::Verdict;

/// A filter: its name in the configuration, when it applies, and how it is compiled.
#[derive(Debug)]
pub struct Filter {
    /// The name by which `enabled_filters` refers to it.
    pub name: &'static str,
    /// Whether its verdict is the same for every instance of a request, and changes only with the
    /// host's own report or with the metadata of aggregates: what is kept of a class of requests
    /// follows these.
    pub is_once_per_request: bool,
    /// Whether it applies to a rebuild in place; all others then pass.
    pub runs_on_rebuild: bool,
    /// Compiles the filter for a request.
    pub compile: Compile,
}

/// Compiles a request into a verdict over all hosts. An error means that the request has a value
/// that the filter cannot interpret.
pub type Compile = for<'a> fn(&Context<'a>) -> Result<Verdict<'a>, BadRequest>;
