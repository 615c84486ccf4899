//! Who may hold a gRPC connection, and for how long.

#![expect(clippy::unwrap_used, reason = "a test stops where it goes wrong")]

#[allow(dead_code, reason = "other tests use the rest of it")]
mod peers;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use peers::{Fake, Running, client_options, listen};
use placewright_link::CellLink as _;
use placewright_net::Limits;
use placewright_rpc::{CellClient, ClientOptions, ServeOptions, Token};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(20);
/// The first bytes of an HTTP/2 client: the preface, and an empty settings frame.
const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

async fn connect(address: SocketAddr, says: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(says).await.unwrap();
    stream
}

/// Waits until the other side has closed the connection.
async fn closed(mut stream: TcpStream) {
    let mut buffer = [0; 1024];
    let end = async { while matches!(stream.read(&mut buffer).await, Ok(1..)) {} };
    timeout(SOON, end).await.expect("the server closes");
}

fn limits(connections: usize, per_peer: usize) -> Limits {
    Limits {
        connections,
        per_peer,
        ..ServeOptions::default().limits
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_without_a_call_that_is_let_in_ends() {
    let token = Token::new("0123456789abcdef").unwrap();
    let options = ServeOptions {
        token: Some(token.clone()),
        first_byte_timeout: Duration::from_millis(300),
        first_call_timeout: Duration::from_millis(900),
        ..ServeOptions::default()
    };
    let fake = Fake::new();
    let running = Running::start_with(listen().await, &fake, options);
    let with = |token| ClientOptions {
        token,
        ..client_options(running.address)
    };
    let client = CellClient::new(with(Some(token))).unwrap();
    client.cell().await.unwrap();
    let mut follows = client.follow().await.unwrap();
    let began = Instant::now();
    let silent = connect(running.address, b"").await;
    let greets = connect(running.address, GREETING).await;
    closed(silent).await;
    assert!(began.elapsed() < Duration::from_millis(900));
    closed(greets).await;
    assert!(began.elapsed() >= Duration::from_millis(900));
    // A call with a wrong token does not count as authenticated; a connection with the right one
    // stays.
    assert!(CellClient::new(with(None)).unwrap().cell().await.is_err());
    assert!(timeout(SOON, follows.recv()).await.unwrap().is_some());
    client.cell().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_keeps_no_caller_out_and_puts_none_out() {
    let options = ServeOptions {
        limits: limits(8, 0),
        ..ServeOptions::default()
    };
    let fake = Fake::new();
    let running = Running::start_with(listen().await, &fake, options);
    let first = CellClient::new(client_options(running.address)).unwrap();
    first.cell().await.unwrap();
    let mut follows = first.follow().await.unwrap();
    let mut crowd = Vec::new();
    for number in 0..40 {
        let says = if number % 2 == 0 { GREETING } else { b"" };
        crowd.push(connect(running.address, says).await);
    }
    let second = CellClient::new(client_options(running.address)).unwrap();
    timeout(SOON, second.cell()).await.unwrap().unwrap();
    first.cell().await.unwrap();
    assert!(timeout(SOON, follows.recv()).await.unwrap().is_some());
    closed(crowd.swap_remove(0)).await;
}
