//! How a request's headers are looked up.

use std::borrow::Cow;

use reqwest::header::HeaderMap;

/// The headers of a request.
///
/// Names are given in lower case and do not depend on case. A header that came several times is one
/// value, joined by commas, as WSGI servers hand it to Placement; so a second `X-Auth-Token` cannot
/// hide behind the first.
pub trait Headers {
    /// The value of the header `name` without surrounding spaces, or nothing when it did not come.
    fn value(&self, name: &'static str) -> Option<Cow<'_, [u8]>>;
}

impl Headers for HeaderMap {
    fn value(&self, name: &'static str) -> Option<Cow<'_, [u8]>> {
        let mut values = self.get_all(name).iter();
        let first = values.next()?.as_bytes();
        let Some(second) = values.next() else {
            return Some(Cow::Borrowed(first));
        };
        let mut joined = first.to_vec();
        for value in std::iter::once(second).chain(values) {
            joined.push(b',');
            joined.extend_from_slice(value.as_bytes());
        }
        Some(Cow::Owned(joined))
    }
}

/// Pairs of name and value, mostly for tests.
impl Headers for [(&str, &str)] {
    fn value(&self, name: &'static str) -> Option<Cow<'_, [u8]>> {
        let mut values = self.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
        let first = values.next()?.1.as_bytes();
        let Some(second) = values.next() else {
            return Some(Cow::Borrowed(first));
        };
        let mut joined = first.to_vec();
        for (_, value) in std::iter::once(second).chain(values) {
            joined.push(b',');
            joined.extend_from_slice(value.as_bytes());
        }
        Some(Cow::Owned(joined))
    }
}

impl<const N: usize> Headers for [(&str, &str); N] {
    fn value(&self, name: &'static str) -> Option<Cow<'_, [u8]>> {
        self.as_slice().value(name)
    }
}

impl<H: Headers + ?Sized> Headers for &H {
    fn value(&self, name: &'static str) -> Option<Cow<'_, [u8]>> {
        (**self).value(name)
    }
}

/// A header's value as text. Bytes beyond ASCII are read as ISO 8859-1, as WSGI does it.
pub(crate) fn text(headers: &(impl Headers + ?Sized), name: &'static str) -> Option<String> {
    headers.value(name).map(|value| latin1(&value))
}

/// Reads bytes as ISO 8859-1.
pub(crate) fn latin1(bytes: &[u8]) -> String {
    if bytes.is_ascii() {
        // ASCII is UTF-8 already: one copy instead of a character at a time.
        String::from_utf8_lossy(bytes).into_owned()
    } else {
        bytes.iter().map(|&byte| char::from(byte)).collect()
    }
}
