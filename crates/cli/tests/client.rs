//! Commands that call a server.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should say where"
)]

mod common;

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use common::run;

#[test]
fn a_token_goes_to_the_server_that_was_named_and_to_no_other() {
    let (named, other) = (listener(), listener());
    let url = format!("http://{}", named.local_addr().unwrap());
    let elsewhere = format!("http://{}/", other.local_addr().unwrap());
    let answering = thread::spawn(move || {
        let (mut client, _) = named.accept().unwrap();
        let mut head = [0; 4096];
        let read = client.read(&mut head).unwrap();
        let response =
            format!("HTTP/1.1 307 Go\r\nLocation: {elsewhere}\r\nContent-Length: 0\r\n\r\n");
        client.write_all(response.as_bytes()).unwrap();
        String::from_utf8_lossy(&head[..read]).into_owned()
    });
    let (code, _, stderr) = run(&["audit", "--url", &url, "--token", "a-secret-token"]);
    assert_ne!(code, 0);
    assert!(stderr.contains("307"), "{stderr}");
    assert!(answering.join().unwrap().contains("a-secret-token"));
    other.set_nonblocking(true).unwrap();
    assert!(other.accept().is_err(), "the redirect was followed");
}

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}
