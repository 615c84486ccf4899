//! The data that replicas write around a record: the command of another replica whose effect the record is, or the
//! replica that leads from this entry on.
//!
//! ```text
//! record     the machine's record, as `Machine::encode` writes it; or
//!            0xff | kind u8 | length of the data u16 | data | the machine's record
//! kind 1     a command of another replica:   origin u64 | number u64
//! kind 2     a replica that leads from here:  origin u64 | time u64, in milliseconds since 1970 | reason u8 |
//!            address, UTF-8
//! ```
//!
//! Numbers are little-endian. The first byte of a machine's record is the version of its format, which never reaches
//! 0xff. A store that one process alone writes has no envelopes, so releases that know no replicas can read it. Of an
//! envelope of an unknown kind only the machine's record is read.

use crate::DecodeError;
use crate::leadership::{Leadership, TakeoverReason};

/// The first byte of an envelope.
const MARKER: u8 = 0xff;
const KIND_COMMAND: u8 = 1;
const KIND_LEADER: u8 = 2;
/// The bytes before the data.
const HEAD_BYTES: usize = 4;
/// The maximum length of an address in bytes.
const ADDRESS_BYTES_MAX: usize = 1_024;

/// A command of a replica: the replica's number, which is new at each start, and the number that it gave the
/// command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CommandId {
    /// The replica that the command was submitted to.
    pub origin: u64,
    /// Unique among the commands of that replica.
    pub number: u64,
}

/// The content of an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Envelope<'a> {
    /// The record has no envelope, or one of a kind that only later releases know.
    None,
    /// The record is the effect of this command.
    Command(CommandId),
    /// A replica leads from this entry on.
    Leader(LeaderNote<'a>),
}

/// The content of the entry with which a replica begins to lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeaderNote<'a> {
    /// The number of the replica that leads.
    pub(crate) origin: u64,
    /// The address at which the other replicas reach the one that leads.
    pub(crate) address: &'a str,
    /// The time at which the replica took over, by its own clock, in milliseconds since 1970. It is only shown to
    /// people; no decision depends on it.
    pub(crate) since_ms: u64,
    pub(crate) reason: TakeoverReason,
}

impl LeaderNote<'_> {
    /// The leadership that begins with the entry `epoch`, which has this note.
    pub(crate) fn leadership(&self, epoch: u64) -> Leadership {
        Leadership {
            epoch,
            origin: self.origin,
            address: self.address.to_owned(),
            is_own: false,
            since_ms: self.since_ms,
            reason: self.reason,
        }
    }
}

/// Separates a record from its envelope.
///
/// # Errors
/// The envelope is not valid.
pub(crate) fn open(record: &[u8]) -> Result<(Envelope<'_>, &[u8]), DecodeError> {
    if record.first() != Some(&MARKER) {
        return Ok((Envelope::None, record));
    }
    split(record).ok_or_else(|| DecodeError::Damaged("its envelope is not valid".into()))
}

/// The content of a record's envelope, and the machine's record; `None` if the envelope is not valid.
fn split(record: &[u8]) -> Option<(Envelope<'_>, &[u8])> {
    let (head, rest) = record.split_first_chunk::<HEAD_BYTES>()?;
    let length = u16::from_le_bytes([head[2], head[3]]);
    let (data, inner) = rest.split_at_checked(length.into())?;
    let envelope = match head[1] {
        KIND_COMMAND => {
            let (origin, number) = data.split_first_chunk::<8>()?;
            Envelope::Command(CommandId {
                origin: u64::from_le_bytes(*origin),
                number: u64::from_le_bytes(*number.first_chunk::<8>()?),
            })
        }
        KIND_LEADER => {
            let (origin, data) = data.split_first_chunk::<8>()?;
            let (since_ms, data) = data.split_first_chunk::<8>()?;
            let (reason, address) = data.split_first()?;
            Envelope::Leader(LeaderNote {
                origin: u64::from_le_bytes(*origin),
                address: std::str::from_utf8(address).ok()?,
                since_ms: u64::from_le_bytes(*since_ms),
                reason: TakeoverReason::from_byte(*reason),
            })
        }
        _ => Envelope::None,
    };
    Some((envelope, inner))
}

