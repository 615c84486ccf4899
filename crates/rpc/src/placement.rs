//! The link between cells and placement, over gRPC.

use std::sync::Arc;

use placewright_conductor::{ClaimRequest, ClaimResponse};
use placewright_identity::Call;
use placewright_link::{LinkError, LinkFuture, PlacementLink};
use placewright_records::message::Versions;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

use crate::access::Authorizer;
use crate::addresses::{Addresses, Replica};
use crate::channel::{ClientOptions, EndpointError, MESSAGE_BYTES_MAX, PeerChannel};
use crate::error::{link_error, status};
use crate::payload::{pack, pack_parts, unpack, unpack_from};
use crate::proto::cell::placement_client::PlacementClient as Client;
use crate::proto::cell::placement_server::Placement;
use crate::proto::cell::{IdentifyRequest, Identity, Payload};
use crate::versions::{AgreedVersion, first_identity, identity};

/// A client of placement, for cells. Of several replicas of control it takes one that answers.
#[derive(Clone, Debug)]
pub struct PlacementClient {
    replicas: Addresses<PlacementReplica>,
}

impl PlacementClient {
    /// Creates a client; it has to be called in a Tokio runtime. It connects when it is first used.
    ///
    /// # Errors
    ///
    /// An address is not valid.
    pub fn new(options: ClientOptions) -> Result<Self, EndpointError> {
        let channels = PeerChannel::to_all("placement", &options)?;
        let replicas = Addresses::new(channels, |peer| PlacementReplica {
            peer,
            agreed_version: AgreedVersion::default(),
        });
        Ok(Self { replicas })
    }
}

/// A client of one process of control.
#[derive(Debug)]
struct PlacementReplica {
    peer: PeerChannel,
    agreed_version: AgreedVersion,
}

impl Replica for PlacementReplica {
    fn peer(&self) -> &PeerChannel {
        &self.peer
    }
}

impl PlacementReplica {
    fn client(&self) -> Client<Channel> {
        Client::new(self.peer.channel()).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// The version to use with placement. The first call agrees on it.
    async fn version(&self) -> Result<u32, LinkError> {
        if let Some(version) = self.agreed_version.version() {
            return Ok(version);
        }
        let peer = &self.peer;
        let identify = |mut client: Client<Channel>, request| async move {
            match client.identify(request).await {
                Err(status) if status.code() == Code::Unimplemented => {
                    Ok(Response::new(first_identity()))
                }
                result => result,
            }
        };
        let request = IdentifyRequest {};
        let identity = peer.call(&self.client(), &request, identify).await?;
        self.agreed_version
            .agree(peer.options.versions, &peer.name, &identity)
    }

    async fn request_all(
        &self,
        requests: &[ClaimRequest],
    ) -> Result<Vec<ClaimResponse>, LinkError> {
        let peer = &self.peer;
        let mut responses = Vec::with_capacity(requests.len());
        let parts = pack_parts(self.version().await?, requests);
        for (request_count, payload) in parts.map_err(|status| link_error(&peer.name, &status))? {
            let ask =
                |mut client: Client<Channel>, request| async move { client.ask(request).await };
            let response = peer.call(&self.client(), &payload, ask).await?;
            let versions = peer.options.versions;
            let mut part: Vec<ClaimResponse> =
                unpack_from(versions, &peer.name, "answers", &response)?;
            if part.len() != request_count {
                return Err(LinkError::Refused {
                    peer: peer.name.clone(),
                    why: format!("it gave {} answers to {request_count} asks", part.len()),
                });
            }
            responses.append(&mut part);
        }
        Ok(responses)
    }
}

impl PlacementLink for PlacementClient {
    fn request_claims(&self, requests: Vec<ClaimRequest>) -> LinkFuture<'_, Vec<ClaimResponse>> {
        Box::pin(async move {
            let requests = requests.as_slice();
            let request = |replica: Arc<PlacementReplica>| async move {
                let requested = replica.request_all(requests).await;
                replica.agreed_version.reset_on_error(requested)
            };
            self.replicas.call_any(request).await
        })
    }
}

/// The gRPC service that exposes placement to cells.
pub(crate) struct PlacementService {
    pub(crate) placement: Arc<dyn PlacementLink>,
    pub(crate) versions: Versions,
    pub(crate) authorizer: Authorizer,
}

#[tonic::async_trait]
impl Placement for PlacementService {
    async fn identify(
        &self,
        request: Request<IdentifyRequest>,
    ) -> Result<Response<Identity>, Status> {
        self.authorizer.check(&request, |_| Call::RequestClaims)?;
        Ok(Response::new(identity(self.versions, String::new())))
    }

    async fn ask(&self, request: Request<Payload>) -> Result<Response<Payload>, Status> {
        let holder = self.authorizer.check(&request, |_| Call::RequestClaims)?;
        let payload = request.get_ref();
        let requests: Vec<ClaimRequest> = unpack(self.versions, "asks", payload)?;
        if let Some(holder) = holder {
            // `authorize` looks at the state of this replica, which may be behind those of others.
            let caught_up = self.placement.catch_up().await;
            caught_up.map_err(|error| status(&error))?;
            let allowed = self.placement.authorize(holder.cell(), &requests);
            allowed.map_err(|why| holder.refuse(&why))?;
        }
        let responses = self.placement.request_claims(requests).await;
        let responses = responses.map_err(|error| status(&error))?;
        Ok(Response::new(pack(payload.version, &responses)?))
    }
}
