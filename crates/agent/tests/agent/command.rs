//! The driver that runs executables: their input, their results and their environment.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{self, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::cell::{instance, order};
use placewright_agent::command::{CommandDriver, Options, PASSED_VARIABLES};
use placewright_agent::{Driver, DriverRequest, Operation};
use placewright_conductor::HostId;
use placewright_conductor::cell_conductor::Step;
use tempfile::TempDir;
use uuid::Uuid;

/// Writes an executable from another process: a file that this process has open for writing would
/// be inherited by children that other tests start at that moment, and could not be executed
/// meanwhile.
fn script(directory: &Path, name: &str, text: &str) {
    let mut shell = process::Command::new("/bin/sh")
        .args(["-c", r#"cat > "$0" && chmod 755 "$0""#])
        .arg(directory.join(name))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = shell.stdin.take().unwrap();
    write!(input, "#!/bin/sh\n{text}\n").unwrap();
    drop(input);
    assert!(shell.wait().unwrap().success());
}

/// A driver with these executables, and the directory that has them and, in `state`, the files that they write.
fn driver(scripts: &[(&str, &str)]) -> (TempDir, CommandDriver) {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("inspect", r#"echo '{"hosts": [{"name": "node-1"}]}'"#),
        ("list", r#"echo '{"guests": []}'"#),
        ("spawn", "cat > /dev/null"),
        ("destroy", "cat > /dev/null"),
    ] {
        script(directory.path(), name, text);
    }
    for (name, text) in scripts {
        script(directory.path(), name, text);
    }
    let mut options = Options::new(directory.path(), directory.path().join("state"));
    options
        .timeouts
        .insert(Operation::Spawn, Duration::from_secs(20));
    options
        .timeouts
        .insert(Operation::Rebuild, Duration::from_millis(300));
    options.images = Some("https://cloud:9292/v2/images/".to_owned());
    let driver = CommandDriver::new(options).unwrap();
    (directory, driver)
}

fn request(operation: Operation) -> DriverRequest {
    let host = HostId(Uuid::from_u128(7));
    DriverRequest {
        operation,
        host,
        host_name: "node-1".into(),
        instance: instance(1),
        number: 2,
        order: Some(Arc::new(order(host, instance(1), Step::Arrive, 512))),
    }
}

#[tokio::test]
async fn executables_read_the_request_from_standard_input() {
    let write = r#"cat > "$PLACEWRIGHT_STATE_DIR/$PLACEWRIGHT_HOST.$PLACEWRIGHT_GUEST""#;
    let (directory, driver) = driver(&[("spawn", write)]);
    driver.carry_out(request(Operation::Spawn)).await.unwrap();
    let read = fs::read(directory.path().join("state/node-1.2")).unwrap();
    let read: serde_json::Value = serde_json::from_slice(&read).unwrap();
    assert_eq!(read["verb"], "spawn");
    assert_eq!(read["guest"]["instance"], instance(1).to_string());
    assert_eq!(read["order"]["resources"][0]["resources"]["MEMORY_MB"], 512);
    let image = &read["order"]["spec"]["request"]["image"];
    assert_eq!(image["properties"]["os_distro"], "debian");
}

#[tokio::test]
async fn executables_are_told_where_the_image_is() {
    let write = r#"printf %s "${PLACEWRIGHT_IMAGE-none}" > "$PLACEWRIGHT_STATE_DIR/image""#;
    let (directory, driver) = driver(&[("spawn", write)]);
    let image = "70ace000-0000-4000-8000-000000000001";
    let location = format!("https://cloud:9292/v2/images/{image}");
    for (server, expected) in [
        (format!(r#"{{"image": "{image}"}}"#), location.as_str()),
        (r#"{"image": "../../etc/passwd"}"#.to_owned(), "none"),
        ("{}".to_owned(), "none"),
    ] {
        let mut request = request(Operation::Spawn);
        let mut order = order(request.host, instance(1), Step::Arrive, 512);
        order.spec.body = format!(r#"{{"request": {{}}, "server": {server}}}"#).into();
        request.order = Some(Arc::new(order));
        driver.carry_out(request).await.unwrap();
        let read = fs::read_to_string(directory.path().join("state/image")).unwrap();
        assert_eq!(read, expected);
    }
}

#[tokio::test]
async fn errors_have_a_reason_and_say_whether_other_hosts_may_succeed() {
    let (_directory, driver) = driver(&[
        ("spawn", "echo no such image >&2; exit 65"),
        ("destroy", "echo busy >&2; exit 1"),
        ("rebuild", "sleep 60"),
    ]);
    let not_retriable = driver
        .carry_out(request(Operation::Spawn))
        .await
        .unwrap_err();
    assert!(!not_retriable.may_retry);
    assert_eq!(
        not_retriable.message,
        "spawn failed (exit code 65): no such image"
    );
    let busy = driver
        .carry_out(request(Operation::Destroy))
        .await
        .unwrap_err();
    assert!(busy.may_retry && busy.message.ends_with(": busy"));
    let slow = driver
        .carry_out(request(Operation::Rebuild))
        .await
        .unwrap_err();
    assert!(slow.message.contains("took more than 0.3 s"), "{slow}");
    // Operations without an executable fail, except for prepare.
    driver.carry_out(request(Operation::Prepare)).await.unwrap();
    let unsupported = driver
        .carry_out(request(Operation::Leave))
        .await
        .unwrap_err();
    assert_eq!(
        unsupported.message,
        "The host's driver cannot leave instances."
    );
}

#[tokio::test]
async fn hosts_and_guests_are_listed() {
    let id = instance(1);
    let list =
        format!(r#"echo '{{"guests": [{{"host": "node-1", "instance": "{id}", "number": 3}}]}}'"#);
    let (_directory, driver) = driver(&[("list", &list)]);
    let hosts = driver.inspect().await.unwrap();
    let guests = driver.list().await.unwrap().unwrap();
    assert_eq!(guests[0].host, hosts[0].id());
    assert_eq!((guests[0].instance, guests[0].number), (id, 3));
}

#[tokio::test]
async fn output_that_cannot_be_decoded_is_an_error() {
    let (_directory, driver) = driver(&[("inspect", "echo hosts")]);
    let error = driver.inspect().await.unwrap_err();
    assert!(
        error
            .message
            .starts_with("inspect wrote what cannot be read")
    );
}

/// The names of the variables in the output of `env`.
fn variable_names(text: &str) -> Vec<&str> {
    let mut names: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name)
        .collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn executables_get_only_the_listed_environment_variables() {
    let write = r#"cat > /dev/null; env > "$PLACEWRIGHT_STATE_DIR/environment""#;
    let (directory, _) = driver(&[("spawn", write)]);
    let mut options = Options::new(directory.path(), directory.path().join("state"));
    // Cargo sets this variable for tests, and CARGO_PKG_NAME, which is not passed on.
    options.further_variables = vec!["CARGO_MANIFEST_DIR".to_owned()];
    let driver = CommandDriver::new(options).unwrap();
    driver.carry_out(request(Operation::Spawn)).await.unwrap();
    let text = fs::read_to_string(directory.path().join("state/environment")).unwrap();
    let names = variable_names(&text);
    assert!(names.contains(&"CARGO_MANIFEST_DIR"), "{names:?}");
    assert!(std::env::var_os("CARGO_PKG_NAME").is_some());
    for name in names {
        let is_own = name.starts_with("PLACEWRIGHT_");
        // The shell sets these variables itself.
        let is_set_by_shell = ["PWD", "OLDPWD", "SHLVL", "_"].contains(&name);
        let is_passed = PASSED_VARIABLES.contains(&name) || name.starts_with("LC_");
        assert!(
            is_own || is_set_by_shell || is_passed || name == "CARGO_MANIFEST_DIR",
            "{name}"
        );
    }
}

#[tokio::test]
async fn executables_do_not_inherit_open_files_of_the_agent() {
    let write = r#"cat > /dev/null; ls -l /proc/self/fd > "$PLACEWRIGHT_STATE_DIR/files""#;
    let (directory, driver) = driver(&[("spawn", write)]);
    // Files, listening sockets and connections that this process has open.
    let path = directory.path().join("secret");
    fs::write(&path, "secret").unwrap();
    let file = fs::File::open(&path).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    driver.carry_out(request(Operation::Spawn)).await.unwrap();
    let files = fs::read_to_string(directory.path().join("state/files")).unwrap();
    assert!(!files.contains("secret"), "{files}");
    // The executable's own descriptors are pipes and a file, so a socket would be one of this process.
    assert!(!files.contains("socket:"), "{files}");
    drop((file, listener, stream));
}

#[test]
fn a_directory_without_executables_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options::new(directory.path(), directory.path());
    let error = CommandDriver::new(options).unwrap_err().to_string();
    assert!(error.contains("inspect is missing"), "{error}");
}
