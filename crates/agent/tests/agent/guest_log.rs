//! The guest log: its sessions, and its files of all versions.

use std::fs;
use std::path::{Path, PathBuf};

use placewright_agent::guest_log::{Guest, GuestKey, GuestLog, GuestLogError, GuestState};
use placewright_conductor::ids::NUMBER_END;
use placewright_conductor::{Amounts, HostId, InstanceId};
use uuid::Uuid;

const NOW_US: u64 = 1_800_000_000_000_000;
/// The version in which this release writes files, and its offset in a file: it follows the magic number.
const PRESENT_VERSION: u8 = 2;
const VERSION_OFFSET: usize = 7;
/// The session in the golden files.
const GOLDEN_SESSION: u64 = 300;
/// For [`GuestLog::open`]: whether writes are synced.
const DURABLE: bool = true;
const NOT_DURABLE: bool = false;

/// A file of version 1 with a single entry: a session number. Earlier releases accepted any number, even from an
/// attacker.
fn file_with_session(session: u64) -> Vec<u8> {
    // The kind of the entry, and the number in groups of seven bits.
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
fn an_impossible_session_number_in_a_file_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("guests");
    // The cell knows of no session yet.
    let after = 0;
    for impossible in [u64::MAX, u64::MAX - 1, NUMBER_END] {
        fs::write(&path, file_with_session(impossible)).unwrap();
        let mut guest_log = GuestLog::open(&path, DURABLE).unwrap();
        assert_eq!(guest_log.next_session(NOW_US, after), Some(NOW_US));
        guest_log.write().unwrap();
        drop(guest_log);
        let mut guest_log = GuestLog::open(&path, DURABLE).unwrap();
        assert_eq!(guest_log.next_session(NOW_US, after), Some(NOW_US + 1));
    }
    fs::write(&path, file_with_session(NOW_US + 7)).unwrap();
    let mut guest_log = GuestLog::open(&path, DURABLE).unwrap();
    assert_eq!(guest_log.next_session(NOW_US, after), Some(NOW_US + 8));
}

#[test]
fn no_session_begins_after_an_impossible_number() {
    let mut guest_log = GuestLog::in_memory();
    assert_eq!(guest_log.next_session(NOW_US, u64::MAX), None);
    assert_eq!(guest_log.next_session(NOW_US, NUMBER_END - 1), None);
    assert_eq!(guest_log.next_session(NOW_US, 5), Some(NOW_US));
    let ahead = NOW_US + 1_000;
    assert_eq!(guest_log.next_session(NOW_US, ahead), Some(ahead + 1));
}

const HOST: HostId = HostId(Uuid::from_u128(2));

/// The guests that remain in the golden files: one in each state but [`GuestState::Incomplete`]. The files also have an
/// entry that adds a guest in that state, and a later entry that erases it.
fn golden_guests() -> Vec<(HostId, GuestKey, Guest)> {
    let states = [
        GuestState::Prepared,
        GuestState::Running,
        GuestState::Left,
        GuestState::Offloaded,
        GuestState::Uncertain,
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

/// Files of older releases must remain readable, so the golden files are never rewritten.
#[test]
fn files_of_all_versions_are_read() {
    let folder = tempfile::tempdir().unwrap();
    for version in [1, PRESENT_VERSION] {
        let path = folder.path().join(format!("guests-{version}"));
        fs::write(&path, golden(version)).unwrap();
        let guests_of = |guest_log: &GuestLog| -> Vec<_> {
            let guests = guest_log.guests();
            guests
                .map(|(host, key, guest)| (host, key, guest.clone()))
                .collect()
        };
        let mut guest_log = GuestLog::open(&path, NOT_DURABLE).unwrap();
        assert_eq!(guests_of(&guest_log), golden_guests(), "version {version}");
        // The time and the session of the cell are 0, so only the session in the log counts.
        assert_eq!(guest_log.next_session(0, 0), Some(GOLDEN_SESSION + 1));
        guest_log.write().unwrap();
        drop(guest_log);
        // Opening the file rewrote it in the present version.
        assert_eq!(fs::read(&path).unwrap()[VERSION_OFFSET], PRESENT_VERSION);
        let mut guest_log = GuestLog::open(&path, NOT_DURABLE).unwrap();
        assert_eq!(
            guests_of(&guest_log),
            golden_guests(),
            "version {version}, again"
        );
        assert_eq!(guest_log.next_session(0, 0), Some(GOLDEN_SESSION + 2));
    }
}

#[test]
fn a_file_is_written_byte_for_byte_as_the_golden_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("guests");
    let mut guest_log = GuestLog::open(&path, NOT_DURABLE).unwrap();
    let mut guests = golden_guests();
    let (host, (instance, _), mut first) = guests[0].clone();
    first.state = GuestState::Incomplete;
    guests.insert(0, (host, (instance, 0), first));
    for (host, key, guest) in &guests {
        guest_log.put(*host, *key, guest);
    }
    guest_log.erase(host, (instance, 0));
    assert_eq!(
        guest_log.next_session(GOLDEN_SESSION, 0),
        Some(GOLDEN_SESSION)
    );
    guest_log.write().unwrap();
    drop(guest_log);
    let bytes = fs::read(&path).unwrap();
    let file = golden_file(PRESENT_VERSION);
    if !file.exists() {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        fs::write(&file, hex + "\n").unwrap();
        panic!("{} was written: commit it", file.display());
    }
    assert_eq!(bytes, golden(PRESENT_VERSION));
}

#[test]
fn a_file_of_a_later_release_is_refused_and_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("guests");
    let mut later = golden(PRESENT_VERSION);
    later[VERSION_OFFSET] = PRESENT_VERSION + 1;
    fs::write(&path, &later).unwrap();
    let refused = GuestLog::open(&path, NOT_DURABLE).unwrap_err();
    assert!(
        matches!(refused, GuestLogError::UnknownFormat(_)),
        "{refused}"
    );
    assert_eq!(fs::read(&path).unwrap(), later);
}
