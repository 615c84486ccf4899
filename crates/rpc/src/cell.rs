//! The link between control and a cell, over gRPC.

use std::sync::Arc;

use placewright_conductor::message::Envelope;
use placewright_conductor::{Action, CellId, InstanceId, Reply};
use placewright_identity::Call;
use placewright_link::{CellEvent, CellLink, CellOperation, LinkError, LinkFuture};
use placewright_records::Form;
use placewright_records::message::Versions;
use placewright_tasks::{ContainedWork, spawn_contained};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use uuid::Uuid;

use crate::access::{Authorizer, CertificateHolder};
use crate::addresses::{Addresses, Replica};
use crate::channel::{ClientOptions, EndpointError, MESSAGE_BYTES_MAX, PeerChannel};
use crate::error::{link_error, status};
use crate::limits::Validate;
use crate::payload::{
    pack, pack_for, pack_parts, undecodable_response, unpack, unpack_from, unpack_valid_items,
};
use crate::proto::cell::cell_client::CellClient as Client;
use crate::proto::cell::cell_server::Cell;
use crate::proto::cell::{IdentifyRequest, Identity, Payload};
use crate::versions::{AgreedVersion, identity};

/// The most events that one message on the stream holds.
const EVENTS_PER_MESSAGE_MAX: usize = 256;
/// The most messages with events that are queued in a server for one stream.
const SERVER_QUEUE_MESSAGES: usize = 4;
/// The most events that are queued in a client.
const CLIENT_QUEUE_EVENTS: usize = 1024;

/// The client that is generated for the service of a cell.
type GeneratedClient = Client<tonic::transport::Channel>;

/// A client of a cell, for control. Of several replicas of the cell it finds the one that leads.
#[derive(Clone, Debug)]
pub struct CellClient {
    replicas: Addresses<CellReplica>,
}

impl CellClient {
    /// Creates a client; it has to be called in a Tokio runtime. It connects when it is first used.
    ///
    /// # Errors
    ///
    /// An address is not valid.
    pub fn new(options: ClientOptions) -> Result<Self, EndpointError> {
        let channels = PeerChannel::to_all("the cell", &options)?;
        let replicas = Addresses::new(channels, |peer| CellReplica {
            peer,
            agreed_version: AgreedVersion::default(),
        });
        Ok(Self { replicas })
    }

    /// Makes a call to the replica that leads.
    async fn call<T, F>(&self, call: impl Fn(Arc<CellReplica>) -> F) -> Result<T, LinkError>
    where
        F: Future<Output = Result<T, LinkError>>,
    {
        self.replicas.call_leader(probe, call).await
    }
}

/// A call that succeeds only at the replica that leads.
async fn probe(replica: Arc<CellReplica>) -> Result<(), LinkError> {
    let identified = replica.identify().await;
    (replica.agreed_version)
        .reset_on_error(identified)
        .map(drop)
}

/// A client of one process of the cell.
#[derive(Debug)]
struct CellReplica {
    peer: PeerChannel,
    agreed_version: AgreedVersion,
}

impl Replica for CellReplica {
    fn peer(&self) -> &PeerChannel {
        &self.peer
    }
}

