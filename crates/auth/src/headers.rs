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

    /// The values of several headers, each as [`Headers::value`] has it.
    fn values<const N: usize>(&self, names: [&'static str; N]) -> [Option<Cow<'_, [u8]>>; N] {
        names.map(|name| self.value(name))
    }
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

    fn values<const N: usize>(&self, names: [&'static str; N]) -> [Option<Cow<'_, [u8]>>; N] {
        // One look at each header: most requests have few of them, and none of most names.
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

/// Puts a further value behind the earlier ones of the same header.
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

/// The values of one header as one value.
fn join<'a>(values: impl Iterator<Item = &'a [u8]>) -> Option<Cow<'a, [u8]>> {
    let mut joined = None;
    values.for_each(|value| append(&mut joined, value));
    joined
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

    fn values<const N: usize>(&self, names: [&'static str; N]) -> [Option<Cow<'_, [u8]>>; N] {
        (**self).values(names)
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
