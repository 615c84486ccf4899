//! Cross-origin requests, handled as by the middleware of OpenStack services.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

/// The origins whose pages may call this service.
///
/// Without any origin the service sends no CORS headers.
#[derive(Debug, Clone)]
pub struct Cors {
    /// Allowed origins in the form that browsers send: `https://dashboard.example.com`; `*` for
    /// any.
    pub allowed_origins: Vec<String>,
    /// Whether browsers may send credentials.
    pub allow_credentials: bool,
    /// Response headers that scripts may read.
    pub expose_headers: Vec<String>,
    /// How long a browser may cache the response to a preflight request, in seconds; not sent if 0.
    pub max_age_s: u32,
    /// Methods that may be used.
    pub allow_methods: Vec<String>,
    /// Headers that may be sent besides the simple ones.
    pub allow_headers: Vec<String>,
}

impl Default for Cors {
    fn default() -> Self {
        let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
        Self {
            allowed_origins: Vec::new(),
            allow_credentials: true,
            expose_headers: texts(&[
                "X-Auth-Token",
                "X-Openstack-Request-Id",
                "X-Subject-Token",
                "X-Service-Token",
                "OpenStack-API-Version",
            ]),
            max_age_s: 3600,
            allow_methods: texts(&["GET", "PUT", "POST", "DELETE", "PATCH"]),
            allow_headers: texts(&[
                "X-Auth-Token",
                "X-Openstack-Request-Id",
                "X-Identity-Status",
                "X-Roles",
                "X-Service-Catalog",
                "X-User-Id",
                "X-Tenant-Id",
                "OpenStack-API-Version",
            ]),
        }
    }
}

/// Headers that may always be sent.
const SIMPLE_HEADERS: [&str; 8] = [
    "Accept",
    "Accept-Language",
    "Content-Type",
    "Cache-Control",
    "Content-Language",
    "Expires",
    "Last-Modified",
    "Pragma",
];

const ORIGIN: HeaderName = HeaderName::from_static("origin");
const REQUEST_METHOD: HeaderName = HeaderName::from_static("access-control-request-method");
const REQUEST_HEADERS: HeaderName = HeaderName::from_static("access-control-request-headers");
const ALLOW_ORIGIN: HeaderName = HeaderName::from_static("access-control-allow-origin");
const ALLOW_CREDENTIALS: HeaderName = HeaderName::from_static("access-control-allow-credentials");
const ALLOW_METHODS: HeaderName = HeaderName::from_static("access-control-allow-methods");
const ALLOW_HEADERS: HeaderName = HeaderName::from_static("access-control-allow-headers");
const EXPOSE_HEADERS: HeaderName = HeaderName::from_static("access-control-expose-headers");
const MAX_AGE: HeaderName = HeaderName::from_static("access-control-max-age");
const VARY: HeaderName = HeaderName::from_static("vary");

impl Cors {
    /// The value for `Access-Control-Allow-Origin`, if the request's origin is an allowed one.
    fn allowed_origin(&self, request: &HeaderMap) -> Option<HeaderValue> {
        let origin = request.get(ORIGIN)?;
        if self
            .allowed_origins
            .iter()
            .any(|allowed| allowed.as_bytes() == origin.as_bytes())
        {
            return Some(origin.clone());
        }
        let any = self.allowed_origins.iter().any(|allowed| allowed == "*");
        any.then(|| HeaderValue::from_static("*"))
    }

    /// Adds CORS headers to a normal response.
    pub(crate) fn add_headers(&self, request: &HeaderMap, response: &mut HeaderMap) {
        let Some(origin) = self.allowed_origin(request) else {
            return;
        };
        let vary = match response.get(VARY).and_then(|value| value.to_str().ok()) {
            Some(already) => HeaderValue::from_str(&format!("{already},Origin")),
            None => Ok(HeaderValue::from_static("Origin")),
        };
        if let Ok(vary) = vary {
            response.insert(VARY, vary);
        }
        response.insert(ALLOW_ORIGIN, origin);
        self.add_credentials_header(response);
        if !self.expose_headers.is_empty()
            && let Ok(exposed) = HeaderValue::from_str(&self.expose_headers.join(","))
        {
            response.insert(EXPOSE_HEADERS, exposed);
        }
    }

    /// Adds CORS headers to the response to an `OPTIONS` request, if everything that the request asks for is
    /// allowed.
    pub(crate) fn add_preflight_headers(&self, request: &HeaderMap, response: &mut HeaderMap) {
        let Some(origin) = self.allowed_origin(request) else {
            return;
        };
        let Some(method) = request.get(REQUEST_METHOD) else {
            return;
        };
        if !self
            .allow_methods
            .iter()
            .any(|allowed| allowed.as_bytes() == method.as_bytes())
        {
            return;
        }
        let requested = request
            .get(REQUEST_HEADERS)
            .map_or("", |value| value.to_str().unwrap_or(""));
        let requested: Vec<&str> = requested
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .collect();
        let allowed = |name: &&str| {
            let configured = self.allow_headers.iter().map(String::as_str);
            configured
                .chain(SIMPLE_HEADERS)
                .any(|allowed| allowed.eq_ignore_ascii_case(name))
        };
        if !requested.iter().all(allowed) {
            return;
        }
        response.insert(VARY, HeaderValue::from_static("Origin"));
        response.insert(ALLOW_ORIGIN, origin);
        self.add_credentials_header(response);
        if self.max_age_s > 0 {
            response.insert(MAX_AGE, HeaderValue::from(self.max_age_s));
        }
        response.insert(ALLOW_METHODS, method.clone());
        if !requested.is_empty()
            && let Ok(requested) = HeaderValue::from_str(&requested.join(","))
        {
            response.insert(ALLOW_HEADERS, requested);
        }
    }

    fn add_credentials_header(&self, response: &mut HeaderMap) {
        if self.allow_credentials {
            response.insert(ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        pairs.collect()
    }

    #[test]
    fn only_what_is_allowed_is_answered() {
        let cors = Cors {
            allowed_origins: vec!["http://a".into()],
            allow_headers: vec!["openstack-api-version".into()],
            ..Cors::default()
        };
        let asked = |pairs: &[(&'static str, &'static str)]| {
            let mut answer = HeaderMap::new();
            cors.add_preflight_headers(&headers(pairs), &mut answer);
            answer
                .get(ALLOW_HEADERS)
                .map(|value| value.to_str().unwrap().to_owned())
        };
        let base = [
            ("origin", "http://a"),
            ("access-control-request-method", "GET"),
        ];
        let with = |more| [&base[..], &[("access-control-request-headers", more)]].concat();
        assert_eq!(
            asked(&with("OpenStack-API-Version, accept")).as_deref(),
            Some("OpenStack-API-Version,accept")
        );
        assert_eq!(asked(&with("x-other")), None);
        assert_eq!(asked(&[("origin", "http://b"), base[1]]), None);

        let mut answer = headers(&[("vary", "openstack-api-version")]);
        cors.add_headers(&headers(&base), &mut answer);
        assert_eq!(answer["vary"], "openstack-api-version,Origin");
        assert_eq!(answer["access-control-allow-origin"], "http://a");
        let mut answer = HeaderMap::new();
        cors.add_headers(&headers(&[("origin", "http://b")]), &mut answer);
        assert!(answer.is_empty());
    }
}
