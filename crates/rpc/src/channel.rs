//! Client connections: options, time-outs, and the retry of calls on a new connection.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use placewright_records::message::Versions;
use thiserror::Error;
use tonic::Request;
use tonic::transport::{Channel, Endpoint};

use crate::connector::{ClientIdentity, Connector};
use crate::token::{Token, attach_token};

/// The largest message in bytes. Batches are far smaller, and no single item is larger: the APIs limit the size
/// of a spec.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// The size in bytes at which a batch is ended.
pub(crate) const BATCH_BYTES: usize = 1 << 20;
/// The HTTP/2 flow-control window of one stream, in bytes. With smaller windows a fast sender would wait for
/// acknowledgements most of the time.
pub(crate) const STREAM_WINDOW: u32 = 8 << 20;
/// The HTTP/2 flow-control window of a connection, in bytes: as much as four streams may use at a time.
pub(crate) const CONNECTION_WINDOW: u32 = 32 << 20;
/// How often a peer is pinged.
pub(crate) const PING_EVERY: Duration = Duration::from_secs(5);
/// A connection is closed if a ping is not answered within this time.
pub(crate) const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a server with several addresses is pinged. The interval is shorter, so that the client soon notices that a
/// server has stopped without closing the connection, and looks for another one that leads.
const REPLICA_PING_EVERY: Duration = Duration::from_secs(2);
/// The time-out for the answer to such a ping.
const REPLICA_PING_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a connection is idle before the operating system probes whether its peer is still there.
const TCP_KEEPALIVE_AFTER: Duration = Duration::from_secs(15);

/// How a client reaches its server.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The server's address: `http://host:port`, or just `host:port`. Of several replicas all addresses, separated by
    /// commas.
    pub address: String,
    /// The shared secret, if the server requires one.
    pub token: Option<Token>,
    /// The client's certificate, and the role that the server must have; `None` for connections without TLS.
    pub identity: Option<ClientIdentity>,
    /// How long connecting may take. Default 3 s.
    pub connect_timeout: Duration,
    /// How long a call may take. Default 10 s.
    pub call_timeout: Duration,
    /// A stream of events ends when nothing arrived for this time; heartbeats come each second. Default
    /// 5 s.
    pub silence_timeout: Duration,
    /// The versions of messages between control and cells that may be used. Default: all that this
    /// release supports.
    pub versions: Versions,
}

impl ClientOptions {
    /// The default options for a server's address.
    #[must_use]
    pub fn new(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            token: None,
            identity: None,
            connect_timeout: Duration::from_secs(3),
            call_timeout: Duration::from_secs(10),
            silence_timeout: Duration::from_secs(5),
            versions: Versions::SUPPORTED,
        }
    }
}

/// The server's address is not valid.
#[derive(Debug, Error)]
#[error("{address}: no address of a server; write it as host:port")]
pub struct EndpointError {
    address: String,
}

/// A channel, and the number of the credentials that it was made with.
#[derive(Debug)]
struct NumberedChannel {
    credentials_number: u64,
    channel: Channel,
}

/// A server, and a channel to it that is connected on demand.
#[derive(Clone, Debug)]
pub(crate) struct PeerChannel {
    endpoint: Endpoint,
    connector: Option<Connector>,
    /// The channel for new calls. It is replaced when the credentials change; calls under way on the
    /// previous one may complete.
    current_channel: Arc<Mutex<NumberedChannel>>,
    pub(crate) options: ClientOptions,
    /// The server's role and address, for error messages.
    pub(crate) name: String,
}

impl PeerChannel {
    /// Creates a channel to each address of the server, without connecting. It has to be called in a Tokio runtime.
    pub(crate) fn to_all(
        server_role: &str,
        options: &ClientOptions,
    ) -> Result<Vec<Self>, EndpointError> {
        let connector = || options.identity.clone().map(Connector::of);
        Self::to_all_with(server_role, options, connector)
    }

    /// As [`Self::to_all`], but with the connectors that `connector` makes; without TLS if it makes none.
    pub(crate) fn to_all_with(
        server_role: &str,
        options: &ClientOptions,
        connector: impl Fn() -> Option<Connector>,
    ) -> Result<Vec<Self>, EndpointError> {
        let addresses: Vec<&str> = options.address.split(',').collect();
        let pings = match addresses.len() {
            1 => (PING_EVERY, PING_TIMEOUT),
            _ => (REPLICA_PING_EVERY, REPLICA_PING_TIMEOUT),
        };
        let channels = addresses.into_iter().map(|address| {
            let options = ClientOptions {
                address: address.trim().to_owned(),
                ..options.clone()
            };
            Self::new(server_role, options, connector(), pings)
        });
        channels.collect()
    }

