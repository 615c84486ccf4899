//! The link between replicas, over gRPC.

mod convert;

use std::sync::Arc;

use placewright_identity::Call;
use placewright_link::{
    FollowStart, FromLeader, LeaderConnection, LinkError, LinkFuture, PostedUpdate,
    ReplicaIdentity, ReplicaLink, ToLeader,
};
use placewright_tasks::{ContainedWork, spawn_contained};
use placewright_types::host_state::Receipt;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};
use uuid::Uuid;

use crate::access::{Authorizer, CertificateHolder};
use crate::channel::{ClientOptions, EndpointError, MESSAGE_BYTES_MAX, PeerChannel};
use crate::error::{link_error, status};
use crate::limits::{FieldPath, HOST_UPDATES_MAX, Validate};
use crate::payload::undecodable_response;
use crate::proto::replica as proto;
use crate::proto::replica::replica_client::ReplicaClient as Client;
use crate::proto::replica::replica_server::{Replica, ReplicaServer};

/// The most messages that are queued for each direction of a stream. A few suffice, because while a sender waits for
/// room in the queue, it collects commands or replies for its next message.
const QUEUE_MESSAGES: usize = 4;

/// A client of a replica, for the other replicas.
#[derive(Clone, Debug)]
pub struct ReplicaClient {
    peer: PeerChannel,
}

impl ReplicaClient {
    /// Creates a client; it has to be called in a Tokio runtime. It connects when it is first used.
    ///
    /// # Errors
    ///
    /// The address is not valid.
    pub fn new(options: &ClientOptions) -> Result<Self, EndpointError> {
        let mut channels = PeerChannel::to_all("the replica", options)?;
        // There is a channel for each address, and at least one address.
        Ok(Self {
            peer: channels.swap_remove(0),
        })
    }

    fn client(&self) -> Client<Channel> {
        Client::new(self.peer.channel()).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    async fn get_identity(&self) -> Result<ReplicaIdentity, LinkError> {
        let identify =
            |mut client: Client<Channel>, request| async move { client.identify(request).await };
        let request = proto::IdentifyRequest {};
        let identity = self.peer.call(&self.client(), &request, identify).await?;
        let identity = ReplicaIdentity::from(identity);
        (identity.check(FieldPath::message("identity")))
            .map_err(|exceeded| undecodable_response(&self.peer.name, &exceeded.into()))?;
        Ok(identity)
    }

    /// The candidate that the replica offered under this UUID, as bytes; none if the replica does not keep it.
    async fn ask_for_offer(&self, candidate: Uuid) -> Result<Option<Vec<u8>>, LinkError> {
        let find =
            |mut client: Client<Channel>, request| async move { client.find_offer(request).await };
        let request = proto::FindOfferRequest {
            candidate: candidate.into_bytes().to_vec(),
        };
        let response = self.peer.call(&self.client(), &request, find).await?;
        Ok(response.offer)
    }

    async fn send_host_updates(
        &self,
        updates: Vec<PostedUpdate>,
    ) -> Result<Vec<Option<Receipt>>, LinkError> {
        let take = |mut client: Client<Channel>, request| async move {
            client.take_host_updates(request).await
        };
        let request = proto::HostUpdates {
            updates: updates.iter().map(Into::into).collect(),
        };
        let response = self.peer.call(&self.client(), &request, take).await?;
        let receipts = response.receipts;
        if receipts.len() != updates.len() {
            let why = format!(
                "{} receipts for {} updates of hosts",
                receipts.len(),
                updates.len()
            );
            return Err(undecodable_response(
                &self.peer.name,
                &Status::internal(why),
            ));
        }
        Ok(receipts.into_iter().map(convert::receipt).collect())
    }

    async fn open_stream(&self, start: FollowStart) -> Result<LeaderConnection, LinkError> {
        let first_message = proto::FromFollower {
            start: Some(start.into()),
            ..proto::FromFollower::default()
        };
        let follow = |mut client: Client<Channel>, request: Request<proto::FromFollower>| async move {
            let (to_network, messages) = mpsc::channel(QUEUE_MESSAGES);
            let (metadata, extensions, first_message) = request.into_parts();
            // The channel is new, so it is not full.
            let _ = to_network.try_send(first_message);
            let messages = ReceiverStream::new(messages);
            let request = Request::from_parts(metadata, extensions, messages);
            let response = client.follow(request).await?;
            Ok(response.map(|from_network| (to_network, from_network)))
        };
        let client = self.client();
        let call = self.peer.call(&client, &first_message, follow);
        let (to_network, from_network) = call.await?;
        let (to_leader, from_follower) = mpsc::channel(QUEUE_MESSAGES);
        let (to_follower, from_leader) = mpsc::channel(QUEUE_MESSAGES);
        let peer = self.peer.clone();
        spawn_contained(ContainedWork::GrpcStream, async move {
            tokio::select! {
                () = send_to_leader(from_follower, to_network) => {}
                // The follower connects anew, with the new certificate.
                () = peer.until_must_reconnect() => {}
                ended = receive_from_leader(from_network, to_follower) => {
                    if let Err(status) = ended {
                        let error = link_error(&peer.name, &status);
                        tracing::debug!(%error, "the stream to the leader ended");
                    }
                }
            }
        });
        Ok(LeaderConnection {
            to_leader,
            from_leader,
        })
    }
}

impl ReplicaLink for ReplicaClient {
    fn identify(&self) -> LinkFuture<'_, ReplicaIdentity> {
        Box::pin(self.get_identity())
    }

