//! The service by which roles get certificates: control has the authority, cells forward calls to it.

use std::path::Path;
use std::sync::Arc;

use placewright_errors::chain;
use placewright_identity::Call;
use placewright_link::{CertificateLink, Certified, Enrolment, LinkError, LinkFuture, Renewal};
use placewright_pki::holder::WritableFolder;
use placewright_pki::invitation::Word;
use placewright_pki::{
    Credentials, Issued, KeyRequest, PkiError, SIGNING_REQUEST_BYTES_MAX, check_enrolment,
    pinned_client,
};
use ring::digest::{SHA256, digest};
use rustls::pki_types::CertificateDer;
use thiserror::Error;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use crate::access::{Authorizer, remote_of};
use crate::addresses::Addresses;
use crate::channel::{ClientOptions, EndpointError, PeerChannel};
use crate::connector::Connector;
use crate::error::status;
use crate::proto::certificates as proto;
use crate::proto::certificates::certificates_client::CertificatesClient as Client;
use crate::proto::certificates::certificates_server::Certificates;
use crate::refusals;

/// The largest message of this service.
pub(crate) const CERTIFICATES_MESSAGE_BYTES_MAX: usize = 4 << 20;
/// The largest certificate that is parsed.
const CERTIFICATE_BYTES_MAX: usize = 64 << 10;

/// A client of the authority: of control for cells, of a cell for agents.
#[derive(Clone, Debug)]
pub struct CertificatesClient {
    replicas: Addresses<PeerChannel>,
    /// Whether this client forwards the renewals of other holders, which only cells may do.
    forwards_renewals: bool,
}

impl CertificatesClient {
    /// Creates a client that renews its own certificate. It has to be called in a Tokio runtime. The client
    /// connects when it is first used.
    ///
    /// # Errors
    ///
    /// An address is not valid.
    pub fn new(options: ClientOptions) -> Result<Self, EndpointError> {
        let channels = PeerChannel::to_all("the authority", &options)?;
        Ok(Self {
            replicas: Addresses::new(channels, |channel| channel),
            forwards_renewals: false,
        })
    }

    /// Makes the client forward the renewals of other holders, which only cells may do.
    #[must_use]
    pub fn forwarding_renewals(self) -> Self {
        Self {
            forwards_renewals: true,
            ..self
        }
    }

    /// Makes a call to whichever of the servers answers.
    async fn call<B: Clone, T, F>(
        &self,
        body: &B,
        send: impl Fn(Client<Channel>, Request<B>) -> F,
    ) -> Result<T, LinkError>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let send = &send;
        let call = |peer: Arc<PeerChannel>| async move {
            let client = Client::new(peer.channel());
            let client = client.max_decoding_message_size(CERTIFICATES_MESSAGE_BYTES_MAX);
            peer.call(&client, body, send).await
        };
        self.replicas.call_any(call).await
    }

    /// Fetches the revocation list; `None` if `known_list` is the current one.
    ///
    /// # Errors
    ///
    /// The server cannot be reached, or refuses.
    pub async fn revocations(
        &self,
        known_list: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>, LinkError> {
        let known_digest = known_list.map(|list| digest(&SHA256, list).as_ref().to_vec());
        let request = proto::RevocationsRequest {
            known: known_digest.unwrap_or_default(),
        };
        let fetch =
            |mut client: Client<Channel>, request| async move { client.revocations(request).await };
        let response = self.call(&request, fetch).await?;
        Ok((!response.list.is_empty()).then_some(response.list))
    }
}

impl CertificateLink for CertificatesClient {
    fn renew(&self, renewal: Renewal) -> LinkFuture<'_, Certified> {
        Box::pin(async move {
            let message = proto::RenewRequest {
                request: renewal.signing_request,
                // Empty for the certificate of the caller itself, which is known from the handshake.
                holder: if self.forwards_renewals {
                    renewal.present_certificate
                } else {
                    Vec::new()
                },
            };
            let renew =
                |mut client: Client<Channel>, request| async move { client.renew(request).await };
            let response = self.call(&message, renew).await?;
            Ok(certified(response))
        })
    }

    fn enrol(&self, enrolment: Enrolment) -> LinkFuture<'_, Certified> {
        Box::pin(async move {
            let message = proto::EnrolRequest {
                id: enrolment.id,
                secret: enrolment.secret,
                request: enrolment.signing_request,
            };
            let enrol =
                |mut client: Client<Channel>, request| async move { client.enrol(request).await };
            let response = self.call(&message, enrol).await?;
            Ok(certified(response))
        })
    }
}

fn certified(response: proto::Certified) -> Certified {
    Certified {
        chain: response.chain,
        authorities: response.authorities,
        revocation_list: (!response.list.is_empty()).then_some(response.list),
    }
}

