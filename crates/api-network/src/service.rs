//! The network API's service, for the dispatcher.

use std::fmt;
use std::sync::Arc;

use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Uri};
use placewright_auth::Identity;
use placewright_http::{
    Access, Api, ApiError, ApiResult, Gateway, Reply, RequestContext, Routed, Running,
    json_error_body, keystone_error, latin1_path, static_document,
};
use serde_json::{Value, json};

use crate::resources::Resource;

/// The network API without sockets: it takes requests and returns responses.
pub struct NetworkService {
    gateway: Arc<Gateway>,
    /// Scheme and host under which clients reach the API; `None` for those of each request.
    public_url: Option<String>,
}

impl fmt::Debug for NetworkService {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("NetworkService")
            .finish_non_exhaustive()
    }
}

impl NetworkService {
    /// Creates the service with the gateway of the process's other services. `public_url` is the scheme and host under
    /// which clients reach the API; `None` if they are those of each request.
    pub fn new(gateway: Arc<Gateway>, public_url: Option<String>) -> Self {
        Self {
            gateway,
            public_url,
        }
    }

    /// Scheme and host of the API as the client addresses it.
    fn origin(&self, parts: &Parts) -> String {
        placewright_http::origin(parts, self.public_url.as_deref())
    }
}

/// The resource that a request asks for, found from its path.
pub struct MatchedRequest {
    resource: Resource,
    /// Scheme and host of the API as the client addresses it.
    origin: String,
    /// The headers of the request, which tell whether the client has the list of versions in its cache.
    headers: HeaderMap,
}

impl Api for NetworkService {
    const NAME: &str = "network";

    type Version = ();
    type Request = MatchedRequest;

    fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    fn required_access(&self, parts: &Parts, context: &mut RequestContext) -> ApiResult<Access> {
        match Resource::parse(&latin1_path(parts.uri.path())) {
            Ok(Resource::Versions) => {
                context.set_route(Resource::Versions.route());
                Ok(Access::Open)
            }
            _ => Ok(Access::Identified),
        }
    }

    fn route(
        &self,
        parts: &Parts,
        _: Option<&Identity>,
        context: &mut RequestContext,
    ) -> ApiResult<Routed<MatchedRequest>> {
        let resource = Resource::parse(&latin1_path(parts.uri.path()))?;
        context.set_route(resource.route());
        match parts.method {
            Method::GET => {}
            Method::POST | Method::PUT | Method::DELETE => {
                return Err(ApiError::not_implemented(
                    "This installation has no networks, and nothing of them can be made or changed.",
                ));
            }
            _ => {
                let detail = "There is only GET here.";
                return Err(ApiError::new(405, detail).with_allow("GET"));
            }
        }
        Ok(Routed {
            request: MatchedRequest {
                resource,
                origin: self.origin(parts),
                headers: parts.headers.clone(),
            },
            body_bytes_max: None,
        })
    }

    fn is_costly(&self, _: &MatchedRequest, _: &[u8]) -> bool {
        false
    }

    fn reads_newest(&self, _: &MatchedRequest) -> bool {
        false
    }

    fn run<'a>(
        self: &'a Arc<Self>,
        request: &'a MatchedRequest,
        _: &'a Uri,
        _: Option<&'a Identity>,
        _: &'a [u8],
    ) -> Running<'a> {
        Box::pin(async move {
            let document = request.resource.show(&request.origin)?;
            match request.resource {
                Resource::Versions => static_document(200, &document, &request.headers),
                _ => Reply::value(200, &document),
            }
        })
    }

    fn error_body(
        &self,
        parts: &Parts,
        error: &ApiError,
        context: &RequestContext,
    ) -> (Vec<u8>, Option<&'static str>) {
        json_error_body(parts, error, context, error_value)
    }
}

/// The JSON body of an error response.
fn error_value(error: &ApiError) -> Value {
    let kind = match error.status() {
        401 => return keystone_error(error),
        404 => "HTTPNotFound",
        405 => "HTTPMethodNotAllowed",
        501 => "HTTPNotImplemented",
        _ => "HTTPError",
    };
    json!({"NeutronError": {"type": kind, "message": error.message(), "detail": ""}})
}
