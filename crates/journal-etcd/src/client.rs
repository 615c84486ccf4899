//! Requests to a cluster: each goes to one member, and to the next one if that member fails.
//!
//! The futures run on a thread of the client's own runtime, and the caller's thread waits for their results. So
//! requests can be made on any thread, whether or not it belongs to a runtime; in asynchronous code they block
//! the thread, as every call of a journal does.

use std::io::Read as _;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

use crate::connector::Connector;
use crate::failure::{Cause, Failure};
use crate::options::{EtcdOptions, EtcdUser};
use crate::proto::auth_client::AuthClient;
use crate::proto::kv_client::KvClient;
use crate::proto::maintenance_client::MaintenanceClient;
use crate::proto::{
    AuthenticateRequest, CompactionRequest, StatusRequest, StatusResponse, TxnRequest, TxnResponse,
};

/// The largest response in bytes. Pages of batches are far smaller, because `append.rs` limits the size of each value.
const RESPONSE_BYTES_MAX: usize = 64 << 20;
/// HTTP/2 flow-control windows in bytes, large enough for a page of batches without waiting.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 8 << 20;
/// The interval at which a member is pinged while a request waits. Idle connections are not pinged, because etcd closes
/// a connection without requests that pings more often than every 5 s.
const PING_EVERY: Duration = Duration::from_secs(1);
/// How long the answer to a ping may take, before the connection counts as lost.
const PING_TIMEOUT: Duration = Duration::from_secs(2);
/// The first pause after every member has failed. It doubles each time.
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// The longest pause after every member has failed.
const PAUSE_MAX: Duration = Duration::from_millis(200);
/// The largest password in bytes.
const PASSWORD_BYTES_MAX: u64 = 4096;

/// When a request is sent again after an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// As long as it is certain that earlier attempts did nothing, for the time of one request.
    UntilSent,
    /// Until an attempt is answered, for the time of [`ATTEMPT_TIMES`] requests. This is for requests that may be
    /// carried out more than once.
    UntilAnswered,
}

/// How long a [`Repeat::UntilAnswered`] request is sent again, in multiples of the time of one request. If two members
/// do not answer, there is time left for a third one.
const ATTEMPT_TIMES: u32 = 3;

/// A request to a member of the cluster.
#[derive(Clone, Debug)]
enum Call {
    Txn(TxnRequest),
    Compact(CompactionRequest),
    Status,
}

/// The response to a [`Call`].
enum Response {
    Txn(TxnResponse),
    Compact,
    Status(StatusResponse),
}

/// A client of a cluster. It is shared by all handles of a store.
pub(crate) struct Client {
    connections: Arc<Connections>,
    /// `None` only while the client is dropped.
    runtime: Option<Runtime>,
}

impl Drop for Client {
    fn drop(&mut self) {
        // Waiting for the runtime's thread is not allowed in asynchronous code, and not needed.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Client {
    /// Creates a client without connecting.
    pub(crate) fn new(options: &EtcdOptions) -> std::io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("journal-etcd")
            .enable_io()
            .enable_time()
            .build()?;
        // A channel starts a task, so it is made inside of the runtime.
        let guard = runtime.enter();
        let members = options
            .endpoints
            .iter()
            .map(|address| Member::new(address, options))
            .collect::<Result<_, _>>()?;
        drop(guard);
        let connections = Connections {
            members,
            current: AtomicUsize::new(0),
            cluster_id: AtomicU64::new(0),
            user: options.user.clone(),
            token: Mutex::new(None),
            request_timeout: options.request_timeout,
        };
        Ok(Self {
            connections: Arc::new(connections),
            runtime: Some(runtime),
        })
    }

    /// How long one request to one member may take.
    pub(crate) fn request_timeout(&self) -> Duration {
        self.connections.request_timeout
    }

    /// Makes a transaction, which is sent as often as `repeat` allows.
    pub(crate) fn txn(&self, request: TxnRequest, repeat: Repeat) -> Result<TxnResponse, Failure> {
        match self.call(Call::Txn(request), repeat)? {
            Response::Txn(response) => Ok(response),
            Response::Compact | Response::Status(_) => Err(ended()),
        }
    }