/// The machine's record without its envelope, if it has one.
///
/// # Errors
/// The envelope is not valid.
pub fn inner_record(record: &[u8]) -> Result<&[u8], DecodeError> {
    open(record).map(|(_, inner)| inner)
}

/// Begins a record that is the effect of a command of another replica. The caller appends the machine's record.
pub(crate) fn begin_command(id: CommandId, out: &mut Vec<u8>) {
    let mut data = [0; 16];
    data[..8].copy_from_slice(&id.origin.to_le_bytes());
    data[8..].copy_from_slice(&id.number.to_le_bytes());
    begin(KIND_COMMAND, &[&data], out);
}

/// Begins the record of an entry with which a replica begins to lead. The caller appends a machine's record that has no
/// changes. An address that is too long is cut off.
pub(crate) fn begin_leader(note: &LeaderNote<'_>, out: &mut Vec<u8>) {
    let mut end = note.address.len().min(ADDRESS_BYTES_MAX);
    while !note.address.is_char_boundary(end) {
        end -= 1;
    }
    let parts: [&[u8]; 4] = [
        &note.origin.to_le_bytes(),
        &note.since_ms.to_le_bytes(),
        &[note.reason.byte()],
        &note.address.as_bytes()[..end],
    ];
    begin(KIND_LEADER, &parts, out);
}

/// Writes an envelope of a kind. The record that it belongs to has to follow.
fn begin(kind: u8, data: &[&[u8]], out: &mut Vec<u8>) {
    let length: usize = data.iter().map(|part| part.len()).sum();
    // The data is at most an address of `ADDRESS_BYTES_MAX` bytes and a few numbers, so its length fits into 16 bits.
    let length = u16::try_from(length).unwrap_or(u16::MAX);
    out.extend_from_slice(&[MARKER, kind]);
    out.extend_from_slice(&length.to_le_bytes());
    data.iter().for_each(|part| out.extend_from_slice(part));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envelopes_are_read_as_they_were_written() {
        let id = CommandId {
            origin: 7,
            number: u64::MAX,
        };
        let mut record = Vec::new();
        begin_command(id, &mut record);
        record.extend_from_slice(b"inner");
        let opened = open(&record).unwrap();
        assert_eq!(opened, (Envelope::Command(id), b"inner".as_slice()));

        let mut record = Vec::new();
        let note = LeaderNote {
            origin: 9,
            address: "https://höst:1",
            since_ms: 1_790_000_000_000,
            reason: TakeoverReason::HandedOver,
        };
        begin_leader(&note, &mut record);
        assert_eq!(
            open(&record).unwrap(),
            (Envelope::Leader(note), b"".as_slice())
        );

        let mut record = Vec::new();
        let address = &"ö".repeat(ADDRESS_BYTES_MAX);
        begin_leader(&LeaderNote { address, ..note }, &mut record);
        assert!(matches!(open(&record), Ok((Envelope::Leader(_), b""))));
    }

    #[test]
    fn records_without_envelope_and_with_one_of_a_later_release_are_passed_on() {
        for record in [b"\x04abc".as_slice(), b""] {
            assert_eq!(open(record).unwrap(), (Envelope::None, record));
        }
        // An envelope of kind 99 with two bytes of data, before a record of two bytes.
        let later = [MARKER, 99, 2, 0, 1, 2, 4, 5];
        assert_eq!(open(&later).unwrap(), (Envelope::None, [4, 5].as_slice()));
    }

    #[test]
    fn a_damaged_envelope_is_an_error() {
        let mut record = Vec::new();
        begin_command(
            CommandId {
                origin: 1,
                number: 2,
            },
            &mut record,
        );
        for length in 1..record.len() {
            assert!(open(&record[..length]).is_err(), "{length}");
        }
        let mut record = vec![MARKER, KIND_LEADER, 18, 0];
        record.extend_from_slice(&[0; 17]);
        record.push(0xfe);
        assert!(open(&record).is_err(), "an address that is not UTF-8");
        assert!(open(&[MARKER, KIND_LEADER, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0]).is_err());
    }
}