impl CellReplica {
    fn client(&self) -> GeneratedClient {
        Client::new(self.peer.channel()).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    fn refusal(&self, why: String) -> LinkError {
        LinkError::Refused {
            peer: self.peer.name.clone(),
            why,
        }
    }

    /// Gets the cell's identity, and agrees with it on a version.
    async fn identify(&self) -> Result<(Identity, u32), LinkError> {
        let identify =
            |mut client: GeneratedClient, request| async move { client.identify(request).await };
        let request = IdentifyRequest {};
        let identity = self.peer.call(&self.client(), &request, identify).await?;
        let versions = self.peer.options.versions;
        let version = self
            .agreed_version
            .agree(versions, &self.peer.name, &identity)?;
        Ok((identity, version))
    }

    async fn version(&self) -> Result<u32, LinkError> {
        match self.agreed_version.version() {
            Some(version) => Ok(version),
            None => {
                let (_, version) = self.identify().await?;
                Ok(version)
            }
        }
    }

    fn unpack<T: Form + Validate>(
        &self,
        what: &'static str,
        payload: &Payload,
    ) -> Result<T, LinkError> {
        unpack_from(self.peer.options.versions, &self.peer.name, what, payload)
    }

    async fn deliver_all(&self, messages: &[Envelope]) -> Result<Vec<Reply>, LinkError> {
        let peer = &self.peer;
        let mut replies = Vec::with_capacity(messages.len());
        let parts = pack_parts(self.version().await?, messages);
        for (message_count, payload) in parts.map_err(|status| link_error(&peer.name, &status))? {
            let deliver =
                |mut client: GeneratedClient, request| async move { client.deliver(request).await };
            let response = peer.call(&self.client(), &payload, deliver).await?;
            let mut part: Vec<Reply> = self.unpack("replies", &response)?;
            if part.len() != message_count {
                return Err(self.refusal(format!(
                    "it gave {} replies to {message_count} messages",
                    part.len()
                )));
            }
            replies.append(&mut part);
        }
        Ok(replies)
    }

    async fn send_operation(&self, operation: &CellOperation) -> Result<Reply, LinkError> {
        let payload = pack_for(&self.peer.name, self.version().await?, operation)?;
        let act = |mut client: GeneratedClient, request| async move { client.act(request).await };
        let response = self.peer.call(&self.client(), &payload, act).await?;
        self.unpack("reply", &response)
    }

    async fn fetch_actions(&self, instance: InstanceId) -> Result<Vec<Action>, LinkError> {
        let payload = pack_for(&self.peer.name, self.version().await?, &instance)?;
        let actions =
            |mut client: GeneratedClient, request| async move { client.actions(request).await };
        let response = self.peer.call(&self.client(), &payload, actions).await?;
        self.unpack("actions", &response)
    }

    async fn open_event_stream(&self) -> Result<mpsc::Receiver<CellEvent>, LinkError> {
        let peer = &self.peer;
        let payload = pack_for(&peer.name, self.version().await?, &())?;
        let follow =
            |mut client: GeneratedClient, request| async move { client.follow(request).await };
        let events = peer.call(&self.client(), &payload, follow).await?;
        let (sender, receiver) = mpsc::channel(CLIENT_QUEUE_EVENTS);
        let receive = receive_events(peer.clone(), events, sender);
        spawn_contained(ContainedWork::GrpcStream, receive);
        Ok(receiver)
    }
}

impl CellLink for CellClient {
    fn cell_id(&self) -> LinkFuture<'_, CellId> {
        Box::pin(self.call(|replica| async move {
            let identified = replica.identify().await;
            let (identity, _) = replica.agreed_version.reset_on_error(identified)?;
            let uuid = Uuid::parse_str(&identity.cell);
            let uuid = uuid.map_err(|_| replica.refusal("it does not say its UUID".into()))?;
            Ok(CellId(uuid))
        }))
    }

    fn deliver(&self, messages: Vec<Envelope>) -> LinkFuture<'_, Vec<Reply>> {
        Box::pin(async move {
            let messages = messages.as_slice();
            let deliver = |replica: Arc<CellReplica>| async move {
                let delivered = replica.deliver_all(messages).await;
                replica.agreed_version.reset_on_error(delivered)
            };
            self.call(deliver).await
        })
    }

    fn perform(&self, operation: CellOperation) -> LinkFuture<'_, Reply> {
        Box::pin(async move {
            let operation = &operation;
            let perform = |replica: Arc<CellReplica>| async move {
                let performed = replica.send_operation(operation).await;
                replica.agreed_version.reset_on_error(performed)
            };
            self.replicas.call_leader_once(probe, perform).await
        })
    }

    fn actions(&self, instance: InstanceId) -> LinkFuture<'_, Vec<Action>> {
        Box::pin(self.call(move |replica| async move {
            let actions = replica.fetch_actions(instance).await;
            replica.agreed_version.reset_on_error(actions)
        }))
    }

    fn follow(&self) -> LinkFuture<'_, mpsc::Receiver<CellEvent>> {
        Box::pin(self.call(|replica| async move {
            let opened = replica.open_event_stream().await;
            replica.agreed_version.reset_on_error(opened)
        }))
    }
}

/// Forwards a cell's events until the stream ends, nothing arrives within the time-out, or the client
/// has to reconnect.
async fn receive_events(
    peer: PeerChannel,
    mut events: Streaming<Payload>,
    sender: mpsc::Sender<CellEvent>,
) {
    let mut until_must_reconnect = std::pin::pin!(peer.until_must_reconnect());
    loop {
        let message = tokio::time::timeout(peer.options.silence_timeout, events.message());
        let message = tokio::select! {
            message = message => message,
            () = sender.closed() => return,
            // Control opens a new stream, on a connection with the new certificate.
            () = &mut until_must_reconnect => return,
        };
        let payload = match message {
            Ok(Ok(Some(payload))) => payload,
            Ok(Ok(None)) => return,
            Ok(Err(status)) => {
                let error = link_error(&peer.name, &status);
                tracing::debug!(%error, "a stream of events ended");
                return;
            }
            Err(_) => {
                tracing::warn!(peer = peer.name, "nothing was heard for too long");
                return;
            }
        };
        let batch: Vec<CellEvent> =
            match unpack_valid_items(peer.options.versions, "news", &payload) {
                Ok(batch) => batch,
                Err(status) => {
                    let error = undecodable_response(&peer.name, &status);
                    tracing::error!(%error, "a stream of events cannot be read");
                    return;
                }
            };
        for event in batch {
            if sender.send(event).await.is_err() {
                return;
            }
        }
    }
}

