//! Client connections: options, time-outs, and calls that are retried after a lost connection.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use placewright_records::message::Versions;
use thiserror::Error;
use tonic::Request;
use tonic::transport::{Channel, Endpoint};

use crate::connector::{ClientIdentity, Connector};
use crate::token::{Token, attach_token};

/// The largest message. Batches are kept far smaller; the API bounds one instance's specification.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// The size in bytes at which a batch is ended.
pub(crate) const BATCH_BYTES: usize = 1 << 20;
/// HTTP/2 flow-control window of one stream; below, that of a connection. With smaller windows a
/// fast sender spends its time waiting for acknowledgements.
pub(crate) const STREAM_WINDOW: u32 = 8 << 20;
pub(crate) const CONNECTION_WINDOW: u32 = 32 << 20;
/// How often a peer is pinged; one that does not answer within `PING_TIMEOUT` is taken for gone.
pub(crate) const PING_EVERY: Duration = Duration::from_secs(5);
pub(crate) const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// How a client reaches its server.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The server's address: `http://host:port`, or just `host:port`.
    pub address: String,
    /// The shared secret, if the server requires one.
    pub token: Option<Token>,
    /// The own certificate, and which role the server has to have. Without, there is no TLS.
    pub identity: Option<ClientIdentity>,
    /// How long connecting may take. Default 3 s.
    pub connect_timeout: Duration,
    /// How long a call may take. Default 10 s.
    pub call_timeout: Duration,
    /// A subscription ends when nothing arrived for so long; heartbeats come each second. Default 5
    /// s.
    pub silence_timeout: Duration,
    /// The versions of messages between control and cells that are spoken. Default: all that this
    /// release knows.
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

/// A server, and a channel to it that is connected on demand.
#[derive(Clone, Debug)]
pub(crate) struct PeerChannel {
    endpoint: Endpoint,
    connector: Option<Connector>,
    /// The channel, and the number of the credentials that it was made with. With others there is
    /// another channel; what goes on on the earlier one may end there.
    made: Arc<Mutex<(u64, Channel)>>,
    pub(crate) options: ClientOptions,
    /// The server's role and address, for error messages.
    pub(crate) name: String,
}

impl PeerChannel {
    /// Creates the channel without connecting. It has to be called in a Tokio runtime.
    pub(crate) fn new(what: &str, options: ClientOptions) -> Result<Self, EndpointError> {
        let connector = options.identity.clone().map(Connector::of);
        Self::with_connector(what, options, connector)
    }

    /// The same with another connector than the options say.
    pub(crate) fn with_connector(
        what: &str,
        options: ClientOptions,
        connector: Option<Connector>,
    ) -> Result<Self, EndpointError> {
        let address = options.address.trim();
        let bad = || EndpointError {
            address: options.address.clone(),
        };
        let uri = match address.split_once("://") {
            Some(("http", _)) => address.to_owned(),
            Some(("https", rest)) if connector.is_some() => format!("http://{rest}"),
            Some(_) => return Err(bad()),
            None => format!("http://{address}"),
        };
        let endpoint = Endpoint::from_shared(uri).map_err(|_| bad())?;
        if endpoint.uri().host().is_none_or(str::is_empty) || endpoint.uri().port_u16().is_none() {
            return Err(bad());
        }
        let endpoint = endpoint
            .connect_timeout(options.connect_timeout)
            .tcp_nodelay(true)
            .tcp_keepalive(Some(Duration::from_secs(15)))
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true);
        let name = format!("{what} at {address}");
        let first = (number(&options), connect(&endpoint, connector.as_ref()));
        Ok(Self {
            endpoint,
            connector,
            made: Arc::new(Mutex::new(first)),
            options,
            name,
        })
    }

    /// The channel for a new call.
    pub(crate) fn channel(&self) -> Channel {
        let number = number(&self.options);
        let mut made = self.made.lock();
        if made.0 != number {
            *made = (number, connect(&self.endpoint, self.connector.as_ref()));
        }
        made.1.clone()
    }

    /// Waits until there is a reason to connect anew.
    pub(crate) async fn until_changed(&self) {
        match &self.connector {
            Some(connector) => connector.until_changed().await,
            None => std::future::pending().await,
        }
    }

    /// Makes a call and waits for its answer until the time-out. A call that was given to a
    /// connection which turned out to be lost before any of it was sent is retried once, on a new
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
            // A token is not shown to whoever has a certificate of the right role.
            if self.connector.is_none() {
                attach_token(self.options.token.as_ref(), &mut request);
            }
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

/// The number of the credentials that a client has now.
fn number(options: &ClientOptions) -> u64 {
    let identity = options.identity.as_ref();
    identity.map_or(0, |identity| identity.credentials.current().number)
}

fn connect(endpoint: &Endpoint, connector: Option<&Connector>) -> Channel {
    match connector {
        None => endpoint.connect_lazy(),
        Some(connector) => endpoint.connect_with_connector_lazy(connector.clone()),
    }
}
