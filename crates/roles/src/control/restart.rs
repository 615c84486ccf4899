//! Planned restarts without refused connections: listening sockets and idle connections are passed
//! from the process that ends to its successor.
//!
//! - Under systemd they are kept in its store of file descriptors meanwhile
//!   (`FileDescriptorStoreMax=`), or a socket unit has the listening ones.
//! - By hand, `placewright control --control-take-over` asks the control that runs on the same
//!   store for them, over a socket in the store's directory.
//!
//! What clients send meanwhile stays in the sockets' buffers until the new process reads it.

mod by_hand;
mod from_systemd;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use by_hand::Predecessor;
use parking_lot::Mutex;
use placewright_http::Successor;

/// The longest time for passing on connections that are already idle.
const PASS_TIMEOUT: Duration = Duration::from_secs(10);

/// Sockets from the predecessor process, or from systemd.
#[derive(Debug, Default)]
pub(crate) struct InheritedSockets {
    listeners: Vec<TcpListener>,
    connections: Vec<TcpStream>,
    predecessor: Option<Predecessor>,
}

impl InheritedSockets {
    /// Finds what systemd passed, and with `take_over` the listening sockets of the process that
    /// uses the store now. That process continues until [`InheritedSockets::take_over`].
    pub(crate) fn find(store: &Path, take_over: bool) -> anyhow::Result<Self> {
        let mut inherited = from_systemd::find();
        if take_over {
            inherited.predecessor = Predecessor::find(store)?;
        }
        if let Some(predecessor) = &mut inherited.predecessor {
            inherited.listeners.append(&mut predecessor.listeners()?);
        }
        Ok(inherited)
    }

    /// The listening socket for an address, if there is one among them.
    pub(crate) fn listener(&mut self, address: SocketAddr) -> Option<TcpListener> {
        let is_it = |listener: &mut TcpListener| {
            listener
                .local_addr()
                .is_ok_and(|local| is_same(local, address))
        };
        // Both a socket unit and the store of descriptors may have it.
        let found: Vec<TcpListener> = self.listeners.extract_if(.., is_it).collect();
        found.into_iter().next()
    }

    /// Makes the predecessor end, if there is one, and waits until it has.
    ///
    /// # Errors
    ///
    /// It did not end.
    pub(crate) fn take_over(&mut self) -> anyhow::Result<()> {
        if let Some(predecessor) = self.predecessor.take() {
            self.connections.append(&mut predecessor.take_place()?);
        }
        for listener in self.listeners.drain(..) {
            if let Ok(address) = listener.local_addr() {
                tracing::warn!(%address, "a socket was passed that no option names; it is closed");
            }
        }
        Ok(())
    }

    /// The clients' connections to an address.
    pub(crate) fn connections(&mut self, address: SocketAddr) -> Vec<TcpStream> {
        let mine = |stream: &mut TcpStream| {
            stream.local_addr().is_ok_and(|local| {
                local.port() == address.port()
                    && (address.ip().is_unspecified()
                        || local.ip().to_canonical() == address.ip().to_canonical())
            })
        };
        self.connections.extract_if(.., mine).collect()
    }
}

/// Whether a socket listens on the address in an option.
fn is_same(local: SocketAddr, wanted: SocketAddr) -> bool {
    let both_open = local.ip().is_unspecified() && wanted.ip().is_unspecified();
    local == wanted || (local.port() == wanted.port() && both_open)
}

/// Copies of listening sockets, for the successor.
pub(crate) fn copies<const COUNT: usize>(
    listeners: [(&'static str, Option<&tokio::net::TcpListener>); COUNT],
    health: Option<&TcpListener>,
) -> Vec<(&'static str, TcpListener)> {
    let mut copies = Vec::new();
    for (name, listener) in listeners {
        let copy = listener.map(|listener| listener.as_fd().try_clone_to_owned());
        if let Some(Ok(copy)) = copy {
            copies.push((name, TcpListener::from(copy)));
        }
    }
    if let Some(Ok(copy)) = health.map(TcpListener::try_clone) {
        copies.push(("health", copy));
    }
    copies
}

/// What this process needs to hand over to a successor.
#[derive(Default)]
pub(crate) struct HandOver {
    successor: Mutex<Option<Arc<dyn Successor>>>,
    /// Disconnected when the successor has all connections.
    passed: Mutex<Option<Receiver<()>>>,
    /// The sockets for a successor. None when this process ends without one: a socket that still
    /// listens would let clients wait in vain.
    listeners: Mutex<Option<Vec<TcpListener>>>,
}

impl std::fmt::Debug for HandOver {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Restart").finish_non_exhaustive()
    }
}

impl HandOver {
    /// Enables a restart: systemd keeps the listening sockets, and a successor may ask for them.
    pub(crate) fn offer(store: &Path, listeners: Vec<(&'static str, TcpListener)>) -> Arc<Self> {
        from_systemd::keep(&listeners);
        let listeners = listeners.into_iter().map(|(_, listener)| listener);
        let restart = Arc::new(Self {
            listeners: Mutex::new(Some(listeners.collect())),
            ..Self::default()
        });
        if let Err(error) = by_hand::offer(store, &restart) {
            tracing::warn!(%error, "no other process can take this one's place while it runs");
        }
        restart
    }

    /// The receiver of idle connections when this process stops, if there is one. The decision is
    /// made with the first call.
    pub(crate) fn successor(&self) -> Option<Arc<dyn Successor>> {
        let mut successor = self.successor.lock();
        if successor.is_none() {
            *successor = from_systemd::successor();
        }
        if successor.is_none() {
            self.listeners.lock().take();
        }
        successor.clone()
    }

    /// Waits until the successor, if there is one, has all connections.
    pub(crate) fn finish(&self) {
        drop(self.successor.lock().take());
        if let Some(passed) = self.passed.lock().take() {
            // Nothing is ever sent; the channel is disconnected.
            let _ = passed.recv_timeout(PASS_TIMEOUT);
        }
    }

    fn set_successor(&self, successor: Arc<dyn Successor>, passed: Receiver<()>) {
        *self.successor.lock() = Some(successor);
        *self.passed.lock() = Some(passed);
    }
}
