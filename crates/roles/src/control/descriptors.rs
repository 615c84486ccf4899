//! File descriptors: as many as the system allows, divided so that no listener can use those of
//! another, nor those of the store.

use placewright_http::Health;
use placewright_net::Limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::options::Options;

/// Descriptors that are not for clients: the store, snapshots, the log, Keystone, cells, wakers.
const RESERVED: usize = 160;
const RESERVED_FOR_A_CELL: usize = 16;
/// The least number of connections of a listener, however few descriptors there are.
const CONNECTIONS_MIN: usize = 4;

/// The limits of each kind of listener in a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionLimits {
    /// For each of the HTTP APIs.
    pub(crate) api: Limits,
    /// For the listener for cells.
    pub(crate) asks: Limits,
    /// For the listener for agents.
    pub(crate) cell: Limits,
}

/// The limits of control's listeners, with so many cells in its process; raises the descriptor
/// limit.
pub(crate) fn of_control(options: &Options, cells: usize) -> ConnectionLimits {
    let wanted = wanted(options);
    let apis = 1
        + usize::from(options.scheduler.listen.is_some())
        + usize::from(options.compute.listen.is_some());
    let asks = usize::from(options.control.listen.is_some());
    share_out(wanted, [apis, asks, cells])
}

/// The same for a cell in a process of its own.
pub(crate) fn of_cell(options: &Options) -> ConnectionLimits {
    share_out(wanted(options), [0, 0, 1])
}

/// The limits in the options.
fn wanted(options: &Options) -> [Limits; 3] {
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

fn share_out(wanted: [Limits; 3], counts: [usize; 3]) -> ConnectionLimits {
    let descriptors = raise();
    let cells = counts[2];
    let reserved = RESERVED + RESERVED_FOR_A_CELL * cells + Health::CONNECTIONS_MAX;
    let [api, asks, cell] = share(descriptors, reserved, wanted, counts);
    ConnectionLimits { api, asks, cell }
}

/// Raises the process's limit of descriptors to its maximum, and returns it.
fn raise() -> usize {
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

/// Divides descriptors among listeners, given the wanted limits and the number of listeners of each
/// kind. If there are too few, all limits are reduced in proportion, and that is logged.
fn share<const KINDS: usize>(
    descriptors: usize,
    reserved: usize,
    wanted: [Limits; KINDS],
    counts: [usize; KINDS],
) -> [Limits; KINDS] {
    let all = wanted.iter().zip(counts);
    let total = all.fold(0, |total: usize, (limits, count)| {
        total.saturating_add(limits.connections.saturating_mul(count))
    });
    // Each listener may have one connection that it has just accepted.
    let reserved = reserved + counts.iter().sum::<usize>();
    let available = descriptors
        .saturating_sub(reserved)
        .max(descriptors / 4)
        .max(1);
    if total <= available {
        return wanted;
    }
    let part = |of: usize| {
        let part = of as u128 * available as u128 / total as u128;
        let part = usize::try_from(part).unwrap_or(usize::MAX);
        part.max(CONNECTIONS_MIN).min(of)
    };
    std::array::from_fn(|kind| {
        let wanted = wanted[kind];
        let share = Limits {
            connections: part(wanted.connections),
            per_peer: part(wanted.per_peer),
            ..wanted
        };
        if counts[kind] > 0 {
            tracing::warn!(
                descriptors,
                "{} is {}, but there are file descriptors for {} connections only, of one peer {}: \
                 raise the limit of open files (LimitNOFILE=, ulimit -Hn)",
                wanted.connections_option,
                wanted.connections,
                share.connections,
                share.per_peer
            );
        }
        share
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
    fn enough_descriptors_leave_all_as_it_is_wanted() {
        let wanted = [limits(4096, 2048), limits(1024, 0)];
        assert_eq!(share(65_536, RESERVED, wanted, [3, 1]), wanted);
        // A kind without listeners needs no descriptors.
        assert_eq!(share(5_000, RESERVED, wanted, [1, 0]), wanted);
    }

    #[test]
    fn few_descriptors_are_shared_out_and_some_are_kept_back() {
        let wanted = [limits(4096, 2048), limits(1024, 0)];
        let shares = share(1024, RESERVED, wanted, [3, 1]);
        let total = 3 * shares[0].connections + shares[1].connections;
        assert!(total <= 1024 - RESERVED - 4 && total > 800, "{shares:?}");
        assert_eq!(shares[0].per_peer, shares[0].connections / 2);
        assert_eq!(shares[1].per_peer, 0);
        assert!(shares[1].connections > 60);
        // However few descriptors there are, each listener has some.
        for share in share(64, RESERVED, wanted, [3, 1]) {
            assert!(share.connections >= CONNECTIONS_MIN);
        }
    }
}
