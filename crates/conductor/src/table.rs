//! States that are a set of tables, and the facts that write their rows.
//!
//! A fact says what a row is from now on, so applying it cannot fail, and what it replaced is what
//! undoes it. Snapshots are facts too: one for each row.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::packed::{Packer, SpecRow, Unpacker};
use crate::spec::Spec;

/// The version of records, and of snapshots in which no specs have anything in common.
pub const FORMAT_VERSION: u8 = 1;

/// The version of snapshots with [packed](crate::packed) rows.
pub const PACKED_VERSION: u8 = 2;

/// No row is longer: specs are bounded by the API.
const ROW_BYTES_MAX: u32 = 64 << 20;

/// Why a record or snapshot cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// Reading failed.
    #[error("the data cannot be read")]
    Io(#[from] io::Error),
    /// A newer release wrote it.
    #[error("the data has version {found}; this release reads versions up to {supported}")]
    NewerVersion {
        /// The version found.
        found: u8,
        /// The newest version that is understood.
        supported: u8,
    },
    /// It makes no sense.
    #[error("the data is damaged: {0}")]
    Damaged(String),
}

/// Appends the record of some changes to a buffer.
pub fn encode<C: Serialize>(changes: &[C], out: &mut Vec<u8>) {
    out.push(FORMAT_VERSION);
    let start = std::mem::take(out);
    *out = postcard::to_extend(changes, start)
        .expect("plain data written to memory always has an encoding");
}

/// Reads the changes of a record.
///
/// # Errors
///
/// [`ReadError`] when the bytes are not a record that this release knows.
pub fn decode<C: DeserializeOwned>(record: &[u8]) -> Result<Vec<C>, ReadError> {
    let Some((version, body)) = record.split_first() else {
        return Err(ReadError::Damaged("it is empty".into()));
    };
    check_version(*version, FORMAT_VERSION)?;
    postcard::from_bytes(body).map_err(|error| ReadError::Damaged(error.to_string()))
}

/// Writes rows: the version, each row with its length before it, and a length of 0.
pub(crate) fn save<C: Serialize>(
    rows: impl Iterator<Item = C>,
    out: &mut dyn Write,
) -> io::Result<()> {
    out.write_all(&[FORMAT_VERSION])?;
    for row in rows {
        let bytes = postcard::to_stdvec(&row).map_err(io::Error::other)?;
        write_row(&bytes, out)?;
    }
    out.write_all(&0u32.to_le_bytes())
}

/// The same, with what the specs among the rows have in common written once.
pub(crate) fn save_packed<'s, C: SpecRow + Serialize>(
    rows: impl Iterator<Item = C>,
    specs: impl Iterator<Item = &'s Spec>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut packer = Packer::of(specs);
    if !packer.shares() {
        return save(rows, out);
    }
    out.write_all(&[PACKED_VERSION])?;
    for row in rows {
        packer.pack(&row, |bytes| write_row(&bytes, out))?;
    }
    out.write_all(&0u32.to_le_bytes())
}

fn write_row(bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(bytes)
}

/// Reads rows. Nothing at all is no rows: what wrote the input did not have this part yet.
pub(crate) fn load<C: SpecRow + DeserializeOwned>(
    input: &mut dyn Read,
    mut row: impl FnMut(&C),
) -> Result<(), ReadError> {
    let mut version = [0];
    if input.read(&mut version)? == 0 {
        return Ok(());
    }
    check_version(version[0], PACKED_VERSION)?;
    let mut unpacker = (version[0] == PACKED_VERSION).then(Unpacker::default);
    let mut bytes = Vec::new();
    loop {
        let mut length = [0; 4];
        input.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length);
        if length == 0 {
            return Ok(());
        }
        if length > ROW_BYTES_MAX {
            return Err(ReadError::Damaged(format!("a row of {length} bytes")));
        }
        bytes.resize(length as usize, 0);
        input.read_exact(&mut bytes)?;
        let read = match &mut unpacker {
            Some(unpacker) => unpacker.read(&bytes)?.0,
            None => postcard::from_bytes(&bytes)
                .map(Some)
                .map_err(|error| ReadError::Damaged(error.to_string()))?,
        };
        if let Some(read) = read {
            row(&read);
        }
    }
}

fn check_version(found: u8, supported: u8) -> Result<(), ReadError> {
    if found > supported {
        return Err(ReadError::NewerVersion { found, supported });
    }
    Ok(())
}