    /// Removes the history before a revision.
    pub(crate) fn compact(&self, revision: i64) -> Result<(), Failure> {
        let request = CompactionRequest {
            revision,
            // The answer comes before the space is free.
            physical: false,
        };
        self.call(Call::Compact(request), Repeat::UntilSent)
            .map(|_| ())
    }

    /// Authenticates, if there is a user. False if there is one, but the cluster has no authentication.
    pub(crate) fn authenticate(&self) -> Result<bool, Failure> {
        let connections = Arc::clone(&self.connections);
        self.wait(async move { connections.authenticate().await })
    }

    /// The status of each member by its address, in the order of the addresses. If one of the members is the leader,
    /// requests go to it from now on, because other members would only pass them on.
    pub(crate) fn statuses(&self) -> Vec<(String, Result<StatusResponse, Failure>)> {
        let connections = &self.connections;
        let mut statuses = Vec::new();
        let mut answers = Vec::new();
        // All members are asked at once, so that several members that do not answer take only the time of one.
        for index in 0..connections.members.len() {
            let connections = Arc::clone(connections);
            answers
                .push(self.start(async move { connections.attempt(index, &Call::Status).await }));
        }
        for (index, (member, answer)) in connections.members.iter().zip(answers).enumerate() {
            let status = match answer.recv() {
                Ok(Ok(Response::Status(status))) => Ok(status),
                Ok(Ok(Response::Txn(_) | Response::Compact)) | Err(_) => Err(ended()),
                Ok(Err(failure)) => Err(failure),
            };
            if let Ok(status) = &status
                && status.leader != 0
                && status
                    .header
                    .is_some_and(|header| header.member_id == status.leader)
            {
                connections.current.store(index, Ordering::Relaxed);
            }
            statuses.push((member.address.clone(), status));
        }
        statuses
    }

    fn call(&self, call: Call, repeat: Repeat) -> Result<Response, Failure> {
        let connections = Arc::clone(&self.connections);
        self.wait(async move { connections.run(&call, repeat).await })
    }

    /// Starts a future on the client's runtime, and returns the channel on which its result will arrive.
    fn start<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> mpsc::Receiver<T> {
        let (sender, receiver) = mpsc::sync_channel(1);
        // Boxed, so that the program has the runtime's code for tasks once, and not once for each kind of request.
        let sending: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
            // Sending fails only if the caller no longer waits for the result.
            let _ = sender.send(future.await);
        });
        if let Some(runtime) = &self.runtime {
            runtime.spawn(sending);
        }
        receiver
    }

    /// Runs a future on the client's runtime, and waits for its result.
    fn wait<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> Result<T, Failure> {
        self.start(future).recv().unwrap_or_else(|_| Err(ended()))
    }
}

/// The failure of a request whose task ended without a result.
fn ended() -> Failure {
    Failure {
        cause: Cause::Unknown,
        reason: "the request was abandoned".into(),
        is_connection_doubtful: false,
    }
}

/// A member of the cluster, and the connection to it.
struct Member {
    address: String,
    endpoint: Endpoint,
    connector: Connector,
    /// Connects when it is first used, and again after its connection was lost.
    channel: Mutex<Channel>,
}

impl Member {
    fn new(address: &str, options: &EtcdOptions) -> std::io::Result<Self> {
        // The connector makes the connection, with TLS or without.
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .map_err(std::io::Error::other)?
            .connect_timeout(options.connect_timeout)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(false);
        let connector = Connector {
            tls: options.tls.clone(),
        };
        let channel = endpoint.connect_with_connector_lazy(connector.clone());
        Ok(Self {
            address: address.to_owned(),
            endpoint,
            connector,
            channel: Mutex::new(channel),
        })
    }

