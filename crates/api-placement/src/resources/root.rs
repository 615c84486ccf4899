//! `GET /`: the versions of the API, without authentication.

use placewright_http::Reply;
use placewright_http::json::Writer;

use crate::microversion::Microversion;
use crate::routed_request::RoutedRequest;

pub(crate) fn get(request: &RoutedRequest<'_>) -> Reply {
    let mut writer = Writer::with_capacity(160);
    writer.open_object();
    writer.key("versions");
    writer.open_array();
    writer.open_object();
    writer.key("id");
    writer.text(&format!("v{}", Microversion::MIN));
    writer.key("max_version");
    writer.text(&Microversion::MAX.to_string());
    writer.key("min_version");
    writer.text(&Microversion::MIN.to_string());
    writer.key("status");
    writer.text("CURRENT");
    writer.key("links");
    writer.open_array();
    writer.open_object();
    writer.key("rel");
    writer.text("self");
    writer.key("href");
    writer.text("");
    writer.close_object();
    writer.close_array();
    writer.close_object();
    writer.close_array();
    writer.close_object();
    Reply::json(writer).with_cache_headers(request.has_cache_headers(), Some(request.received_s()))
}
