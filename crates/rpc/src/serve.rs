//! The gRPC server.

use std::sync::Arc;
use std::time::Duration;

use placewright_link::{AgentLink, CellLink, CertificateLink, PlacementLink, ReplicaLink};
use placewright_net::{HandshakeLimits, Handshakes, Limits};
use placewright_pki::Credentials;
use placewright_records::message::Versions;
use thiserror::Error;
use tokio::net::TcpListener;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;
use tonic::transport::server::Router;

use crate::access::{AuthInterceptor, Authorizer};
use crate::agent::AgentService;
use crate::cell::CellService;
use crate::certificates::{CERTIFICATES_MESSAGE_BYTES_MAX, CertificatesService};
use crate::channel::{
    CONNECTION_WINDOW, MESSAGE_BYTES_MAX, PING_EVERY, PING_TIMEOUT, STREAM_WINDOW,
};
use crate::connection::{ConnectionOptions, accept_connections};
use crate::limited_connection::NewConnectionTimeouts;
use crate::placement::PlacementService;
use crate::proto::agent::agents_server::AgentsServer;
use crate::proto::cell::cell_server::CellServer;
use crate::proto::cell::placement_server::PlacementServer;
use crate::proto::certificates::certificates_server::CertificatesServer;
use crate::replica::ReplicaService;
use crate::token::Token;

/// The most concurrent calls on one connection. A role makes far fewer: one long call that streams
/// messages, or a few short ones.
const STREAMS_MAX: u32 = 200;
/// The largest headers of one call.
const HEADERS_BYTES_MAX: u32 = 16 << 10;
/// A connection ends when its caller has reset this many streams before they were handled. That
/// protects against floods of streams that are opened and reset.
const RESETS_MAX: usize = 20;
/// A connection ends when the server has reset this many of its streams because of protocol errors.
const ERRORS_MAX: usize = 256;

/// The services that one address offers. A service whose field is `None` is not offered.
#[derive(Clone, Default)]
pub struct Services {
    /// The cell's service for control.
    pub cell: Option<Arc<dyn CellLink>>,
    /// The cell's service for agents.
    pub agents: Option<Arc<dyn AgentLink>>,
    /// The placement service for cells.
    pub placement: Option<Arc<dyn PlacementLink>>,
    /// The service for the other replicas of this role.
    pub replica: Option<Arc<dyn ReplicaLink>>,
    /// The certificate authority, in a cell through a link to control. It is offered with TLS only.
    pub certificates: Option<Arc<dyn CertificateLink>>,
}

/// Options of the server.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The shared secret that callers have to send, if any.
    pub token: Option<Token>,
    /// The server's own certificate. With it, connections have TLS, and every call is checked against the
    /// names in its caller's certificate. If there is a token too, connections from loopback need no TLS:
    /// the token authenticates their calls.
    pub credentials: Option<Arc<Credentials>>,
    /// How long calls under way may take after the server was told to stop. Default 5 s.
    pub drain_timeout: Duration,
    /// The most connections, in total and for each peer. Default 1,024 and 512.
    pub limits: Limits,
    /// How many TLS handshakes may be under way, and on which threads they run. Default: the limits of
    /// [`HandshakeLimits::default`], on the server's threads.
    pub handshakes: Handshakes,
    /// Time-out for the first byte of a connection. Default 10 s.
    pub first_byte_timeout: Duration,
    /// Time-out for the first call that passes authentication. Default 30 s.
    pub first_call_timeout: Duration,
    /// The versions of messages between control and cells that may be used. Default: all that this
    /// release supports.
    pub versions: Versions,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            token: None,
            credentials: None,
            drain_timeout: Duration::from_secs(5),
            limits: Limits {
                connections: 1024,
                per_peer: 512,
                connections_option: "control.connections_max",
                per_peer_option: "control.connections_per_peer_max",
            },
            handshakes: Handshakes::new(HandshakeLimits::default(), None),
            first_byte_timeout: Duration::from_secs(10),
            first_call_timeout: Duration::from_secs(30),
            versions: Versions::SUPPORTED,
        }
    }
}

