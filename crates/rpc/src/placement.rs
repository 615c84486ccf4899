//! The link between cells and placement, over gRPC.

use std::sync::Arc;

use placewright_conductor::{Answer, Ask};
use placewright_link::{Coming, LinkError, PlacementLink};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use crate::channel::{ClientOptions, EndpointError, MESSAGE_BYTES_MAX, Peer};
use crate::error::status;
use crate::payload::{pack, pack_for, parts, unpack, unpack_from};
use crate::proto::cell::Payload;
use crate::proto::cell::placement_client::PlacementClient as Client;
use crate::proto::cell::placement_server::Placement;

/// A client of placement, for cells.
#[derive(Clone, Debug)]
pub struct PlacementClient {
    peer: Peer,
}

impl PlacementClient {
    /// Creates a client; it has to be called in a Tokio runtime. It connects when it is first used.
    ///
    /// # Errors
    ///
    /// The address is not valid.
    pub fn new(options: ClientOptions) -> Result<Self, EndpointError> {
        let peer = Peer::new("placement", options)?;
        Ok(Self { peer })
    }

    async fn ask_some(&self, asks: Vec<Ask>) -> Result<Vec<Answer>, LinkError> {
        let peer = &self.peer;
        let count = asks.len();
        let payload = pack_for(&peer.name, &asks)?;
        let client = Client::new(peer.channel.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let ask = |mut to: Client<Channel>, request| async move { to.ask(request).await };
        let answer = peer.call(&client, &payload, ask).await?;
        let answers: Vec<Answer> = unpack_from(&peer.name, "answers", &answer)?;
        if answers.len() != count {
            return Err(LinkError::Refused {
                peer: peer.name.clone(),
                why: format!("it gave {} answers to {count} asks", answers.len()),
            });
        }
        Ok(answers)
    }
}

impl PlacementLink for PlacementClient {
    fn ask(&self, asks: Vec<Ask>) -> Coming<'_, Vec<Answer>> {
        Box::pin(async move {
            let mut answers = Vec::with_capacity(asks.len());
            for part in parts(asks) {
                answers.append(&mut self.ask_some(part).await?);
            }
            Ok(answers)
        })
    }
}

/// The gRPC service that exposes placement to cells.
pub(crate) struct PlacementService(pub(crate) Arc<dyn PlacementLink>);

#[tonic::async_trait]
impl Placement for PlacementService {
    async fn ask(&self, request: Request<Payload>) -> Result<Response<Payload>, Status> {
        let asks: Vec<Ask> = unpack("asks", request.get_ref())?;
        let answers = self.0.ask(asks).await.map_err(|error| status(&error))?;
        Ok(Response::new(pack(&answers)?))
    }
}
