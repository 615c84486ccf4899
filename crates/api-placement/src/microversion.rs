//! Microversions of the Placement API and their negotiation.
//!
//! A client names the version that it wants in the `OpenStack-API-Version` header. The header is parsed as by the
//! library that OpenStack services share: it is a list of services with versions, and the last element that names this
//! service is used. The name may be in upper or lower case. The two numbers of a version may have any form that
//! Python's `int()` accepts.

use std::fmt;

use hyper::HeaderMap;
use hyper::header::HeaderName;

use crate::python;

/// The name of the header in requests and responses.
pub(crate) const HEADER: &str = "openstack-api-version";

/// [`HEADER`] as a constant for header maps.
const HEADER_NAME: HeaderName = HeaderName::from_static(HEADER);

/// A version `1.minor` of the Placement API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Microversion(u8);

impl Microversion {
    /// The oldest version, used when a client names none.
    pub const MIN: Self = Self(0);
    /// The newest version, called `latest` by clients.
    pub const MAX: Self = Self(39);

    /// The version `1.minor`, if it is supported.
    pub fn from_minor(minor: u8) -> Option<Self> {
        (minor <= Self::MAX.0).then_some(Self(minor))
    }

    /// Whether this version is `1.minor` or newer.
    pub fn since(self, minor: u8) -> bool {
        self.0 >= minor
    }

    /// The number after the dot.
    pub fn minor(self) -> u8 {
        self.0
    }

    /// The response header's value, `placement 1.N`.
    pub(crate) fn header_value(self) -> &'static str {
        HEADER_VALUES[usize::from(self.0)]
    }

    /// The version alone, `1.N`.
    pub(crate) fn number(self) -> &'static str {
        let value = self.header_value();
        value.strip_prefix("placement ").unwrap_or(value)
    }
}

impl fmt::Display for Microversion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "1.{}", self.0)
    }
}

/// The values of the header by the number after the dot, so that no response has to format one.
const HEADER_VALUES: [&str; 40] = [
    "placement 1.0",
    "placement 1.1",
    "placement 1.2",
    "placement 1.3",
    "placement 1.4",
    "placement 1.5",
    "placement 1.6",
    "placement 1.7",
    "placement 1.8",
    "placement 1.9",
    "placement 1.10",
    "placement 1.11",
    "placement 1.12",
    "placement 1.13",
    "placement 1.14",
    "placement 1.15",
    "placement 1.16",
    "placement 1.17",
    "placement 1.18",
    "placement 1.19",
    "placement 1.20",
    "placement 1.21",
    "placement 1.22",
    "placement 1.23",
    "placement 1.24",
    "placement 1.25",
    "placement 1.26",
    "placement 1.27",
    "placement 1.28",
    "placement 1.29",
    "placement 1.30",
    "placement 1.31",
    "placement 1.32",
    "placement 1.33",
    "placement 1.34",
    "placement 1.35",
    "placement 1.36",
    "placement 1.37",
    "placement 1.38",
    "placement 1.39",
];

/// Why a version header was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// Not two numbers with a dot between them; answered with 400.
    #[error("invalid version string: {text}; {reason}")]
    Malformed {
        /// The text that the client sent.
        text: String,
        /// The reason, in a sentence.
        reason: String,
    },
    /// A version that is not supported; answered with 406.
    #[error("Unacceptable version header: {0}")]
    Unacceptable(String),
}

/// The version that a request's headers ask for.
///
/// # Errors
///
/// [`VersionError`] when the text for this service is not a version, or not a supported one.
pub(crate) fn negotiate(headers: &HeaderMap) -> Result<Microversion, VersionError> {
    let mut values = headers.get_all(HEADER_NAME).iter();
    if let (Some(value), None) = (values.next(), values.next())
        && let Some(version) = parse_common_form(value.as_bytes())
    {
        return Ok(version);
    }
    let mut requested = None;
    for value in headers.get_all(HEADER_NAME) {
        // Repeated headers are one list.
        let text = String::from_utf8_lossy(value.as_bytes());
        for element in text.split(',') {
            if let Some(version) = version_of_element(element) {
                requested = Some(version.to_owned());
            }
        }
    }
    match requested {
        None => Ok(Microversion::MIN),
        Some(text) => parse(&text),
    }
}

