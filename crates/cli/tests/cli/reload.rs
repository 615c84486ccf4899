//! The files that `placewright control` reads again on SIGHUP.

use std::path::{Path, PathBuf};

use crate::common::Control;
use rustix::process::Signal;

const LIST: &str = "GET /resource_providers";
/// The passwords "old" and "new" as `htpasswd -B -C 4` writes them, for the user "op".
const OLD: &str = "op:$2b$04$abcdefghijklmnopqrstuu3C6u2sQjFttrT16nmXgxlk/de0mfCmu\n";
const NEW: &str = "op:$2b$04$abcdefghijklmnopqrstuusf96eeUQLgQWR72RBesvIE8CjOJNM9O\n";
/// "op:old" and "op:new" as authorization headers.
const WITH_OLD: &str = "Authorization: Basic b3A6b2xk";
const WITH_NEW: &str = "Authorization: Basic b3A6bmV3";

fn write_file(directory: &Path, name: &str, text: &str) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// Sends SIGHUP, waits until it was handled, and returns the log lines before that.
fn hang_up(server: &mut Control) -> String {
    server.signal(Signal::HUP);
    server.lines_up_to("SIGHUP: read")
}

fn assert_status(server: &Control, header: &str, status: u16) {
    let response = server.request_with(LIST, header);
    assert!(
        response.starts_with(&format!("HTTP/1.1 {status}")),
        "{response}"
    );
}

#[test]
fn sighup_reads_policies_and_passwords_again_and_a_wrong_file_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let policy = write_file(directory, "policy.yaml", "");
    let users = write_file(directory, "htpasswd", OLD);
    let mut server = Control::start(
        &directory.join("store"),
        &[
            "--policy-file",
            policy.to_str().unwrap(),
            "--auth-strategy=http_basic",
            "--http-basic-user-file",
            users.to_str().unwrap(),
            // The file is read again only because of the signal.
            "--http-basic-reload-check-ms=86400000",
        ],
    );
    assert_status(&server, WITH_OLD, 200);
    assert_status(&server, WITH_NEW, 401);

    write_file(
        directory,
        "policy.yaml",
        "\"placement:resource_providers:list\": \"!\"\n",
    );
    write_file(directory, "htpasswd", NEW);
    assert_status(&server, WITH_OLD, 200);
    let log = hang_up(&mut server);
    assert!(!log.contains("ERROR"), "{log}");
    assert_status(&server, WITH_OLD, 401);
    assert_status(&server, WITH_NEW, 403);

    write_file(
        directory,
        "policy.yaml",
        "\"placement:resource_providers:show\": \"@\"\n\"placement:resource_providers:list\": \"@ and (\"\n",
    );
    write_file(directory, "htpasswd", &format!("{OLD}someone\n"));
    let log = hang_up(&mut server);
    assert!(
        log.contains("ERROR") && names_line_2(&log, &policy) && names_line_2(&log, &users),
        "{log}"
    );
    assert_status(&server, WITH_OLD, 401);
    assert_status(&server, WITH_NEW, 403);

    // An error in one file does not affect the other.
    write_file(directory, "policy.yaml", "");
    let log = hang_up(&mut server);
    assert!(
        !log.contains("policy.yaml") && names_line_2(&log, &users),
        "{log}"
    );
    assert_status(&server, WITH_NEW, 200);
}

fn names_line_2(log: &str, path: &Path) -> bool {
    log.contains(&format!("{}, line 2", path.display()))
}
