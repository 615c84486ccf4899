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

use crate::access::{Gate, Holder};
use crate::bounds::Validate;
use crate::channel::{ClientOptions, EndpointError, MESSAGE_BYTES_MAX, PeerChannel};
use crate::error::{link_error, status};
use crate::payload::{pack, pack_for, pack_parts, refused, unpack, unpack_from, unpack_good};
use crate::proto::cell::cell_client::CellClient as Client;
use crate::proto::cell::cell_server::Cell;
use crate::proto::cell::{IdentifyRequest, Identity, Payload};
use crate::versions::{Agreed, identity};

/// The most events that one message on the stream holds.
const NEWS_AT_ONCE: usize = 256;
/// The most messages of events that wait in a server for one stream, and the most events that wait
/// in a client.
const MESSAGES_WAITING: usize = 4;
const NEWS_WAITING: usize = 1024;

/// The generated client that a call is made with.
type Connected = Client<tonic::transport::Channel>;

/// A client of a cell, for control.
#[derive(Clone, Debug)]
pub struct CellClient {
    peer: PeerChannel,
    agreed: Agreed,
}

impl CellClient {
    /// Creates a client; it has to be called in a Tokio runtime. It connects when it is first used.
    ///
    /// # Errors
    ///
    /// The address is not valid.
    pub fn new(options: ClientOptions) -> Result<Self, EndpointError> {
        Ok(Self {
            peer: PeerChannel::new("the cell", options)?,
            agreed: Agreed::default(),
        })
    }

    fn client(&self) -> Connected {
        Client::new(self.peer.channel()).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    fn refused(&self, why: String) -> LinkError {
        LinkError::Refused {
            peer: self.peer.name.clone(),
            why,
        }
    }

    /// Asks the cell for its identity, and agrees with it on a version.
    async fn identify(&self) -> Result<(Identity, u32), LinkError> {
        let identify = |mut to: Connected, request| async move { to.identify(request).await };
        let asked = IdentifyRequest {};
        let identity = self.peer.call(&self.client(), &asked, identify).await?;
        let versions = self.peer.options.versions;
        let version = self.agreed.agree(versions, &self.peer.name, &identity)?;
        Ok((identity, version))
    }

    async fn version(&self) -> Result<u32, LinkError> {
        match self.agreed.version() {
            Some(version) => Ok(version),
            None => Ok(self.identify().await?.1),
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
        for (count, payload) in parts.map_err(|status| link_error(&peer.name, &status))? {
            let deliver = |mut to: Connected, request| async move { to.deliver(request).await };
            let answer = peer.call(&self.client(), &payload, deliver).await?;
            let mut some: Vec<Reply> = self.unpack("replies", &answer)?;
            if some.len() != count {
                return Err(self.refused(format!(
                    "it gave {} replies to {count} messages",
                    some.len()
                )));
            }
            replies.append(&mut some);
        }
        Ok(replies)
    }

    async fn act_now(&self, act: &CellOperation) -> Result<Reply, LinkError> {
        let payload = pack_for(&self.peer.name, self.version().await?, act)?;
        let act = |mut to: Connected, request| async move { to.act(request).await };
        let answer = self.peer.call(&self.client(), &payload, act).await?;
        self.unpack("reply", &answer)
    }

    async fn actions_of(&self, instance: InstanceId) -> Result<Vec<Action>, LinkError> {
        let payload = pack_for(&self.peer.name, self.version().await?, &instance)?;
        let actions = |mut to: Connected, request| async move { to.actions(request).await };
        let answer = self.peer.call(&self.client(), &payload, actions).await?;
        self.unpack("actions", &answer)
    }

    async fn follow_now(&self) -> Result<mpsc::Receiver<CellEvent>, LinkError> {
        let peer = &self.peer;
        let payload = pack_for(&peer.name, self.version().await?, &())?;
        let follow = |mut to: Connected, request| async move { to.follow(request).await };
        let news = peer.call(&self.client(), &payload, follow).await?;
        let (to, from) = mpsc::channel(NEWS_WAITING);
        spawn_contained(ContainedWork::GrpcStream, receive(peer.clone(), news, to));
        Ok(from)
    }
}

impl CellLink for CellClient {
    fn cell(&self) -> LinkFuture<'_, CellId> {
        Box::pin(async {
            let (identity, _) = self.agreed.checked(self.identify().await)?;
            let uuid = Uuid::parse_str(&identity.cell);
            let uuid = uuid.map_err(|_| self.refused("it does not say its UUID".into()))?;
            Ok(CellId(uuid))
        })
    }

    fn deliver(&self, messages: Vec<Envelope>) -> LinkFuture<'_, Vec<Reply>> {
        Box::pin(async move { self.agreed.checked(self.deliver_all(&messages).await) })
    }

