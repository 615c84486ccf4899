//! Under which address a client reaches a service.

use hyper::header;
use hyper::http::request::Parts;
use hyper::http::uri::Authority;

use crate::tls::scheme;

/// Scheme, host and port of a service as the client addresses it: those of `public_url` if that is set, otherwise those
/// of the request.
pub fn origin(parts: &Parts, public_url: Option<&str>) -> String {
    if let Some(url) = public_url {
        return url.trim_end_matches('/').to_owned();
    }
    let scheme = scheme(&parts.extensions);
    match authority(parts) {
        Some(authority) => format!("{scheme}://{authority}"),
        None => format!("{scheme}://localhost"),
    }
}

/// Host and port by which the client addresses a service; `None` if the request has none that can be read.
pub fn authority(parts: &Parts) -> Option<Authority> {
    let host = parts.headers.get(header::HOST);
    let host = host.and_then(|value| value.to_str().ok()?.parse().ok());
    let authority: Option<Authority> = host.or_else(|| parts.uri.authority().cloned());
    // With a user name before the host, a link would look like one to another host.
    authority.filter(|authority| !authority.as_str().contains('@'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Request;

    fn parts(uri: &str, host: Option<&str>) -> Parts {
        let mut request = Request::get(uri);
        if let Some(host) = host {
            request = request.header(header::HOST, host);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn the_origin_is_that_of_the_option_or_of_the_request() {
        let with_host = parts("/v2", Some("cloud.example:8774"));
        let of_option = origin(&with_host, Some("https://cloud.example/"));
        assert_eq!(of_option, "https://cloud.example");
        assert_eq!(origin(&with_host, None), "http://cloud.example:8774");
        let absolute = parts("http://absolute:1/v2", None);
        assert_eq!(origin(&absolute, None), "http://absolute:1");
        // A header that is no host does not come back in a link.
        let nonsense = parts("/v2", Some("a\"><b"));
        assert_eq!(origin(&nonsense, None), "http://localhost");
        let with_user = parts("/v2", Some("cloud.example@elsewhere.example"));
        assert_eq!(origin(&with_user, None), "http://localhost");
    }
}
