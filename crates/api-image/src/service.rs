//! The Image API's service: it finds the handler of a request, and runs it for the dispatcher.

use std::fmt;
use std::sync::Arc;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Uri};
use placewright_auth::Identity;
use placewright_control::ControlHandle;
use placewright_http::{
    Access, Api, ApiError, ApiResult, BodySink, Gateway, Reply, RequestContext, Routed, Running,
    content_type, json_error_body, latin1_path, static_document,
};

use crate::folder::ImageFolder;
use crate::options::{BODY_BYTES_MAX, ImageOptions};
use crate::request::{ApiState, RoutedRequest};
use crate::routes::{Path, Route};
use crate::transfers::Transfers;
use crate::upload::Inbox;
use crate::{create, discovery, error, file, images, list, members, patch, schemas, tags};

/// The header in which clients look for the id of a request, besides the one that every service has.
const IMAGE_REQUEST_ID: HeaderName = HeaderName::from_static("x-image-meta-request-id");

/// The Image API without sockets: it takes requests and returns responses.
pub struct ImageService {
    api_state: ApiState,
}

impl fmt::Debug for ImageService {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ImageService")
            .field("options", &self.api_state.options)
            .finish_non_exhaustive()
    }
}

impl ImageService {
    /// Creates the Image API of a running control, with the folder of the images' bytes.
    pub fn new(
        gateway: Arc<Gateway>,
        control: ControlHandle,
        folder: ImageFolder,
        options: ImageOptions,
    ) -> Self {
        let transfers = || Transfers::new(options.limits.transfers_max);
        Self {
            api_state: ApiState {
                gateway,
                control,
                folder,
                uploads: transfers(),
                downloads: transfers(),
                options,
            },
        }
    }

    /// Scheme and host of the API as the client addresses it.
    fn origin(&self, parts: &Parts) -> String {
        placewright_http::origin(parts, self.api_state.options.public_url.as_deref())
    }
}

/// A request whose path and method are known.
pub struct MatchedRequest {
    path: Path,
    method: Method,
    /// Scheme and host of the API as the client addresses it, for the list of versions.
    origin: String,
    /// The headers of a request for the list of versions, which say which version of the list the client has cached;
    /// empty for any other request.
    headers: HeaderMap,
    /// Where the sink of an upload leaves the bytes when all of them have arrived.
    inbox: Inbox,
}

impl MatchedRequest {
    fn is_upload(&self) -> bool {
        self.path.route == Route::File && self.method == Method::PUT
    }
}

impl Api for ImageService {
    const NAME: &str = "image";

    type Version = ();
    type Request = MatchedRequest;

    fn gateway(&self) -> &Gateway {
        &self.api_state.gateway
    }

