//! Opening stores whose files are symbolic links, and new stores that several programs open at once.

use std::sync::Barrier;
use std::thread;

use placewright_journal::JournalError;

use crate::sqlite::open;

#[cfg(target_os = "linux")]
#[test]
fn files_of_a_store_may_not_be_symbolic_links_and_its_directory_may() {
    use std::fs;
    use std::os::unix::fs::symlink;

    use placewright_journal::{Journal as _, SqliteJournal};

    use crate::sqlite::store;

    for name in ["lock", "mark", "journal.sqlite"] {
        let (directory, elsewhere) = (store(), tempfile::tempdir().unwrap());
        let (path, target) = (directory.path().join(name), elsewhere.path().join(name));
        fs::rename(&path, &target).unwrap();
        if name == "lock" {
            fs::write(&target, "somebody else's").unwrap();
        }
        symlink(&target, &path).unwrap();
        let before = fs::read(&target).unwrap();
        assert!(open(directory.path()).is_err(), "{name}");
        assert!(path.is_symlink());
        if name != "mark" {
            assert!(SqliteJournal::accept_loss(directory.path()).is_err());
        }
        assert_eq!(fs::read(&target).unwrap(), before, "{name}");
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1);
    }

    let (directory, elsewhere) = (store(), tempfile::tempdir().unwrap());
    let link = elsewhere.path().join("link");
    symlink(directory.path(), &link).unwrap();
    assert_eq!(open(&link).unwrap().end().unwrap(), 100);
}

#[test]
fn programs_that_open_a_new_store_at_once_find_it_locked() {
    for _ in 0..30 {
        let directory = tempfile::tempdir().unwrap();
        let start = Barrier::new(4);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    let opened = open(directory.path());
                    start.wait();
                    let is_expected = matches!(opened, Ok(_) | Err(JournalError::Locked { .. }));
                    assert!(is_expected, "{}", opened.err().unwrap());
                });
            }
        });
    }
}
