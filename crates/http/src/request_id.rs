//! The request id that every response carries, and the one that a caller may have sent.

use hyper::header::HeaderName;
use uuid::Uuid;

/// The header in which request ids travel.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-openstack-request-id");

/// A request id: `req-` and a random UUID.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestId {
    uuid: Uuid,
    text: [u8; 40],
}

impl RequestId {
    /// Generates a new request id.
    pub(crate) fn new() -> Self {
        let mut text = [0; 40];
        text[..4].copy_from_slice(b"req-");
        let uuid = Uuid::new_v4();
        uuid.hyphenated().encode_lower(&mut text[4..]);
        Self { uuid, text }
    }

    /// The UUID in the request id.
    pub(crate) fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// The request id as text.
    pub(crate) fn as_str(&self) -> &str {
        // A request id contains only ASCII, so the default is never returned.
        std::str::from_utf8(&self.text).unwrap_or_default()
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.text
    }
}

/// The caller's global request id, if it has the form that OpenStack services use.
pub(crate) fn valid_global_id(header: Option<&str>) -> Option<&str> {
    let text = header?.strip_prefix("req-")?;
    let uuid = Uuid::try_parse(text).ok()?;
    // Only the canonical form counts: lower case, with dashes.
    let is_canonical = uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == text;
    header.filter(|_| is_canonical)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_request_ids_are_the_same() {
        let ids = (0..1000).map(|_| RequestId::new().as_str().to_owned());
        let all: std::collections::BTreeSet<String> = ids.collect();
        assert_eq!(all.len(), 1000);
        assert!(all.iter().all(|id| valid_global_id(Some(id)).is_some()));
    }
}
