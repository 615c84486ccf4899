//! The sockets that systemd keeps for the next process of a service.

use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use listenfd::ListenFd;
use placewright_http::Successor;
use rustix::net::sockopt::socket_acceptconn;
use sd_notify::NotifyState;

use super::InheritedSockets;

/// The name of passed connections in systemd's store of file descriptors. systemd drops a connection when its client
/// closes it.
const CONNECTION_NAME: &str = "kept";

/// The names of all listening sockets that a control process may have, in systemd's store of file descriptors.
const LISTENER_NAMES: [&str; 9] = [
    "placement",
    "scheduler",
    "compute",
    "identity",
    "image",
    "network",
    "ui",
    "control",
    "health",
];

/// Takes the sockets that systemd passed to this process (`$LISTEN_FDS`).
pub(super) fn take_passed_sockets() -> InheritedSockets {
    let mut inherited = InheritedSockets::default();
    let mut descriptors = ListenFd::from_env();
    for number in 0..descriptors.len() {
        // Despite its name this function accepts every TCP socket.
        let socket = match descriptors.take_tcp_listener(number) {
            Ok(Some(socket)) => socket,
            Ok(None) => continue,
            Err(error) => {
                tracing::warn!(%error, "systemd passed something that is no TCP socket");
                continue;
            }
        };
        match socket_acceptconn(&socket) {
            Ok(true) => inherited.listeners.push(socket),
            Ok(false) => {
                let stream = TcpStream::from(OwnedFd::from(socket));
                inherited.connections.push(stream);
            }
            Err(error) => tracing::warn!(%error, "systemd passed a socket that cannot be used"),
        }
    }
    if !inherited.connections.is_empty() {
        // The connections belong to this process from now on; in systemd's store they would outlive it.
        notify(
            &[
                NotifyState::FdStoreRemove,
                NotifyState::FdName(CONNECTION_NAME),
            ],
            &[],
        );
    }
    inherited
}

/// Makes systemd keep the listening sockets for the next process. systemd keeps them until the service is
/// stopped, if the unit has `FileDescriptorStoreMax=`.
pub(super) fn keep(listeners: &[(&'static str, TcpListener)]) {
    // systemd may still have sockets of an earlier configuration: with another address, or of a service that is off.
    // The kernel goes on taking connections to them, which nobody would accept.
    for name in LISTENER_NAMES {
        notify(
            &[NotifyState::FdStoreRemove, NotifyState::FdName(name)],
            &[],
        );
    }
    for (name, listener) in listeners {
        let states = [NotifyState::FdStore, NotifyState::FdName(name)];
        notify(&states, &[listener.as_fd()]);
    }
}

/// systemd as the successor: it keeps the connections until the next process starts. `None` without systemd.
pub(super) fn successor() -> Option<Arc<dyn Successor>> {
    std::env::var_os("NOTIFY_SOCKET")?;
    Some(Arc::new(DescriptorStore))
}

/// Passes connections to systemd's store of file descriptors.
struct DescriptorStore;

impl Successor for DescriptorStore {
    fn take(&self, connection: TcpStream) {
        let states = [NotifyState::FdStore, NotifyState::FdName(CONNECTION_NAME)];
        notify(&states, &[connection.as_fd()]);
    }
}

/// Sends a notification to systemd. A failure is ignored: clients connect again.
fn notify(states: &[NotifyState<'_>], descriptors: &[std::os::fd::BorrowedFd<'_>]) {
    let result = if descriptors.is_empty() {
        sd_notify::notify(states)
    } else {
        sd_notify::notify_with_fds(states, descriptors)
    };
    if let Err(error) = result {
        tracing::debug!(%error, "systemd could not be told");
    }
}
