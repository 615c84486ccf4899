//! Keys: their texts, files and commands.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use placewright_secrets::{
    Key, KeyCommand, KeyError, KeySource, Keyring, Sealer, Secret, UserDataRetention,
    make_key_file, replace_key_file,
};

/// The user of a service, for tests that run as root.
const SERVICE_USER: u32 = 4242;

/// The text of a key file with these keys.
fn text(keyring: &Keyring) -> String {
    keyring.text().as_str().to_owned()
}

#[test]
fn a_keyring_is_read_as_it_was_written() {
    let keys = Keyring::random().unwrap();
    let first = keys.current().id();
    let keys = keys.rotated(Key::random().unwrap());
    let read = Keyring::parse("a test", &text(&keys)).unwrap();
    assert_eq!(read.current().id(), keys.current().id());
    assert_eq!(read.older().collect::<Vec<_>>(), [first]);
    assert!(read.without(first).unwrap().older().next().is_none());
}

#[test]
fn keys_are_read_in_base_64_and_in_hexadecimal_digits() {
    // The same 32 bytes in both forms.
    let digits = "00112233445566778899aabbccddeeff".repeat(2);
    let base_64 = "ABEiM0RVZneImaq7zN3u/wARIjNEVWZ3iJmqu8zd7v8=";
    let ids = [
        digits.as_str(),
        base_64,
        base_64.trim_end_matches('='),
        &base_64.replace('/', "_"),
    ]
    .map(|line| {
        Keyring::parse("a test", &format!("\n # a comment\n {line} \n"))
            .unwrap()
            .current()
            .id()
    });
    assert!(ids.iter().all(|id| *id == ids[0]));
}

#[test]
fn errors_name_the_line_without_its_content() {
    let good = "0".repeat(64);
    for (text, expected) in [
        ("".to_owned(), "a test has no key"),
        ("# a\n\n".to_owned(), "a test has no key"),
        (format!("{good}\nSECRET"), "line 2"),
        (format!("{good}1"), "line 1"),
        (format!("{good}\n{good}"), "twice"),
    ] {
        let error = Keyring::parse("a test", &text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains("SECRET"), "{error}");
    }
}

#[test]
fn keys_and_secrets_are_never_printed() {
    let keys = Keyring::random().unwrap();
    let lines = text(&keys);
    let line = lines.lines().last().unwrap();
    let secret = Secret::new("hush".to_owned());
    let shown = format!(
        "{keys:?} {keys:#?} {:?} {secret} {secret:?} {}",
        Sealer::with_keyring(keys.clone()),
        serde_json::to_string(&secret).unwrap(),
    );
    assert!(!shown.contains(line) && !shown.contains("hush"), "{shown}");
    assert_eq!(secret.expose(), "hush");
}

