//! The answer to a request that is refused before its body is read.

use bytes::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use placewright_http::{ApiError, Body, keystone_error};

/// The response for this error. It closes the connection, because the body of the request would be read as the next one.
pub(crate) fn refuse(error: &ApiError) -> Response<Body> {
    let mut response = Response::new(Body::Whole(Bytes::from(keystone_error(error).to_string())));
    *response.status_mut() =
        StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let fields = response.headers_mut();
    let json = HeaderValue::from_static("application/json");
    fields.insert(header::CONTENT_TYPE, json);
    fields.insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The error of a request that a page of another origin caused.
pub(crate) fn from_elsewhere() -> ApiError {
    ApiError::forbidden("Only the page at /ui/ may send this request.")
}
