//! The servers of control's REST APIs, each on a socket of its own.

use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::join_all;
use placewright_http::{HttpService, Server, Stopped};
use tokio::net::TcpListener;

use super::api_threads::ApiThreads;
use super::descriptors::ConnectionLimits;
use super::restart::{HandOver, InheritedSockets};
use super::signals::{Stops, wait_for_stops};
use super::sockets::{ListeningSocket, Socket};
use super::tls::Tls;

/// The servers of the APIs, before they serve.
#[derive(Default)]
pub(super) struct ApiServers(Vec<ApiServer>);

/// The server of one API, and the socket on which it listens.
struct ApiServer {
    /// The section of the API's options, by which its address is found.
    section: &'static str,
    server: Server,
    socket: ListeningSocket,
}

/// The parts that the listeners of all APIs share.
pub(super) struct ListenerParts<'a> {
    pub(super) limits: ConnectionLimits,
    pub(super) tls: &'a Tls,
    pub(super) inherited: &'a mut InheritedSockets,
}

impl ApiServers {
    /// Adds the server of an API, with the limits of its listener, and with TLS if the listener has it. Does nothing
    /// without a socket. Clients can connect from then on; they wait until they are served.
    ///
    /// # Errors
    ///
    /// The socket cannot listen.
    pub(super) fn add(
        &mut self,
        section: &'static str,
        service: Arc<dyn HttpService>,
        socket: Option<Socket>,
        parts: &mut ListenerParts<'_>,
    ) -> std::io::Result<()> {
        if let Some(socket) = ListeningSocket::open_maybe(socket, parts.inherited)? {
            self.push(section, service, socket, parts);
        }
        Ok(())
    }

    /// Adds the server of an API on a socket that is open already.
    pub(super) fn push(
        &mut self,
        section: &'static str,
        service: Arc<dyn HttpService>,
        socket: ListeningSocket,
        parts: &ListenerParts<'_>,
    ) {
        let server = Server::new(service).with_limits(parts.limits.api);
        let server = server.with_tls(parts.tls.acceptor(section));
        self.0.push(ApiServer {
            section,
            server,
            socket,
        });
    }

    /// The address of an API, if it is enabled.
    ///
    /// # Errors
    ///
    /// The address of the socket cannot be read.
    pub(super) fn address(&self, section: &str) -> std::io::Result<Option<SocketAddr>> {
        let mut listeners = self.listeners();
        let found = listeners.find(|(name, _)| *name == section);
        found.map(|(_, listener)| listener.local_addr()).transpose()
    }

    /// The sockets of all APIs.
    pub(super) fn listeners(&self) -> impl Iterator<Item = (&'static str, &TcpListener)> {
        let servers = self.0.iter();
        servers.map(|api| (api.section, &api.socket.listener))
    }

    /// Serves all APIs until the first signal, on the threads for APIs, and waits for requests under way. If one server
    /// fails, the process stops.
    ///
    /// # Errors
    ///
    /// A server panicked, or a socket could not be moved to the threads for APIs.
    pub(super) async fn serve(
        self,
        threads: &ApiThreads,
        hand_over: &Arc<HandOver>,
        stops: &Stops,
    ) -> anyhow::Result<Stopped> {
        let serve = |api: ApiServer| {
            let (hand_over, own_stops) = (Arc::clone(hand_over), stops.clone());
            let stop = async move {
                wait_for_stops(&own_stops, 1).await;
                hand_over.choose_successor()
            };
            let served = threads.serve(api.server, api.socket, stop);
            async { stops.stop_if_failed(served.await) }
        };
        let mut stopped = Stopped::Drained;
        for served in join_all(self.0.into_iter().map(serve)).await {
            if served? == Stopped::TimedOut {
                stopped = Stopped::TimedOut;
            }
        }
        Ok(stopped)
    }
}
