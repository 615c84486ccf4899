//! Authentication of callers, and authorization of their calls.

use std::net::SocketAddr;
use std::sync::Arc;

use placewright_identity::Call;
use placewright_pki::Credentials;
use tonic::service::Interceptor;
use tonic::{Request, Status};

use crate::connection::{Caller, PeerCertificate};
use crate::peer::Peer;
use crate::refusals;
use crate::token::Token;

/// How the caller of a call was authenticated.
#[derive(Clone, Debug)]
pub(crate) enum CallerIdentity {
    /// Without TLS, by the shared token if there is one. Such a caller may make every call.
    Trusted,
    /// By the certificate that was verified in the TLS handshake.
    Certificate(Arc<Peer>),
    /// Not authenticated: the caller has no certificate yet.
    Unenrolled,
}

/// Authenticates the caller of each call before the call is decoded.
#[derive(Clone, Debug)]
pub(crate) struct AuthInterceptor {
    pub(crate) token: Option<Token>,
    pub(crate) credentials: Option<Arc<Credentials>>,
    /// Whether callers without a certificate may call this service.
    pub(crate) admits_unenrolled: bool,
}

impl AuthInterceptor {
    fn caller_identity(&self, request: &Request<()>) -> Result<CallerIdentity, Status> {
        let caller = request.extensions().get::<Caller>();
        let remote = caller.map(Caller::remote);
        let certificate = caller.map_or(&PeerCertificate::NoTls, Caller::certificate);
        match (certificate, &self.credentials) {
            (PeerCertificate::Certificate(peer), Some(own_credentials)) => {
                peer.check(own_credentials)
                    .map_err(|reason| refusals::refuse_unauthenticated(remote, &reason))?;
                Ok(CallerIdentity::Certificate(Arc::clone(peer)))
            }
            (PeerCertificate::Missing, Some(_)) if self.admits_unenrolled => {
                Ok(CallerIdentity::Unenrolled)
            }
            (PeerCertificate::Missing | PeerCertificate::Certificate(_), _) => {
                Err(refusals::refuse_unauthenticated(
                    remote,
                    &"there is no certificate: callers need one of this installation",
                ))
            }
            (PeerCertificate::NoTls, own_credentials) => {
                let is_trusted = match &self.token {
                    Some(token) => token.is_in(request.metadata()),
                    // Without a token and without certificates a server trusts every caller.
                    None => own_credentials.is_none(),
                };
                if !is_trusted {
                    return Err(refusals::refuse_unauthenticated(
                        remote,
                        &"the token is missing or wrong: both sides need the same",
                    ));
                }
                Ok(CallerIdentity::Trusted)
            }
        }
    }
}

impl Interceptor for AuthInterceptor {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let caller_identity = self.caller_identity(&request)?;
        if !matches!(caller_identity, CallerIdentity::Unenrolled)
            && let Some(caller) = request.extensions().get::<Caller>()
        {
            caller.set_authenticated();
        }
        request.extensions_mut().insert(caller_identity);
        Ok(request)
    }
}

/// Checks each call of a service against the names in its caller's certificate.
#[derive(Clone, Debug)]
pub(crate) struct Authorizer {
    /// The credentials of this server, if its connections have TLS.
    pub(crate) own_credentials: Option<Arc<Credentials>>,
}

impl Authorizer {
    /// Checks that the caller may make a call. Returns the caller if it has a certificate, `None` if it
    /// may make every call. `call` describes the call; its argument is the name of this server's cell.
    pub(crate) fn check<T>(
        &self,
        request: &Request<T>,
        call: impl for<'a> FnOnce(&'a str) -> Call<'a>,
    ) -> Result<Option<CertificateHolder>, Status> {
        let remote = remote_of(request);
        let (peer, own_credentials) = match (
            request.extensions().get::<CallerIdentity>(),
            &self.own_credentials,
        ) {
            (Some(CallerIdentity::Certificate(peer)), Some(own_credentials)) => {
                (peer, own_credentials)
            }
            // A call without an identity did not pass the interceptor that authenticates. Only a server without TLS
            // accepts it.
            (Some(CallerIdentity::Trusted), _) | (None, None) => return Ok(None),
            _ => {
                return Err(refusals::refuse_unauthenticated(
                    remote,
                    &"there is no certificate",
                ));
            }
        };
        let holder = CertificateHolder {
            peer: Arc::clone(peer),
            own_credentials: Arc::clone(own_credentials),
        };
        let current = own_credentials.current();
        holder.check(&call(current.identity().cell().unwrap_or_default()))?;
        Ok(Some(holder))
    }
}

/// The address of a caller; none if the request did not come over a connection of this server.
pub(crate) fn remote_of<T>(request: &Request<T>) -> Option<SocketAddr> {
    request.extensions().get::<Caller>().map(Caller::remote)
}

/// A caller with a certificate, and the credentials of the role that is called.
#[derive(Clone, Debug)]
pub(crate) struct CertificateHolder {
    pub(crate) peer: Arc<Peer>,
    pub(crate) own_credentials: Arc<Credentials>,
}

impl CertificateHolder {
    /// Checks that the certificate allows a call. A refusal is logged, and goes to the audit log.
    pub(crate) fn check(&self, call: &Call<'_>) -> Result<(), Status> {
        let current = self.own_credentials.current();
        let installation = current.identity().installation();
        let allowed = self.peer.facts.identity.check_call(installation, call);
        let caller = &self.peer.facts.identity;
        allowed
            .map_err(|refusal| refusals::refuse_call_of_holder(self.peer.remote, caller, &refusal))
    }

    /// The name of the caller's cell; empty if the caller is control.
    pub(crate) fn cell(&self) -> &str {
        self.peer.facts.identity.cell().unwrap_or_default()
    }

    /// Refuses a call of this caller for another reason than the names in its certificate.
    pub(crate) fn refuse(&self, reason: &str) -> Status {
        let caller = &self.peer.facts.identity;
        refusals::refuse_call_of_holder(self.peer.remote, caller, &format!("{caller}: {reason}"))
    }

    /// Waits until the certificate is not valid any more; without a certificate, for ever.
    pub(crate) async fn until_refused(holder: Option<Self>) -> Status {
        let Some(Self {
            peer,
            own_credentials,
        }) = holder
        else {
            return std::future::pending().await;
        };
        let remote = peer.remote;
        let reason = peer.until_refused(own_credentials).await;
        refusals::refuse_unauthenticated(Some(remote), &reason)
    }
}
