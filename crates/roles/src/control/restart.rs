//! Planned restarts without refused connections: listening sockets and idle connections are passed
//! from the process that ends to its successor.
//!
//! - Under systemd, systemd's store of file descriptors holds the sockets meanwhile
//!   (`FileDescriptorStoreMax=`), or a socket unit has the listening sockets.
//! - By hand, `placewright control --control-take-over` requests the sockets from the control process that
//!   runs on the same store, over a Unix socket in the store's directory.
//!
//! Bytes that clients send meanwhile stay in the sockets' buffers until the new process reads them.

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

/// The longest time for passing the idle connections to the successor.
const PASS_TIMEOUT: Duration = Duration::from_secs(10);

/// Sockets from the predecessor process, or from systemd.
#[derive(Debug, Default)]
pub(crate) struct InheritedSockets {
    listeners: Vec<TcpListener>,
    /// The clients' connections, which were idle when they were passed.
    connections: Vec<TcpStream>,
    /// The process that still uses the store, if there is one that can be replaced.
    predecessor: Option<Predecessor>,
}

impl InheritedSockets {
    /// Gets the sockets that systemd passed. With `replaces_predecessor`, also requests the listening sockets of
    /// the process that uses the store now, which continues until [`Self::end_predecessor`].
    pub(crate) fn receive(store: &Path, replaces_predecessor: bool) -> anyhow::Result<Self> {
        let mut inherited = from_systemd::take_passed_sockets();
        if replaces_predecessor {
            inherited.predecessor = Predecessor::connect(store)?;
        }
        if let Some(predecessor) = &mut inherited.predecessor {
            inherited
                .listeners
                .append(&mut predecessor.receive_listeners()?);
        }
        Ok(inherited)
    }

    /// Takes the listening socket for an address, if there is one.
    pub(crate) fn take_listener(&mut self, address: SocketAddr) -> Option<TcpListener> {
        let has_address = |listener: &mut TcpListener| {
            listener
                .local_addr()
                .is_ok_and(|local| matches_option(local, address))
        };
        // The socket unit and the store of descriptors may both have passed a socket for this address: one is
        // used, the others are closed.
        let listeners: Vec<TcpListener> = self.listeners.extract_if(.., has_address).collect();
        listeners.into_iter().next()
    }

    /// Makes the predecessor end, if there is one, and waits until it has ended. Listening sockets that were not taken
    /// are closed. `drain_timeout` is the time that the predecessor's requests under way have to end: this process
    /// knows it only from its own configuration, which is the predecessor's unless it was changed meanwhile.
    ///
    /// # Errors
    ///
    /// The predecessor did not end.
    pub(crate) fn end_predecessor(&mut self, drain_timeout: Duration) -> anyhow::Result<()> {
        if let Some(predecessor) = self.predecessor.take() {
            self.connections
                .append(&mut predecessor.end_and_take_connections(drain_timeout)?);
        }
        for listener in self.listeners.drain(..) {
            if let Ok(address) = listener.local_addr() {
                tracing::warn!(%address, "a socket was passed that no option names; it is closed");
            }
        }
        Ok(())
    }

    /// Takes the clients' connections to an address.
    pub(crate) fn take_connections(&mut self, address: SocketAddr) -> Vec<TcpStream> {
        let has_address = |stream: &mut TcpStream| {
            stream.local_addr().is_ok_and(|local| {
                local.port() == address.port()
                    && (address.ip().is_unspecified()
                        || local.ip().to_canonical() == address.ip().to_canonical())
            })
        };
        self.connections.extract_if(.., has_address).collect()
    }
}

/// Whether the local address of a socket is the one that an option names.
fn matches_option(local: SocketAddr, configured: SocketAddr) -> bool {
    let both_unspecified = local.ip().is_unspecified() && configured.ip().is_unspecified();
    local == configured || (local.port() == configured.port() && both_unspecified)
}

/// Copies of listening sockets, for the successor.
pub(crate) fn copy_listeners<'a>(
    listeners: impl Iterator<Item = (&'static str, &'a tokio::net::TcpListener)>,
    health: Option<&TcpListener>,
) -> Vec<(&'static str, TcpListener)> {
    let mut copies = Vec::new();
    for (name, listener) in listeners {
        if let Ok(copy) = listener.as_fd().try_clone_to_owned() {
            copies.push((name, TcpListener::from(copy)));
        }
    }
    if let Some(Ok(copy)) = health.map(TcpListener::try_clone) {
        copies.push(("health", copy));
    }
    copies
}

/// The state of handing over to a successor.
#[derive(Default)]
pub(crate) struct HandOver {
    /// The receiver of connections that become idle: a process that has asked this one to end, or systemd. `None` until
    /// one is known.
    successor: Mutex<Option<Arc<dyn Successor>>>,
    /// A channel that is disconnected when the successor has all connections.
    all_passed: Mutex<Option<Receiver<()>>>,
    /// The sockets for a successor. `None` once this process ends without one: a socket that is still open accepts
    /// connections, and nothing would serve them.
    listeners: Mutex<Option<Vec<TcpListener>>>,
}

impl std::fmt::Debug for HandOver {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("HandOver").finish_non_exhaustive()
    }
}

impl HandOver {
    /// Enables a restart: gives systemd the listening sockets, and lets a successor request them.
    pub(crate) fn offer(store: &Path, listeners: Vec<(&'static str, TcpListener)>) -> Arc<Self> {
        from_systemd::keep(&listeners);
        let listeners = listeners.into_iter().map(|(_, listener)| listener);
        let hand_over = Arc::new(Self {
            listeners: Mutex::new(Some(listeners.collect())),
            ..Self::default()
        });
        if let Err(error) = by_hand::listen_for_successors(store, &hand_over) {
            tracing::warn!(%error, "no other process can take this one's place while it runs");
        }
        hand_over
    }

    /// The successor to which idle connections are passed when this process stops. The first call decides whether there
    /// is a successor. If there is none, the call closes the sockets that a successor could request.
    pub(crate) fn choose_successor(&self) -> Option<Arc<dyn Successor>> {
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
        // If the successor is a process, this closes the channel to it; when the last connection has been passed,
        // `all_passed` is disconnected.
        drop(self.successor.lock().take());
        if let Some(all_passed) = self.all_passed.lock().take() {
            // Nothing is ever sent; the channel is disconnected.
            let _ = all_passed.recv_timeout(PASS_TIMEOUT);
        }
    }

    fn set_successor(&self, successor: Arc<dyn Successor>, all_passed: Receiver<()>) {
        *self.successor.lock() = Some(successor);
        *self.all_passed.lock() = Some(all_passed);
    }
}
