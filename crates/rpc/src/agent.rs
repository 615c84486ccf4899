//! The link between agents and their cell, over gRPC.

mod authorized_stream;
mod decode;
mod encode;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use placewright_identity::Call;
use placewright_link::{AgentConnection, AgentLink, LinkError, LinkFuture, ToAgent, ToCell};
use placewright_tasks::{ContainedWork, spawn_contained};
use prost::Message as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

use authorized_stream::AuthorizedStream;

use crate::access::{Authorizer, CertificateHolder};
use crate::addresses::{Addresses, with_jitter};
use crate::channel::{BATCH_BYTES, ClientOptions, EndpointError, MESSAGE_BYTES_MAX, PeerChannel};
use crate::error::{link_error, status};
use crate::limits::{FieldPath, LIST_MAX};
use crate::proto::agent::agents_client::AgentsClient;
use crate::proto::agent::agents_server::Agents;
use crate::proto::agent::{AgentMessage, CellMessage, FromAgent, FromCell};
use crate::{PROTOCOL_OLDEST, PROTOCOL_VERSION};

/// The most messages of one batch on the stream.
const BATCH_MESSAGES_MAX: usize = 256;
/// The most batches that are queued for the network.
const QUEUE_BATCHES: usize = 4;
/// The longest delay before an agent looks for the replica of its cell that leads.
const CONNECT_DELAY_MAX: Duration = Duration::from_millis(100);
/// The most messages that are queued in an agent, in each direction.
const QUEUE_MESSAGES: usize = 1024;

/// A client of a cell, for agents. Of several replicas of the cell it finds the one that leads.
#[derive(Clone, Debug)]
pub struct AgentClient {
    replicas: Addresses<PeerChannel>,
}

impl AgentClient {
    /// Creates a client; it has to be called in a Tokio runtime. It connects when it is first used.
    ///
    /// # Errors
    ///
    /// An address is not valid.
    pub fn new(options: ClientOptions) -> Result<Self, EndpointError> {
        let channels = PeerChannel::to_all("the cell", &options)?;
        Ok(Self {
            replicas: Addresses::new(channels, |channel| channel),
        })
    }
}

/// A stream that the cell has accepted.
struct Joined {
    peer: Arc<PeerChannel>,
    to_network: mpsc::Sender<FromAgent>,
    from_network: Streaming<FromCell>,
}

/// Opens a stream to one process of the cell. This fails if that process does not lead.
async fn join(peer: Arc<PeerChannel>) -> Result<Joined, LinkError> {
    let client = AgentsClient::new(peer.channel()).max_decoding_message_size(MESSAGE_BYTES_MAX);
    let join = |mut client: AgentsClient<Channel>, request: Request<()>| async move {
        let (to_network, batches) = mpsc::channel(QUEUE_BATCHES);
        // The first message has the supported versions. It is sent at once, so that a wrong
        // version or token is detected here.
        let first_message = FromAgent {
            version: PROTOCOL_OLDEST,
            newest: PROTOCOL_VERSION,
            messages: Vec::new(),
        };
        // The channel is new, so it is not full.
        let _ = to_network.try_send(first_message);
        let request = request.map(|()| ReceiverStream::new(batches));
        let response = client.join(request).await?;
        Ok(response.map(|from_network| (to_network, from_network)))
    };
    let (to_network, from_network) = peer.call(&client, &(), join).await?;
    Ok(Joined {
        peer,
        to_network,
        from_network,
    })
}

impl AgentLink for AgentClient {
    fn connect(&self) -> LinkFuture<'_, AgentConnection> {
        Box::pin(async {
            let joined = match self.replicas.only() {
                Some(only) => join(only).await?,
                None => {
                    // When a cell ends, all its agents lose their connections at the same time, so each waits for a
                    // random time.
                    tokio::time::sleep(with_jitter(CONNECT_DELAY_MAX)).await;
                    self.replicas.find(join).await?
                }
            };
            let Joined {
                peer,
                to_network,
                from_network,
            } = joined;
            let (to_cell, from_agent) = mpsc::channel(QUEUE_MESSAGES);
            let (to_agent, from_cell) = mpsc::channel(QUEUE_MESSAGES);
            spawn_contained(ContainedWork::GrpcStream, async move {
                let agreed_version = AtomicU32::new(PROTOCOL_OLDEST);
                tokio::select! {
                    () = send_to_cell(from_agent, to_network.clone(), &agreed_version) => {}
                    // The agent reconnects: its certificate was renewed, or the cell's was revoked.
                    () = peer.until_must_reconnect() => {
                        tracing::info!("a certificate was renewed or revoked: connecting to the cell anew");
                    }
                    ended = receive_from_cell(from_network, to_agent, &to_network, &agreed_version) => {
                        if let Err(status) = ended {
                            let error = link_error(&peer.name, &status);
                            tracing::warn!(%error, "the connection to the cell ended");
                        }
                    }
                }
            });
            Ok(AgentConnection { to_cell, from_cell })
        })
    }
}

