//! The limits and time-outs of connections to a gRPC server.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::peers::{FakeCell, TestServer, client_options, listen};
use placewright_link::CellLink as _;
use placewright_net::Limits;
use placewright_rpc::{CellClient, ClientOptions, ServeOptions, Token};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

const TEST_TIMEOUT: Duration = Duration::from_secs(20);
/// The first bytes of an HTTP/2 client: the preface, and an empty settings frame.
const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

async fn connect(address: SocketAddr, first_bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(first_bytes).await.unwrap();
    stream
}

/// Waits until the other side has closed the connection.
async fn wait_until_closed(mut stream: TcpStream) {
    let mut buffer = [0; 1024];
    let read_to_end = async { while matches!(stream.read(&mut buffer).await, Ok(1..)) {} };
    timeout(TEST_TIMEOUT, read_to_end)
        .await
        .expect("the server closes");
}

/// Limits of connections; 0 for `per_peer` is no limit.
fn limits(connections: usize, per_peer: usize) -> Limits {
    Limits {
        connections,
        per_peer,
        ..ServeOptions::default().limits
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_without_an_authenticated_call_is_closed() {
    let token = Token::new("0123456789abcdef").unwrap();
    let options = ServeOptions {
        token: Some(token.clone()),
        first_byte_timeout: Duration::from_millis(300),
        first_call_timeout: Duration::from_millis(900),
        ..ServeOptions::default()
    };
    let fake_cell = FakeCell::new();
    let server = TestServer::start_with(listen().await, &fake_cell, options);
    let options_with_token = |token| ClientOptions {
        token,
        ..client_options(server.address)
    };
    let client = CellClient::new(options_with_token(Some(token))).unwrap();
    client.cell_id().await.unwrap();
    let mut events = client.follow().await.unwrap();
    let start = Instant::now();
    let silent = connect(server.address, b"").await;
    let greeting = connect(server.address, GREETING).await;
    wait_until_closed(silent).await;
    assert!(start.elapsed() < Duration::from_millis(900));
    wait_until_closed(greeting).await;
    assert!(start.elapsed() >= Duration::from_millis(900));
    // A call without the token is refused, and the connection whose calls have the token stays open.
    assert!(
        CellClient::new(options_with_token(None))
            .unwrap()
            .cell_id()
            .await
            .is_err()
    );
    assert!(
        timeout(TEST_TIMEOUT, events.recv())
            .await
            .unwrap()
            .is_some()
    );
    client.cell_id().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_silent_connections_do_not_displace_callers() {
    let options = ServeOptions {
        limits: limits(8, 0),
        ..ServeOptions::default()
    };
    let fake_cell = FakeCell::new();
    let server = TestServer::start_with(listen().await, &fake_cell, options);
    let first = CellClient::new(client_options(server.address)).unwrap();
    first.cell_id().await.unwrap();
    let mut events = first.follow().await.unwrap();
    let mut silent_connections = Vec::new();
    for number in 0..40 {
        let first_bytes = if number % 2 == 0 { GREETING } else { b"" };
        silent_connections.push(connect(server.address, first_bytes).await);
    }
    let second = CellClient::new(client_options(server.address)).unwrap();
    timeout(TEST_TIMEOUT, second.cell_id())
        .await
        .unwrap()
        .unwrap();
    first.cell_id().await.unwrap();
    assert!(
        timeout(TEST_TIMEOUT, events.recv())
            .await
            .unwrap()
            .is_some()
    );
    // The first of the silent connections had to give way to later ones.
    wait_until_closed(silent_connections.swap_remove(0)).await;
}
