//! The link between agents and their cell, over gRPC.

mod decode;
mod encode;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use placewright_identity::Call;
use placewright_link::{AgentConnection, AgentLink, LinkFuture, ToAgent, ToCell};
use placewright_tasks::{ContainedWork, spawn_contained};
use prost::Message as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

use crate::access::{Gate, Holder};
use crate::bounds::{FieldPath, LIST_MAX};
use crate::channel::{BATCH_BYTES, ClientOptions, EndpointError, MESSAGE_BYTES_MAX, PeerChannel};
use crate::error::{link_error, status};
use crate::proto::agent::agents_client::AgentsClient;
use crate::proto::agent::agents_server::Agents;
use crate::proto::agent::{AgentMessage, CellMessage, FromAgent, FromCell};
use crate::speaker::Speaker;
use crate::{PROTOCOL_OLDEST, PROTOCOL_VERSION};

/// The most messages that one batch on the stream holds.
const MESSAGES_AT_ONCE: usize = 256;
/// The most batches that wait to be sent.
const BATCHES_WAITING: usize = 4;
/// The most messages that wait in an agent, in each direction.
const MESSAGES_WAITING: usize = 1024;

/// A client of a cell, for agents.
#[derive(Clone, Debug)]
pub struct AgentClient {
    peer: PeerChannel,
}

impl AgentClient {
    /// Creates a client; it has to be called in a Tokio runtime. It connects when it is first used.
    ///
    /// # Errors
    ///
    /// The address is not valid.
    pub fn new(options: ClientOptions) -> Result<Self, EndpointError> {
        let peer = PeerChannel::new("the cell", options)?;
        Ok(Self { peer })
    }
}

