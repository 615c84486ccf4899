//! The listener for health checks and metrics.

use std::net::TcpListener;
use std::sync::{Arc, OnceLock};

use anyhow::Context as _;
use placewright_http::{Health, HealthSource, TlsAcceptor};

use super::sockets::Socket;

/// The service whose health is reported, once it exists.
#[derive(Clone, Default)]
pub(crate) struct HealthHandle(Arc<OnceLock<Arc<dyn HealthSource>>>);

impl HealthHandle {
    /// Sets the service whose health is reported.
    pub(crate) fn set(&self, source: Arc<dyn HealthSource>) {
        // An error means that a source was set before. Each process sets only one.
        let _ = self.0.set(source);
    }
}

/// Serves health checks and metrics on a thread of its own, if there is a socket for it. Also returns a copy of the
/// listening socket, which can be offered to a successor of this process. Until the service is set, checks report that
/// the process is starting.
///
/// # Errors
///
/// The system has no thread, or no descriptor.
pub(crate) fn start(
    socket: Option<Socket>,
    tls: Option<Arc<TlsAcceptor>>,
) -> anyhow::Result<(HealthHandle, Option<TcpListener>)> {
    let handle = HealthHandle::default();
    let Some(socket) = socket else {
        return Ok((handle, None));
    };
    let listener = socket.listen()?.into_std()?;
    let copy = listener.try_clone()?;
    Health::new(Arc::clone(&handle.0))
        .serve_on_own_thread(listener, tls)
        .context("cannot serve health.listen")?;
    Ok((handle, Some(copy)))
}
