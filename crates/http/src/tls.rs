//! HTTPS: what a listener needs for it, and what a request can tell of it.

mod door;
mod metrics;
mod session;

pub use door::TlsDoor;
pub(crate) use door::{Opened, Patience};
pub use metrics::{ListenerTlsMetrics, TlsMetrics};
pub use session::{TlsSession, scheme};
