//! TLS handshakes of a process: threads of their own, and limits.

use std::fmt;
use std::thread::available_parallelism;

use placewright_net::{HandshakeLimits, Handshakes};
use tokio::runtime::{Builder, Runtime};

use crate::control::option_conversion;
use crate::options::Options;

/// The threads that compute handshakes, and the limits of how many handshakes are under way.
pub(crate) struct HandshakeThreads {
    limits: HandshakeLimits,
    /// The threads; `None` if the process makes no handshakes.
    runtime: Option<Runtime>,
}

impl fmt::Debug for HandshakeThreads {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("HandshakeThreads")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl HandshakeThreads {
    /// Starts the threads, if the process makes handshakes.
    ///
    /// # Errors
    ///
    /// The system has no threads.
    pub(crate) fn start(options: &Options, has_handshakes: bool) -> std::io::Result<Self> {
        Ok(Self {
            limits: option_conversion::handshakes(options),
            runtime: has_handshakes
                .then(|| handshake_runtime(options))
                .transpose()?,
        })
    }

    /// Limits for one kind of listener, whose handshakes run on these threads. Each call returns limits of its own, so
    /// that the clients of one kind of listener cannot use up the handshakes of another kind.
    pub(crate) fn handshakes(&self) -> Handshakes {
        let executor = self
            .runtime
            .as_ref()
            .map(|runtime| runtime.handle().clone());
        Handshakes::new(self.limits, executor)
    }
}

/// Drops the runtime without waiting for its tasks.
impl Drop for HandshakeThreads {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Starts the threads that compute handshakes.
fn handshake_runtime(options: &Options) -> std::io::Result<Runtime> {
    let threads = match options.tls.handshake_threads.count() {
        0 => available_parallelism().map_or(1, usize::from).div_ceil(2),
        threads => threads,
    };
    Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("pw-tls")
        .enable_all()
        .build()
}