/// Why the server ended before it was told to stop.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The gRPC transport failed, for instance because the socket cannot be used.
    #[error("the gRPC server failed: {0}")]
    Failed(#[from] tonic::transport::Error),
}

/// Serves until `stop` completes; then it waits for calls under way, for at most
/// [`ServeOptions::drain_timeout`].
///
/// # Errors
///
/// The server failed.
pub async fn serve(
    listener: TcpListener,
    services: Services,
    options: ServeOptions,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    let connection_options = ConnectionOptions {
        credentials: options.credentials.clone(),
        has_token: options.token.is_some(),
        limits: options.limits,
        handshakes: options.handshakes.clone(),
        timeouts: NewConnectionTimeouts {
            first_byte: options.first_byte_timeout,
            first_call: options.first_call_timeout,
        },
    };
    let router = router(services, &options);
    let connections = accept_connections(listener, connection_options);
    let (stop_sender, stop_receiver) = tokio::sync::oneshot::channel();
    let stop = async {
        stop.await;
        // This starts the drain time-out. Sending fails if the receiver was dropped, because the server
        // has ended.
        let _ = stop_sender.send(());
    };
    let serving = router.serve_with_incoming_shutdown(connections, stop);
    let drain_timeout = async {
        // The sender is dropped without a message only when the server has ended; then this future
        // is not polled any more.
        let _ = stop_receiver.await;
        tokio::time::sleep(options.drain_timeout).await;
    };
    tokio::select! {
        served = serving => Ok(served?),
        () = drain_timeout => {
            tracing::warn!("the time to drain is over: connections were cut");
            Ok(())
        }
    }
}

/// The services that are offered, each behind the authentication of callers.
fn router(services: Services, options: &ServeOptions) -> Router {
    let authenticated = || AuthInterceptor {
        token: options.token.clone(),
        credentials: options.credentials.clone(),
        admits_unenrolled: false,
    };
    let versions = options.versions;
    let authorizer = Authorizer {
        own_credentials: options.credentials.clone(),
    };
    let cell = services.cell.map(|cell| {
        let server = CellServer::new(CellService {
            cell,
            versions,
            authorizer: authorizer.clone(),
        });
        let server = server.max_decoding_message_size(MESSAGE_BYTES_MAX);
        InterceptedService::new(server, authenticated())
    });
    let agents = services.agents.map(|agents| {
        let server = AgentsServer::new(AgentService {
            agents,
            authorizer: authorizer.clone(),
        });
        let server = server.max_decoding_message_size(MESSAGE_BYTES_MAX);
        InterceptedService::new(server, authenticated())
    });
    let placement = services.placement.map(|placement| {
        let server = PlacementServer::new(PlacementService {
            placement,
            versions,
            authorizer: authorizer.clone(),
        });
        let server = server.max_decoding_message_size(MESSAGE_BYTES_MAX);
        InterceptedService::new(server, authenticated())
    });
    let replica = services.replica.map(|replica| {
        let server = ReplicaService::new(replica, authorizer.clone()).into_server();
        InterceptedService::new(server, authenticated())
    });
    let certificates = services.certificates.zip(options.credentials.clone());
    let certificates = certificates.map(|(authority, credentials)| {
        let server = CertificatesServer::new(CertificatesService {
            authority,
            credentials,
            authorizer,
        });
        let server = server.max_decoding_message_size(CERTIFICATES_MESSAGE_BYTES_MAX);
        let interceptor = AuthInterceptor {
            admits_unenrolled: true,
            ..authenticated()
        };
        InterceptedService::new(server, interceptor)
    });
    Server::builder()
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keepalive_interval(Some(PING_EVERY))
        .http2_keepalive_timeout(Some(PING_TIMEOUT))
        .max_concurrent_streams(Some(STREAMS_MAX))
        .http2_max_header_list_size(Some(HEADERS_BYTES_MAX))
        .http2_max_pending_accept_reset_streams(Some(RESETS_MAX))
        .http2_max_local_error_reset_streams(Some(ERRORS_MAX))
        .add_optional_service(cell)
        .add_optional_service(agents)
        .add_optional_service(placement)
        .add_optional_service(replica)
        .add_optional_service(certificates)
}
