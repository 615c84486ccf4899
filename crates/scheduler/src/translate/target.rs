//! Restricts a translated request to the hosts that it names.

use thiserror::Error;
use uuid::Uuid;

use crate::error::BadRequest;
use crate::request::RequestSpec;
use crate::translate::resource_request::ResourceRequest;

/// A node of the compute service, as far as a request can name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputeNode {
    /// The UUID of the node and of its resource provider.
    pub uuid: Uuid,
    /// The name of the compute service that manages it.
    pub host: String,
    /// The name of the node; a service can manage several.
    pub node: String,
}

/// The host or node that a request names, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// The name of the compute service, if given.
    pub host: Option<&'a str>,
    /// The name of the node, if given.
    pub node: Option<&'a str>,
    /// The only cell to search, if given.
    pub cell: Option<Uuid>,
}

/// Why a request cannot be restricted to its target.
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

/// The host or node that a request names; a destination takes precedence over forced ones, part by
/// part.
///
/// An empty name counts as none.
#[must_use]
pub fn target(spec: &RequestSpec) -> Option<Target<'_>> {
    fn first<'a>(of_destination: Option<&'a String>, forced: &'a [String]) -> Option<&'a str> {
        let mut names = [of_destination, forced.first()].into_iter().flatten();
        names.find(|name| !name.is_empty()).map(String::as_str)
    }
    let destination = spec.requested_destination.as_ref();
    let host = first(
        destination.and_then(|to| to.host.as_ref()),
        &spec.force_hosts,
    );
    let node = first(
        destination.and_then(|to| to.node.as_ref()),
        &spec.force_nodes,
    );
    let cell = destination.and_then(|to| to.cell);
    (host.is_some() || node.is_some()).then_some(Target { host, node, cell })
}

/// Adds the host and the aggregates of a destination, and settles the group policy.
///
/// `find` looks a host up among the compute nodes. With one node the search is for its tree; with
/// several (bare metal behind one service) the answer is in [`ResourceRequest::nodes`].
///
/// # Errors
///
/// [`TargetRefusal`] for a host that does not exist, or suffixed groups without a policy.
pub fn point(
    request: &mut ResourceRequest,
    spec: &RequestSpec,
    find: impl FnOnce(Target<'_>) -> Vec<ComputeNode>,
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
        let nodes = find(target);
        match &*nodes {
            [] => {
                return Err(TargetRefusal::NoSuchHost {
                    host: target.host.map(str::to_owned),
                    node: target.node.map(str::to_owned),
                });
            }
            [node] => request.group("").in_tree = Some(node.uuid),
            _ => request.limit = None,
        }
        request.nodes = nodes.iter().map(|node| node.uuid).collect();
    }
    let far_reaching = ["group", "same_host", "different_host"];
    if far_reaching
        .iter()
        .any(|hint| spec.scheduler_hints.contains_key(*hint))
    {
        request.limit = None;
    }
    request.settle_group_policy()?;
    Ok(())
}
