//! States that consist of tables, and the facts that write their rows.
//!
//! A fact gives the new content of a row, so applying it cannot fail, and the replaced content
//! undoes it. A snapshot is a list of facts too: one for each row.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::packed::{Packer, SpecRow, Unpacker};
use crate::spec::Spec;

/// The version of records, and of snapshots without shared parts of specs.
pub const FORMAT_VERSION: u8 = 1;

/// The version of snapshots with [packed](crate::packed) rows.
pub const PACKED_VERSION: u8 = 2;

/// The maximum size of a row in bytes; the API limits specs to less.
const ROW_BYTES_MAX: u32 = 64 << 20;

/// Why a record or snapshot cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The reader failed, or the data ended early.
    #[error("the data cannot be read")]
    Io(#[from] io::Error),
    /// A newer release wrote the data.
    #[error("the data has version {found}; this release reads versions up to {supported}")]
    NewerVersion {
        /// The version in the data.
        found: u8,
        /// The newest version that this release reads.
        supported: u8,
    },
    /// The content is not valid.
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

/// Writes rows: the version, each row preceded by its length, and a length of 0.
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

/// As [`save`], but writes the shared parts of specs once.
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

/// Reads rows. Empty input has no rows: its writer did not have this part yet.
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

/// The first half of a BLAKE3 hash of what `save` writes.
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

/// An index derived from the rows of a state and updated with them.
pub(crate) trait Index<C>: Clone + std::fmt::Debug + Default + PartialEq {
    /// Updates the index after a row has changed: its former and its new content.
    fn follow(&mut self, before: &C, now: &C);
}

impl<C> Index<C> for () {
    fn follow(&mut self, _before: &C, _now: &C) {}
}

/// Declares a state, its facts, their undo data, and the derived index. One of its tables has to
/// be `specs: Spec(InstanceId => Spec)`.
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

        /// One fact: the new content of a row, or its removal.
        ///
        /// The order of variants is the journal's format: append new ones at the end
        /// (`tests/golden.rs` guards it).
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        pub enum Change {
            $( $(#[$table_doc])* $fact($key, Option<Box<$row>>), )*
        }

        /// Undoes one applied change. Undo in the reverse order of applying.
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

            /// Applies a fact. The result undoes it.
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

            /// Whether the state already agrees with a fact.
            #[must_use]
            pub fn holds(&self, change: &Change) -> bool {
                match change {
                    $( Change::$fact(key, row) => self.$table.get(key) == row.as_deref(), )*
                }
            }

            /// Undoes the latest applied change that was not yet undone.
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

            /// Reads a state that this or an older release saved; empty input is an empty state.
            ///
            /// # Errors
            ///
            /// [`ReadError`](crate::table::ReadError) when the bytes are no saved state.
            pub fn load(input: &mut dyn std::io::Read) -> Result<Self, crate::table::ReadError> {
                let mut state = Self::default();
                crate::table::load(input, |row: &Change| drop(state.apply(row)))?;
                Ok(state)
            }

            /// Writes the whole state without sharing: equal states give equal bytes.
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
