//! `placewright journal backup` while a server runs, `placewright journal restore` and `digest`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Control, run};
use rustix::process::Signal;

/// A running server, its folder, and the number of its resource providers.
struct Site {
    folder: tempfile::TempDir,
    server: Control,
    providers: u64,
}

impl Site {
    fn start(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Control::start(&folder.path().join("store"), flags);
        Self {
            folder,
            server,
            providers: 0,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn path_text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn add_providers(&mut self, count: u64) {
        for _ in 0..count {
            self.providers += 1;
            let uuid = format!("7a9d7a9d-0000-4000-8000-{:012}", self.providers);
            let body = format!(
                "{{\"name\": \"host{}\", \"uuid\": \"{uuid}\"}}",
                self.providers
            );
            let response = self.server.request("POST /resource_providers", &body);
            assert!(response.starts_with("HTTP/1.1 200"), "{response}");
        }
    }

    /// The number of the last entry in the store.
    fn last_entry(&self) -> u64 {
        let (code, text, _) = run(&[
            "journal",
            "stats",
            "--json",
            "--store",
            &self.path_text("store"),
        ]);
        assert_eq!(code, 0, "{text}");
        let (_, end) = text.split_once("\"end\":").unwrap();
        end.split(',').next().unwrap().parse().unwrap()
    }

    fn digest(&self, store: &str, at: u64) -> String {
        let store = self.path_text(store);
        let at = at.to_string();
        let (code, text, error) = run(&["journal", "digest", "--store", &store, "--at", &at]);
        assert_eq!(code, 0, "{error}");
        text.trim()
            .strip_prefix(&format!("{at} "))
            .unwrap()
            .to_owned()
    }

    /// Restores a backup up to `expected_entry`, and compares the digest with that of the running store.
    fn restore(&self, backup: &str, name: &str, until: &[&str], expected_entry: u64) {
        let digest = self.digest("store", expected_entry);
        self.restore_with_digest(backup, name, until, expected_entry, &digest);
    }

    /// Restores a backup, and checks that the result ends with `expected_entry` and has the digest.
    fn restore_with_digest(
        &self,
        backup: &str,
        name: &str,
        until: &[&str],
        expected_entry: u64,
        digest: &str,
    ) {
        let (backup, store) = (self.path_text(backup), self.path_text(name));
        let arguments = [&["journal", "restore", &backup, &store][..], until].concat();
        let (code, text, error) = run(&arguments);
        assert_eq!(code, 0, "{error}");
        let is_complete = text.starts_with(&format!("{store}: restored to entry {expected_entry}"))
            && text.ends_with(&format!("digest {digest}\n"));
        assert!(is_complete, "{text}");
        assert_eq!(self.digest(name, expected_entry), digest);
        let (code, text, _) = run(&["journal", "verify", "--store", &store]);
        assert_eq!(code, 0, "{text}");
    }
}

/// The present time in RFC 3339.
fn now() -> String {
    jiff::Timestamp::now().to_string()
}

/// Runs a command whose arguments have to be refused, and returns its error output.
fn run_refused(arguments: &[&str]) -> String {
    let (code, text, error) = run(arguments);
    assert_eq!((code, text.as_str()), (2, ""), "{arguments:?}: {error}");
    error
}

#[test]
fn a_running_server_is_backed_up_and_restored_to_any_entry() {
    let mut site = Site::start(&[]);
    let earlier = now();
    site.add_providers(5);
    let between = now();
    let middle = site.last_entry();
    site.add_providers(5);
    let end = site.last_entry();
    let (store, backup) = (site.path_text("store"), site.path_text("backup"));
    let (code, text, error) = run(&["journal", "backup", &store, &backup]);
    assert_eq!(code, 0, "{error}");
    assert!(
        text.starts_with(&format!("{backup}: up to entry {end}, ")),
        "{text}"
    );
    site.add_providers(1);

    site.restore("backup", "whole", &[], end);
    site.restore("backup", "at-time", &["--until", &between], middle);
    for sequence in [1, middle - 1, middle, end] {
        let until = sequence.to_string();
        let name = format!("at-{sequence}");
        site.restore("backup", &name, &["--until", &until], sequence);
    }
    // At that time the store had only the entries that control wrote at its start: the standard names.
    site.restore("backup", "before", &["--until", &earlier], middle - 5);

    let (code, text, _) = run(&["journal", "restore", &backup, "--check"]);
    assert_eq!(code, 0);
    assert!(text.contains(&format!("from 0 to {end}")), "{text}");
    for (until, reason) in [
        (now(), "the backup was made before"),
        ("2001-01-01T00:00:00Z".to_owned(), "does not reach back"),
        ((end + 1).to_string(), "from entry 0 to entry"),
        ("yesterday".to_owned(), "neither the number of an entry"),
    ] {
        let other = site.path_text("other");
        let error = run_refused(&["journal", "restore", &backup, &other, "--until", &until]);
        assert!(error.contains(reason), "{error}");
        assert!(!Path::new(&other).exists());
    }

    // A server continues where the restored store ends.
    let server = Control::start(&site.path("at-time"), &[]);
    let response = server.request("GET /resource_providers", "");
    assert_eq!(response.matches("\"name\"").count(), 5, "{response}");
    server.signal(Signal::TERM);
    let (exit_code, _) = server.end();
    assert_eq!(exit_code, 0);
}

#[test]
fn a_directory_gets_a_file_for_each_backup() {
    let mut site = Site::start(&[]);
    fs::create_dir(site.path("backups")).unwrap();
    let partial_file = site.path("backups").join("store-1.backup.partial");
    fs::write(&partial_file, "of a backup that was killed").unwrap();
    let (store, backups) = (site.path_text("store"), site.path_text("backups"));
    for _ in 0..2 {
        site.add_providers(1);
        let (code, _, error) = run(&["journal", "backup", &store, &backups]);
        assert_eq!(code, 0, "{error}");
    }
    let mut names: Vec<String> = fs::read_dir(&backups)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let is_named = |name: &String, end| {
        name.starts_with("store-2") && name.ends_with(&format!("Z-{end}.backup"))
    };
    let end = site.last_entry();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(
        is_named(&names[0], end - 1) && is_named(&names[1], end),
        "{names:?}"
    );
}

#[test]
fn a_trimmed_store_is_restored_from_its_snapshot_on() {
    let mut site = Site::start(&[
        "--store-snapshot-entries=20",
        "--store-snapshot-bytes=4096",
        "--store-retain-entries=0",
    ]);
    let (store, backup) = (site.path_text("store"), site.path_text("backup"));
    let (first, end, digests) = loop {
        site.add_providers(10);
        let (code, text, error) = run(&["journal", "backup", &store, &backup]);
        assert_eq!(code, 0, "{error}");
        let (_, from_first) = text.split_once("reaches back to entry ").unwrap();
        let first: u64 = from_first.split(';').next().unwrap().parse().unwrap();
        let end = site.last_entry();
        // If the server has just removed the snapshot at `first`, only the backup has these states: try again.
        let at = [first, first + 1, end].map(|sequence| format!("--at={sequence}"));
        let (code, text, _) = run(&[
            "journal", "digest", "--store", &store, &at[0], &at[1], &at[2],
        ]);
        if first > 0 && code == 0 {
            break (first, end, text);
        }
        fs::remove_file(&backup).unwrap();
    };
    for line in digests.lines() {
        let (until, digest) = line.split_once(' ').unwrap();
        let name = format!("at-{until}");
        let sequence = until.parse().unwrap();
        site.restore_with_digest("backup", &name, &["--until", until], sequence, digest);
    }
    let (_, digest_at_end) = digests.trim_end().rsplit_once(' ').unwrap();
    site.restore_with_digest("backup", "whole", &[], end, digest_at_end);
    let before = (first - 1).to_string();
    let other = site.path_text("other");
    run_refused(&["journal", "restore", &backup, &other, "--until", &before]);
}

#[test]
fn invalid_arguments_are_reported_and_change_nothing() {
    let mut site = Site::start(&[]);
    site.add_providers(1);
    let (store, backup, missing_path) = (
        site.path_text("store"),
        site.path_text("backup"),
        site.path_text("none"),
    );
    let error = run_refused(&["journal", "backup", &missing_path, &backup]);
    assert!(
        error.contains(&format!("there is no journal at {missing_path}")),
        "{error}"
    );
    let error = run_refused(&[
        "journal",
        "backup",
        &store,
        &format!("{missing_path}/backup"),
    ]);
    assert!(error.contains("there is no"), "{error}");
    for rate in ["0", "fast", "-1"] {
        let rate = format!("--bytes-per-second={rate}");
        let error = run_refused(&["journal", "backup", &rate, &store, &backup]);
        assert!(error.contains("bytes-per-second"), "{error}");
    }
    assert!(!Path::new(&backup).exists());
    let (code, ..) = run(&["journal", "backup", &store, &backup]);
    assert_eq!(code, 0);
    let error = run_refused(&["journal", "backup", &store, &backup]);
    assert!(error.contains("is there already"), "{error}");

    let error = run_refused(&["journal", "restore", &backup, &store]);
    assert!(error.contains("is there already"), "{error}");
    let error = run_refused(&[
        "journal",
        "restore",
        &missing_path,
        &site.path_text("other"),
    ]);
    assert!(error.contains("there is no"), "{error}");
    let error = run_refused(&["journal", "restore", &store, &site.path_text("other")]);
    assert!(error.contains("is no backup: it is a directory"), "{error}");
    run_refused(&["journal", "restore", &backup]);

    let mut bytes = fs::read(&backup).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(site.path("damaged"), bytes).unwrap();
    let (damaged, other) = (site.path_text("damaged"), site.path_text("other"));
    let (code, _, error) = run(&["journal", "restore", &damaged, &other]);
    assert_eq!(code, 1);
    assert!(error.contains("is damaged at byte"), "{error}");
    assert!(!Path::new(&other).exists());
}
