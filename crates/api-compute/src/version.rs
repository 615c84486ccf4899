//! Microversions: negotiation, and the range that is supported.

use std::fmt;

use hyper::header::{HeaderMap, HeaderName};

/// The header for microversions that all OpenStack services share.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("openstack-api-version");

/// The older header, which only the compute API has.
pub(crate) const OLD_HEADER: HeaderName = HeaderName::from_static("x-openstack-nova-api-version");

/// The oldest and the newest supported version: the numbers after the dot.
pub(crate) const OLDEST: u16 = 1;
pub(crate) const NEWEST: u16 = 96;

/// A microversion 2.x: the number after the dot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub(crate) u16);

impl Version {
    /// Whether a feature of version 2.`minor` is available.
    pub(crate) fn since(self, minor: u16) -> bool {
        self.0 >= minor
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "2.{}", self.0)
    }
}

/// Why a request with a version is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum VersionError {
    /// The version cannot be parsed: 400.
    Malformed(String),
    /// The version is not supported: 406.
    NotOffered(String),
}

/// The version that a request has in its headers; the oldest if it has none.
pub(crate) fn negotiate(headers: &HeaderMap) -> Result<Version, VersionError> {
    let Some(requested) = requested_version(headers) else {
        return Ok(Version(OLDEST));
    };
    if requested == "latest" {
        return Ok(Version(NEWEST));
    }
    let malformed = || VersionError::Malformed(requested.to_owned());
    let (major, minor) = requested.split_once('.').ok_or_else(malformed)?;
    let number = |text: &str| {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let has_no_leading_zero = text == "0" || !text.starts_with('0');
        (is_number && has_no_leading_zero)
            .then(|| text.parse::<u16>().ok())
            .flatten()
    };
    let major = number(major).ok_or_else(malformed)?;
    let minor = number(minor).ok_or_else(malformed)?;
    if major == 2 && (OLDEST..=NEWEST).contains(&minor) {
        Ok(Version(minor))
    } else {
        Err(VersionError::NotOffered(requested.to_owned()))
    }
}

fn requested_version(headers: &HeaderMap) -> Option<&str> {
    let values = headers.get_all(HEADER).iter();
    let values = values.filter_map(|value| value.to_str().ok());
    let mut pairs = values.flat_map(|value| value.split(','));
    let compute_version = pairs.find_map(|pair| {
        let (service, version) = pair.trim().split_once(char::is_whitespace)?;
        service
            .eq_ignore_ascii_case("compute")
            .then(|| version.trim())
    });
    compute_version.or_else(|| headers.get(OLD_HEADER)?.to_str().ok().map(str::trim))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn negotiate_with(name: HeaderName, value: &'static str) -> Result<Version, VersionError> {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static(value));
        negotiate(&headers)
    }

    #[test]
    fn versions_come_from_either_header() {
        assert_eq!(negotiate(&HeaderMap::new()), Ok(Version(OLDEST)));
        assert_eq!(negotiate_with(HEADER, "compute 2.53"), Ok(Version(53)));
        assert_eq!(
            negotiate_with(HEADER, "placement 1.4, Compute latest"),
            Ok(Version(NEWEST))
        );
        assert_eq!(negotiate_with(HEADER, "placement 1.4"), Ok(Version(OLDEST)));
        assert_eq!(negotiate_with(OLD_HEADER, "2.60"), Ok(Version(60)));
        for text in ["compute 2", "compute 2.x", "compute 2.01", "compute a.b"] {
            assert!(
                matches!(
                    negotiate_with(HEADER, text),
                    Err(VersionError::Malformed(_))
                ),
                "{text}"
            );
        }
        for text in ["compute 2.97", "compute 1.1", "compute 3.0", "compute 2.0"] {
            assert!(
                matches!(
                    negotiate_with(HEADER, text),
                    Err(VersionError::NotOffered(_))
                ),
                "{text}"
            );
        }
    }
}
