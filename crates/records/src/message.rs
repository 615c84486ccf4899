//! The messages between control and cells, in each version that this release supports.
//!
//! Version 2 is the positional layout, version 3 the growing one. Each side announces the versions
//! that it supports, and both use the highest common one, so that two successive releases work
//! together. In the growing layout a field can be added without a new version. A new version is
//! needed for a value that an older release could not read, such as a new variant of a message.

use crate::form::{Form, FormError, Layout, Reader, Writer};

/// The longest encoding of the number of items in a list: a `u32` in LEB128.
const COUNT_BYTES_MAX: usize = 5;

/// The versions that a role supports: all from the oldest to the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The lowest version that the role still reads and writes.
    pub oldest: u32,
    /// The highest version that the role reads and writes.
    pub newest: u32,
}

impl Versions {
    /// The versions of messages that this release supports.
    pub const SUPPORTED: Self = Self {
        oldest: 2,
        newest: 3,
    };

    /// The highest version that both sides support, if there is one.
    #[must_use]
    pub fn common(self, other: Self) -> Option<u32> {
        let highest = self.newest.min(other.newest);
        (highest >= self.oldest.max(other.oldest)).then_some(highest)
    }

    /// Whether this range includes a version.
    #[must_use]
    pub fn include(self, version: u32) -> bool {
        (self.oldest..=self.newest).contains(&version)
    }
}

/// The layout of a version; `None` if this release does not support it.
fn layout(version: u32) -> Option<Layout> {
    match version {
        2 => Some(Layout::Positional),
        3 => Some(Layout::Growing),
        _ => None,
    }
}

/// The bytes of a message; `None` if this release does not support the version.
#[must_use]
pub fn encode<T: Form>(version: u32, message: &T) -> Option<Vec<u8>> {
    let mut out = Writer::new(Vec::new(), layout(version)?);
    message.write(&mut out);
    Some(out.into_bytes())
}

/// A part of a list, encoded as a list of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The number of items in this part.
    pub count: usize,
    /// The encoded list: the number of its items, and the items.
    pub bytes: Vec<u8>,
}

/// The bytes of a list, in parts. Each part ends with the item with which it reaches `bytes_max`, or with the last item
/// of the list. `None` if this release does not support the version. The items are written one by one, so their type
/// must not define [`Form::write_items`].
#[must_use]
pub fn encode_parts<T: Form>(version: u32, list: &[T], bytes_max: usize) -> Option<Vec<Part>> {
    let layout = layout(version)?;
    let (mut parts, mut count) = (Vec::new(), 0);
    let mut items = Writer::new(Vec::new(), layout);
    for (index, item) in list.iter().enumerate() {
        item.write(&mut items);
        count += 1;
        if items.bytes.len() >= bytes_max || index + 1 == list.len() {
            let capacity = items.bytes.len() + COUNT_BYTES_MAX;
            let mut out = Writer::new(Vec::with_capacity(capacity), layout);
            out.length(count);
            out.raw(&items.bytes);
            items.bytes.clear();
            parts.push(Part {
                count: std::mem::take(&mut count),
                bytes: out.into_bytes(),
            });
        }
    }
    Some(parts)
}

/// The number of items that an encoded list claims to have; `None` if the bytes do not begin with a number.
#[must_use]
pub fn claimed_count(bytes: &[u8]) -> Option<u64> {
    // Both layouts write the number of items in the same way.
    Reader::new(bytes, Layout::Growing).number().ok()
}

/// Reads a message.
///
/// # Errors
///
/// The bytes are not a message of this type, or the version is not supported by this release.
pub fn decode<T: Form>(version: u32, bytes: &[u8]) -> Result<T, FormError> {
    let mut from = reader(version, bytes)?;
    let message = T::read(&mut from)?;
    from.finish()?;
    Ok(message)
}

/// Reads a list and skips items in which this release does not know a variant. Returns the items and the number of
/// skipped ones. The items are read one by one, so their type must not define [`Form::read_items`].
///
/// # Errors
///
/// The bytes are not a list of this type, or the version is not supported by this release.
pub fn decode_known<T: Form>(version: u32, bytes: &[u8]) -> Result<(Vec<T>, usize), FormError> {
    let mut from = reader(version, bytes)?;
    let (mut list, mut skipped_count) = (Vec::new(), 0);
    for _ in 0..from.length()? {
        match T::read(&mut from) {
            Ok(item) => list.push(item),
            // Only in the growing layout an item has its length before it, so that the next item can be found.
            Err(FormError::Unknown { .. }) if from.layout() == Layout::Growing => {
                skipped_count += 1;
            }
            Err(error) => return Err(error),
        }
    }
    from.finish()?;
    Ok((list, skipped_count))
}

fn reader(version: u32, bytes: &[u8]) -> Result<Reader<'_>, FormError> {
    let layout = layout(version).ok_or(FormError::Unknown {
        what: "version",
        number: version.into(),
    })?;
    Ok(Reader::new(bytes, layout))
}
