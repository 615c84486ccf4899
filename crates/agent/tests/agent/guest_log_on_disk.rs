//! The guest log on disk: its permissions, and the guests that remain after damage.

use std::fs;
use std::path::Path;

use placewright_agent::guest_log::{Guest, GuestLog, GuestState};
use placewright_conductor::{HostId, InstanceId};
use uuid::Uuid;

const HOST: HostId = HostId(Uuid::from_u128(1));
/// For [`GuestLog::open`]: writes are not synced.
const NOT_DURABLE: bool = false;
/// The number of bytes before an entry: those of its length and its checksum.
const PREFIX_BYTES: usize = 8;

fn guest() -> Guest {
    Guest {
        state: GuestState::Running,
        amounts: Vec::new(),
        group: None,
        image_properties: Vec::new(),
    }
}

/// Writes ten guests, and returns the offset of the end of each entry.
fn write_ten_guests(path: &Path) -> Vec<u64> {
    let mut guest_log = GuestLog::open(path, NOT_DURABLE).unwrap();
    let mut ends = Vec::new();
    for number in 1..=10 {
        let key = (InstanceId(Uuid::from_u128(number)), 0);
        guest_log.put(HOST, key, &guest());
        guest_log.write().unwrap();
        ends.push(fs::metadata(path).unwrap().len());
    }
    ends
}

fn count_guests(path: &Path) -> usize {
    GuestLog::open(path, NOT_DURABLE).unwrap().guests().count()
}

#[test]
fn an_incomplete_entry_is_cut_off_and_a_damaged_file_is_copied() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("guests");
    let copy = directory.path().join("guests.damaged");
    let ends = write_ten_guests(&path);
    let intact = fs::read(&path).unwrap();
    let end_of_fifth = usize::try_from(ends[4]).unwrap();

    fs::write(&path, &intact[..intact.len() - 3]).unwrap();
    assert_eq!(count_guests(&path), 9);
    assert!(!copy.exists(), "an incomplete entry is not damage");

    let mut damaged = intact;
    // A byte within the sixth entry.
    damaged[end_of_fifth + PREFIX_BYTES + 4] ^= 1;
    fs::write(&path, &damaged).unwrap();
    assert_eq!(count_guests(&path), 5);
    assert_eq!(fs::read(&copy).unwrap(), damaged);
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_a_guest_log() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("agent");
    write_ten_guests(&folder.join("guests"));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(&folder.join("guests")), 0o600);
    assert_eq!(mode(&folder.join("guests.lock")), 0o600);
}