    fn follow(&self, start: FollowStart) -> LinkFuture<'_, LeaderConnection> {
        Box::pin(self.open_stream(start))
    }

    fn find_offer(&self, candidate: Uuid) -> LinkFuture<'_, Option<Vec<u8>>> {
        Box::pin(self.ask_for_offer(candidate))
    }

    fn take_host_updates(
        &self,
        updates: Vec<PostedUpdate>,
    ) -> LinkFuture<'_, Vec<Option<Receipt>>> {
        Box::pin(self.send_host_updates(updates))
    }
}

async fn send_to_leader(
    mut from_follower: mpsc::Receiver<ToLeader>,
    to_network: mpsc::Sender<proto::FromFollower>,
) {
    while let Some(message) = from_follower.recv().await {
        if to_network.send(message.into()).await.is_err() {
            return;
        }
    }
}

async fn receive_from_leader(
    mut from_network: Streaming<proto::FromLeader>,
    to_follower: mpsc::Sender<FromLeader>,
) -> Result<(), Status> {
    loop {
        let message = tokio::select! {
            message = from_network.message() => message?,
            () = to_follower.closed() => return Ok(()),
        };
        let Some(message) = message else {
            return Ok(());
        };
        if to_follower.send(message.into()).await.is_err() {
            return Ok(());
        }
    }
}

/// The gRPC service that exposes a replica to the other replicas.
pub(crate) struct ReplicaService {
    replica: Arc<dyn ReplicaLink>,
    authorizer: Authorizer,
}

impl ReplicaService {
    pub(crate) fn new(replica: Arc<dyn ReplicaLink>, authorizer: Authorizer) -> Self {
        Self {
            replica,
            authorizer,
        }
    }

    pub(crate) fn into_server(self) -> ReplicaServer<Self> {
        ReplicaServer::new(self).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }
}

/// The call that a caller of this service has to be authorized for, whichever method it calls.
fn join_replicas(cell: &str) -> Call<'_> {
    Call::JoinReplicas { cell }
}

#[tonic::async_trait]
impl Replica for ReplicaService {
    async fn identify(
        &self,
        request: Request<proto::IdentifyRequest>,
    ) -> Result<Response<proto::Identity>, Status> {
        self.authorizer.check(&request, join_replicas)?;
        let identity = self.replica.identify().await;
        let identity = identity.map_err(|error| status(&error))?;
        Ok(Response::new(identity.into()))
    }

    async fn find_offer(
        &self,
        request: Request<proto::FindOfferRequest>,
    ) -> Result<Response<proto::FindOfferResponse>, Status> {
        self.authorizer.check(&request, join_replicas)?;
        let candidate = Uuid::from_slice(&request.get_ref().candidate);
        let candidate =
            candidate.map_err(|_| Status::invalid_argument("candidate: not a UUID of 16 bytes"))?;
        let offer = self.replica.find_offer(candidate).await;
        let offer = offer.map_err(|error| status(&error))?;
        Ok(Response::new(proto::FindOfferResponse { offer }))
    }

