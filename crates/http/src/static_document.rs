//! Documents that stay the same as long as the process runs: clients may keep them, and ask whether they changed.

use hyper::header::{CACHE_CONTROL, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH};
use serde::Serialize;

use crate::error::{ApiError, ApiResult};
use crate::reply::Reply;

/// How long clients may use a document without asking again. Caches that clients share may not keep it: its links are
/// made of the request's `Host`, which one client could forge for all.
const CACHING: HeaderValue = HeaderValue::from_static("private, max-age=300");

/// The JSON of a document with its entity tag and this status, or 304 if the client has it.
///
/// # Errors
///
/// 500 when the document has no form in JSON, which is a bug.
pub fn static_document(
    status: u16,
    document: &impl Serialize,
    headers: &HeaderMap,
) -> ApiResult<Reply> {
    let json = serde_json::to_vec(document)
        .map_err(|error| ApiError::new(500, format!("cannot write the answer: {error}")))?;
    let tag = format!("\"{:016x}\"", hash(&json));
    let has_tag = |value: &HeaderValue| {
        let text = value.to_str().unwrap_or_default();
        let mut tags = text.split(',').map(str::trim);
        tags.any(|other| other == "*" || other.trim_start_matches("W/") == tag)
    };
    let mut reply = match headers.get_all(IF_NONE_MATCH).iter().any(has_tag) {
        true => Reply::empty(304),
        false => Reply::text(status, "application/json", json),
    };
    let tag = HeaderValue::from_str(&tag)
        .map_err(|error| ApiError::new(500, format!("cannot write the tag: {error}")))?;
    reply
        .headers
        .extend([(ETAG, tag), (CACHE_CONTROL, CACHING)]);
    Ok(reply)
}

/// The 64-bit FNV-1a hash. It has no random seed, so a document has the same tag on all replicas and after a restart.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_has_the_document_gets_304() {
        let document = serde_json::json!({"a": 1});
        let reply = static_document(300, &document, &HeaderMap::new()).expect("it is JSON");
        let tag = reply.headers.first().map(|(_, value)| value.clone());
        let tag = tag.expect("there is a tag");
        let text = tag.to_str().expect("it is text").to_owned();
        for (value, status) in [
            (text.clone(), 304),
            (format!("W/{text}"), 304),
            (format!("\"x\", {text}"), 304),
            ("*".to_owned(), 304),
            ("\"x\"".to_owned(), 300),
        ] {
            let mut headers = HeaderMap::new();
            let value = HeaderValue::from_str(&value).expect("it is a header");
            headers.insert(IF_NONE_MATCH, value);
            let reply = static_document(300, &document, &headers).expect("it is JSON");
            assert_eq!(reply.status, status);
            assert_eq!(reply.headers.first().map(|(_, value)| value), Some(&tag));
        }
    }
}
