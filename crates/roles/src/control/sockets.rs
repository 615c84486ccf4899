//! The addresses that control listens on, bound before the store is loaded, so that a start fails
//! early.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::restart::InheritedSockets;
use super::{BACKLOG, bind};
use crate::options::Options;

/// A socket for an address.
pub(crate) enum Socket {
    /// Bound by this process. Nobody can connect until it listens.
    Bound(TcpSocket),
    /// From the predecessor process, or from systemd. Clients can connect already, and wait.
    Listening(std::net::TcpListener),
}

impl Socket {
    /// Binds an address, or takes the socket that was passed for it.
    fn take(
        inherited: &mut InheritedSockets,
        address: SocketAddr,
        section: &str,
    ) -> anyhow::Result<Self> {
        match inherited.listener(address) {
            Some(listener) => {
                listener.set_nonblocking(true)?;
                Ok(Self::Listening(listener))
            }
            None => Ok(Self::Bound(bind(address, section)?)),
        }
    }

    /// Listens: from now on clients can connect; they wait until they are accepted.
    pub(crate) fn listen(self) -> std::io::Result<TcpListener> {
        match self {
            Self::Bound(socket) => socket.listen(BACKLOG),
            Self::Listening(listener) => TcpListener::from_std(listener),
        }
    }
}

/// The sockets of control's services.
pub(crate) struct Sockets {
    pub(crate) placement: Socket,
    pub(crate) scheduler: Option<Socket>,
    pub(crate) compute: Option<Socket>,
    pub(crate) asks: Option<Socket>,
    pub(crate) health: Option<Socket>,
}

impl Sockets {
    /// Binds the address of each service that has one, or takes over its inherited socket.
    ///
    /// # Errors
    ///
    /// One of them is in use.
    pub(crate) fn take(
        options: &Options,
        inherited: &mut InheritedSockets,
    ) -> anyhow::Result<Self> {
        let mut maybe = |listen: Option<SocketAddr>, section| {
            let socket = listen.map(|listen| Socket::take(inherited, listen, section));
            socket.transpose()
        };
        Ok(Self {
            scheduler: maybe(options.scheduler.listen, "scheduler")?,
            compute: maybe(options.compute.listen, "compute")?,
            asks: maybe(options.control.listen, "control")?,
            health: maybe(options.health.listen, "health")?,
            placement: Socket::take(inherited, options.placement.listen, "placement")?,
        })
    }

    /// Whether one of them needs the conductor.
    pub(crate) fn conduct(&self) -> bool {
        self.compute.is_some() || self.asks.is_some()
    }
}

/// A listening socket with the connections that the predecessor process passed on.
#[derive(Debug)]
pub(crate) struct ListeningSocket {
    pub(crate) listener: TcpListener,
    pub(crate) inherited: Vec<TcpStream>,
}

impl ListeningSocket {
    /// Listens, if there is a socket.
    ///
    /// # Errors
    ///
    /// The system refuses.
    pub(crate) fn open_maybe(
        socket: Option<Socket>,
        inherited: &mut InheritedSockets,
    ) -> std::io::Result<Option<Self>> {
        let port = socket.map(|socket| Self::open(socket, inherited));
        port.transpose()
    }

    /// Listens, and takes the passed connections that belong to this address.
    ///
    /// # Errors
    ///
    /// The system refuses.
    pub(crate) fn open(socket: Socket, inherited: &mut InheritedSockets) -> std::io::Result<Self> {
        let listener = socket.listen()?;
        let kept = inherited.connections(listener.local_addr()?);
        let kept = kept.into_iter().filter_map(|stream| {
            // A connection that cannot be used is dropped, and its client connects again.
            stream.set_nonblocking(true).ok()?;
            TcpStream::from_std(stream).ok()
        });
        Ok(Self {
            inherited: kept.collect(),
            listener,
        })
    }
}