    fn reconnect(&self) {
        let connector = self.connector.clone();
        *self.channel.lock() = self.endpoint.connect_with_connector_lazy(connector);
    }
}

/// The parts of a client that its runtime's tasks use, too.
struct Connections {
    members: Vec<Member>,
    /// The index of the member that gets the next request.
    current: AtomicUsize,
    /// The id of the cluster of the member that answered first; 0 before any has answered.
    cluster_id: AtomicU64,
    user: Option<EtcdUser>,
    /// The token of the user; `None` before the first authentication, and if the cluster has none.
    token: Mutex<Option<AsciiMetadataValue>>,
    request_timeout: Duration,
}

impl Connections {
    /// Sends a request to one member after the other, as long as `repeat` allows.
    async fn run(&self, call: &Call, repeat: Repeat) -> Result<Response, Failure> {
        let started = Instant::now();
        let time_max = match repeat {
            Repeat::UntilSent => self.request_timeout,
            Repeat::UntilAnswered => self.request_timeout * ATTEMPT_TIMES,
        };
        let mut is_token_new = false;
        let mut pause = PAUSE_MIN;
        let mut attempts = 0;
        loop {
            let index = self.current.load(Ordering::Relaxed);
            let failure = match self.attempt(index, call).await {
                Ok(response) => return Ok(response),
                Err(failure) => failure,
            };
            match failure.cause {
                Cause::NotDone => {}
                Cause::Unknown if repeat == Repeat::UntilAnswered => {}
                Cause::BadToken if !is_token_new && self.user.is_some() => {
                    is_token_new = true;
                    // The request did nothing, and a failure of the authentication does not change that.
                    self.authenticate().await?;
                    continue;
                }
                Cause::Unknown
                | Cause::BadToken
                | Cause::NoSpace
                | Cause::Denied
                | Cause::Refused
                | Cause::OtherCluster => return Err(failure),
            }
            attempts += 1;
            let is_round_complete = attempts % self.members.len() == 0;
            let is_every_member_tried = attempts >= self.members.len();
            if is_every_member_tried && started.elapsed() + pause >= time_max {
                return Err(failure);
            }
            if is_round_complete {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }

    /// Sends a request to a member once. If that fails, the next request goes to the next member.
    async fn attempt(&self, index: usize, call: &Call) -> Result<Response, Failure> {
        let result = match tokio::time::timeout(self.request_timeout, self.send(index, call)).await
        {
            Ok(Ok(response)) => self.check_cluster(index, response),
            Ok(Err(status)) => Err(Failure::from_status(&self.members[index].address, &status)),
            Err(_) => Err(Failure::timed_out(&self.members[index].address)),
        };
        if let Err(failure) = &result
            && matches!(failure.cause, Cause::NotDone | Cause::Unknown)
        {
            if failure.is_connection_doubtful {
                self.members[index].reconnect();
            }
            let next = (index + 1) % self.members.len();
            // Another request may already have moved on to the next member.
            let _ =
                self.current
                    .compare_exchange(index, next, Ordering::Relaxed, Ordering::Relaxed);
        }
        result
    }

    /// Refuses the response of a member of another cluster than before, because that cluster has another store. Even if
    /// that cluster carried the request out, the store of this journal is unchanged; and an append fails there, because
    /// that cluster's head is not the one that this process knows.
    fn check_cluster(&self, index: usize, response: Response) -> Result<Response, Failure> {
        let header = match &response {
            Response::Txn(response) => response.header,
            Response::Status(response) => response.header,
            Response::Compact => None,
        };
        let Some(id) = header.map(|header| header.cluster_id) else {
            return Ok(response);
        };
        let first = self
            .cluster_id
            .compare_exchange(0, id, Ordering::Relaxed, Ordering::Relaxed);
        match first {
            Err(other) if other != id => Err(Failure::other_cluster(&self.members[index].address)),
            Ok(_) | Err(_) => Ok(response),
        }
    }

    /// Sends a request to a member, and waits for the response without a time-out.
    async fn send(&self, index: usize, call: &Call) -> Result<Response, Status> {
        let channel = self.members[index].channel.lock().clone();
        Ok(match call {
            Call::Txn(request) => {
                let mut client =
                    KvClient::new(channel).max_decoding_message_size(RESPONSE_BYTES_MAX);
                let response = client.txn(self.with_token(request.clone())).await?;
                Response::Txn(response.into_inner())
            }
            Call::Compact(request) => {
                KvClient::new(channel)
                    .compact(self.with_token(*request))
                    .await?;
                Response::Compact
            }
            Call::Status => {
                let mut client = MaintenanceClient::new(channel);
                let response = client.status(self.with_token(StatusRequest {})).await?;
                Response::Status(response.into_inner())
            }
        })
    }

    /// A request with the token of the user, if there is one.
    fn with_token<R>(&self, message: R) -> Request<R> {
        let mut request = Request::new(message);
        if let Some(token) = &*self.token.lock() {
            request.metadata_mut().insert("token", token.clone());
        }
        request
    }

    /// Gets a new token for the user, if there is one. False if there is one, but the cluster has no authentication.
    async fn authenticate(&self) -> Result<bool, Failure> {
        let Some(user) = &self.user else {
            return Ok(true);
        };
        let request = AuthenticateRequest {
            name: user.name.clone(),
            password: read_password(&user.password_file)?,
        };
        let mut attempts = 0;
        loop {
            let index = self.current.load(Ordering::Relaxed);
            let failure = match self.authenticate_at(index, &request).await {
                Ok(is_on) => return Ok(is_on),
                Err(failure) => failure,
            };
            attempts += 1;
            let is_final = !matches!(failure.cause, Cause::NotDone | Cause::Unknown);
            if is_final || attempts >= self.members.len() {
                // The caller's own request was not sent.
                let cause = if is_final {
                    failure.cause
                } else {
                    Cause::NotDone
                };
                return Err(Failure { cause, ..failure });
            }
            self.members[index].reconnect();
            let next = (index + 1) % self.members.len();
            self.current.store(next, Ordering::Relaxed);
        }
    }

    /// Gets a new token from a member. False if the cluster has no authentication.
    async fn authenticate_at(
        &self,
        index: usize,
        request: &AuthenticateRequest,
    ) -> Result<bool, Failure> {
        let Member {
            address, channel, ..
        } = &self.members[index];
        let mut client = AuthClient::new(channel.lock().clone());
        let sending = client.authenticate(request.clone());
        let response = match tokio::time::timeout(self.request_timeout, sending).await {
            Ok(Ok(response)) => response.into_inner(),
            Ok(Err(status)) if status.code() == Code::FailedPrecondition => {
                *self.token.lock() = None;
                return Ok(false);
            }
            Ok(Err(status)) => return Err(Failure::from_status(address, &status)),
            Err(_) => return Err(Failure::timed_out(address)),
        };
        let token = AsciiMetadataValue::try_from(response.token)
            .map_err(|_| Failure::refused(format!("{address} gave a token that is not valid")))?;
        *self.token.lock() = Some(token);
        Ok(true)
    }
}

/// Reads a password; a line end after it does not belong to it.
fn read_password(path: &Path) -> Result<String, Failure> {
    let failure = |reason: String| Failure::refused(format!("{}: {reason}", path.display()));
    let file = std::fs::File::open(path).map_err(|error| failure(error.to_string()))?;
    let mut password = String::new();
    // With two bytes for a line end, and one that shows that the password is longer.
    file.take(PASSWORD_BYTES_MAX + 3)
        .read_to_string(&mut password)
        .map_err(|error| failure(error.to_string()))?;
    let password = password.trim_end_matches(['\r', '\n']);
    if password.len() as u64 > PASSWORD_BYTES_MAX {
        return Err(failure(format!(
            "it has more than {PASSWORD_BYTES_MAX} bytes"
        )));
    }
    if password.is_empty() {
        return Err(failure("it holds no password".into()));
    }
    Ok(password.to_owned())
}
