//! The headers of every response of the listener, which keep other origins away from the page and the page away from
//! other origins.

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};

/// The content security policy of the page: it may load its own files and send requests to its own origin, and
/// nothing else.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; \
     require-trusted-types-for 'script'; trusted-types 'none'";

/// Adds the headers, and removes the header that would make a browser ask for a password by itself. The browser would
/// send that password with every further request to this origin, also with requests that other pages cause.
pub(crate) fn protect(headers: &mut HeaderMap) {
    headers.remove(header::WWW_AUTHENTICATE);
    let fixed: [(HeaderName, &'static str); 7] = [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("permissions-policy"),
            "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
        ),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