/// The gRPC service that exposes a cell to control.
pub(crate) struct CellService {
    pub(crate) cell: Arc<dyn CellLink>,
    pub(crate) versions: Versions,
    pub(crate) authorizer: Authorizer,
}

/// The call that a caller of this service has to be authorized for, whichever method it calls. Only control is
/// authorized for it.
fn control_cell(cell: &str) -> Call<'_> {
    Call::ControlCell { cell }
}

#[tonic::async_trait]
impl Cell for CellService {
    async fn identify(
        &self,
        request: Request<IdentifyRequest>,
    ) -> Result<Response<Identity>, Status> {
        self.authorizer.check(&request, control_cell)?;
        let cell = self.cell.cell_id().await.map_err(|error| status(&error))?;
        Ok(Response::new(identity(self.versions, cell.to_string())))
    }

    async fn deliver(&self, request: Request<Payload>) -> Result<Response<Payload>, Status> {
        self.authorizer.check(&request, control_cell)?;
        let payload = request.get_ref();
        let messages: Vec<Envelope> = unpack(self.versions, "messages", payload)?;
        let replies = self.cell.deliver(messages).await;
        let replies = replies.map_err(|error| status(&error))?;
        Ok(Response::new(pack(payload.version, &replies)?))
    }

    async fn act(&self, request: Request<Payload>) -> Result<Response<Payload>, Status> {
        self.authorizer.check(&request, control_cell)?;
        let payload = request.get_ref();
        let operation: CellOperation = unpack(self.versions, "act", payload)?;
        let reply = self
            .cell
            .perform(operation)
            .await
            .map_err(|error| status(&error))?;
        Ok(Response::new(pack(payload.version, &reply)?))
    }

    async fn actions(&self, request: Request<Payload>) -> Result<Response<Payload>, Status> {
        self.authorizer.check(&request, control_cell)?;
        let payload = request.get_ref();
        let instance: InstanceId = unpack(self.versions, "instance", payload)?;
        let actions = self.cell.actions(instance).await;
        let actions = actions.map_err(|error| status(&error))?;
        Ok(Response::new(pack(payload.version, &actions)?))
    }

    type FollowStream = ReceiverStream<Result<Payload, Status>>;

    async fn follow(
        &self,
        request: Request<Payload>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let holder = self.authorizer.check(&request, control_cell)?;
        let version = request.get_ref().version;
        let () = unpack(self.versions, "follow", request.get_ref())?;
        let events = self.cell.follow().await.map_err(|error| status(&error))?;
        let (sender, receiver) = mpsc::channel(SERVER_QUEUE_MESSAGES);
        spawn_contained(ContainedWork::GrpcStream, async move {
            let refused = CertificateHolder::until_refused(holder);
            tokio::select! {
                () = send_events(version, events, sender.clone()) => {}
                // A closed channel means that the subscriber is gone.
                status = refused => drop(sender.send(Err(status)).await),
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}

/// Sends events until the cell's stream ends or the subscriber goes away.
async fn send_events(
    version: u32,
    mut events: mpsc::Receiver<CellEvent>,
    sender: mpsc::Sender<Result<Payload, Status>>,
) {
    let mut batch = Vec::with_capacity(EVENTS_PER_MESSAGE_MAX);
    loop {
        let count = tokio::select! {
            count = events.recv_many(&mut batch, EVENTS_PER_MESSAGE_MAX) => count,
            () = sender.closed() => return,
        };
        if count == 0 {
            return;
        }
        match pack_parts(version, &batch) {
            Ok(parts) => {
                for (_event_count, payload) in parts {
                    if sender.send(Ok(payload)).await.is_err() {
                        return;
                    }
                }
            }
            Err(status) => {
                // A closed channel means that the subscriber is gone.
                let _ = sender.send(Err(status)).await;
                return;
            }
        }
        batch.clear();
    }
}