async fn send_to_cell(
    mut from_agent: mpsc::Receiver<ToCell>,
    to_network: mpsc::Sender<FromAgent>,
    agreed_version: &AtomicU32,
) {
    let mut messages = Vec::with_capacity(BATCH_MESSAGES_MAX);
    while from_agent
        .recv_many(&mut messages, BATCH_MESSAGES_MAX)
        .await
        > 0
    {
        let encoded = messages.drain(..).map(encode::to_cell);
        for messages in group_into_batches(encoded, AgentMessage::encoded_len) {
            let batch = FromAgent {
                version: agreed_version.load(Ordering::Relaxed),
                // Only the first batch of a stream names the newest version.
                newest: 0,
                messages,
            };
            if to_network.send(batch).await.is_err() {
                return;
            }
        }
    }
}

async fn receive_from_cell(
    mut from_network: Streaming<FromCell>,
    to_agent: mpsc::Sender<ToAgent>,
    to_network: &mpsc::Sender<FromAgent>,
    agreed_version: &AtomicU32,
) -> Result<(), Status> {
    loop {
        let batch = tokio::select! {
            batch = from_network.message() => batch?,
            () = to_agent.closed() => return Ok(()),
        };
        let Some(batch) = batch else { return Ok(()) };
        match batch.version {
            // The agreed version stays.
            0 => {}
            PROTOCOL_OLDEST..=PROTOCOL_VERSION => {
                agreed_version.store(batch.version, Ordering::Relaxed);
            }
            other => return Err(unsupported_version(other)),
        }
        FieldPath::message("messages").check_count(batch.messages.len(), LIST_MAX)?;
        for message in batch.messages {
            let message = match decode::to_agent(message) {
                Ok(Some(message)) => message,
                // A newer cell may send messages of kinds that this release does not know. The cell expects no answer
                // to them.
                Ok(None) => {
                    tracing::warn!("the cell sent a message that this release does not know");
                    continue;
                }
                // One malformed order must not end the connection of all other hosts.
                Err(undecodable) => {
                    let why = undecodable.error.message();
                    tracing::error!(why, "what the cell said is refused");
                    if let Some(answer) = undecodable.answer {
                        send_answer(answer, to_network, agreed_version).await;
                    }
                    continue;
                }
            };
            if to_agent.send(message).await.is_err() {
                return Ok(());
            }
        }
    }
}

/// Sends the answer to an order that could not be decoded.
async fn send_answer(
    answer: ToCell,
    to_network: &mpsc::Sender<FromAgent>,
    agreed_version: &AtomicU32,
) {
    let batch = FromAgent {
        version: agreed_version.load(Ordering::Relaxed),
        newest: 0,
        messages: vec![encode::to_cell(answer)],
    };
    // A closed channel means that the connection is gone.
    let _ = to_network.send(batch).await;
}

/// The gRPC service that exposes a cell to agents.
pub(crate) struct AgentService {
    pub(crate) agents: Arc<dyn AgentLink>,
    pub(crate) authorizer: Authorizer,
}

#[tonic::async_trait]
impl Agents for AgentService {
    type JoinStream = ReceiverStream<Result<FromCell, Status>>;

    async fn join(
        &self,
        request: Request<Streaming<FromAgent>>,
    ) -> Result<Response<Self::JoinStream>, Status> {
        let holder = self
            .authorizer
            .check(&request, |cell| Call::JoinCell { cell })?;
        let connection = self.agents.connect().await;
        let connection = connection.map_err(|error| status(&error))?;
        let (to_network, batches) = mpsc::channel(QUEUE_BATCHES);
        let serve = serve_stream(request.into_inner(), holder, connection, to_network);
        spawn_contained(ContainedWork::GrpcStream, serve);
        Ok(Response::new(ReceiverStream::new(batches)))
    }
}

