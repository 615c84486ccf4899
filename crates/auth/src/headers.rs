//! Access to a request's headers, independent of the HTTP library.

use std::borrow::Cow;

use reqwest::header::{HeaderMap, HeaderValue};

/// The headers of a request.
///
/// Names are passed in lower case and match any case. The values of a repeated header are joined by
/// commas, as WSGI servers pass them to Placement; so a second `X-Auth-Token` is not ignored.
pub trait Headers {
    /// The value of the header `name` without surrounding spaces; `None` if it is absent.
    fn value(&self, name: &'static str) -> Option<Cow<'_, [u8]>>;

    /// The values of several headers, each as [`Headers::value`] returns it.
    fn values<const N: usize>(&self, names: [&'static str; N]) -> [Option<Cow<'_, [u8]>>; N] {
        names.map(|name| self.value(name))
    }
}

/// Up to this number of headers, a scan is faster than a look-up by hash.
const SCANNED_HEADERS_MAX: usize = 16;

impl Headers for HeaderMap {
    fn value(&self, name: &'static str) -> Option<Cow<'_, [u8]>> {
        if self.len() <= SCANNED_HEADERS_MAX {
            let matching = self
                .iter()
                .filter(|(header_name, _)| header_name.as_str() == name);
            return join(matching.map(|(_, value)| value.as_bytes()));
        }
        join(self.get_all(name).iter().map(HeaderValue::as_bytes))
    }

    fn values<const N: usize>(&self, names: [&'static str; N]) -> [Option<Cow<'_, [u8]>>; N] {
        // A single pass over the headers, because most requests have few headers and lack most names.
        let mut values = [const { None }; N];
        for (header_name, value) in self {
            let header_name = header_name.as_str();
            if let Some(index) = names.iter().position(|name| *name == header_name) {
                append_value(&mut values[index], value.as_bytes());
            }
        }
        values
    }
}

/// Appends a further value of the same header.
fn append_value<'a>(values: &mut Option<Cow<'a, [u8]>>, value: &'a [u8]) {
    match values {
        None => *values = Some(Cow::Borrowed(value)),
        Some(earlier_values) => {
            let joined = earlier_values.to_mut();
            joined.push(b',');
            joined.extend_from_slice(value);
        }
    }
}

/// Joins the values of a header.
fn join<'a>(values: impl Iterator<Item = &'a [u8]>) -> Option<Cow<'a, [u8]>> {
    let mut joined = None;
    values.for_each(|value| append_value(&mut joined, value));
    joined
}

/// Pairs of name and value, mainly for tests.
impl Headers for [(&str, &str)] {
    fn value(&self, name: &'static str) -> Option<Cow<'_, [u8]>> {
        let matching = self
            .iter()
            .filter(|(header_name, _)| header_name.eq_ignore_ascii_case(name));
        join(matching.map(|(_, value)| value.as_bytes()))
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
