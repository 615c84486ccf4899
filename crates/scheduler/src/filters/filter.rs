//! The description of a filter.

use crate::context::Context;
use crate::error::BadRequest;
use crate::hosts::verdict::Verdict;

/// A filter: its name in the configuration, the requests that it applies to, and its compiler.
#[derive(Debug)]
pub struct Filter {
    /// The name by which `enabled_filters` refers to the filter.
    pub name: &'static str,
    /// Whether the filter's verdict is the same for all instances of a request (Nova: `run_filter_once_per_request`).
    /// If so, the verdict is cached by request class, unless it is [`Verdict::EachByAmounts`], which such a filter has
    /// to return if it reads free amounts, counts of instances or the load. A cached verdict may depend only on the
    /// request, the facts of hosts, whether they are up or disabled, and the metadata of aggregates.
    pub is_once_per_request: bool,
    /// Whether the filter applies to a rebuild in place; filters that do not apply let every host pass.
    pub runs_on_rebuild: bool,
    /// Compiles the filter for a request.
    pub compile: Compile,
}

/// Compiles a request into a verdict over all hosts. Fails if the request has a value that the
/// filter cannot interpret.
pub type Compile = for<'a> fn(&Context<'a>) -> Result<Verdict<'a>, BadRequest>;
