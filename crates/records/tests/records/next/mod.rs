//! A row with an added field, as a later release may have it, and the test that releases with and without
//! the field read each other's rows.

pub(crate) mod decisions;
pub(crate) mod declared;
pub(crate) mod mappings;
pub(crate) mod tested_rows;

use std::fmt::Debug;

use placewright_records::{Form, FormError, Layout, Reader, Writer};

/// A row with one field more than it has in this release.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WithAddedField<T> {
    pub row: T,
    pub added: Option<String>,
}

impl<T> WithAddedField<T> {
    pub(crate) fn new(row: T) -> Self {
        Self {
            row,
            added: Some("of a later release".into()),
        }
    }
}

/// The fields of a row, without its length.
pub(crate) fn fields(row: &impl Form) -> Vec<u8> {
    let mut out = Writer::new(Vec::new(), Layout::Growing);
    row.write(&mut out);
    let bytes = out.into_bytes();
    let mut from = Reader::new(&bytes, Layout::Growing);
    let length = from.length().unwrap();
    assert_eq!(from.remaining(), length);
    from.raw(length).unwrap().to_vec()
}

impl<T: Form> Form for WithAddedField<T> {
    fn write(&self, out: &mut Writer) {
        if out.layout() == Layout::Positional {
            return self.row.write(out);
        }
        let present_fields = fields(&self.row);
        out.row(|out| {
            out.raw(&present_fields);
            let end = out.position();
            let end = out.added_field(&self.added, end);
            out.truncate(end);
        });
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        from.row(|from| {
            // The added field begins where the fields of this release end. That is after the longest prefix
            // that is a row of this release: shorter ones may lack fields that were added earlier.
            let length = from.remaining();
            let bytes = from.raw(length)?;
            let present_fields = (0..=length).rev().find_map(|end| {
                let mut out = Writer::new(Vec::new(), Layout::Growing);
                out.row(|out| out.raw(&bytes[..end]));
                let framed = out.into_bytes();
                let row = T::read(&mut Reader::new(&framed, Layout::Growing)).ok()?;
                (fields(&row).len() == end).then_some((row, end))
            });
            let (row, end) = present_fields.ok_or(FormError::Ended)?;
            let added = Reader::new(&bytes[end..], Layout::Growing).added_field()?;
            Ok(Self { row, added })
        })
    }
}

pub(crate) fn encode(value: &impl Form) -> Vec<u8> {
    let mut out = Writer::new(Vec::new(), Layout::Growing);
    value.write(&mut out);
    out.into_bytes()
}

pub(crate) fn decode<T: Form>(bytes: &[u8]) -> T {
    let mut from = Reader::new(bytes, Layout::Growing);
    let value = T::read(&mut from).unwrap();
    from.finish().unwrap();
    value
}

/// Asserts that releases with and without an added field read each other's rows.
pub(crate) fn assert_grows<T: Form + Clone + PartialEq + Debug>(row: T) {
    let next = WithAddedField::new(row.clone());
    let bytes = encode(&next);
    assert_eq!(decode::<T>(&bytes), row, "an older reader");
    assert_eq!(decode::<WithAddedField<T>>(&bytes), next, "a newer reader");
    let from_present = decode::<WithAddedField<T>>(&encode(&row));
    let added = None;
    assert_eq!(
        from_present,
        WithAddedField { row, added },
        "an older writer"
    );
    // With the default in the added field, a newer writer writes the same bytes as an older one.
    assert_eq!(encode(&from_present), encode(&from_present.row));
}
