//! A row as a later release has it, and the check that older and newer releases read each other's.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails; each test uses another part"
)]

use std::fmt::Debug;

use placewright_records::{Form, FormError, Layout, Reader, Writer};

/// A row as a later release has it: with a field after those of today.
#[derive(Clone, Debug, PartialEq)]
pub struct Next<T> {
    pub row: T,
    pub added: Option<String>,
}

impl<T> Next<T> {
    pub fn new(row: T) -> Self {
        Self {
            row,
            added: Some("of a later release".into()),
        }
    }
}

/// The fields of a row, without its length.
pub fn fields(row: &impl Form) -> Vec<u8> {
    let mut out = Writer::new(Vec::new(), Layout::Growing);
    row.write(&mut out);
    let bytes = out.into_bytes();
    let mut from = Reader::new(&bytes, Layout::Growing);
    let length = from.length().unwrap();
    assert_eq!(from.left(), length);
    from.raw(length).unwrap().to_vec()
}

impl<T: Form> Form for Next<T> {
    fn write(&self, out: &mut Writer) {
        if out.layout() == Layout::Positional {
            return self.row.write(out);
        }
        let today = fields(&self.row);
        out.row(|out| {
            out.raw(&today);
            let end = out.position();
            let end = out.added(&self.added, end);
            out.cut(end);
        });
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        from.row(|from| {
            // The row of today ends where its fields end: what is left is the added one. The longest
            // comes first, because a row may also end before fields that were added earlier.
            let whole = from.left();
            let bytes = from.raw(whole)?;
            let today = (0..=whole).rev().find_map(|end| {
                let mut out = Writer::new(Vec::new(), Layout::Growing);
                out.row(|out| out.raw(&bytes[..end]));
                let framed = out.into_bytes();
                let row = T::read(&mut Reader::new(&framed, Layout::Growing)).ok()?;
                (fields(&row).len() == end).then_some((row, end))
            });
            let (row, end) = today.ok_or(FormError::Ended)?;
            let added = Reader::new(&bytes[end..], Layout::Growing).added()?;
            Ok(Self { row, added })
        })
    }
}

pub fn written(value: &impl Form) -> Vec<u8> {
    let mut out = Writer::new(Vec::new(), Layout::Growing);
    value.write(&mut out);
    out.into_bytes()
}

pub fn read<T: Form>(bytes: &[u8]) -> T {
    let mut from = Reader::new(bytes, Layout::Growing);
    let value = T::read(&mut from).unwrap();
    from.end().unwrap();
    value
}

/// Both ways, for a row by itself.
pub fn assert_grows<T: Form + Clone + PartialEq + Debug>(row: T) {
    let next = Next::new(row.clone());
    let bytes = written(&next);
    assert_eq!(read::<T>(&bytes), row, "an older reader");
    assert_eq!(read::<Next<T>>(&bytes), next, "a newer reader");
    let of_today = read::<Next<T>>(&written(&row));
    let added = None;
    assert_eq!(of_today, Next { row, added }, "an older writer");
    // A newer writer that has nothing new to say writes as an older one.
    assert_eq!(written(&of_today), written(&of_today.row));
}
