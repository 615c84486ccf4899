//! The values of a store's keys, and their checks.
//!
//! Every value but those of parts and chunks begins with a frame of 8 bytes: `PW`, the kind of the value (`H` for the
//! head, `T` for the end of the trimmed entries, `B` for a batch, `S` for a snapshot), the version of its form, and the
//! CRC-32 of these four bytes and of all that follows. Numbers are little-endian.

use placewright_journal::batch::{Link, LogEnd};
use placewright_journal::chunks::ChunkTotals;
use prost::bytes::Bytes;

/// The version of the store's form, which every frame has.
pub(crate) const FORMAT: u8 = 1;
const FRAME_BYTES: usize = 8;

/// Why a value cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowError {
    /// A newer release wrote the value, in a form of this version.
    Newer(u8),
    /// The value is damaged, or was not written by a journal.
    Bad,
}

/// A value: a frame around a body.
fn frame(kind: u8, body: &[&[u8]]) -> Bytes {
    let bytes: usize = body.iter().map(|part| part.len()).sum();
    let mut row = Vec::with_capacity(FRAME_BYTES + bytes);
    row.extend_from_slice(&[b'P', b'W', kind, FORMAT, 0, 0, 0, 0]);
    body.iter().for_each(|part| row.extend_from_slice(part));
    let crc = frame_crc(&row);
    row[4..FRAME_BYTES].copy_from_slice(&crc.to_le_bytes());
    row.into()
}

/// The checksum in the frame of a value.
fn frame_crc(row: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&row[..4]);
    hasher.update(&row[FRAME_BYTES..]);
    hasher.finalize()
}

/// The body of a framed value.
fn unframe(kind: u8, row: &Bytes) -> Result<Bytes, RowError> {
    let head = row.first_chunk::<FRAME_BYTES>().ok_or(RowError::Bad)?;
    let [b'P', b'W', found_kind, format, crc @ ..] = head else {
        return Err(RowError::Bad);
    };
    if *found_kind != kind {
        return Err(RowError::Bad);
    }
    if *format > FORMAT {
        return Err(RowError::Newer(*format));
    }
    if u32::from_le_bytes(*crc) != frame_crc(row) {
        return Err(RowError::Bad);
    }
    Ok(row.slice(FRAME_BYTES..))
}

/// Takes numbers off the front of a value.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn u128(&mut self) -> Option<u128> {
        self.take().map(u128::from_le_bytes)
    }
}

/// The form of the end of a log in a value; read by [`read_end`].
fn end_bytes(end: &LogEnd) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(&end.last.to_le_bytes());
    bytes[8..12].copy_from_slice(&end.checksum.to_le_bytes());
    bytes[12..].copy_from_slice(&end.record_bytes.to_le_bytes());
    bytes
}

fn read_end(fields: &mut Fields<'_>) -> Option<LogEnd> {
    Some(LogEnd {
        last: fields.u64()?,
        checksum: fields.u32()?,
        record_bytes: fields.u64()?,
    })
}

/// The value of the key `trim`: the end of the trimmed entries.
pub(crate) fn encode_trim(end: &LogEnd) -> Bytes {
    frame(b'T', &[&end_bytes(end)])
}

pub(crate) fn decode_trim(row: &Bytes) -> Result<LogEnd, RowError> {
    let body = unframe(b'T', row)?;
    read_end(&mut Fields(&body)).ok_or(RowError::Bad)
}

/// The value of the key `head`, against which every append is compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) end: LogEnd,
    /// How often the log was taken over; see [`EtcdHead`](crate::EtcdHead).
    pub(crate) epoch: u64,
    /// The id of the last batch, by which a writer recognises a batch of its own.
    pub(crate) batch_id: u128,
    /// The address of the store that replaces this one, if this one is sealed.
    pub(crate) moved_to: Option<String>,
}

impl Head {
    pub(crate) fn encode(&self) -> Bytes {
        let sealed = [u8::from(self.moved_to.is_some())];
        let moved_to = self.moved_to.as_deref().unwrap_or_default();
        frame(
            b'H',
            &[
                &end_bytes(&self.end),
                &self.epoch.to_le_bytes(),
                &self.batch_id.to_le_bytes(),
                &sealed,
                moved_to.as_bytes(),
            ],
        )
    }

    pub(crate) fn decode(row: &Bytes) -> Result<Self, RowError> {
        let body = unframe(b'H', row)?;
        let mut fields = Fields(&body);
        let mut read = || {
            let (end, epoch) = (read_end(&mut fields)?, fields.u64()?);
            let (batch_id, [sealed]) = (fields.u128()?, fields.take()?);
            let moved_to = String::from_utf8(fields.0.to_vec()).ok()?;
            Some(Self {
                end,
                epoch,
                batch_id,
                moved_to: (sealed != 0).then_some(moved_to),
            })
        };
        read().ok_or(RowError::Bad)
    }
}

/// Where the records of a batch are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PayloadLocation {
    /// In the batch's own value.
    Inline,
    /// In keys of their own that were written in the transaction of the batch.
    Parts,
    /// In keys of their own that were written before the transaction of the batch.
    Upload,
}

