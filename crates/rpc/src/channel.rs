//! How clients connect.

use std::time::Duration;

use thiserror::Error;
use tonic::Request;
use tonic::transport::{Channel, Endpoint};

use crate::token::{Token, sign};

/// A message is no larger. Batches are made smaller than this by far; one instance's description
/// is bounded by the API.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Batches end at about this size.
pub(crate) const BATCH_BYTES: usize = 1 << 20;
/// What may be under way in one stream, and in all streams of a connection. With less, a fast
/// sender waits for acknowledgements all the time.
pub(crate) const STREAM_WINDOW: u32 = 8 << 20;
pub(crate) const CONNECTION_WINDOW: u32 = 32 << 20;
/// A peer that does not answer a ping for so long is gone.
pub(crate) const PING_EVERY: Duration = Duration::from_secs(5);
pub(crate) const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// How a client reaches its server.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Where: `http://host:port`, or just `host:port`.
    pub address: String,
    /// What both sides know, if anything.
    pub token: Option<Token>,
    /// How long connecting may take. Default 3 s.
    pub connect_timeout: Duration,
    /// How long a call may take. Default 10 s.
    pub call_timeout: Duration,
    /// A stream of news ends when nothing came for so long; a heartbeat comes each second. Default
    /// 5 s.
    pub silence_timeout: Duration,
}

impl ClientOptions {
    /// The defaults, for one address.
    #[must_use]
    pub fn new(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            token: None,
            connect_timeout: Duration::from_secs(3),
            call_timeout: Duration::from_secs(10),
            silence_timeout: Duration::from_secs(5),
        }
    }
}

/// An address that is none.
#[derive(Debug, Error)]
#[error("{address}: no address of a server; write it as host:port")]
pub struct EndpointError {
    address: String,
}

/// A channel to a server that is connected on demand.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) channel: Channel,
    pub(crate) options: ClientOptions,
    /// For messages: what it is, and where.
    pub(crate) name: String,
}

impl Peer {
    /// Must be called in a runtime.
    pub(crate) fn new(what: &str, options: ClientOptions) -> Result<Self, EndpointError> {
        let address = options.address.trim();
        let bad = || EndpointError {
            address: options.address.clone(),
        };
        let uri = match address.split_once("://") {
            Some(("http", _)) => address.to_owned(),
            Some(_) => return Err(bad()),
            None => format!("http://{address}"),
        };
        let endpoint = Endpoint::from_shared(uri).map_err(|_| bad())?;
        if endpoint.uri().host().is_none_or(str::is_empty) || endpoint.uri().port_u16().is_none() {
            return Err(bad());
        }
        let channel = endpoint
            .connect_timeout(options.connect_timeout)
            .tcp_nodelay(true)
            .tcp_keepalive(Some(Duration::from_secs(15)))
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true)
            .connect_lazy();
        let name = format!("{what} at {address}");
        Ok(Self {
            channel,
            options,
            name,
        })
    }

    /// Makes a call and waits for its answer, not for ever. A call that was given to a connection
    /// which turned out to be lost, before any of it was sent, is made once more: on a new
    /// connection.
    pub(crate) async fn call<C: Clone, B: Clone, T, F>(
        &self,
        client: &C,
        body: &B,
        make: impl Fn(C, Request<B>) -> F,
    ) -> Result<T, placewright_link::LinkError>
    where
        F: Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    {
        let make = || {
            let mut request = Request::new(body.clone());
            sign(self.options.token.as_ref(), &mut request);
            make(client.clone(), request)
        };
        let answering = async {
            match make().await {
                Err(status) if crate::error::was_never_sent(&status) => make().await,
                answered => answered,
            }
        };
        match tokio::time::timeout(self.options.call_timeout, answering).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(crate::error::link_error(&self.name, &status)),
            Err(_) => Err(placewright_link::LinkError::TimedOut {
                peer: self.name.clone(),
            }),
        }
    }
}
