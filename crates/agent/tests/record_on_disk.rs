//! The guest log on disk: its permissions, and what is left after damage.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::Path;

use placewright_agent::record::{Guest, GuestLog, GuestState};
use placewright_conductor::{HostId, InstanceId};
use uuid::Uuid;

const HOST: HostId = HostId(Uuid::from_u128(1));

fn guest() -> Guest {
    Guest {
        state: GuestState::Running,
        amounts: Vec::new(),
        group: None,
        image_properties: Vec::new(),
    }
}

/// Writes ten guests, and returns the offset of the end of each entry.
fn write(path: &Path) -> Vec<u64> {
    let mut record = GuestLog::open(path, false).unwrap();
    let mut ends = Vec::new();
    for number in 1..=10 {
        let key = (InstanceId(Uuid::from_u128(number)), 0);
        record.keep(HOST, key, &guest());
        record.write().unwrap();
        ends.push(fs::metadata(path).unwrap().len());
    }
    ends
}

fn guests(path: &Path) -> usize {
    GuestLog::open(path, false).unwrap().guests().count()
}

#[test]
fn what_was_being_written_is_cut_off_and_what_is_damaged_is_kept_beside() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("guests");
    let aside = directory.path().join("guests.damaged");
    let ends = write(&path);
    let sound = fs::read(&path).unwrap();
    let (fifth, last) = (usize::try_from(ends[4]).unwrap(), sound.len());

    fs::write(&path, &sound[..last - 3]).unwrap();
    assert_eq!(guests(&path), 9);
    assert!(!aside.exists(), "a kill leaves that");

    let mut damaged = sound;
    damaged[fifth + 12] ^= 1;
    fs::write(&path, &damaged).unwrap();
    assert_eq!(guests(&path), 5);
    assert_eq!(fs::read(&aside).unwrap(), damaged);
}

#[cfg(unix)]
#[test]
fn a_record_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("agent");
    write(&folder.join("guests"));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(&folder.join("guests")), 0o600);
    assert_eq!(mode(&folder.join("guests.lock")), 0o600);
}
