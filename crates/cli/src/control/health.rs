//! The listener for health and metrics.

use std::net::TcpListener;
use std::sync::{Arc, OnceLock};

use anyhow::Context as _;
use placewright_server::{Health, Vital};

use super::sockets::Socket;

/// What the listener tells of, once it is there.
#[derive(Clone, Default)]
pub(crate) struct Told(Arc<OnceLock<Arc<dyn Vital>>>);

impl Told {
    /// From now on this is told of.
    pub(crate) fn set(&self, vital: Arc<dyn Vital>) {
        // Whoever came first stays; there is one for each process.
        let _ = self.0.set(vital);
    }
}

/// Serves health and metrics on a thread of its own, if there is a socket for it; answers a copy of
/// that. Until something is told of it says that the process starts.
///
/// # Errors
/// The system has no thread, or no descriptor.
pub(crate) fn start(socket: Option<Socket>) -> anyhow::Result<(Told, Option<TcpListener>)> {
    let told = Told::default();
    let Some(socket) = socket else {
        return Ok((told, None));
    };
    let listener = socket.listen()?.into_std()?;
    let copy = listener.try_clone()?;
    Health::new(Arc::clone(&told.0))
        .serve_aside(listener)
        .context("cannot serve health.listen")?;
    Ok((told, Some(copy)))
}