/// Parses the form that most clients send, `placement 1.N`; none for any other form, and for an unsupported version.
fn parse_common_form(value: &[u8]) -> Option<Microversion> {
    let minor = match *value.strip_prefix(b"placement 1.")? {
        [ones @ b'0'..=b'9'] => ones - b'0',
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => (tens - b'0') * 10 + (ones - b'0'),
        _ => return None,
    };
    Microversion::from_minor(minor)
}

/// The version part of `placement <version>`; none for other services or a single word.
fn version_of_element(element: &str) -> Option<&str> {
    let element = element.trim();
    let (service, version) = element.split_once(char::is_whitespace)?;
    service
        .eq_ignore_ascii_case("placement")
        .then(|| version.trim())
}

fn parse(text: &str) -> Result<Microversion, VersionError> {
    if text == "latest" {
        return Ok(Microversion::MAX);
    }
    let malformed = |reason: String| VersionError::Malformed {
        text: text.to_owned(),
        reason,
    };
    let number = |part: &str| {
        python::int(part).ok_or_else(|| {
            malformed(format!(
                "invalid literal for int() with base 10: {}",
                python::repr_str(part)
            ))
        })
    };
    let Some((major, minor)) = text.split_once('.') else {
        // As in the reference, a text that is no number at all is reported as such.
        number(text)?;
        return Err(malformed("a version needs two numbers".to_owned()));
    };
    let (major, minor) = (number(major)?, number(minor)?);
    match u8::try_from(minor).ok().and_then(Microversion::from_minor) {
        Some(version) if major == 1 => Ok(version),
        _ => Err(VersionError::Unacceptable(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn negotiate_headers(values: &[&str]) -> Result<String, VersionError> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(HEADER, value.parse().unwrap());
        }
        negotiate(&headers).map(|version| version.to_string())
    }

    #[test]
    fn the_last_element_for_this_service_is_used() {
        for (values, expected) in [
            (&[][..], "1.0"),
            (&["placement 1.7"], "1.7"),
            (&["PlaceMent 1.7"], "1.7"),
            (&["placement 1.7, compute 2.1"], "1.7"),
            (&["placement 1.7, placement 1.9"], "1.9"),
            (&["placement 1.7", "placement 1.9"], "1.9"),
            (&["compute 2.90"], "1.0"),
            (&["placement"], "1.0"),
            (&["latest"], "1.0"),
            (&["placement latest"], "1.39"),
            (&["placement 1.0"], "1.0"),
            (&["placement 1.00"], "1.0"),
            (&["placement 1.039"], "1.39"),
            (&["placement 1.39"], "1.39"),
            (&["placement 01.10"], "1.10"),
            (&["placement 1.1_0"], "1.10"),
            (&["placement 1. 10"], "1.10"),
            (&["placement  +1.10"], "1.10"),
        ] {
            assert_eq!(
                negotiate_headers(values).as_deref(),
                Ok(expected),
                "{values:?}"
            );
        }
    }

    #[test]
    fn each_version_is_negotiated_by_its_header_value() {
        for minor in 0..=Microversion::MAX.minor() {
            let version = Microversion::from_minor(minor).unwrap();
            assert_eq!(version.number(), version.to_string());
            assert_eq!(
                negotiate_headers(&[version.header_value()]).as_deref(),
                Ok(version.number())
            );
        }
    }

    #[test]
    fn malformed_versions_and_unsupported_ones_are_different_errors() {
        for (value, is_malformed) in [
            ("placement pony.horse", true),
            ("placement 1.2.3", true),
            ("placement 1", true),
            ("placement Latest", true),
            ("placement 1.40", false),
            ("placement 1.99", false),
            ("placement 1.", true),
            ("placement 0.5", false),
            ("placement 2.0", false),
            ("placement 1.-1", false),
            (
                "placement 1.99999999999999999999999999999999999999999999",
                false,
            ),
        ] {
            match negotiate_headers(&[value]) {
                Err(VersionError::Malformed { .. }) => assert!(is_malformed, "{value}"),
                Err(VersionError::Unacceptable(_)) => assert!(!is_malformed, "{value}"),
                Ok(version) => panic!("{value} is {version}"),
            }
        }
    }
}
