//! The division of the process's file descriptors among its listeners, so that the clients of one
//! listener cannot use up the descriptors of another, or those of the store.

use placewright_http::Health;
use placewright_net::Limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::own_identity;
use crate::options::Options;

/// Descriptors that are reserved for other uses than clients: store, snapshots, log, Keystone, cells.
const RESERVED: usize = 160;
/// Further descriptors that are reserved for each cell in the process.
const RESERVED_PER_CELL: usize = 16;
/// The smallest limit of connections of a listener, however few descriptors there are, unless a smaller one is
/// configured.
const CONNECTIONS_MIN: usize = 4;

/// The limits of each kind of listener in a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionLimits {
    /// For each of the HTTP APIs.
    pub(crate) api: Limits,
    /// For the listener for cells.
    pub(crate) for_cells: Limits,
    /// For the listener of a cell, for its agents and control.
    pub(crate) cell: Limits,
}

/// Raises the descriptor limit of the process, and returns the limits of control's listeners, with this number
/// of cells in its process.
pub(crate) fn raise_and_divide_for_control(options: &Options, cells: usize) -> ConnectionLimits {
    let configured = configured(options);
    let optional = [
        options.scheduler.listen,
        options.compute.listen,
        own_identity::address(options),
        options.image.listen,
        options.network.listen,
        options.ui.listen,
    ];
    let apis = 1 + optional.iter().flatten().count();
    let for_cells = usize::from(options.control.listen.is_some());
    divide_descriptors(configured, [apis, for_cells, cells])
}

/// Raises the descriptor limit of the process, and returns the limits of the listener of a cell in a process of
/// its own.
pub(crate) fn raise_and_divide_for_cell(options: &Options) -> ConnectionLimits {
    divide_descriptors(configured(options), [0, 0, 1])
}

/// The configured limits of the three kinds of listeners: of the HTTP APIs, of control for cells, and of cells.
fn configured(options: &Options) -> [Limits; 3] {
    let (placement, control, cell) = (&options.placement, &options.control, &options.cell);
    [
        Limits {
            connections: placement.connections_max.count(),
            per_peer: placement.connections_per_peer_max.count(),
            connections_option: "placement.connections_max",
            per_peer_option: "placement.connections_per_peer_max",
        },
        Limits {
            connections: control.connections_max.count(),
            per_peer: control.connections_per_peer_max.count(),
            connections_option: "control.connections_max",
            per_peer_option: "control.connections_per_peer_max",
        },
        Limits {
            connections: cell.connections_max.count(),
            per_peer: cell.connections_per_peer_max.count(),
            connections_option: "cell.connections_max",
            per_peer_option: "cell.connections_per_peer_max",
        },
    ]
}

/// Divides the descriptors of the process, given the configured limits and the number of listeners of each
/// kind, in the order of [`configured`].
fn divide_descriptors(configured: [Limits; 3], counts: [usize; 3]) -> ConnectionLimits {
    let descriptors = raise_descriptor_limit();
    let [_, _, cells] = counts;
    let reserved = RESERVED + RESERVED_PER_CELL * cells + Health::CONNECTIONS_MAX;
    let [api, for_cells, cell] = reduced_limits(descriptors, reserved, configured, counts);
    ConnectionLimits {
        api,
        for_cells,
        cell,
    }
}

/// Raises the process's limit of descriptors to its maximum, and returns it.
fn raise_descriptor_limit() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(error) => {
            tracing::debug!(%error, "the limit of file descriptors cannot be raised");
            limit.current
        }
    };
    current.map_or(usize::MAX, |current| {
        usize::try_from(current).unwrap_or(usize::MAX)
    })
}

/// Divides descriptors among listeners, given the configured limits and the number of listeners of each
/// kind. If there are too few descriptors, all limits are reduced in proportion, with a warning.
fn reduced_limits<const KINDS: usize>(
    descriptors: usize,
    reserved: usize,
    configured: [Limits; KINDS],
    counts: [usize; KINDS],
) -> [Limits; KINDS] {
    let listeners = configured.iter().zip(counts);
    let total = listeners.fold(0, |total: usize, (limits, count)| {
        total.saturating_add(limits.connections.saturating_mul(count))
    });
    // Each listener may hold one further connection that it has just accepted.
    let reserved = reserved + counts.iter().sum::<usize>();
    // However many are reserved, clients get at least a quarter.
    let available = descriptors
        .saturating_sub(reserved)
        .max(descriptors / 4)
        .max(1);
    if total <= available {
        return configured;
    }
    let reduced = |limit: usize| {
        let proportional = limit as u128 * available as u128 / total as u128;
        let proportional = usize::try_from(proportional).unwrap_or(usize::MAX);
        proportional.max(CONNECTIONS_MIN).min(limit)
    };
    std::array::from_fn(|kind| {
        let configured = configured[kind];
        let reduced_limits = Limits {
            connections: reduced(configured.connections),
            per_peer: reduced(configured.per_peer),
            ..configured
        };
        if counts[kind] > 0 {
            tracing::warn!(
                descriptors,
                "{} is {}, but there are file descriptors for {} connections only, of one peer {}: \
                 raise the limit of open files (LimitNOFILE=, ulimit -Hn)",
                configured.connections_option,
                configured.connections,
                reduced_limits.connections,
                reduced_limits.per_peer
            );
        }
        reduced_limits
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(connections: usize, per_peer: usize) -> Limits {
        Limits {
            connections,
            per_peer,
            connections_option: "connections_max",
            per_peer_option: "connections_per_peer_max",
        }
    }

    #[test]
    fn enough_descriptors_leave_the_configured_limits() {
        let configured = [limits(4096, 2048), limits(1024, 0)];
        assert_eq!(
            reduced_limits(65_536, RESERVED, configured, [3, 1]),
            configured
        );
        // A kind without listeners needs no descriptors.
        assert_eq!(
            reduced_limits(5_000, RESERVED, configured, [1, 0]),
            configured
        );
    }

    #[test]
    fn few_descriptors_are_divided_and_some_stay_reserved() {
        let configured = [limits(4096, 2048), limits(1024, 0)];
        let connection_limits = reduced_limits(1024, RESERVED, configured, [3, 1]);
        let total = 3 * connection_limits[0].connections + connection_limits[1].connections;
        let listeners = 3 + 1;
        assert!(
            total <= 1024 - RESERVED - listeners && total > 800,
            "{connection_limits:?}"
        );
        assert_eq!(
            connection_limits[0].per_peer,
            connection_limits[0].connections / 2
        );
        assert_eq!(connection_limits[1].per_peer, 0);
        assert!(connection_limits[1].connections > 60);
        // However few descriptors there are, each listener has some.
        for limits in reduced_limits(64, RESERVED, configured, [3, 1]) {
            assert!(limits.connections >= CONNECTIONS_MIN);
        }
    }
}
