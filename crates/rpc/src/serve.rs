//! Serves links.

use std::sync::Arc;
use std::time::Duration;

use placewright_link::{AgentLink, CellLink, PlacementLink};
use placewright_net::Limits;
use thiserror::Error;
use tokio::net::TcpListener;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;

use crate::agent::AgentService;
use crate::cell::CellService;
use crate::channel::{
    CONNECTION_WINDOW, MESSAGE_BYTES_MAX, PING_EVERY, PING_TIMEOUT, STREAM_WINDOW,
};
use crate::guarded::{Times, incoming};
use crate::placement::PlacementService;
use crate::proto::agent::agents_server::AgentsServer;
use crate::proto::cell::cell_server::CellServer;
use crate::proto::cell::placement_server::PlacementServer;
use crate::token::{Check, Token};

/// Calls under way on one connection. Roles have one stream or a few calls each.
const STREAMS_MAX: u32 = 200;
/// The headers of one call.
const HEADERS_BYTES_MAX: u32 = 16 << 10;
/// A connection whose caller begins calls and takes them back at once, or sends wrong frames, ends
/// after so many of them that nobody could look at.
const RESETS_MAX: usize = 20;
const ERRORS_MAX: usize = 256;

/// What one address serves.
#[derive(Clone, Default)]
pub struct Services {
    /// A cell, for control.
    pub cell: Option<Arc<dyn CellLink>>,
    /// A cell, for agents.
    pub agents: Option<Arc<dyn AgentLink>>,
    /// Placement, for cells.
    pub placement: Option<Arc<dyn PlacementLink>>,
}

/// How it is served.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// What callers have to know, if anything.
    pub token: Option<Token>,
    /// How long calls under way may take once it is to stop. Default 5 s.
    pub drain_timeout: Duration,
    /// How many connections there may be. Default 1,024, of one peer 512.
    pub limits: Limits,
    /// Time that a caller has for the first byte of a connection. Default 10 s.
    pub first_byte_timeout: Duration,
    /// Time that a caller has for a call that is let in. Default 30 s.
    pub first_call_timeout: Duration,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            token: None,
            drain_timeout: Duration::from_secs(5),
            limits: Limits {
                connections: 1024,
                per_peer: 512,
                connections_option: "control.connections_max",
                per_peer_option: "control.connections_per_peer_max",
            },
            first_byte_timeout: Duration::from_secs(10),
            first_call_timeout: Duration::from_secs(30),
        }
    }
}

/// Why serving ended.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The server failed.
    #[error("the gRPC server failed: {0}")]
    Failed(#[from] tonic::transport::Error),
}

/// Serves until `stop`; then calls under way end first, for a while.
///
/// # Errors
/// The server failed.
pub async fn serve(
    listener: TcpListener,
    services: Services,
    options: ServeOptions,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    let check = || Check(options.token.clone());
    let cell = services.cell.map(|cell| {
        let server = CellServer::new(CellService(cell));
        let server = server.max_decoding_message_size(MESSAGE_BYTES_MAX);
        InterceptedService::new(server, check())
    });
    let agents = services.agents.map(|agents| {
        let server = AgentsServer::new(AgentService(agents));
        let server = server.max_decoding_message_size(MESSAGE_BYTES_MAX);
        InterceptedService::new(server, check())
    });
    let placement = services.placement.map(|placement| {
        let server = PlacementServer::new(PlacementService(placement));
        let server = server.max_decoding_message_size(MESSAGE_BYTES_MAX);
        InterceptedService::new(server, check())
    });
    let router = Server::builder()
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
        .add_optional_service(placement);
    let times = Times {
        first_byte: options.first_byte_timeout,
        first_call: options.first_call_timeout,
    };
    let incoming = incoming(listener, options.limits, times);
    let (stopping, is_stopping) = tokio::sync::oneshot::channel();
    let stop = async {
        stop.await;
        // Whoever waits for it is below.
        let _ = stopping.send(());
    };
    let serving = router.serve_with_incoming_shutdown(incoming, stop);
    let too_late = async {
        // An error means that serving is over: then nobody waits for this.
        let _ = is_stopping.await;
        tokio::time::sleep(options.drain_timeout).await;
    };
    tokio::select! {
        served = serving => Ok(served?),
        () = too_late => {
            tracing::warn!("the time to drain is over: connections were cut");
            Ok(())
        }
    }
}
