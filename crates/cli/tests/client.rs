//! Commands that call a server.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should say where"
)]

mod common;

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use common::{placewright, run};

#[test]
fn a_token_goes_to_the_server_that_was_named_and_to_no_other() {
    let (named, other) = (listener(), listener());
    let url = format!("http://{}", named.local_addr().unwrap());
    let elsewhere = format!("http://{}/", other.local_addr().unwrap());
    let answering = thread::spawn(move || {
        let (mut client, _) = named.accept().unwrap();
        let mut head = [0; 4096];
        let read = client.read(&mut head).unwrap();
        let answer =
            format!("HTTP/1.1 307 Go\r\nLocation: {elsewhere}\r\nContent-Length: 0\r\n\r\n");
        client.write_all(answer.as_bytes()).unwrap();
        String::from_utf8_lossy(&head[..read]).into_owned()
    });
    let (code, _, stderr) = run(&["audit", "--url", &url, "--token", "a-secret-token"]);
    assert_ne!(code, 0);
    assert!(stderr.contains("307"), "{stderr}");
    assert!(answering.join().unwrap().contains("a-secret-token"));
    other.set_nonblocking(true).unwrap();
    assert!(other.accept().is_err(), "the redirect was followed");
}

#[test]
fn a_password_comes_from_a_file_or_the_environment_or_standard_input() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("password");
    std::fs::write(&file, "a pass:word\nmore\n").unwrap();
    let file = file.to_str().unwrap();
    // "anna:a pass:word"
    let expected = "authorization: Basic YW5uYTphIHBhc3M6d29yZA==";
    for (words, variable) in [
        (&["--user", "anna", "--password-file", file][..], false),
        (&["--user", "anna", "--password-file", "-"], false),
        (&["--user", "anna"], true),
    ] {
        let named = listener();
        let url = format!("http://{}", named.local_addr().unwrap());
        let body = r#"{"findings":[],"repaired":0}"#;
        let answering = thread::spawn(move || answer_once(&named, body));
        let mut command = placewright(&["audit", "--url", &url]);
        command
            .args(words)
            .stdin(std::fs::File::open(file).unwrap());
        if variable {
            command.env("PLACEWRIGHT_PASSWORD", "a pass:word");
        }
        let output = command.output().unwrap();
        let asked = answering.join().unwrap();
        assert!(asked.contains(expected), "{words:?}: {asked}{output:?}");
        assert!(!asked.contains("x-auth-token"), "{asked}");
        assert!(output.status.success(), "{output:?}");
    }
    for words in [
        &["--user", "anna"][..],
        &["--user", "anna", "--password-file", "/nowhere/password"],
        &["--password-file", file],
    ] {
        let output = placewright(&["audit", "--url", "http://127.0.0.1:1"])
            .args(words)
            .output();
        let output = output.unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{words:?}");
        assert!(
            stderr.contains("--user") || stderr.contains("--password-file"),
            "{stderr}"
        );
    }
}

/// Answers one request with a body; returns it as it came.
fn answer_once(listener: &TcpListener, body: &str) -> String {
    let (mut client, _) = listener.accept().unwrap();
    let mut asked = Vec::new();
    let is_whole = |asked: &[u8]| {
        let text = String::from_utf8_lossy(asked);
        let (head, body) = text.split_once("\r\n\r\n")?;
        let length = head.split("content-length: ").nth(1);
        let length = length.and_then(|rest| rest.lines().next()?.parse().ok());
        (body.len() >= length.unwrap_or(0)).then_some(())
    };
    while is_whole(&asked).is_none() {
        let mut part = [0; 4096];
        let read = client.read(&mut part).unwrap();
        assert_ne!(read, 0, "the request ended");
        asked.extend_from_slice(&part[..read]);
    }
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    client.write_all(answer.as_bytes()).unwrap();
    String::from_utf8(asked).unwrap()
}

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}
