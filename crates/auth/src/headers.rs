//! Access to a request's headers, independent of the HTTP library.

use std::borrow::Cow;

use reqwest::header::{HeaderMap, HeaderValue};

/// The headers of a request.
///
/// Names are given in lower case and match any case. A header with several values is one value,
/// joined by commas, as WSGI servers pass it to Placement; so a second `X-Auth-Token` cannot hide
/// behind the first.
pub trait Headers {
    /// The value of the header `name` without surrounding spaces; `None` if it is absent.
    fn value(&self, name: &'static str) -> Option<Cow<'_, [u8]>>;

    /// The values of several headers, each as [`Headers::value`] returns it.
    fn values<const N: usize>(&self, names: [&'static str; N]) -> [Option<Cow<'_, [u8]>>; N] {
        names.map(|name| self.value(name))
    }
}

/// Up to this many headers, a scan is faster than hashing names.
const FEW: usize = 16;

impl Headers for HeaderMap {
    fn value(&self, name: &'static str) -> Option<Cow<'_, [u8]>> {
        if self.len() <= FEW {
            let named = self.iter().filter(|(known, _)| known.as_str() == name);
            return join(named.map(|(_, value)| value.as_bytes()));
        }
        join(self.get_all(name).iter().map(HeaderValue::as_bytes))
    }

    fn values<const N: usize>(&self, names: [&'static str; N]) -> [Option<Cow<'_, [u8]>>; N] {
        // A single pass: most requests have few headers, and lack most of the names.
        let mut values = [const { None }; N];
        for (known, value) in self {
            let known = known.as_str();
            if let Some(place) = names.iter().position(|name| *name == known) {
                append(&mut values[place], value.as_bytes());
            }
        }
        values
    }
}

/// Appends a further value of the same header.
fn append<'a>(values: &mut Option<Cow<'a, [u8]>>, further: &'a [u8]) {
    match values {
        None => *values = Some(Cow::Borrowed(further)),
        Some(earlier) => {
            let joined = earlier.to_mut();
            joined.push(b',');
            joined.extend_from_slice(further);
        }
    }
}

/// Joins the values of a header.
fn join<'a>(values: impl Iterator<Item = &'a [u8]>) -> Option<Cow<'a, [u8]>> {
    let mut joined = None;
    values.for_each(|value| append(&mut joined, value));
    joined
}

/// Pairs of name and value, mainly for tests.
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

    fn values<const N: usize>(&self, names: [&'static str; N]) -> [Option<Cow<'_, [u8]>>; N] {
        (**self).values(names)
    }
}

/// A header's value as text. Bytes beyond ASCII are decoded as ISO 8859-1, as in WSGI.
pub(crate) fn text(headers: &(impl Headers + ?Sized), name: &'static str) -> Option<String> {
    headers.value(name).map(|value| latin1(&value))
}

/// Decodes a text in ISO 8859-1.
pub(crate) fn latin1(bytes: &[u8]) -> String {
    if bytes.is_ascii() {
        // ASCII is valid UTF-8: a copy is faster than decoding each character.
        String::from_utf8_lossy(bytes).into_owned()
    } else {
        bytes.iter().map(|&byte| char::from(byte)).collect()
    }
}
