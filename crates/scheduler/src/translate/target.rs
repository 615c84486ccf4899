//! The target of a request: the hosts that it names, to which the query is restricted.

use thiserror::Error;
use uuid::Uuid;

use crate::error::BadRequest;
use crate::request::RequestSpec;
use crate::translate::resource_request::ResourceRequest;

/// A node of the compute service, with the names by which a request can refer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputeNode {
    /// The UUID of the node and of its resource provider.
    pub uuid: Uuid,
    /// The name of the service host that the node belongs to.
    pub host: String,
    /// The name of the node; a service host can have several.
    pub node: String,
}

/// The host or node that a request names, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// The service host, if given.
    pub host: Option<&'a str>,
    /// The name of the node, if given.
    pub node: Option<&'a str>,
    /// The only cell to search, if given.
    pub cell: Option<Uuid>,
}

/// The reason why a request cannot be restricted to its target.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TargetRefusal {
    /// No node has these names.
    #[error("no such host - host: {} node: {}", host.as_deref().unwrap_or("any"), node.as_deref().unwrap_or("any"))]
    NoSuchHost {
        /// The host that was named.
        host: Option<String>,
        /// The node that was named.
        node: Option<String>,
    },
    /// The request contradicts itself.
    #[error(transparent)]
    BadRequest(#[from] BadRequest),
}

/// The host and node that a request names; `None` if it names neither. The host of a destination takes precedence over
/// a forced host, and likewise the node. An empty name counts as absent.
#[must_use]
pub fn target(spec: &RequestSpec) -> Option<Target<'_>> {
    fn first_name<'a>(of_destination: Option<&'a String>, forced: &'a [String]) -> Option<&'a str> {
        let mut names = [of_destination, forced.first()].into_iter().flatten();
        names.find(|name| !name.is_empty()).map(String::as_str)
    }
    let destination = spec.requested_destination.as_ref();
    let host = first_name(
        destination.and_then(|destination| destination.host.as_ref()),
        &spec.force_hosts,
    );
    let node = first_name(
        destination.and_then(|destination| destination.node.as_ref()),
        &spec.force_nodes,
    );
    let cell = destination.and_then(|destination| destination.cell);
    (host.is_some() || node.is_some()).then_some(Target { host, node, cell })
}

/// Restricts a translated request to its target and the aggregates of its destination, and chooses
/// the group policy if it is missing.
///
/// `find_nodes` returns the compute nodes of a target, which become [`ResourceRequest::nodes`]. If there is only one,
/// the query is restricted to its tree. A service host of bare metal may have several.
///
/// # Errors
///
/// [`TargetRefusal`] for an unknown host, or for suffixed groups without a policy.
pub fn apply(
    request: &mut ResourceRequest,
    spec: &RequestSpec,
    find_nodes: impl FnOnce(Target<'_>) -> Vec<ComputeNode>,
) -> Result<(), TargetRefusal> {
    if let Some(destination) = &spec.requested_destination {
        if !destination.aggregates.is_empty() {
            let group = request.group("");
            group
                .aggregates
                .extend(destination.aggregates.iter().cloned());
        }
        if !destination.forbidden_aggregates.is_empty() {
            let group = request.group("");
            group
                .forbidden_aggregates
                .extend(&destination.forbidden_aggregates);
        }
    }
    if let Some(target) = target(spec) {
        let nodes = find_nodes(target);
        match &*nodes {
            [] => {
                return Err(TargetRefusal::NoSuchHost {
                    host: target.host.map(str::to_owned),
                    node: target.node.map(str::to_owned),
                });
            }
            [node] => request.group("").in_tree = Some(node.uuid),
            // The query is not restricted to these nodes, so a limit could leave them out.
            _ => request.limit = None,
        }
        request.nodes = nodes.iter().map(|node| node.uuid).collect();
    }
    // These hints may exclude any number of hosts. With a limit, placement could return only hosts that
    // filters then exclude.
    let excluding_hints = ["group", "same_host", "different_host"];
    if excluding_hints
        .iter()
        .any(|hint| spec.scheduler_hints.contains_key(*hint))
    {
        request.limit = None;
    }
    request.choose_group_policy()?;
    Ok(())
}
