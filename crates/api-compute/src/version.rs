//! Microversions: negotiation, and the range that is supported.

use std::fmt;

use hyper::header::{HeaderMap, HeaderName};

/// The header for microversions that all OpenStack services share.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("openstack-api-version");

/// The older header of the compute API alone.
pub(crate) const OLD_HEADER: HeaderName = HeaderName::from_static("x-openstack-nova-api-version");

/// The oldest and the newest supported version, as numbers after the dot.
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

/// Why a requested version cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoVersion {
    /// It cannot be parsed: 400.
    Malformed(String),
    /// It is not supported: 406.
    NotOffered(String),
}

/// The version of a request; the oldest if it names none.
pub(crate) fn negotiate(headers: &HeaderMap) -> Result<Version, NoVersion> {
    let Some(wanted) = wanted(headers) else {
        return Ok(Version(OLDEST));
    };
    if wanted == "latest" {
        return Ok(Version(NEWEST));
    }
    let malformed = || NoVersion::Malformed(wanted.to_owned());
    let (major, minor) = wanted.split_once('.').ok_or_else(malformed)?;
    let number = |text: &str| {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let has_sense = text == "0" || !text.starts_with('0');
        (is_number && has_sense)
            .then(|| text.parse::<u16>().ok())
            .flatten()
    };
    let major = number(major).ok_or_else(malformed)?;
    let minor = number(minor).ok_or_else(malformed)?;
    if major == 2 && (OLDEST..=NEWEST).contains(&minor) {
        Ok(Version(minor))
    } else {
        Err(NoVersion::NotOffered(wanted.to_owned()))
    }
}

fn wanted(headers: &HeaderMap) -> Option<&str> {
    let shared = headers.get_all(HEADER).iter();
    let shared = shared.filter_map(|value| value.to_str().ok());
    let mut pairs = shared.flat_map(|value| value.split(','));
    let named = pairs.find_map(|pair| {
        let (service, version) = pair.trim().split_once(char::is_whitespace)?;
        service
            .eq_ignore_ascii_case("compute")
            .then(|| version.trim())
    });
    named.or_else(|| headers.get(OLD_HEADER)?.to_str().ok().map(str::trim))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn of(name: HeaderName, value: &'static str) -> Result<Version, NoVersion> {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static(value));
        negotiate(&headers)
    }

    #[test]
    fn versions_come_from_either_header() {
        assert_eq!(negotiate(&HeaderMap::new()), Ok(Version(OLDEST)));
        assert_eq!(of(HEADER, "compute 2.53"), Ok(Version(53)));
        assert_eq!(
            of(HEADER, "placement 1.4, Compute latest"),
            Ok(Version(NEWEST))
        );
        assert_eq!(of(HEADER, "placement 1.4"), Ok(Version(OLDEST)));
        assert_eq!(of(OLD_HEADER, "2.60"), Ok(Version(60)));
        for text in ["compute 2", "compute 2.x", "compute 2.01", "compute a.b"] {
            assert!(
                matches!(of(HEADER, text), Err(NoVersion::Malformed(_))),
                "{text}"
            );
        }
        for text in ["compute 2.97", "compute 1.1", "compute 3.0", "compute 2.0"] {
            assert!(
                matches!(of(HEADER, text), Err(NoVersion::NotOffered(_))),
                "{text}"
            );
        }
    }
}
