//! HTTPS: what a listener needs for it, and what a request can learn of it.

mod acceptor;
mod metrics;
mod session;

pub use acceptor::TlsAcceptor;
pub(crate) use acceptor::{FirstByteWait, Opened};
pub use metrics::{ListenerTlsMetrics, TlsMetrics};
pub use session::{TlsSession, scheme};