    async fn take_host_updates(
        &self,
        request: Request<proto::HostUpdates>,
    ) -> Result<Response<proto::HostReceipts>, Status> {
        self.authorizer.check(&request, join_replicas)?;
        let updates = request.into_inner().updates;
        FieldPath::message("updates").check_count(updates.len(), HOST_UPDATES_MAX)?;
        let updates: Vec<Option<PostedUpdate>> =
            updates.into_iter().map(convert::posted_update).collect();
        let are_readable: Vec<bool> = updates.iter().map(Option::is_some).collect();
        let updates = updates.into_iter().flatten().collect();
        let taken = self.replica.take_host_updates(updates).await;
        let mut receipts = taken.map_err(|error| status(&error))?.into_iter();
        // The replica gives receipts only for the readable updates. Each of the others gets none, in its own place.
        let receipts = are_readable.into_iter().map(|is_readable| {
            let receipt = is_readable.then(|| receipts.next()).flatten().flatten();
            convert::receipt_to_proto(receipt).into()
        });
        let receipts = receipts.collect();
        Ok(Response::new(proto::HostReceipts { receipts }))
    }

    type FollowStream = ReceiverStream<Result<proto::FromLeader, Status>>;

    async fn follow(
        &self,
        request: Request<Streaming<proto::FromFollower>>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let holder = self.authorizer.check(&request, join_replicas)?;
        let (to_network, messages) = mpsc::channel(QUEUE_MESSAGES);
        let replica = Arc::clone(&self.replica);
        let serve = serve_stream(replica, request.into_inner(), holder, to_network);
        spawn_contained(ContainedWork::GrpcStream, serve);
        Ok(Response::new(ReceiverStream::new(messages)))
    }
}

/// Serves one follower until either side ends the stream.
async fn serve_stream(
    replica: Arc<dyn ReplicaLink>,
    from_network: Streaming<proto::FromFollower>,
    holder: Option<CertificateHolder>,
    to_network: mpsc::Sender<Result<proto::FromLeader, Status>>,
) {
    let ended = tokio::select! {
        ended = serve_follower(replica.as_ref(), from_network, &to_network) => ended,
        refused = CertificateHolder::until_refused(holder) => Err(refused),
    };
    if let Err(status) = ended {
        tracing::debug!(%status, "the stream of a follower was ended");
        // A closed channel means that the follower is gone.
        let _ = to_network.send(Err(status)).await;
    }
}

async fn serve_follower(
    replica: &dyn ReplicaLink,
    mut from_network: Streaming<proto::FromFollower>,
    to_network: &mpsc::Sender<Result<proto::FromLeader, Status>>,
) -> Result<(), Status> {
    let first_message = from_network.message().await?;
    let start = first_message.and_then(|message| message.start);
    let start = start.ok_or_else(|| Status::invalid_argument("start: the first message has it"))?;
    let start = FollowStart::from(start);
    start.check(FieldPath::message("start"))?;
    let connection = replica.follow(start).await;
    let LeaderConnection {
        to_leader,
        from_leader,
    } = connection.map_err(|error| status(&error))?;
    tokio::select! {
        ended = receive_from_follower(from_network, to_leader) => ended,
        () = send_to_follower(from_leader, to_network) => Ok(()),
    }
}

async fn receive_from_follower(
    mut from_network: Streaming<proto::FromFollower>,
    to_leader: mpsc::Sender<ToLeader>,
) -> Result<(), Status> {
    while let Some(message) = from_network.message().await? {
        let message = ToLeader::from(message);
        message.check(FieldPath::message("message"))?;
        if to_leader.send(message).await.is_err() {
            // This replica takes no more messages of the follower. `send_to_follower` still sends the message that says
            // why, and then ends the stream.
            return std::future::pending().await;
        }
    }
    Ok(())
}

async fn send_to_follower(
    mut from_leader: mpsc::Receiver<FromLeader>,
    to_network: &mpsc::Sender<Result<proto::FromLeader, Status>>,
) {
    while let Some(message) = from_leader.recv().await {
        if to_network.send(Ok(message.into())).await.is_err() {
            return;
        }
    }
}