/// Why an enrolment failed.
#[derive(Debug, Error)]
pub enum EnrolError {
    /// The address of the server is not valid.
    #[error(transparent)]
    Address(#[from] EndpointError),
    /// The server cannot be reached, is not the one that the invitation is for, or refuses.
    #[error("the enrolment failed: {0}")]
    Link(#[from] LinkError),
    /// The certificate that the server issued is not valid, or cannot be written to disk.
    #[error(transparent)]
    Pki(#[from] PkiError),
}

/// Uses the word of an invitation: makes a key, gets a certificate for it from the server at `options.address`, or one
/// of several, and writes key and certificate into a folder. The word is sent only to a server of the installation that
/// issued it.
///
/// # Errors
///
/// See [`EnrolError`].
pub async fn enrol(word: &Word, options: ClientOptions, path: &Path) -> Result<(), EnrolError> {
    let connector = Connector::Unenrolled(pinned_client(word)?);
    let connector = || Some(connector.clone());
    let channels = PeerChannel::to_all_with("the server", &options, connector)?;
    let client = CertificatesClient {
        replicas: Addresses::new(channels, |channel| channel),
        forwards_renewals: false,
    };
    // The word can be used only once, so whether the folder can be written is checked first.
    let folder = WritableFolder::of(path)?;
    let key_request = KeyRequest::new()?;
    let enrolment = Enrolment {
        id: word.id.to_vec(),
        secret: word.secret.to_vec(),
        signing_request: key_request.request.clone(),
    };
    let certified = client.enrol(enrolment).await?;
    let issued = to_issued(certified);
    let facts = check_enrolment(word, &issued)?;
    folder.write(&key_request, &issued)?;
    tracing::info!(identity = %facts.identity, folder = %path.display(), "enrolled");
    Ok(())
}

/// Converts an issued certificate to the type that `placewright_pki` writes.
#[must_use]
pub fn to_issued(certified: Certified) -> Issued {
    let certificates = |list: Vec<Vec<u8>>| list.into_iter().map(CertificateDer::from).collect();
    Issued {
        chain: certificates(certified.chain),
        authorities: certificates(certified.authorities),
        revocation_list: certified.revocation_list,
    }
}

/// The gRPC service that exposes the authority, in a cell through a link to control.
pub(crate) struct CertificatesService {
    pub(crate) authority: Arc<dyn CertificateLink>,
    pub(crate) credentials: Arc<Credentials>,
    pub(crate) authorizer: Authorizer,
}

impl CertificatesService {
    /// The certificate to renew: that of the caller or, for a cell that forwards, the one in the request.
    fn certificate_to_renew(
        &self,
        request: &Request<proto::RenewRequest>,
    ) -> Result<Vec<u8>, Status> {
        let caller = self.authorizer.check(request, |_| Call::RenewCertificate)?;
        let remote = remote_of(request);
        let no_certificate =
            || refusals::refuse_unauthenticated(remote, &"there is no certificate to renew");
        let caller = caller.ok_or_else(no_certificate)?;
        // The certificate of an agent that its cell forwards.
        let forwarded = &request.get_ref().holder;
        if forwarded.is_empty() {
            return Ok(caller.peer.certificate.to_vec());
        }
        if forwarded.len() > CERTIFICATE_BYTES_MAX {
            return Err(Status::invalid_argument("holder: it is too long"));
        }
        let current = self.credentials.current();
        let checked = current.check_client(&CertificateDer::from(forwarded.as_slice()));
        let facts = checked.map_err(|error| caller.refuse(&chain(&error)))?;
        caller.check(&Call::RenewAgentCertificate {
            holder: &facts.identity,
        })?;
        Ok(forwarded.clone())
    }
}

#[tonic::async_trait]
impl Certificates for CertificatesService {
    async fn renew(
        &self,
        request: Request<proto::RenewRequest>,
    ) -> Result<Response<proto::Certified>, Status> {
        let present_certificate = self.certificate_to_renew(&request)?;
        let signing_request = within_limit(request.into_inner().request)?;
        let renewal = Renewal {
            present_certificate,
            signing_request,
        };
        response_of(self.authority.renew(renewal).await)
    }

    async fn enrol(
        &self,
        request: Request<proto::EnrolRequest>,
    ) -> Result<Response<proto::Certified>, Status> {
        let remote = remote_of(&request);
        let enrol_request = request.into_inner();
        let enrolment = Enrolment {
            id: within_limit(enrol_request.id)?,
            secret: within_limit(enrol_request.secret)?,
            signing_request: within_limit(enrol_request.request)?,
        };
        match self.authority.enrol(enrolment).await {
            // Somebody may be guessing words, so the refusal is logged and goes to the audit log.
            Err(LinkError::Refused { why, .. }) => Err(refusals::refuse_call(remote, &why)),
            other => response_of(other),
        }
    }

    async fn revocations(
        &self,
        request: Request<proto::RevocationsRequest>,
    ) -> Result<Response<proto::RevocationList>, Status> {
        // Every role may renew its own certificate, and every caller with that right may have the list.
        self.authorizer
            .check(&request, |_| Call::RenewCertificate)?;
        let current = self.credentials.current();
        let list = current.revocation_list.as_deref().unwrap_or_default();
        let is_known = digest(&SHA256, list).as_ref() == request.get_ref().known.as_slice();
        let list = if is_known { Vec::new() } else { list.to_vec() };
        Ok(Response::new(proto::RevocationList { list }))
    }
}

/// Returns a field of a request, unless the field is too long. All fields have the limit of a signing request, which is
/// the longest of them.
fn within_limit(bytes: Vec<u8>) -> Result<Vec<u8>, Status> {
    if bytes.len() > SIGNING_REQUEST_BYTES_MAX {
        return Err(Status::invalid_argument(format!(
            "{} bytes, and at most {SIGNING_REQUEST_BYTES_MAX} are allowed",
            bytes.len()
        )));
    }
    Ok(bytes)
}

fn response_of(
    certified: Result<Certified, LinkError>,
) -> Result<Response<proto::Certified>, Status> {
    let certified = certified.map_err(|error| match error {
        LinkError::Refused { why, .. } => Status::permission_denied(why),
        other => status(&other),
    })?;
    Ok(Response::new(proto::Certified {
        chain: certified.chain,
        authorities: certified.authorities,
        list: certified.revocation_list.unwrap_or_default(),
    }))
}
