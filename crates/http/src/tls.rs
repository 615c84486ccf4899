//! HTTPS: the TLS handshakes of a listener, and the facts about a session that requests can read.

mod acceptor;
mod metrics;
mod session;

pub use acceptor::TlsAcceptor;
pub(crate) use acceptor::{FirstByteWait, Opened};
pub use metrics::{ListenerTlsMetrics, TlsMetrics};
pub use session::{TlsSession, scheme};
