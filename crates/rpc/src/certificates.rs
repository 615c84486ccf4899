//! How roles get their certificates: from control, and through cells.

use std::path::Path;
use std::sync::Arc;

use placewright_errors::chain;
use placewright_identity::Call;
use placewright_link::{CertificateLink, Certified, Enrolment, LinkError, LinkFuture, Renewal};
use placewright_pki::invitation::Word;
use placewright_pki::{
    Credentials, Issued, KeyRequest, PkiError, REQUEST_BYTES_MAX, enrolled, holder, pinned_client,
};
use ring::digest::{SHA256, digest};
use rustls::pki_types::CertificateDer;
use thiserror::Error;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use crate::access::{Gate, remote_of};
use crate::channel::{ClientOptions, EndpointError, PeerChannel};
use crate::connector::Connector;
use crate::error::status;
use crate::proto::certificates as proto;
use crate::proto::certificates::certificates_client::CertificatesClient as Client;
use crate::proto::certificates::certificates_server::Certificates;
use crate::refusals;

/// The largest message of this service.
pub(crate) const CERTIFICATES_BYTES_MAX: usize = 4 << 20;
/// The largest certificate that is looked at.
const CERTIFICATE_BYTES_MAX: usize = 64 << 10;

/// A client of the authority: of control for cells, of a cell for agents.
#[derive(Clone, Debug)]
pub struct CertificatesClient {
    peer: PeerChannel,
    /// Whether it passes on what others ask.
    relays: bool,
}

impl CertificatesClient {
    /// Creates a client; it has to be called in a Tokio runtime. It connects when it is first used.
    /// `relays` says that it renews certificates of others, which only cells may.
    ///
    /// # Errors
    ///
    /// The address is not valid.
    pub fn new(options: ClientOptions, relays: bool) -> Result<Self, EndpointError> {
        let peer = PeerChannel::new("the authority", options)?;
        Ok(Self { peer, relays })
    }

    fn client(&self) -> Client<Channel> {
        Client::new(self.peer.channel()).max_decoding_message_size(CERTIFICATES_BYTES_MAX)
    }

    /// The revocation list, if it is another one than `known`.
    ///
    /// # Errors
    ///
    /// The server cannot be reached, or refuses.
    pub async fn revocations(&self, known: Option<&[u8]>) -> Result<Option<Vec<u8>>, LinkError> {
        let known = known.map(|list| digest(&SHA256, list).as_ref().to_vec());
        let request = proto::RevocationsRequest {
            known: known.unwrap_or_default(),
        };
        let ask = |mut to: Client<Channel>, request| async move { to.revocations(request).await };
        let answer = self.peer.call(&self.client(), &request, ask).await?;
        Ok((!answer.list.is_empty()).then_some(answer.list))
    }
}

impl CertificateLink for CertificatesClient {
    fn renew(&self, renewal: Renewal) -> LinkFuture<'_, Certified> {
        Box::pin(async move {
            let request = proto::RenewRequest {
                request: renewal.request,
                // A holder shows its certificate in the handshake.
                holder: if self.relays {
                    renewal.present
                } else {
                    Vec::new()
                },
            };
            let renew = |mut to: Client<Channel>, request| async move { to.renew(request).await };
            let answer = self.peer.call(&self.client(), &request, renew).await?;
            Ok(certified(answer))
        })
    }

    fn enrol(&self, enrolment: Enrolment) -> LinkFuture<'_, Certified> {
        Box::pin(async move {
            let request = proto::EnrolRequest {
                id: enrolment.id,
                secret: enrolment.secret,
                request: enrolment.request,
            };
            let enrol = |mut to: Client<Channel>, request| async move { to.enrol(request).await };
            let answer = self.peer.call(&self.client(), &request, enrol).await?;
            Ok(certified(answer))
        })
    }
}

fn certified(answer: proto::Certified) -> Certified {
    Certified {
        chain: answer.chain,
        authorities: answer.authorities,
        list: (!answer.list.is_empty()).then_some(answer.list),
    }
}

