//! The link between control and a cell, over gRPC.

use std::sync::Arc;

use placewright_conductor::message::Envelope;
use placewright_conductor::{Action, CellId, InstanceId, Reply};
use placewright_link::{Act, CellLink, CellNews, Coming, LinkError};
use placewright_tasks::{Contained, spawn_contained};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use uuid::Uuid;

use crate::PAYLOAD_VERSION;
use crate::channel::{ClientOptions, EndpointError, MESSAGE_BYTES_MAX, Peer};
use crate::error::{link_error, status};
use crate::payload::{pack, pack_for, parts, refused, unpack, unpack_from, unpack_good};
use crate::proto::cell::cell_client::CellClient as Client;
use crate::proto::cell::cell_server::Cell;
use crate::proto::cell::{IdentifyRequest, Identity, Payload};

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
    peer: Peer,
}

impl CellClient {
    /// Creates a client; it has to be called in a Tokio runtime. It connects when it is first used.
    ///
    /// # Errors
    ///
    /// The address is not valid.
    pub fn new(options: ClientOptions) -> Result<Self, EndpointError> {
        let peer = Peer::new("the cell", options)?;
        Ok(Self { peer })
    }

    fn client(&self) -> Connected {
        Client::new(self.peer.channel.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    fn refused(&self, why: String) -> LinkError {
        LinkError::Refused {
            peer: self.peer.name.clone(),
            why,
        }
    }

    async fn deliver_some(&self, messages: Vec<Envelope>) -> Result<Vec<Reply>, LinkError> {
        let (peer, count) = (&self.peer, messages.len());
        let payload = pack_for(&peer.name, &messages)?;
        let deliver = |mut to: Connected, request| async move { to.deliver(request).await };
        let answer = peer.call(&self.client(), &payload, deliver).await?;
        let replies: Vec<Reply> = unpack_from(&peer.name, "replies", &answer)?;
        if replies.len() != count {
            return Err(self.refused(format!(
                "it gave {} replies to {count} messages",
                replies.len()
            )));
        }
        Ok(replies)
    }
}

impl CellLink for CellClient {
    fn cell(&self) -> Coming<'_, CellId> {
        Box::pin(async {
            let identify = |mut to: Connected, request| async move { to.identify(request).await };
            let asked = IdentifyRequest {};
            let identity = self.peer.call(&self.client(), &asked, identify).await?;
            if identity.version != PAYLOAD_VERSION {
                return Err(self.refused(format!(
                    "it speaks version {} of the protocol, this release {PAYLOAD_VERSION}",
                    identity.version
                )));
            }
            let uuid = Uuid::parse_str(&identity.cell);
            let uuid = uuid.map_err(|_| self.refused("it does not say its UUID".into()))?;
            Ok(CellId(uuid))
        })
    }

    fn deliver(&self, messages: Vec<Envelope>) -> Coming<'_, Vec<Reply>> {
        Box::pin(async move {
            let mut replies = Vec::with_capacity(messages.len());
            for part in parts(messages) {
                replies.append(&mut self.deliver_some(part).await?);
            }
            Ok(replies)
        })
    }

    fn act(&self, act: Act) -> Coming<'_, Reply> {
        Box::pin(async move {
            let peer = &self.peer;
            let payload = pack_for(&peer.name, &act)?;
            let act = |mut to: Connected, request| async move { to.act(request).await };
            let answer = peer.call(&self.client(), &payload, act).await?;
            unpack_from(&peer.name, "reply", &answer)
        })
    }

    fn actions(&self, instance: InstanceId) -> Coming<'_, Vec<Action>> {
        Box::pin(async move {
            let peer = &self.peer;
            let payload = pack_for(&peer.name, &instance)?;
            let actions = |mut to: Connected, request| async move { to.actions(request).await };
            let answer = peer.call(&self.client(), &payload, actions).await?;
            unpack_from(&peer.name, "actions", &answer)
        })
    }

    fn follow(&self) -> Coming<'_, mpsc::Receiver<CellNews>> {
        Box::pin(async {
            let peer = &self.peer;
            let payload = pack_for(&peer.name, &())?;
            let follow = |mut to: Connected, request| async move { to.follow(request).await };
            let news = peer.call(&self.client(), &payload, follow).await?;
            let (to, from) = mpsc::channel(NEWS_WAITING);
            spawn_contained(Contained::GrpcStream, receive(peer.clone(), news, to));
            Ok(from)
        })
    }
}

/// Forwards a cell's events until the stream ends, or nothing arrives within the time-out.
async fn receive(peer: Peer, mut news: Streaming<Payload>, to: mpsc::Sender<CellNews>) {
    loop {
        let next = tokio::time::timeout(peer.options.silence_timeout, news.message());
        let next = tokio::select! {
            next = next => next,
            () = to.closed() => return,
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
        let batch: Vec<CellNews> = match unpack_good("news", &payload) {
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
pub(crate) struct CellService(pub(crate) Arc<dyn CellLink>);

#[tonic::async_trait]
impl Cell for CellService {
    async fn identify(&self, _: Request<IdentifyRequest>) -> Result<Response<Identity>, Status> {
        let cell = self.0.cell().await.map_err(|error| status(&error))?;
        Ok(Response::new(Identity {
            cell: cell.to_string(),
            version: PAYLOAD_VERSION,
        }))
    }

    async fn deliver(&self, request: Request<Payload>) -> Result<Response<Payload>, Status> {
        let messages: Vec<Envelope> = unpack("messages", request.get_ref())?;
        let replies = self.0.deliver(messages).await;
        let replies = replies.map_err(|error| status(&error))?;
        Ok(Response::new(pack(&replies)?))
    }

    async fn act(&self, request: Request<Payload>) -> Result<Response<Payload>, Status> {
        let act: Act = unpack("act", request.get_ref())?;
        let reply = self.0.act(act).await.map_err(|error| status(&error))?;
        Ok(Response::new(pack(&reply)?))
    }

    async fn actions(&self, request: Request<Payload>) -> Result<Response<Payload>, Status> {
        let instance: InstanceId = unpack("instance", request.get_ref())?;
        let actions = self.0.actions(instance).await;
        let actions = actions.map_err(|error| status(&error))?;
        Ok(Response::new(pack(&actions)?))
    }

    type FollowStream = ReceiverStream<Result<Payload, Status>>;

    async fn follow(
        &self,
        request: Request<Payload>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let () = unpack("follow", request.get_ref())?;
        let news = self.0.follow().await.map_err(|error| status(&error))?;
        let (to, from) = mpsc::channel(MESSAGES_WAITING);
        spawn_contained(Contained::GrpcStream, send(news, to));
        Ok(Response::new(ReceiverStream::new(from)))
    }
}

/// Sends events until the cell's stream ends or the subscriber goes away.
async fn send(mut news: mpsc::Receiver<CellNews>, to: mpsc::Sender<Result<Payload, Status>>) {
    let mut some = Vec::with_capacity(NEWS_AT_ONCE);
    loop {
        let taken = tokio::select! {
            taken = news.recv_many(&mut some, NEWS_AT_ONCE) => taken,
            () = to.closed() => return,
        };
        if taken == 0 {
            return;
        }
        for part in parts(std::mem::take(&mut some)) {
            if to.send(pack(&part)).await.is_err() {
                return;
            }
        }
    }
}
