//! The link between cells and placement, over gRPC.

use std::sync::Arc;

use placewright_conductor::{ClaimRequest, ClaimResponse};
use placewright_identity::Call;
use placewright_link::{LinkError, LinkFuture, PlacementLink};
use placewright_records::message::Versions;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

use crate::access::Gate;
use crate::channel::{ClientOptions, EndpointError, MESSAGE_BYTES_MAX, PeerChannel};
use crate::error::{link_error, status};
use crate::payload::{pack, pack_parts, unpack, unpack_from};
use crate::proto::cell::placement_client::PlacementClient as Client;
use crate::proto::cell::placement_server::Placement;
use crate::proto::cell::{IdentifyRequest, Identity, Payload};
use crate::versions::{Agreed, first_identity, identity};

/// A client of placement, for cells.
#[derive(Clone, Debug)]
pub struct PlacementClient {
    peer: PeerChannel,
    agreed: Agreed,
}

impl PlacementClient {
    /// Creates a client; it has to be called in a Tokio runtime. It connects when it is first used.
    ///
    /// # Errors
    ///
    /// The address is not valid.
    pub fn new(options: ClientOptions) -> Result<Self, EndpointError> {
        Ok(Self {
            peer: PeerChannel::new("placement", options)?,
            agreed: Agreed::default(),
        })
    }

    fn client(&self) -> Client<Channel> {
        Client::new(self.peer.channel()).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// The version that is spoken with placement; on the first call they agree on it.
    async fn version(&self) -> Result<u32, LinkError> {
        if let Some(version) = self.agreed.version() {
            return Ok(version);
        }
        let peer = &self.peer;
        let identify = |mut to: Client<Channel>, request| async move {
            match to.identify(request).await {
                Err(status) if status.code() == Code::Unimplemented => {
                    Ok(Response::new(first_identity()))
                }
                answered => answered,
            }
        };
        let asked = IdentifyRequest {};
        let identity = peer.call(&self.client(), &asked, identify).await?;
        self.agreed
            .agree(peer.options.versions, &peer.name, &identity)
    }

    async fn ask_all(&self, asks: &[ClaimRequest]) -> Result<Vec<ClaimResponse>, LinkError> {
        let peer = &self.peer;
        let mut answers = Vec::with_capacity(asks.len());
        let parts = pack_parts(self.version().await?, asks);
        for (count, payload) in parts.map_err(|status| link_error(&peer.name, &status))? {
            let ask = |mut to: Client<Channel>, request| async move { to.ask(request).await };
            let answer = peer.call(&self.client(), &payload, ask).await?;
            let versions = peer.options.versions;
            let mut some: Vec<ClaimResponse> =
                unpack_from(versions, &peer.name, "answers", &answer)?;
            if some.len() != count {
                return Err(LinkError::Refused {
                    peer: peer.name.clone(),
                    why: format!("it gave {} answers to {count} asks", some.len()),
                });
            }
            answers.append(&mut some);
        }
        Ok(answers)
    }
}

impl PlacementLink for PlacementClient {
    fn ask(&self, asks: Vec<ClaimRequest>) -> LinkFuture<'_, Vec<ClaimResponse>> {
        Box::pin(async move { self.agreed.checked(self.ask_all(&asks).await) })
    }
}

/// The gRPC service that exposes placement to cells.
pub(crate) struct PlacementService {
    pub(crate) placement: Arc<dyn PlacementLink>,
    pub(crate) versions: Versions,
    pub(crate) gate: Gate,
}

#[tonic::async_trait]
impl Placement for PlacementService {
    async fn identify(
        &self,
        request: Request<IdentifyRequest>,
    ) -> Result<Response<Identity>, Status> {
        self.gate.check(&request, |_| Call::Ask)?;
        Ok(Response::new(identity(self.versions, String::new())))
    }

    async fn ask(&self, request: Request<Payload>) -> Result<Response<Payload>, Status> {
        let holder = self.gate.check(&request, |_| Call::Ask)?;
        let payload = request.get_ref();
        let asks: Vec<ClaimRequest> = unpack(self.versions, "asks", payload)?;
        if let Some(holder) = holder {
            let own = self.placement.check(holder.cell(), &asks);
            own.map_err(|why| holder.refuse(&why))?;
        }
        let answers = self.placement.ask(asks).await;
        let answers = answers.map_err(|error| status(&error))?;
        Ok(Response::new(pack(payload.version, &answers)?))
    }
}