/// Serves one stream until either side ends it, the agent sends a message that cannot be decoded or that it may not
/// send, or its certificate is not valid any more.
async fn serve_stream(
    from_agent: Streaming<FromAgent>,
    holder: Option<CertificateHolder>,
    connection: AgentConnection,
    to_network: mpsc::Sender<Result<FromCell, Status>>,
) {
    let AgentConnection { to_cell, from_cell } = connection;
    let authorized_stream = holder.clone().map(AuthorizedStream::new);
    let ended = tokio::select! {
        ended = receive_from_agent(from_agent, authorized_stream, to_cell, &to_network) => ended,
        refused = CertificateHolder::until_refused(holder) => Err(refused),
        () = send_to_agent(from_cell, &to_network) => Ok(()),
    };
    if let Err(status) = ended {
        tracing::warn!(%status, "the connection of an agent was ended");
        // A closed channel means that the agent is gone.
        let _ = to_network.send(Err(status)).await;
    }
}

async fn receive_from_agent(
    mut from_agent: Streaming<FromAgent>,
    mut authorized_stream: Option<AuthorizedStream>,
    to_cell: mpsc::Sender<ToCell>,
    to_network: &mpsc::Sender<Result<FromCell, Status>>,
) -> Result<(), Status> {
    loop {
        let batch = tokio::select! {
            batch = from_agent.message() => batch?,
            () = to_cell.closed() => return Ok(()),
        };
        let Some(batch) = batch else { return Ok(()) };
        if !(PROTOCOL_OLDEST..=PROTOCOL_VERSION).contains(&batch.version) {
            return Err(unsupported_version(batch.version));
        }
        if batch.newest != 0 {
            let agreed_version = FromCell {
                messages: Vec::new(),
                version: batch.newest.clamp(PROTOCOL_OLDEST, PROTOCOL_VERSION),
            };
            // A closed channel means that the agent is gone; the stream ends then.
            let _ = to_network.send(Ok(agreed_version)).await;
        }
        FieldPath::message("messages").check_count(batch.messages.len(), LIST_MAX)?;
        for message in batch.messages {
            let message = decode::to_cell(message)?;
            if let Some(authorized_stream) = &mut authorized_stream {
                authorized_stream.check(&message)?;
            }
            if to_cell.send(message).await.is_err() {
                return Ok(());
            }
        }
    }
}

async fn send_to_agent(
    mut from_cell: mpsc::Receiver<ToAgent>,
    to_network: &mpsc::Sender<Result<FromCell, Status>>,
) {
    let mut messages = Vec::with_capacity(BATCH_MESSAGES_MAX);
    loop {
        let count = tokio::select! {
            count = from_cell.recv_many(&mut messages, BATCH_MESSAGES_MAX) => count,
            () = to_network.closed() => 0,
        };
        if count == 0 {
            return;
        }
        let encoded = messages.drain(..).map(encode::to_agent);
        for messages in group_into_batches(encoded, CellMessage::encoded_len) {
            let batch = FromCell {
                messages,
                // The agreed version stays.
                version: 0,
            };
            if to_network.send(Ok(batch)).await.is_err() {
                return;
            }
        }
    }
}

/// The error for a version of the protocol that this release does not support.
fn unsupported_version(version: u32) -> Status {
    Status::failed_precondition(format!(
        "version {version} of the protocol is not known here; this release speaks \
         {PROTOCOL_OLDEST} to {PROTOCOL_VERSION}"
    ))
}

/// Groups messages into batches of limited size, in bytes as `size_of` counts them.
fn group_into_batches<T>(
    messages: impl Iterator<Item = T>,
    size_of: impl Fn(&T) -> usize,
) -> Vec<Vec<T>> {
    let (mut batches, mut batch, mut bytes) = (Vec::new(), Vec::new(), 0);
    for message in messages {
        let size = size_of(&message);
        if bytes > 0 && bytes + size > BATCH_BYTES {
            batches.push(std::mem::take(&mut batch));
            bytes = 0;
        }
        // An empty message counts too, so that 0 bytes mean an empty batch.
        bytes += size.max(1);
        batch.push(message);
    }
    if !batch.is_empty() {
        batches.push(batch);
    }
    batches
}
