//! The addresses that control listens on, bound before the store is loaded, so that a start fails
//! early.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::restart::InheritedSockets;
use super::{BACKLOG, bind, own_identity};
use crate::options::Options;

/// The socket of one address until this process accepts connections on it; from then on the socket is a
/// [`ListeningSocket`].
pub(crate) enum Socket {
    /// Bound by this process. Nobody can connect until it listens.
    Bound(TcpSocket),
    /// Inherited from the predecessor process, or from systemd. Clients can connect already; they wait
    /// until they are accepted.
    Listening(std::net::TcpListener),
}

impl Socket {
    /// Binds an address, or takes the inherited socket for it.
    fn take(
        inherited: &mut InheritedSockets,
        address: SocketAddr,
        section: &str,
    ) -> anyhow::Result<Self> {
        match inherited.take_listener(address) {
            Some(listener) => {
                listener.set_nonblocking(true)?;
                Ok(Self::Listening(listener))
            }
            None => Ok(Self::Bound(bind(address, section)?)),
        }
    }

    /// Starts to listen. From now on clients can connect; they wait until they are accepted.
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
    pub(crate) identity: Option<Socket>,
    pub(crate) image: Option<Socket>,
    pub(crate) network: Option<Socket>,
    pub(crate) ui: Option<Socket>,
    pub(crate) for_cells: Option<Socket>,
    pub(crate) health: Option<Socket>,
}

impl Sockets {
    /// Binds the address of each service that has one, or takes over its inherited socket.
    ///
    /// # Errors
    ///
    /// An address cannot be bound, because it is in use for example.
    pub(crate) fn take(
        options: &Options,
        inherited: &mut InheritedSockets,
    ) -> anyhow::Result<Self> {
        let mut take_if_configured = |listen: Option<SocketAddr>, section| {
            let socket = listen.map(|listen| Socket::take(inherited, listen, section));
            socket.transpose()
        };
        Ok(Self {
            scheduler: take_if_configured(options.scheduler.listen, "scheduler")?,
            compute: take_if_configured(options.compute.listen, "compute")?,
            identity: take_if_configured(own_identity::address(options), "identity")?,
            image: take_if_configured(options.image.listen, "image")?,
            network: take_if_configured(options.network.listen, "network")?,
            ui: take_if_configured(options.ui.listen, "ui")?,
            for_cells: take_if_configured(options.control.listen, "control")?,
            health: take_if_configured(options.health.listen, "health")?,
            placement: Socket::take(inherited, options.placement.listen, "placement")?,
        })
    }

    /// Whether a service that needs the conductor has a socket.
    pub(crate) fn need_conductor(&self) -> bool {
        let of_conductor = [&self.compute, &self.image, &self.identity, &self.for_cells];
        of_conductor.iter().any(|socket| socket.is_some())
    }
}

/// A listening socket, and the clients' connections that were inherited with it.
#[derive(Debug)]
pub(crate) struct ListeningSocket {
    pub(crate) listener: TcpListener,
    pub(crate) inherited: Vec<TcpStream>,
}

impl ListeningSocket {
    /// Starts to listen on a socket, if there is one.
    ///
    /// # Errors
    ///
    /// The operating system refuses to listen on the socket.
    pub(crate) fn open_maybe(
        socket: Option<Socket>,
        inherited: &mut InheritedSockets,
    ) -> std::io::Result<Option<Self>> {
        let listening = socket.map(|socket| Self::open(socket, inherited));
        listening.transpose()
    }

    /// Starts to listen, and takes the inherited connections to this address.
    ///
    /// # Errors
    ///
    /// The operating system refuses to listen on the socket.
    pub(crate) fn open(socket: Socket, inherited: &mut InheritedSockets) -> std::io::Result<Self> {
        let listener = socket.listen()?;
        let connections = inherited.take_connections(listener.local_addr()?);
        let connections = connections.into_iter().filter_map(|stream| {
            // A connection that cannot be used is dropped, and its client connects again.
            stream.set_nonblocking(true).ok()?;
            TcpStream::from_std(stream).ok()
        });
        Ok(Self {
            inherited: connections.collect(),
            listener,
        })
    }
}
