//! How Placewright's servers take connections.
//!
//! - [`Gate`] bounds how many connections a listener has, in total and for each peer, and knows which
//!   of them wait for their peer only. When there is no room, one of those makes room.
//! - [`Door`] accepts connections through a gate. Where the system has no descriptors left it waits.
//! - [`Clock`] and [`within`] limit the time that a peer may take, and count only time in which the
//!   peer was at fault: after a pause of this process what has arrived is read first.

mod clock;
mod door;
mod gate;
mod peer;

pub use clock::{Clock, Verdict, within};
pub use door::{Admitted, Door};
pub use gate::{Gate, GateMetrics, Limits, Place, Seat};
pub use peer::Peer;