    fn required_access(&self, parts: &Parts, context: &mut RequestContext) -> ApiResult<Access> {
        match Path::parse(&latin1_path(parts.uri.path())) {
            Ok(path) if path.route == Route::Versions => {
                context.set_route(path.route.path());
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
        let path = Path::parse(&latin1_path(parts.uri.path()))?;
        context.set_route(path.route.path());
        path.route.check_method(&parts.method)?;
        let has_body = path.route.has_body(&parts.method);
        let headers = match path.route {
            Route::Versions => parts.headers.clone(),
            _ => HeaderMap::new(),
        };
        let request = MatchedRequest {
            path,
            method: parts.method.clone(),
            origin: self.origin(parts),
            headers,
            inbox: Inbox::default(),
        };
        if request.is_upload() {
            file::check_media_type(&parts.headers)?;
        } else if has_body {
            check_media_type(&request, &parts.headers)?;
        }
        Ok(Routed {
            body_bytes_max: has_body.then_some(BODY_BYTES_MAX),
            request,
        })
    }

    fn streams_body(&self, request: &MatchedRequest) -> bool {
        request.is_upload()
    }

    fn body_sink(
        &self,
        request: &MatchedRequest,
        identity: &Identity,
        declared: Option<u64>,
    ) -> ApiResult<Box<dyn BodySink>> {
        let image = request.path.image;
        file::begin(&self.api_state, identity, image, declared, &request.inbox)
    }

    fn body_too_large(&self, _: &MatchedRequest, error: ApiError) -> ApiError {
        error.with_detail(format!(
            "The body is too long: what describes an image may have {BODY_BYTES_MAX} bytes."
        ))
    }

    fn is_costly(&self, request: &MatchedRequest, body: &[u8]) -> bool {
        let cost = request.path.route.cost(&request.method);
        cost.is_high(body.len())
    }

    fn run<'a>(
        self: &'a Arc<Self>,
        request: &'a MatchedRequest,
        uri: &'a Uri,
        identity: Option<&'a Identity>,
        body: &'a [u8],
    ) -> Running<'a> {
        Box::pin(async move {
            // Only the list of versions is open to callers without an identity.
            let Some(identity) = identity else {
                return show_versions(&self.api_state, request);
            };
            let routed = RoutedRequest {
                api_state: &self.api_state,
                identity,
                image: request.path.image,
                part: &request.path.part,
                query: uri.query().unwrap_or(""),
                body,
            };
            run_handler(request, &routed).await
        })
    }

    fn error_body(
        &self,
        parts: &Parts,
        error: &ApiError,
        context: &RequestContext,
    ) -> (Vec<u8>, Option<&'static str>) {
        json_error_body(parts, error, context, error::body)
    }

    fn put_headers(&self, headers: &mut HeaderMap, _: Option<&ApiError>, context: &RequestContext) {
        if let Ok(id) = HeaderValue::from_str(context.request_id()) {
            headers.insert(IMAGE_REQUEST_ID, id);
        }
    }
}

fn show_versions(api_state: &ApiState, request: &MatchedRequest) -> ApiResult<Reply> {
    let document = discovery::versions(&request.origin, &api_state.options);
    static_document(200, &document, &request.headers)
}

async fn run_handler(matched: &MatchedRequest, request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    // Routing has checked that the path has the method, so the last method of a path needs no pattern.
    match (matched.path.route, matched.method.as_str()) {
        (Route::Versions, _) => show_versions(request.api_state, matched),
        (Route::Images, "POST") => create::create(request).await,
        (Route::Images, _) => list::list(request).await,
        (Route::Image, "PATCH") => patch::update(request).await,
        (Route::Image, "DELETE") => images::delete(request).await,
        (Route::Image, _) => images::show(request).await,
        (Route::File, "PUT") => file::upload(request, &matched.inbox).await,
        (Route::File, _) => file::download(request).await,
        (Route::Tag, "PUT") => tags::add(request).await,
        (Route::Tag, _) => tags::remove(request).await,
        (Route::Members, "POST") => members::add(request).await,
        (Route::Members, _) => members::list(request).await,
        (Route::Member, "PUT") => members::update(request).await,
        (Route::Member, "DELETE") => members::remove(request).await,
        (Route::Member, _) => members::show(request).await,
        (Route::Schema, _) => {
            let schema = schemas::find(request.part).ok_or_else(error::path_not_found)?;
            Reply::value(200, &schema)
        }
        (Route::Imports, _) => Reply::value(200, &discovery::imports()),
        (Route::Usage, _) => discovery::usage(request).await,
    }
}

/// Checks the type of a body that is not that of an upload.
fn check_media_type(request: &MatchedRequest, headers: &HeaderMap) -> ApiResult<()> {
    let expected = match request.path.route {
        Route::Image => patch::MEDIA_TYPE,
        _ => "application/json",
    };
    match content_type(headers).split(';').next().unwrap_or("").trim() {
        found if found == expected => Ok(()),
        found => Err(ApiError::new(
            415,
            format!("The content type is {found:?}; it must be {expected}."),
        )),
    }
}