/// Why an enrolment failed.
#[derive(Debug, Error)]
pub enum EnrolError {
    /// The address of the server is not valid.
    #[error(transparent)]
    Address(#[from] EndpointError),
    /// The server cannot be reached, is not the one that the word is for, or refuses.
    #[error("the enrolment failed: {0}")]
    Link(#[from] LinkError),
    /// What it answered cannot be used, or cannot be written.
    #[error(transparent)]
    Pki(#[from] PkiError),
}

/// Uses a word: makes a key, has it certified by the server at `options.address`, and writes what a
/// holder needs into a folder. The word is said only to a server of the installation that it is for.
///
/// # Errors
///
/// See [`EnrolError`].
pub async fn enrol(word: &Word, options: ClientOptions, folder: &Path) -> Result<(), EnrolError> {
    let connector = Connector::New(pinned_client(word)?);
    let peer = PeerChannel::with_connector("the server", options, Some(connector))?;
    let client = CertificatesClient {
        peer,
        relays: false,
    };
    let request = KeyRequest::new()?;
    let enrolment = Enrolment {
        id: word.id.to_vec(),
        secret: word.secret.to_vec(),
        request: request.request.clone(),
    };
    let certified = client.enrol(enrolment).await?;
    let issued = issued(certified);
    let facts = enrolled(word, &issued)?;
    holder::write(folder, &request, &issued)?;
    tracing::info!(identity = %facts.identity, folder = %folder.display(), "enrolled");
    Ok(())
}

/// A certificate that was issued, as the holder's folder takes it.
#[must_use]
pub fn issued(certified: Certified) -> Issued {
    let all = |list: Vec<Vec<u8>>| list.into_iter().map(CertificateDer::from).collect();
    Issued {
        chain: all(certified.chain),
        authorities: all(certified.authorities),
        list: certified.list,
    }
}

/// The gRPC service that exposes the authority, or the way to it.
pub(crate) struct CertificatesService {
    pub(crate) authority: Arc<dyn CertificateLink>,
    pub(crate) credentials: Arc<Credentials>,
    pub(crate) gate: Gate,
}

impl CertificatesService {
    /// The certificate that a call is to renew: that of the caller, or one that a cell has seen.
    fn present(&self, request: &Request<proto::RenewRequest>) -> Result<Vec<u8>, Status> {
        let holder = self.gate.check(request, |_| Call::Renew)?;
        let remote = remote_of(request);
        let none = || refusals::unknown_caller(remote, &"there is no certificate to renew");
        let holder = holder.ok_or_else(none)?;
        let shown = &request.get_ref().holder;
        if shown.is_empty() {
            return Ok(holder.peer.certificate.to_vec());
        }
        if shown.len() > CERTIFICATE_BYTES_MAX {
            return Err(Status::invalid_argument("holder: it is too long"));
        }
        let current = self.credentials.current();
        let checked = current.check_client(&CertificateDer::from(shown.as_slice()));
        let facts = checked.map_err(|error| holder.refuse(&chain(&error)))?;
        holder.may(&Call::RenewFor {
            holder: &facts.identity,
        })?;
        Ok(shown.clone())
    }
}

#[tonic::async_trait]
impl Certificates for CertificatesService {
    async fn renew(
        &self,
        request: Request<proto::RenewRequest>,
    ) -> Result<Response<proto::Certified>, Status> {
        let present = self.present(&request)?;
        let request = bounded(request.into_inner().request)?;
        let renewed = self.authority.renew(Renewal { present, request }).await;
        answer(renewed)
    }

    async fn enrol(
        &self,
        request: Request<proto::EnrolRequest>,
    ) -> Result<Response<proto::Certified>, Status> {
        let remote = remote_of(&request);
        let asked = request.into_inner();
        let enrolment = Enrolment {
            id: bounded(asked.id)?,
            secret: bounded(asked.secret)?,
            request: bounded(asked.request)?,
        };
        match self.authority.enrol(enrolment).await {
            Err(LinkError::Refused { why, .. }) => Err(refusals::call(remote, &why)),
            other => answer(other),
        }
    }

    async fn revocations(
        &self,
        request: Request<proto::RevocationsRequest>,
    ) -> Result<Response<proto::RevocationList>, Status> {
        self.gate.check(&request, |_| Call::Renew)?;
        let current = self.credentials.current();
        let list = current.list.as_deref().unwrap_or_default();
        let is_known = digest(&SHA256, list).as_ref() == request.get_ref().known.as_slice();
        let list = if is_known { Vec::new() } else { list.to_vec() };
        Ok(Response::new(proto::RevocationList { list }))
    }
}

fn bounded(bytes: Vec<u8>) -> Result<Vec<u8>, Status> {
    if bytes.len() > REQUEST_BYTES_MAX {
        return Err(Status::invalid_argument(format!(
            "{} bytes, and at most {REQUEST_BYTES_MAX} are allowed",
            bytes.len()
        )));
    }
    Ok(bytes)
}

fn answer(certified: Result<Certified, LinkError>) -> Result<Response<proto::Certified>, Status> {
    let certified = certified.map_err(|error| match error {
        LinkError::Refused { why, .. } => Status::permission_denied(why),
        other => status(&other),
    })?;
    Ok(Response::new(proto::Certified {
        chain: certified.chain,
        authorities: certified.authorities,
        list: certified.list.unwrap_or_default(),
    }))
}