    fn act(&self, act: CellOperation) -> LinkFuture<'_, Reply> {
        Box::pin(async move { self.agreed.checked(self.act_now(&act).await) })
    }

    fn actions(&self, instance: InstanceId) -> LinkFuture<'_, Vec<Action>> {
        Box::pin(async move { self.agreed.checked(self.actions_of(instance).await) })
    }

    fn follow(&self) -> LinkFuture<'_, mpsc::Receiver<CellEvent>> {
        Box::pin(async { self.agreed.checked(self.follow_now().await) })
    }
}

/// Forwards a cell's events until the stream ends, or nothing arrives within the time-out.
async fn receive(peer: PeerChannel, mut news: Streaming<Payload>, to: mpsc::Sender<CellEvent>) {
    let mut changed = std::pin::pin!(peer.until_changed());
    loop {
        let next = tokio::time::timeout(peer.options.silence_timeout, news.message());
        let next = tokio::select! {
            next = next => next,
            () = to.closed() => return,
            // Control subscribes again, with what it has now.
            () = &mut changed => return,
        };
        let payload = match next {
            Ok(Ok(Some(payload))) => payload,
            Ok(Ok(None)) => return,
            Ok(Err(status)) => {
                let error = link_error(&peer.name, &status);
                tracing::debug!(%error, "a stream of news ended");
                return;
            }
            Err(_) => {
                tracing::warn!(peer = peer.name, "nothing was heard for too long");
                return;
            }
        };
        let batch: Vec<CellEvent> = match unpack_good(peer.options.versions, "news", &payload) {
            Ok(batch) => batch,
            Err(status) => {
                let error = refused(&peer.name, &status);
                tracing::error!(%error, "a stream of news cannot be read");
                return;
            }
        };
        for one in batch {
            if to.send(one).await.is_err() {
                return;
            }
        }
    }
}

/// The gRPC service that exposes a cell to control.
pub(crate) struct CellService {
    pub(crate) cell: Arc<dyn CellLink>,
    pub(crate) versions: Versions,
    pub(crate) gate: Gate,
}

/// Every call of this service is for control only.
fn conduct(cell: &str) -> Call<'_> {
    Call::Conduct { cell }
}

#[tonic::async_trait]
impl Cell for CellService {
    async fn identify(
        &self,
        request: Request<IdentifyRequest>,
    ) -> Result<Response<Identity>, Status> {
        self.gate.check(&request, conduct)?;
        let cell = self.cell.cell().await.map_err(|error| status(&error))?;
        Ok(Response::new(identity(self.versions, cell.to_string())))
    }

    async fn deliver(&self, request: Request<Payload>) -> Result<Response<Payload>, Status> {
        self.gate.check(&request, conduct)?;
        let payload = request.get_ref();
        let messages: Vec<Envelope> = unpack(self.versions, "messages", payload)?;
        let replies = self.cell.deliver(messages).await;
        let replies = replies.map_err(|error| status(&error))?;
        Ok(Response::new(pack(payload.version, &replies)?))
    }

    async fn act(&self, request: Request<Payload>) -> Result<Response<Payload>, Status> {
        self.gate.check(&request, conduct)?;
        let payload = request.get_ref();
        let act: CellOperation = unpack(self.versions, "act", payload)?;
        let reply = self.cell.act(act).await.map_err(|error| status(&error))?;
        Ok(Response::new(pack(payload.version, &reply)?))
    }

    async fn actions(&self, request: Request<Payload>) -> Result<Response<Payload>, Status> {
        self.gate.check(&request, conduct)?;
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
        let holder = self.gate.check(&request, conduct)?;
        let version = request.get_ref().version;
        let () = unpack(self.versions, "follow", request.get_ref())?;
        let news = self.cell.follow().await.map_err(|error| status(&error))?;
        let (to, from) = mpsc::channel(MESSAGES_WAITING);
        spawn_contained(ContainedWork::GrpcStream, async move {
            let refused = Holder::until_refused(holder);
            tokio::select! {
                () = send(version, news, to.clone()) => {}
                // A closed channel means that the subscriber is gone.
                status = refused => drop(to.send(Err(status)).await),
            }
        });
        Ok(Response::new(ReceiverStream::new(from)))
    }
}

/// Sends events until the cell's stream ends or the subscriber goes away.
async fn send(
    version: u32,
    mut news: mpsc::Receiver<CellEvent>,
    to: mpsc::Sender<Result<Payload, Status>>,
) {
    let mut some = Vec::with_capacity(NEWS_AT_ONCE);
    loop {
        let taken = tokio::select! {
            taken = news.recv_many(&mut some, NEWS_AT_ONCE) => taken,
            () = to.closed() => return,
        };
        if taken == 0 {
            return;
        }
        match pack_parts(version, &some) {
            Ok(parts) => {
                for (_, part) in parts {
                    if to.send(Ok(part)).await.is_err() {
                        return;
                    }
                }
            }
            Err(status) => {
                // A closed channel means that the subscriber is gone.
                let _ = to.send(Err(status)).await;
                return;
            }
        }
        some.clear();
    }
}
