//! The facts about a request that are known while it is handled.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use placewright_auth::Identity;
use uuid::Uuid;

use crate::audit::{AuditEntry, AuditResult, EndedRequest};
use crate::peer_watch::PeerWatch;
use crate::request_id::RequestId;
use crate::request_span::RequestSpan;

/// The context of a request while it is handled. `V` is the microversion of the API.
#[derive(Debug)]
pub struct RequestContext<V = ()> {
    pub(crate) started: Instant,
    /// The client's address, if the request came over a network.
    pub(crate) remote: Option<SocketAddr>,
    /// Notices when the client closes its connection, if the request came over a connection.
    pub(crate) watch: Option<Arc<PeerWatch>>,
    pub(crate) request_id: RequestId,
    route: &'static str,
    version: Option<V>,
    /// The microversion as the access log shows it.
    version_text: Option<&'static str>,
    identity: Option<Arc<Identity>>,
    /// Whether the request is for a page that every service has.
    pub(crate) is_page: bool,
    /// The request's entry of the audit log, if the request gets one.
    pub(crate) audit: Option<AuditEntry>,
    /// The request's result, for the audit log.
    pub(crate) result: AuditResult,
    /// The request's span, if it is recorded.
    pub(crate) span: RequestSpan,
}

impl<V: Copy> RequestContext<V> {
    /// The context of a new request from this address. `watch` notices when the client closes its connection.
    pub(crate) fn new(remote: Option<SocketAddr>, watch: Option<Arc<PeerWatch>>) -> Self {
        Self {
            started: Instant::now(),
            remote,
            watch,
            request_id: RequestId::new(),
            route: "other",
            version: None,
            version_text: None,
            identity: None,
            is_page: false,
            audit: None,
            result: AuditResult::default(),
            span: RequestSpan::default(),
        }
    }

    /// The request id that the response will carry.
    pub fn request_id(&self) -> &str {
        self.request_id.as_str()
    }

    /// The UUID in the request id.
    pub fn request_uuid(&self) -> Uuid {
        self.request_id.uuid()
    }

    /// The address of the peer, if the request came over a network; behind a proxy it is that of the proxy.
    pub fn peer_address(&self) -> Option<IpAddr> {
        self.remote.map(|remote| remote.ip())
    }

    /// The path of the route as in the documentation, for metrics; `other` if the request has no route.
    pub fn route(&self) -> &'static str {
        self.route
    }

    /// Sets the route, whose path is a constant, so that clients cannot create labels.
    pub fn set_route(&mut self, route: &'static str) {
        self.route = route;
    }

    /// The microversion, once it is negotiated.
    pub fn version(&self) -> Option<V> {
        self.version
    }

    /// Sets the microversion, and its text for the access log, which leaves it out if there is none.
    pub fn set_version(&mut self, version: V, version_text: Option<&'static str>) {
        self.version = Some(version);
        self.version_text = version_text;
    }

    /// The caller, once it is authenticated.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_deref()
    }

    pub(crate) fn version_text(&self) -> Option<&'static str> {
        self.version_text
    }

    pub(crate) fn set_identity(&mut self, identity: &Arc<Identity>) {
        self.identity = Some(Arc::clone(identity));
    }

    /// Whether the request is for `/metrics`, `/healthz` or `/readyz`, which every service has.
    pub fn is_page(&self) -> bool {
        self.is_page
    }
}

impl<V> Drop for RequestContext<V> {
    /// Ends the request's span, and its entry of the audit log: the request was answered, or its client went away
    /// before.
    fn drop(&mut self) {
        // The span of an answered request has ended already, and does not end again.
        self.span.end(self.route, self.request_id.as_str(), None);
        if let Some(entry) = self.audit.take() {
            entry.end(EndedRequest {
                route: self.route,
                request_id: self.request_id.as_str(),
                identity: self.identity.as_deref(),
                remote: self.remote,
                result: std::mem::take(&mut self.result),
            });
        }
    }
}
