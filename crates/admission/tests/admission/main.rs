//! The rules of admission control, in simulated time.

mod laws;
mod shares;
mod storing;

use placewright_admission::{IncomingRequest, Kind, LaterWork};

/// A request of a project for new servers.
fn create_request(
    project: u64,
    is_declared_costly: bool,
    later_work: LaterWork,
) -> IncomingRequest {
    IncomingRequest {
        project,
        user: 0,
        kind: Kind {
            service: "compute",
            route: "/servers",
            method: "POST",
            is_declared_costly,
        },
        later_work,
    }
}