/// The value of a batch without its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchHeader {
    pub(crate) first: u64,
    /// The end of the batch, with its own checksum.
    pub(crate) end: LogEnd,
    /// The checksum of the batch before.
    pub(crate) previous: u32,
    /// A number that no other batch has. By it a writer recognises its own batch.
    pub(crate) id: u128,
    /// When the batch was appended, in microseconds since 1970, by the clock of the writer.
    pub(crate) appended_at: i64,
    pub(crate) location: PayloadLocation,
    /// The size of the encoded records.
    pub(crate) payload_bytes: u64,
}

impl BatchHeader {
    /// The place of the batch in the chain.
    pub(crate) fn link(&self) -> Link {
        Link {
            first: self.first,
            last: self.end.last,
            previous: self.previous,
            checksum: self.end.checksum,
        }
    }

    /// The value with `payload`, which is empty if the records are in other keys.
    pub(crate) fn encode(&self, payload: &[u8]) -> Bytes {
        let location = match self.location {
            PayloadLocation::Inline => 0,
            PayloadLocation::Parts => 1,
            PayloadLocation::Upload => 2,
        };
        frame(
            b'B',
            &[
                &self.first.to_le_bytes(),
                &end_bytes(&self.end),
                &self.previous.to_le_bytes(),
                &self.id.to_le_bytes(),
                &self.appended_at.to_le_bytes(),
                &[location],
                &self.payload_bytes.to_le_bytes(),
                payload,
            ],
        )
    }

    /// The header and the inline records.
    pub(crate) fn decode(row: &Bytes) -> Result<(Self, Bytes), RowError> {
        let body = unframe(b'B', row)?;
        Self::fields(&body).ok_or(RowError::Bad)
    }

    /// The header of a value that may be damaged. Nothing in it is certain. `None` if the value has no header at all.
    pub(crate) fn decode_damaged(row: &Bytes) -> Option<Self> {
        let body = (row.len() > FRAME_BYTES).then(|| row.slice(FRAME_BYTES..))?;
        Self::fields(&body).map(|(header, _)| header)
    }

    /// The header in the body of a value, and the rest of the body.
    fn fields(body: &Bytes) -> Option<(Self, Bytes)> {
        let mut fields = Fields(body);
        let header = Self {
            first: fields.u64()?,
            end: read_end(&mut fields)?,
            previous: fields.u32()?,
            id: fields.u128()?,
            appended_at: fields.take().map(i64::from_le_bytes)?,
            location: match fields.take()? {
                [0] => PayloadLocation::Inline,
                [1] => PayloadLocation::Parts,
                [2] => PayloadLocation::Upload,
                _ => return None,
            },
            payload_bytes: fields.u64()?,
        };
        let payload = body.slice(body.len() - fields.0.len()..);
        Some((header, payload))
    }
}

/// The value of a finished snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// The id that the chunks of this snapshot have in their keys.
    pub(crate) attempt: u128,
    pub(crate) totals: ChunkTotals,
}

impl Manifest {
    pub(crate) fn encode(&self) -> Bytes {
        frame(
            b'S',
            &[
                &self.attempt.to_le_bytes(),
                &self.totals.chunks.to_le_bytes(),
                &self.totals.bytes.to_le_bytes(),
                &self.totals.checksum.to_le_bytes(),
            ],
        )
    }

    pub(crate) fn decode(row: &Bytes) -> Result<Self, RowError> {
        let body = unframe(b'S', row)?;
        let mut fields = Fields(&body);
        let mut read = || {
            Some(Self {
                attempt: fields.u128()?,
                totals: ChunkTotals {
                    chunks: fields.u64()?,
                    bytes: fields.u64()?,
                    checksum: fields.u32()?,
                },
            })
        };
        read().ok_or(RowError::Bad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_written_and_damage_is_noticed() {
        let end = LogEnd {
            last: 9,
            checksum: 8,
            record_bytes: 7,
        };
        let head = Head {
            end,
            epoch: 3,
            batch_id: 1 << 100,
            moved_to: Some(String::new()),
        };
        assert_eq!(Head::decode(&head.encode()), Ok(head));
        assert_eq!(decode_trim(&encode_trim(&end)), Ok(end));
        assert_eq!(Head::decode(&encode_trim(&end)), Err(RowError::Bad));
        let header = BatchHeader {
            first: 5,
            end,
            previous: 4,
            id: 3,
            appended_at: -2,
            location: PayloadLocation::Upload,
            payload_bytes: 3,
        };
        let row = header.encode(b"abc");
        let payload = Bytes::from_static(b"abc");
        assert_eq!(BatchHeader::decode(&row), Ok((header, payload)));
        let manifest = Manifest {
            attempt: 1,
            totals: ChunkTotals {
                chunks: 2,
                bytes: 3,
                checksum: 4,
            },
        };
        assert_eq!(Manifest::decode(&manifest.encode()), Ok(manifest));
        for at in 0..row.len() {
            let mut damaged = row.to_vec();
            damaged[at] ^= 0x10;
            let expected = if at == 3 {
                RowError::Newer(FORMAT ^ 0x10)
            } else {
                RowError::Bad
            };
            assert_eq!(BatchHeader::decode(&damaged.into()), Err(expected), "{at}");
            assert!(BatchHeader::decode(&row.slice(..at)).is_err());
        }
    }
}