/// The first half of a hash of what `save` writes.
pub(crate) fn digest(save: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> u128 {
    let mut hasher = blake3::Hasher::new();
    let mut out = io::BufWriter::with_capacity(1 << 16, &mut hasher);
    // Hashing cannot fail.
    let written = save(&mut out).and_then(|()| out.flush());
    debug_assert!(written.is_ok());
    drop(out);
    let mut half = [0; 16];
    half.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    u128::from_le_bytes(half)
}

/// What follows from the rows of a state and is kept beside them, so that it need not be worked out.
pub(crate) trait Index<C>: Clone + std::fmt::Debug + Default + PartialEq {
    /// A row changed: what it was, and what it is now.
    fn follow(&mut self, before: &C, now: &C);
}

impl<C> Index<C> for () {
    fn follow(&mut self, _before: &C, _now: &C) {}
}

/// Declares a state, its kinds of fact, and what takes them back; and the index that follows it. One
/// of its tables is `specs: Spec(InstanceId => Spec)`.
macro_rules! tables {
    (
        $(#[$doc:meta])* tables with $index:ty;
        $( $(#[$table_doc:meta])* $table:ident: $fact:ident($key:ty => $row:ty), )*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct State {
            $( pub(crate) $table: std::collections::BTreeMap<$key, $row>, )*
            index: $index,
        }

        /// One fact: a row is so from now on, or is gone.
        ///
        /// The order of variants is the journal's format: append new ones at the end
        /// (`tests/golden.rs` guards it).
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        pub enum Change {
            $( $(#[$table_doc])* $fact($key, Option<Box<$row>>), )*
        }

        /// What takes one applied change back. Undo in the reverse order of applying.
        #[derive(Debug)]
        pub struct Undo(Change);

        impl crate::packed::SpecRow for Change {
            fn spec(&self) -> Option<(crate::ids::InstanceId, &crate::spec::Spec)> {
                match self {
                    Self::Spec(instance, Some(spec)) => Some((*instance, spec)),
                    _ => None,
                }
            }

            fn of_spec(
                instance: crate::ids::InstanceId,
                spec: Box<crate::spec::Spec>,
            ) -> Self {
                Self::Spec(instance, Some(spec))
            }
        }

        impl State {
            $( $(#[$table_doc])* #[must_use]
            pub fn $table(&self) -> &std::collections::BTreeMap<$key, $row> {
                &self.$table
            } )*

            /// Carries out a fact. The result takes it back.
            pub fn apply(&mut self, change: &Change) -> Undo {
                let undo = match change {
                    $( Change::$fact(key, row) => {
                        let before = match row {
                            Some(row) => self.$table.insert(key.clone(), (**row).clone()),
                            None => self.$table.remove(key),
                        };
                        Undo(Change::$fact(key.clone(), before.map(Box::new)))
                    } )*
                };
                crate::table::Index::follow(&mut self.index, &undo.0, change);
                undo
            }

            /// Whether a fact is so already.
            #[must_use]
            pub fn holds(&self, change: &Change) -> bool {
                match change {
                    $( Change::$fact(key, row) => self.$table.get(key) == row.as_deref(), )*
                }
            }

            /// Takes back the latest applied change that was not yet taken back.
            pub fn undo(&mut self, undo: Undo) {
                drop(self.apply(&undo.0));
            }

            fn rows(&self) -> impl Iterator<Item = Change> + '_ {
                let none = std::iter::empty();
                $( let none = none.chain(self.$table.iter().map(|(key, row)| {
                    Change::$fact(key.clone(), Some(Box::new(row.clone())))
                })); )*
                none
            }

            /// Writes the whole state.
            ///
            /// # Errors
            ///
            /// Only those of `out`.
            pub fn save(&self, out: &mut dyn std::io::Write) -> std::io::Result<()> {
                crate::table::save_packed(self.rows(), self.specs.values(), out)
            }

            /// Reads a state that this or an older release saved; nothing at all is an empty one.
            ///
            /// # Errors
            ///
            /// [`ReadError`](crate::table::ReadError) when the bytes are no saved state.
            pub fn load(input: &mut dyn std::io::Read) -> Result<Self, crate::table::ReadError> {
                let mut state = Self::default();
                crate::table::load(input, |row: &Change| drop(state.apply(row)))?;
                Ok(state)
            }

            /// Writes the whole state as if nothing were shared: equal states give equal bytes.
            pub(crate) fn save_plain(&self, out: &mut dyn std::io::Write) -> std::io::Result<()> {
                crate::table::save(self.rows(), out)
            }

            /// A digest of the whole state: equal states have equal digests.
            #[must_use]
            pub fn digest(&self) -> u128 {
                crate::table::digest(|out| self.save_plain(out))
            }
        }
    };
}

pub(crate) use tables;
