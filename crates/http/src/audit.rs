//! The events of requests in the audit log: each write, and each refusal for credentials or rights.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use hyper::Method;
use hyper::http::request::Parts;
use placewright_audit_log::{AuditLog, Caller, Event, Note, Outcome, Reason};
use placewright_auth::Identity;

use crate::error::ApiError;
use crate::request_id::{self, REQUEST_ID};
use crate::tls::TlsSession;

/// A request that gets a line in the audit log, whatever its result is.
#[derive(Debug)]
pub(crate) struct AuditEntry {
    log: AuditLog,
    note: Arc<Note>,
    begun: BegunRequest,
}

/// The facts about a request that are known when it begins.
#[derive(Debug)]
struct BegunRequest {
    service: &'static str,
    /// The authentication strategy. The log names it as the issuer of the caller's identity.
    issuer: &'static str,
    method: Method,
    path: String,
    global_request_id: Option<String>,
    /// The client's name in its TLS certificate, if it presented one.
    certificate: Option<String>,
}

/// The facts about a request that are known when it ends.
pub(crate) struct EndedRequest<'a> {
    pub(crate) route: &'static str,
    pub(crate) request_id: &'a str,
    pub(crate) identity: Option<&'a Identity>,
    pub(crate) remote: Option<SocketAddr>,
    pub(crate) result: AuditResult,
}

/// The result of a request, for the log.
#[derive(Debug, Default)]
pub(crate) struct AuditResult {
    /// The status of the answer; none if the client went away before there was one.
    status: Option<u16>,
    /// The reason of a refusal, if the log may repeat it.
    text: Option<String>,
    location: Option<String>,
}

impl AuditResult {
    pub(crate) fn accepted(status: u16, location: Option<&String>) -> Self {
        Self {
            status: Some(status),
            text: None,
            location: location.cloned(),
        }
    }

    /// A refusal. Its text is logged only for statuses whose texts repeat at most names and ids from a body. Texts of
    /// other statuses may repeat any value of the body, such as a password.
    pub(crate) fn refused(error: &ApiError) -> Self {
        let is_free_of_body =
            matches!(error.status(), 401 | 403 | 404 | 409 | 429) || error.status() >= 500;
        Self {
            status: Some(error.status()),
            text: is_free_of_body.then(|| error.detail().to_owned()),
            location: None,
        }
    }
}

/// Whether requests with a method change something.
pub(crate) fn is_write(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// Whether a status is a refusal for missing or wrong credentials (401), or for missing rights (403).
pub(crate) fn is_access_denied(status: u16) -> bool {
    matches!(status, 401 | 403)
}

impl AuditEntry {
    pub(crate) fn new(
        log: &AuditLog,
        parts: &Parts,
        service: &'static str,
        issuer: &'static str,
    ) -> Self {
        let global_id = parts.headers.get(REQUEST_ID);
        let global_id =
            request_id::valid_global_id(global_id.and_then(|value| value.to_str().ok()));
        let session = parts.extensions.get::<Arc<TlsSession>>();
        let certificate = session.and_then(|session| session.client_name());
        Self {
            log: log.clone(),
            note: Arc::default(),
            begun: BegunRequest {
                service,
                issuer,
                method: parts.method.clone(),
                path: parts.uri.path().to_owned(),
                global_request_id: global_id.map(str::to_owned),
                certificate: certificate.map(str::to_owned),
            },
        }
    }

    /// The note that the request's handler fills in.
    pub(crate) fn note(&self) -> Arc<Note> {
        Arc::clone(&self.note)
    }

    /// Offers the event of the request to the log.
    pub(crate) fn end(self, ended: EndedRequest<'_>) {
        let BegunRequest {
            service,
            issuer,
            method,
            path,
            global_request_id,
            certificate,
        } = self.begun;
        let AuditResult {
            status,
            text,
            location,
        } = ended.result;
        let outcome = match status {
            None => Outcome::Unknown,
            Some(status) if status < 400 => Outcome::Success,
            Some(_) => Outcome::Failure,
        };
        let caller = Caller {
            certificate,
            address: ended.remote,
            ..ended
                .identity
                .map_or_else(Caller::default, |identity| caller_of(identity, issuer))
        };
        self.log.offer(Event {
            at: SystemTime::now(),
            service,
            method: method.as_str().to_owned(),
            route: Some(ended.route),
            path,
            request_id: Some(ended.request_id.to_owned()),
            global_request_id,
            caller,
            outcome,
            reason: Reason {
                kind: "HTTP",
                code: status.map(|status| status.to_string()),
                text,
            },
            location,
            noted: self.note.take(),
        });
    }
}

fn caller_of(identity: &Identity, issuer: &'static str) -> Caller {
    let parts = identity.parts();
    let service = parts.service.as_deref();
    Caller {
        user: parts.user_id.clone(),
        project: parts.project_id.clone(),
        domain: parts.domain_id.clone(),
        system: parts.system_scope.clone(),
        roles: parts.roles.clone(),
        service_user: service.and_then(|service| service.user_id.clone()),
        issuer: Some(issuer),
        certificate: None,
        address: None,
    }
}
