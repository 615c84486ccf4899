//! How a request's headers are looked up.

use std::borrow::Cow;

use reqwest::header::{HeaderMap, HeaderValue};

/// The headers of a request.
///
/// Names are given in lower case and do not depend on case. A header that came several times is one
/// value, joined by commas, as WSGI servers hand it to Placement; so a second `X-Auth-Token` cannot
/// hide behind the first.
pub trait Headers {
    /// The value of the header `name` without surrounding spaces, or nothing when it did not come.
    fn value(&self, name: &'static str) -> Option<Cow<'_, [u8]>>;
}

/// Up to so many headers, looking at each is faster than parsing and hashing a name.
const FEW: usize = 16;

impl Headers for HeaderMap {
    fn value(&self, name: &'static str) -> Option<Cow<'_, [u8]>> {
        if self.len() <= FEW {
            let named = self.iter().filter(|(known, _)| known.as_str() == name);
            return join(named.map(|(_, value)| value.as_bytes()));
        }
        join(self.get_all(name).iter().map(HeaderValue::as_bytes))
    }
}

/// The values of one header as one value.
fn join<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Option<Cow<'a, [u8]>> {
    let first = values.next()?;
    let Some(second) = values.next() else {
        return Some(Cow::Borrowed(first));
    };
    let mut joined = first.to_vec();
    for value in std::iter::once(second).chain(values) {
        joined.push(b',');
        joined.extend_from_slice(value);
    }
    Some(Cow::Owned(joined))
}

/// Pairs of name and value, mostly for tests.
impl Headers for [(&str, &str)] {
    fn value(&self, name: &'static str) -> Option<Cow<'_, [u8]>> {
        let named = self.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
        join(named.map(|(_, value)| value.as_bytes()))
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