impl AgentLink for AgentClient {
    fn connect(&self) -> LinkFuture<'_, AgentConnection> {
        Box::pin(async {
            let peer = &self.peer;
            let client =
                AgentsClient::new(peer.channel()).max_decoding_message_size(MESSAGE_BYTES_MAX);
            let join = |mut to: AgentsClient<Channel>, request: Request<()>| async move {
                let (to_network, batches) = mpsc::channel(BATCHES_WAITING);
                // A first message is sent at once, so that a wrong version or token is detected
                // here.
                let hello = FromAgent {
                    version: PROTOCOL_OLDEST,
                    newest: PROTOCOL_VERSION,
                    messages: Vec::new(),
                };
                // The channel is new and empty, so there is room.
                let _ = to_network.try_send(hello);
                let request = request.map(|()| ReceiverStream::new(batches));
                let orders = to.join(request).await?;
                Ok(orders.map(|orders| (to_network, orders)))
            };
            let (to_network, orders) = peer.call(&client, &(), join).await?;
            let (to_cell, from_agent) = mpsc::channel(MESSAGES_WAITING);
            let (to_agent, from_cell) = mpsc::channel(MESSAGES_WAITING);
            let peer = peer.clone();
            spawn_contained(ContainedWork::GrpcStream, async move {
                let spoken = AtomicU32::new(PROTOCOL_OLDEST);
                tokio::select! {
                    () = send_to_cell(from_agent, to_network.clone(), &spoken) => {}
                    // The agent connects again, with what it has now.
                    () = peer.until_changed() => {
                        tracing::info!("the certificate is another one: connecting to the cell anew");
                    }
                    ended = receive_from_cell(orders, to_agent, &to_network, &spoken) => {
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
    mut messages: mpsc::Receiver<ToCell>,
    to: mpsc::Sender<FromAgent>,
    spoken: &AtomicU32,
) {
    let mut some = Vec::with_capacity(MESSAGES_AT_ONCE);
    while messages.recv_many(&mut some, MESSAGES_AT_ONCE).await > 0 {
        let encoded = some.drain(..).map(encode::to_cell);
        for messages in batches(encoded, AgentMessage::encoded_len) {
            let batch = FromAgent {
                version: spoken.load(Ordering::Relaxed),
                newest: 0,
                messages,
            };
            if to.send(batch).await.is_err() {
                return;
            }
        }
    }
}

async fn receive_from_cell(
    mut orders: Streaming<FromCell>,
    to: mpsc::Sender<ToAgent>,
    to_network: &mpsc::Sender<FromAgent>,
    spoken: &AtomicU32,
) -> Result<(), Status> {
    loop {
        let batch = tokio::select! {
            batch = orders.message() => batch?,
            () = to.closed() => return Ok(()),
        };
        let Some(batch) = batch else { return Ok(()) };
        match batch.version {
            0 => {}
            PROTOCOL_OLDEST..=PROTOCOL_VERSION => spoken.store(batch.version, Ordering::Relaxed),
            other => return Err(not_known(other)),
        }
        FieldPath::message("messages").count(batch.messages.len(), LIST_MAX)?;
        for message in batch.messages {
            let message = match decode::to_agent(message) {
                Ok(Some(message)) => message,
                // A newer cell may send a message that this release does not know; it then expects
                // no answer.
                Ok(None) => {
                    tracing::warn!("the cell said something that this release does not know");
                    continue;
                }
                // One malformed order must not end the connection of all other hosts.
                Err(refused) => {
                    let why = refused.why.message();
                    tracing::error!(why, "what the cell said is refused");
                    if let Some(answer) = refused.answer {
                        refuse(answer, to_network, spoken).await;
                    }
                    continue;
                }
            };
            if to.send(message).await.is_err() {
                return Ok(());
            }
        }
    }
}

/// Reports to the cell that one of its steps could not be decoded.
async fn refuse(answer: ToCell, to: &mpsc::Sender<FromAgent>, spoken: &AtomicU32) {
    let batch = FromAgent {
        version: spoken.load(Ordering::Relaxed),
        newest: 0,
        messages: vec![encode::to_cell(answer)],
    };
    // A closed channel means that the connection is gone; there is nobody left to tell.
    let _ = to.send(batch).await;
}

/// The gRPC service that exposes a cell to agents.
pub(crate) struct AgentService {
    pub(crate) agents: Arc<dyn AgentLink>,
    pub(crate) gate: Gate,
}

#[tonic::async_trait]
impl Agents for AgentService {
    type JoinStream = ReceiverStream<Result<FromCell, Status>>;

    async fn join(
        &self,
        request: Request<Streaming<FromAgent>>,
    ) -> Result<Response<Self::JoinStream>, Status> {
        let holder = self.gate.check(&request, |cell| Call::Join { cell })?;
        let connection = self.agents.connect().await;
        let connection = connection.map_err(|error| status(&error))?;
        let (to_network, orders) = mpsc::channel(BATCHES_WAITING);
        let serve = serve(request.into_inner(), holder, connection, to_network);
        spawn_contained(ContainedWork::GrpcStream, serve);
        Ok(Response::new(ReceiverStream::new(orders)))
    }
}

/// Serves one stream until either side ends it or the agent sends a message that cannot be decoded.
async fn serve(
    from_agent: Streaming<FromAgent>,
    holder: Option<Holder>,
    connection: AgentConnection,
    to_network: mpsc::Sender<Result<FromCell, Status>>,
) {
    let AgentConnection { to_cell, from_cell } = connection;
    let speaker = holder.clone().map(Speaker::new);
    let ended = tokio::select! {
        ended = receive_from_agent(from_agent, speaker, to_cell, &to_network) => ended,
        refused = Holder::until_refused(holder) => Err(refused),
        () = send_to_agent(from_cell, &to_network) => Ok(()),
    };
    if let Err(status) = ended {
        tracing::warn!(%status, "the connection of an agent was ended");
        // A closed channel means that the agent is gone; there is nobody left to tell.
        let _ = to_network.send(Err(status)).await;
    }
}

async fn receive_from_agent(
    mut from_agent: Streaming<FromAgent>,
    mut speaker: Option<Speaker>,
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
            return Err(not_known(batch.version));
        }
        if batch.newest != 0 {
            let agreed = FromCell {
                messages: Vec::new(),
                version: batch.newest.clamp(PROTOCOL_OLDEST, PROTOCOL_VERSION),
            };
            // A closed channel means that the agent is gone; the stream ends then.
            let _ = to_network.send(Ok(agreed)).await;
        }
        FieldPath::message("messages").count(batch.messages.len(), LIST_MAX)?;
        for message in batch.messages {
            let message = decode::to_cell(message)?;
            if let Some(speaker) = &mut speaker {
                speaker.check(&message)?;
            }
            if to_cell.send(message).await.is_err() {
                return Ok(());
            }
        }
    }
}

async fn send_to_agent(
    mut orders: mpsc::Receiver<ToAgent>,
    to: &mpsc::Sender<Result<FromCell, Status>>,
) {
    let mut some = Vec::with_capacity(MESSAGES_AT_ONCE);
    loop {
        let taken = tokio::select! {
            taken = orders.recv_many(&mut some, MESSAGES_AT_ONCE) => taken,
            () = to.closed() => 0,
        };
        if taken == 0 {
            return;
        }
        let encoded = some.drain(..).map(encode::to_agent);
        for messages in batches(encoded, CellMessage::encoded_len) {
            let batch = FromCell {
                messages,
                version: 0,
            };
            if to.send(Ok(batch)).await.is_err() {
                return;
            }
        }
    }
}

/// Refuses a version of the protocol.
fn not_known(version: u32) -> Status {
    Status::failed_precondition(format!(
        "version {version} of the protocol is not known here; this release speaks \
         {PROTOCOL_OLDEST} to {PROTOCOL_VERSION}"
    ))
}

/// Groups messages into batches of limited number and size.
fn batches<T>(messages: impl Iterator<Item = T>, size_of: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let (mut batches, mut batch, mut bytes) = (Vec::new(), Vec::new(), 0);
    for message in messages {
        let size = size_of(&message);
        if bytes > 0 && bytes + size > BATCH_BYTES {
            batches.push(std::mem::take(&mut batch));
            bytes = 0;
        }
        bytes += size.max(1);
        batch.push(message);
    }
    if !batch.is_empty() {
        batches.push(batch);
    }
    batches
}
