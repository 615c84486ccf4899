//! The record of guests in a file.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

use std::fs;

use placewright_agent::record::Record;
use placewright_conductor::ids::NUMBER_END;

const NOW_US: u64 = 1_800_000_000_000_000;

/// A file of an earlier release that accepted an attacker's session number.
fn file_with_session(session: u64) -> Vec<u8> {
    let mut body = vec![2];
    let mut rest = session;
    while rest > 0x7f {
        body.push(u8::try_from(rest & 0x7f).unwrap() | 0x80);
        rest >>= 7;
    }
    body.push(u8::try_from(rest).unwrap());
    let mut bytes = b"pwguest\x01".to_vec();
    bytes.extend_from_slice(&u32::try_from(body.len()).unwrap().to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
    bytes.extend_from_slice(&body);
    bytes
}

#[test]
fn a_session_that_nobody_can_have_begun_is_not_counted_further() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("guests");
    for absurd in [u64::MAX, u64::MAX - 1, NUMBER_END] {
        fs::write(&path, file_with_session(absurd)).unwrap();
        let mut record = Record::open(&path, true).unwrap();
        assert_eq!(record.next_session(NOW_US, 0), Some(NOW_US));
        record.write().unwrap();
        drop(record);
        let mut record = Record::open(&path, true).unwrap();
        assert_eq!(record.next_session(NOW_US, 0), Some(NOW_US + 1));
    }
    fs::write(&path, file_with_session(NOW_US + 7)).unwrap();
    let mut record = Record::open(&path, true).unwrap();
    assert_eq!(record.next_session(NOW_US, 0), Some(NOW_US + 8));
}

#[test]
fn no_session_is_greater_than_what_nobody_can_mean() {
    let mut record = Record::in_memory();
    assert_eq!(record.next_session(NOW_US, u64::MAX), None);
    assert_eq!(record.next_session(NOW_US, NUMBER_END - 1), None);
    assert_eq!(record.next_session(NOW_US, 5), Some(NOW_US));
    let ahead = NOW_US + 1_000;
    assert_eq!(record.next_session(NOW_US, ahead), Some(ahead + 1));
}