#[test]
fn only_the_owner_can_read_a_key_file_and_it_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secrets.key");
    let keys = Keyring::random().unwrap();
    make_key_file(&path, &keys).unwrap();
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    assert!(matches!(
        make_key_file(&path, &keys),
        Err(KeyError::Exists(_))
    ));
    let source = KeySource::File(path.clone());
    let sealer = Sealer::open(source, UserDataRetention::default()).unwrap();
    // The interval of `refresh` is for keys that a command prints; a key file is read whenever it has changed.
    assert!(!sealer.refresh(Duration::ZERO).unwrap());
    let rotated = keys.rotated(Key::random().unwrap());
    replace_key_file(&path, &rotated).unwrap();
    assert_eq!(mode(), 0o600);
    assert!(sealer.refresh(Duration::ZERO).unwrap());
    assert_eq!(sealer.keyring().current().id(), rotated.current().id());
    // An invalid file changes nothing.
    fs::write(&path, "nothing").unwrap();
    assert!(sealer.refresh(Duration::ZERO).is_err());
    assert_eq!(sealer.keyring().current().id(), rotated.current().id());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_replaced_key_file_keeps_its_owner_and_its_mode() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secrets.key");
    let keys = Keyring::random().unwrap();
    make_key_file(&path, &keys).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    // Only root can change the owner; other users run the rest of the test.
    let is_root = chown(&path, Some(SERVICE_USER), Some(SERVICE_USER)).is_ok();
    let link = folder.path().join("link");
    symlink(&path, &link).unwrap();
    let owner_group_and_mode = || {
        let metadata = fs::symlink_metadata(&path).unwrap();
        (metadata.uid(), metadata.gid(), metadata.mode())
    };
    let before = owner_group_and_mode();
    let (owner, ..) = before;
    assert!(!is_root || owner == SERVICE_USER);
    // The file is replaced under its own name, and through the link.
    for name in [&path, &link] {
        let rotated = keys.clone().rotated(Key::random().unwrap());
        replace_key_file(name, &rotated).unwrap();
        assert_eq!(owner_group_and_mode(), before);
        let read = KeySource::File(path.clone()).read().unwrap();
        assert_eq!(read.current().id(), rotated.current().id());
    }
    assert!(link.is_symlink());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn a_key_file_that_root_creates_belongs_to_the_owner_of_its_directory() {
    let folder = tempfile::tempdir().unwrap();
    let owner = match chown(folder.path(), Some(SERVICE_USER), Some(SERVICE_USER)) {
        Ok(()) => SERVICE_USER,
        Err(_) => fs::metadata(folder.path()).unwrap().uid(),
    };
    let path = folder.path().join("secrets.key");
    make_key_file(&path, &Keyring::random().unwrap()).unwrap();
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!((metadata.uid(), metadata.mode() & 0o777), (owner, 0o600));
}

/// A key command that runs a shell script with one argument.
fn command(folder: &Path, script: &str) -> KeyCommand {
    let path = folder.join("keys");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("writes");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("sets the mode");
    KeyCommand {
        line: vec![path.display().to_string(), "an argument".to_owned()],
        timeout: Duration::from_secs(5),
        environment: Vec::new(),
    }
}

#[test]
fn keys_are_read_from_a_command() {
    let folder = tempfile::tempdir().unwrap();
    let key = "7".repeat(64);
    // The command gets its argument as one word, and few of the service's environment variables. It prints an empty
    // line, and the key with spaces around it.
    let command = command(
        folder.path(),
        &format!(
            "test \"$1\" = 'an argument' && test -z \"$CARGO_MANIFEST_DIR\" && {{ echo; echo ' {key} '; }}"
        ),
    );
    let keys = KeySource::Command(command).read().unwrap();
    assert_eq!(keys.current().id(), Key::parse(&key).unwrap().id());
}

#[test]
fn a_failed_command_has_its_reason_and_one_that_hangs_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let fails = command(folder.path(), "echo SECRET; echo 'sealed off' >&2; exit 3");
    let error = KeySource::Command(fails).read().unwrap_err().to_string();
    assert!(
        error.contains("exit code 3") && error.contains("sealed off"),
        "{error}"
    );
    assert!(!error.contains("SECRET"), "{error}");
    let nothing = command(folder.path(), "true");
    let error = KeySource::Command(nothing).read().unwrap_err();
    assert!(matches!(error, KeyError::NoKey { .. }), "{error}");
    // The script leaves a child that keeps its output open.
    let mut hangs = command(folder.path(), "sleep 60 & sleep 60");
    hangs.timeout = Duration::from_millis(200);
    let start = Instant::now();
    let error = KeySource::Command(hangs).read().unwrap_err();
    assert!(matches!(error, KeyError::TimedOut { .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(30));
    let missing = KeyCommand {
        line: vec!["/nowhere/keys".to_owned()],
        timeout: Duration::from_secs(1),
        environment: Vec::new(),
    };
    let error = KeySource::Command(missing).read().unwrap_err();
    assert!(matches!(error, KeyError::NotRun { .. }), "{error}");
}