    fn new(
        server_role: &str,
        options: ClientOptions,
        connector: Option<Connector>,
        (ping_every, ping_timeout): (Duration, Duration),
    ) -> Result<Self, EndpointError> {
        let address = options.address.trim();
        let bad_address = || EndpointError {
            address: options.address.clone(),
        };
        let uri = match address.split_once("://") {
            Some(("http", _)) => address.to_owned(),
            // The connector makes the TLS connection, so the endpoint gets an address without TLS.
            Some(("https", rest)) if connector.is_some() => format!("http://{rest}"),
            Some(_) => return Err(bad_address()),
            None => format!("http://{address}"),
        };
        let endpoint = Endpoint::from_shared(uri).map_err(|_| bad_address())?;
        if endpoint.uri().host().is_none_or(str::is_empty) || endpoint.uri().port_u16().is_none() {
            return Err(bad_address());
        }
        let endpoint = endpoint
            .connect_timeout(options.connect_timeout)
            .tcp_nodelay(true)
            .tcp_keepalive(Some(TCP_KEEPALIVE_AFTER))
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .http2_keep_alive_interval(ping_every)
            .keep_alive_timeout(ping_timeout)
            .keep_alive_while_idle(true);
        let name = format!("{server_role} at {address}");
        let first_channel = NumberedChannel {
            credentials_number: credentials_number(&options),
            channel: lazy_channel(&endpoint, connector.as_ref()),
        };
        Ok(Self {
            endpoint,
            connector,
            current_channel: Arc::new(Mutex::new(first_channel)),
            options,
            name,
        })
    }

    /// The channel for a new call.
    pub(crate) fn channel(&self) -> Channel {
        let credentials_number = credentials_number(&self.options);
        let mut current_channel = self.current_channel.lock();
        if current_channel.credentials_number != credentials_number {
            *current_channel = NumberedChannel {
                credentials_number,
                channel: lazy_channel(&self.endpoint, self.connector.as_ref()),
            };
        }
        current_channel.channel.clone()
    }

    /// Closes the connection, if there is one, when the calls under way on it have ended. The next call connects anew.
    pub(crate) fn disconnect(&self) {
        self.current_channel.lock().channel = lazy_channel(&self.endpoint, self.connector.as_ref());
    }

    /// Waits until the client has to reconnect; for ever without TLS.
    pub(crate) async fn until_must_reconnect(&self) {
        match &self.connector {
            Some(connector) => connector.until_must_reconnect().await,
            None => std::future::pending().await,
        }
    }

    /// Makes a call and waits for its response until the time-out. If the connection was lost before any
    /// byte of the call was sent, the call is retried once on a new connection.
    pub(crate) async fn call<C: Clone, B: Clone, T, F>(
        &self,
        client: &C,
        body: &B,
        send: impl Fn(C, Request<B>) -> F,
    ) -> Result<T, placewright_link::LinkError>
    where
        F: Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    {
        let attempt = || {
            let mut request = Request::new(body.clone());
            // With certificates the token is not needed, and so not sent.
            if self.connector.is_none() {
                attach_token(self.options.token.as_ref(), &mut request);
            }
            send(client.clone(), request)
        };
        let response = async {
            match attempt().await {
                Err(status) if crate::error::was_never_sent(&status) => attempt().await,
                result => result,
            }
        };
        match tokio::time::timeout(self.options.call_timeout, response).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(crate::error::link_error(&self.name, &status)),
            Err(_) => Err(placewright_link::LinkError::TimedOut {
                peer: self.name.clone(),
            }),
        }
    }
}

/// The number of the client's current credentials; 0 without TLS.
fn credentials_number(options: &ClientOptions) -> u64 {
    let identity = options.identity.as_ref();
    identity.map_or(0, |identity| identity.credentials.current().number)
}

/// A channel that connects when it is first used.
fn lazy_channel(endpoint: &Endpoint, connector: Option<&Connector>) -> Channel {
    match connector {
        None => endpoint.connect_lazy(),
        Some(connector) => endpoint.connect_with_connector_lazy(connector.clone()),
    }
}
