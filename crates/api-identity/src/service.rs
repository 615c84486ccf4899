//! The Identity API's service: it finds the handler of a request, and runs it for the dispatcher.

use std::fmt;
use std::sync::Arc;

use hyper::Uri;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;
use matchit::Router;
use placewright_auth::{Identity, Passwords, Secret};
use placewright_control::accounts::Accounts;
use placewright_http::{
    Access, Api, ApiError, ApiResult, Gateway, Query, RequestContext, Routed, Running, Syntax,
    authority, decode_percent, json_error_body, static_document,
};

use crate::call::{ApiState, Call, Head};
use crate::catalog::Catalog;
use crate::routes::{self, Operation, Route, SIGN_IN, TABLE};
use crate::{discovery, error};

/// The longest body of a request in bytes.
const BODY_BYTES_MAX: usize = 64 << 10;
/// The most parameters of a query.
const PARAMETERS_MAX: usize = 64;
/// The prefix of all paths of the API, except that of the list of versions.
const PREFIX: &str = "/v3";

/// Options of the Identity API.
#[derive(Debug)]
pub struct IdentityOptions {
    /// The check of passwords, with its limits of guesses.
    pub passwords: Passwords,
    /// The installation's services.
    pub catalog: Catalog,
    /// Scheme and host that clients use, if they differ from those in the requests.
    pub public_url: Option<String>,
}

/// The Identity API without sockets: it takes requests and returns responses.
pub struct IdentityService {
    api_state: ApiState,
    /// The index in [`TABLE`] of each path.
    router: Router<usize>,
}

/// A request whose handler was found.
pub struct MatchedRequest {
    target: RequestTarget,
}

/// The target of a [`MatchedRequest`].
enum RequestTarget {
    /// The list of versions.
    Versions { origin: String, headers: HeaderMap },
    /// The document of the only version.
    Version { origin: String, headers: HeaderMap },
    /// An operation of a resource.
    Operation(&'static Operation, Box<Head>),
}

impl fmt::Debug for IdentityService {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("IdentityService")
            .finish_non_exhaustive()
    }
}

impl IdentityService {
    /// Creates the Identity API on the accounts of a running control.
    pub fn new(gateway: Arc<Gateway>, accounts: Accounts, options: IdentityOptions) -> Self {
        Self {
            api_state: ApiState {
                gateway,
                accounts,
                passwords: options.passwords,
                catalog: options.catalog,
                public_url: options.public_url,
            },
            router: routes::router(),
        }
    }

    /// Scheme, host and port of the API as the client addresses it.
    fn origin(&self, parts: &Parts) -> String {
        placewright_http::origin(parts, self.api_state.public_url.as_deref())
    }

    /// The route of a path below `/v3` and the values of its parameters; `None` if there is no such path.
    fn find_route<'p>(&self, path: &'p str) -> Option<(&'static Route, Vec<&'p str>)> {
        // The parameters are slices of the path, and not of the router's result, so that they live as long as the path.
        let index = *self.router.at(path).ok()?.value;
        let route: &'static Route = TABLE.get(index)?;
        let pairs = route.path.split('/').zip(path.split('/'));
        let parameters = pairs.filter(|(pattern, _)| pattern.starts_with('{'));
        Some((route, parameters.map(|(_, value)| value).collect()))
    }

    /// Finds the operation of a request, and reads from the head of the request what the handler needs.
    fn head(
        &self,
        parts: &Parts,
        path: &str,
        context: &mut RequestContext<()>,
    ) -> ApiResult<(&'static Operation, Head)> {
        let (route, values) = self.find_route(path).ok_or_else(error::path_not_found)?;
        context.set_route(route.path);
        let operation = route.operation(parts.method.as_str()).ok_or_else(|| {
            ApiError::new(405, "The method is not allowed here.")
                .with_allow(route.allow.trim_end_matches(", "))
        })?;
        let mut parameters = Vec::with_capacity(values.len());
        for (name, value) in route.parameters().zip(values) {
            let value = decode_percent(value)
                .map_err(|_| ApiError::bad_request("The URL is not in UTF-8."))?;
            parameters.push((name, value.into_owned()));
        }
        let secret = |name: HeaderName| {
            let value = parts
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok());
            Secret::new(value.unwrap_or("").trim())
        };
        let authenticator = self.api_state.gateway.authenticator();
        let host = authority(parts);
        let host = host.as_ref().map_or("localhost", Authority::host);
        let head = Head {
            parameters,
            origin: self.origin(parts),
            host: host.to_owned(),
            client_address: authenticator.client_address(&parts.headers, context.peer_address()),
            token: secret(HeaderName::from_static("x-auth-token")),
            subject_token: secret(HeaderName::from_static("x-subject-token")),
        };
        Ok((operation, head))
    }
}

