//! The guest log in a file.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

use std::fs;
use std::path::{Path, PathBuf};

use placewright_agent::record::{Guest, GuestKey, GuestLog, GuestLogError, GuestState};
use placewright_conductor::ids::NUMBER_END;
use placewright_conductor::{Amounts, HostId, InstanceId};
use uuid::Uuid;

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
        let mut record = GuestLog::open(&path, true).unwrap();
        assert_eq!(record.next_session(NOW_US, 0), Some(NOW_US));
        record.write().unwrap();
        drop(record);
        let mut record = GuestLog::open(&path, true).unwrap();
        assert_eq!(record.next_session(NOW_US, 0), Some(NOW_US + 1));
    }
    fs::write(&path, file_with_session(NOW_US + 7)).unwrap();
    let mut record = GuestLog::open(&path, true).unwrap();
    assert_eq!(record.next_session(NOW_US, 0), Some(NOW_US + 8));
}

#[test]
fn no_session_is_greater_than_what_nobody_can_mean() {
    let mut record = GuestLog::in_memory();
    assert_eq!(record.next_session(NOW_US, u64::MAX), None);
    assert_eq!(record.next_session(NOW_US, NUMBER_END - 1), None);
    assert_eq!(record.next_session(NOW_US, 5), Some(NOW_US));
    let ahead = NOW_US + 1_000;
    assert_eq!(record.next_session(NOW_US, ahead), Some(ahead + 1));
}

const HOST: HostId = HostId(Uuid::from_u128(2));

/// What is in the golden files: a guest in each state but the first, which was erased.
fn golden_guests() -> Vec<(HostId, GuestKey, Guest)> {
    let states = [
        GuestState::Prepared,
        GuestState::Running,
        GuestState::Left,
        GuestState::Offloaded,
        GuestState::Unsure,
    ];
    (1..)
        .zip(states)
        .map(|(number, state)| {
            let guest = Guest {
                state,
                amounts: vec![Amounts {
                    provider: HOST.0,
                    resources: vec![("VCPU".into(), 300)],
                }],
                group: Some(Uuid::from_u128(5)),
                image_properties: vec![("a".into(), "b".into())],
            };
            (HOST, (InstanceId(Uuid::from_u128(1)), number), guest)
        })
        .collect()
}

fn golden_file(version: u8) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    folder.join(format!("guests_{version}.hex"))
}

fn golden(version: u8) -> Vec<u8> {
    let hex = fs::read_to_string(golden_file(version)).unwrap();
    let pairs = hex.trim().as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// What older releases wrote is read for ever; the files are never written anew.
#[test]
fn files_of_each_version_read_as_they_always_did() {
    let folder = tempfile::tempdir().unwrap();
    for version in [1, 2] {
        let path = folder.path().join(format!("guests-{version}"));
        fs::write(&path, golden(version)).unwrap();
        let guests_of = |record: &GuestLog| -> Vec<_> {
            let guests = record.guests();
            guests
                .map(|(host, key, guest)| (host, key, guest.clone()))
                .collect()
        };
        let mut record = GuestLog::open(&path, false).unwrap();
        assert_eq!(guests_of(&record), golden_guests(), "version {version}");
        assert_eq!(record.next_session(0, 0), Some(301));
        record.write().unwrap();
        drop(record);
        // From now on the file is of the present version.
        assert_eq!(fs::read(&path).unwrap()[7], 2);
        let mut record = GuestLog::open(&path, false).unwrap();
        assert_eq!(
            guests_of(&record),
            golden_guests(),
            "version {version}, again"
        );
        assert_eq!(record.next_session(0, 0), Some(302));
    }
}

#[test]
fn a_file_is_written_as_its_version_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("guests");
    let mut record = GuestLog::open(&path, false).unwrap();
    let mut guests = golden_guests();
    let (host, (instance, _), mut first) = guests[0].clone();
    first.state = GuestState::Making;
    guests.insert(0, (host, (instance, 0), first));
    for (host, key, guest) in &guests {
        record.keep(*host, *key, guest);
    }
    record.erase(host, (instance, 0));
    assert_eq!(record.next_session(300, 0), Some(300));
    record.write().unwrap();
    drop(record);
    let bytes = fs::read(&path).unwrap();
    let file = golden_file(2);
    if !file.exists() {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        fs::write(&file, hex + "\n").unwrap();
        panic!("{} was written: commit it", file.display());
    }
    assert_eq!(bytes, golden(2));
}

#[test]
fn a_file_of_a_later_release_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("guests");
    let mut later = golden(2);
    later[7] = 3;
    fs::write(&path, &later).unwrap();
    let refused = GuestLog::open(&path, false).unwrap_err();
    assert!(matches!(refused, GuestLogError::Foreign(_)), "{refused}");
    assert_eq!(fs::read(&path).unwrap(), later);
}
