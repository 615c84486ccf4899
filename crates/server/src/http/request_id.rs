//! The identifier that every answer carries, and the one that a caller may have sent.

use uuid::Uuid;

/// `req-` and a random UUID.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestId([u8; 40]);

impl RequestId {
    /// A new one.
    pub(crate) fn new() -> Self {
        let mut text = [0; 40];
        text[..4].copy_from_slice(b"req-");
        Uuid::new_v4().hyphenated().encode_lower(&mut text[4..]);
        Self(text)
    }

    /// The text.
    pub(crate) fn as_str(&self) -> &str {
        // Only ASCII is ever written into it, so this never falls back.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The caller's request id, when it has the form that OpenStack services give each other.
pub(crate) fn global(header: Option<&str>) -> Option<&str> {
    let uuid = header?.strip_prefix("req-")?;
    crate::http::uuids::canonical(uuid).and(header)
}