impl Api for IdentityService {
    const NAME: &str = "identity";

    type Version = ();
    type Request = MatchedRequest;

    fn gateway(&self) -> &Gateway {
        &self.api_state.gateway
    }

    fn required_access(
        &self,
        parts: &Parts,
        context: &mut RequestContext<()>,
    ) -> ApiResult<Access> {
        let path = parts.uri.path();
        if matches!(path, "" | "/") {
            context.set_route("/");
            return Ok(Access::Open);
        }
        let path = path
            .strip_prefix(PREFIX)
            .ok_or_else(error::path_not_found)?;
        match path {
            "" | "/" => {
                context.set_route(PREFIX);
                Ok(Access::Open)
            }
            SIGN_IN if parts.method == hyper::Method::POST => Ok(Access::Open),
            path if path.starts_with('/') => Ok(Access::Identified),
            _ => Err(error::path_not_found()),
        }
    }

    fn route(
        &self,
        parts: &Parts,
        _: Option<&Identity>,
        context: &mut RequestContext<()>,
    ) -> ApiResult<Routed<MatchedRequest>> {
        let path = parts.uri.path();
        let (target, takes_body) = match path.strip_prefix(PREFIX) {
            None => {
                let (origin, headers) = (self.origin(parts), parts.headers.clone());
                (RequestTarget::Versions { origin, headers }, false)
            }
            Some("" | "/") => {
                let (origin, headers) = (self.origin(parts), parts.headers.clone());
                (RequestTarget::Version { origin, headers }, false)
            }
            Some(path) => {
                let (operation, head) = self.head(parts, path, context)?;
                let target = RequestTarget::Operation(operation, Box::new(head));
                (target, operation.takes_body())
            }
        };
        Ok(Routed {
            request: MatchedRequest { target },
            body_bytes_max: takes_body.then_some(BODY_BYTES_MAX),
        })
    }

    fn is_costly(&self, _: &MatchedRequest, _: &[u8]) -> bool {
        false
    }

    fn run<'a>(
        self: &'a Arc<Self>,
        request: &'a MatchedRequest,
        uri: &'a Uri,
        identity: Option<&'a Identity>,
        body: &'a [u8],
    ) -> Running<'a> {
        Box::pin(async move {
            let (operation, head) = match &request.target {
                RequestTarget::Versions { origin, headers } => {
                    return static_document(300, &discovery::version_list(origin), headers);
                }
                RequestTarget::Version { origin, headers } => {
                    return static_document(200, &discovery::version_details(origin), headers);
                }
                RequestTarget::Operation(operation, head) => (operation, head),
            };
            let syntax = Syntax {
                separators: &['&'],
                parameters_max: PARAMETERS_MAX,
            };
            let query = Query::parse(uri.query().unwrap_or(""), syntax);
            let call = Call {
                api_state: &self.api_state,
                head,
                identity,
                query: query.map_err(|error| ApiError::bad_request(error.to_string()))?,
                body,
            };
            (operation.handler)(&call).await
        })
    }

    fn error_body(
        &self,
        parts: &Parts,
        error: &ApiError,
        context: &RequestContext<()>,
    ) -> (Vec<u8>, Option<&'static str>) {
        json_error_body(parts, error, context, error::body)
    }

    fn put_headers(&self, headers: &mut HeaderMap, _: Option<&ApiError>, _: &RequestContext<()>) {
        headers.insert(header::VARY, HeaderValue::from_static("X-Auth-Token"));
    }
}
