//! Who calls, and whether that caller may make a call.

use std::net::SocketAddr;
use std::sync::Arc;

use placewright_identity::Call;
use placewright_pki::Credentials;
use tonic::service::Interceptor;
use tonic::{Request, Status};

use crate::connection::{Caller, Shown};
use crate::peer::Peer;
use crate::refusals;
use crate::token::Token;

/// Who made a call.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    /// Somebody on a connection without TLS: with the shared token, if there is one. It may do
    /// everything.
    Shared,
    /// Somebody with a certificate.
    Holder(Arc<Peer>),
    /// Somebody who has no certificate yet.
    New,
}

/// Finds out who calls, before a call is decoded.
#[derive(Clone, Debug)]
pub(crate) struct AuthInterceptor {
    pub(crate) token: Option<Token>,
    pub(crate) credentials: Option<Arc<Credentials>>,
    /// Whether somebody without a certificate may call this service.
    pub(crate) takes_new: bool,
}

impl AuthInterceptor {
    fn access(&self, request: &Request<()>) -> Result<Access, Status> {
        let caller = request.extensions().get::<Caller>();
        let remote = caller.map(Caller::remote);
        let shown = caller.map_or(&Shown::Plain, Caller::shown);
        match (shown, &self.credentials) {
            (Shown::Certificate(peer), Some(here)) => {
                peer.check(here)
                    .map_err(|why| refusals::unknown_caller(remote, &why))?;
                Ok(Access::Holder(Arc::clone(peer)))
            }
            (Shown::Nothing, Some(_)) if self.takes_new => Ok(Access::New),
            (Shown::Nothing | Shown::Certificate(_), _) => Err(refusals::unknown_caller(
                remote,
                &"there is no certificate: callers need one of this installation",
            )),
            (Shown::Plain, here) => {
                let is_known = match &self.token {
                    Some(token) => token.is_in(request.metadata()),
                    None => here.is_none(),
                };
                if !is_known {
                    return Err(refusals::unknown_caller(
                        remote,
                        &"the token is missing or wrong: both sides need the same",
                    ));
                }
                Ok(Access::Shared)
            }
        }
    }
}

impl Interceptor for AuthInterceptor {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let access = self.access(&request)?;
        if !matches!(access, Access::New)
            && let Some(caller) = request.extensions().get::<Caller>()
        {
            caller.set_authenticated();
        }
        request.extensions_mut().insert(access);
        Ok(request)
    }
}

/// Checks each call of a service against the names of its caller's certificate.
#[derive(Clone, Debug)]
pub(crate) struct Gate(pub(crate) Option<Arc<Credentials>>);

impl Gate {
    /// The caller if it showed a certificate that allows the call; none for one that may do
    /// everything. `call` gets the name of the own cell.
    pub(crate) fn check<T>(
        &self,
        request: &Request<T>,
        call: impl for<'a> FnOnce(&'a str) -> Call<'a>,
    ) -> Result<Option<Holder>, Status> {
        let remote = remote_of(request);
        let peer = match (request.extensions().get::<Access>(), &self.0) {
            (Some(Access::Holder(peer)), Some(_)) => peer,
            (Some(Access::Shared), _) | (None, None) => return Ok(None),
            _ => return Err(refusals::unknown_caller(remote, &"there is no certificate")),
        };
        let Some(here) = &self.0 else {
            return Ok(None);
        };
        let holder = Holder {
            peer: Arc::clone(peer),
            here: Arc::clone(here),
        };
        let current = here.current();
        holder.may(&call(current.identity().cell().unwrap_or_default()))?;
        Ok(Some(holder))
    }
}

/// The address of a caller.
pub(crate) fn remote_of<T>(request: &Request<T>) -> Option<SocketAddr> {
    request.extensions().get::<Caller>().map(Caller::remote)
}

/// A caller with a certificate, and the credentials of the role that it called.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    pub(crate) peer: Arc<Peer>,
    pub(crate) here: Arc<Credentials>,
}

impl Holder {
    /// Whether the certificate allows a call; a refusal is noted.
    pub(crate) fn may(&self, call: &Call<'_>) -> Result<(), Status> {
        let current = self.here.current();
        let installation = current.identity().installation();
        let allowed = self.peer.facts.identity.may(installation, call);
        let name = &self.peer.facts.identity;
        allowed.map_err(|refusal| refusals::call_of(self.peer.remote, name, &refusal))
    }

    /// The name of the caller's cell.
    pub(crate) fn cell(&self) -> &str {
        self.peer.facts.identity.cell().unwrap_or_default()
    }

    /// A refusal of this caller that its names do not tell.
    pub(crate) fn refuse(&self, why: &str) -> Status {
        let caller = &self.peer.facts.identity;
        refusals::call_of(self.peer.remote, caller, &format!("{caller}: {why}"))
    }

    /// Waits until the certificate is not good any more.
    pub(crate) async fn until_refused(holder: Option<Self>) -> Status {
        let Some(Self { peer, here }) = holder else {
            return std::future::pending().await;
        };
        let remote = peer.remote;
        let why = peer.until_refused(here).await;
        refusals::unknown_caller(Some(remote), &why)
    }
}
