//! Every link over a real connection: messages arrive as they were sent, and failures become errors
//! with a reason.

use crate::peers;

use std::time::Duration;

use peers::{
    ERROR_REASON, FakeCell, LEADER, NOT_LEADING, REFUSED, TIMED_OUT, TestServer, UNAVAILABLE,
    UNREACHABLE, client_options, envelopes, every_message_of_agents, every_message_to_agents,
    instance, listen,
};
use placewright_conductor::{ClaimResponse, Reply};
use placewright_link::{
    AgentLink as _, CellEvent, CellLink as _, CellOperation, LinkError, PlacementLink as _,
};
use placewright_rpc::proto::agent::agents_client::AgentsClient;
use placewright_rpc::proto::agent::{AgentMessage, Alive, FromAgent, agent_message};
use placewright_rpc::proto::cell::Payload;
use placewright_rpc::proto::cell::cell_client::CellClient as RawCell;
use placewright_rpc::{
    AgentClient, CellClient, ClientOptions, PAYLOAD_VERSION, PlacementClient, Token,
};
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;
use tonic::Code;

const TEST_TIMEOUT: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn control_reaches_a_cell() {
    let fake_cell = FakeCell::new();
    let server = TestServer::start(listen().await, &fake_cell, None);
    let client = CellClient::new(client_options(server.address)).unwrap();
    assert_eq!(client.cell_id().await.unwrap(), fake_cell.id);
    // The envelopes have twelve MiB together, so the client sends them in several batches. The fake cell refuses each
    // envelope, with the number of the envelope's instance.
    let replies = client.deliver(envelopes(12, 1 << 20)).await.unwrap();
    let expected: Vec<Reply> = (0..12).map(|n| Reply::Refused(n.to_string())).collect();
    assert_eq!(replies, expected);
    assert_eq!(client.deliver(Vec::new()).await.unwrap(), []);
    let operation = CellOperation::Shelve {
        instance: instance(7),
        request: None,
    };
    let reply = client.perform(operation).await.unwrap();
    assert_eq!(reply, Reply::Refused(instance(7).to_string()));
    let actions = client.actions(instance(3)).await.unwrap();
    assert_eq!(actions.len(), 1);
    assert_eq!(actions[0].name, instance(3).to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn all_events_arrive_in_order() {
    let fake_cell = FakeCell::new();
    let server = TestServer::start(listen().await, &fake_cell, None);
    let client = CellClient::new(client_options(server.address)).unwrap();
    let mut events = client.follow().await.unwrap();
    for number in 0..20_000 {
        let event = timeout(TEST_TIMEOUT, events.recv()).await.unwrap().unwrap();
        let expected = CellEvent::Instance {
            instance: instance(number),
            view: None,
        };
        assert_eq!(event, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_without_events_ends() {
    let fake_cell = FakeCell::new();
    fake_cell.set_silent();
    let server = TestServer::start(listen().await, &fake_cell, None);
    let options = ClientOptions {
        silence_timeout: Duration::from_millis(200),
        ..client_options(server.address)
    };
    let mut events = CellClient::new(options).unwrap().follow().await.unwrap();
    assert_eq!(timeout(TEST_TIMEOUT, events.recv()).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_reaches_placement() {
    let fake_cell = FakeCell::new();
    let server = TestServer::start(listen().await, &fake_cell, None);
    let client = PlacementClient::new(client_options(server.address)).unwrap();
    let responses = client
        .request_claims(peers::claim_requests(1000))
        .await
        .unwrap();
    let expected: Vec<ClaimResponse> = (0..1000)
        .map(|index| ClaimResponse::Swapped { index })
        .collect();
    assert_eq!(responses, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_message_between_agents_and_their_cell_arrives() {
    let fake_cell = FakeCell::new();
    let server = TestServer::start(listen().await, &fake_cell, None);
    let client = AgentClient::new(client_options(server.address)).unwrap();
    let mut connection = client.connect().await.unwrap();
    for message in every_message_of_agents() {
        connection.to_cell.send(message).await.unwrap();
    }
    for message in every_message_to_agents() {
        let received = timeout(TEST_TIMEOUT, connection.from_cell.recv())
            .await
            .unwrap();
        assert_eq!(received, Some(message));
    }
    let mut received = fake_cell.received.lock().await;
    for message in every_message_of_agents() {
        let arrived = timeout(TEST_TIMEOUT, received.recv()).await.unwrap();
        assert_eq!(arrived, Some(Some(message)));
    }
    drop(connection);
    assert_eq!(
        timeout(TEST_TIMEOUT, received.recv()).await.unwrap(),
        Some(None)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_of_error_arrives_as_the_same_kind() {
    let fake_cell = FakeCell::new();
    let server = TestServer::start(listen().await, &fake_cell, None);
    let client = CellClient::new(client_options(server.address)).unwrap();
    for kind in [UNREACHABLE, TIMED_OUT, UNAVAILABLE, REFUSED, NOT_LEADING] {
        fake_cell.set_error(kind);
        let error = client.cell_id().await.unwrap_err();
        let is_same_kind = match (kind, &error) {
            (UNREACHABLE, LinkError::Unreachable { why, .. })
            | (UNAVAILABLE, LinkError::Unavailable { why, .. })
            | (REFUSED, LinkError::Refused { why, .. }) => why == ERROR_REASON,
            (TIMED_OUT, LinkError::TimedOut { .. }) => true,
            (NOT_LEADING, LinkError::NotLeading { leader, .. }) => {
                leader.as_deref() == Some(LEADER)
            }
            _ => false,
        };
        assert!(is_same_kind, "{kind}: {error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_takes_too_long_ends() {
    let fake_cell = FakeCell::new();
    fake_cell.set_stuck();
    let server = TestServer::start(listen().await, &fake_cell, None);
    let options = ClientOptions {
        call_timeout: Duration::from_millis(200),
        ..client_options(server.address)
    };
    let client = CellClient::new(options).unwrap();
    let error = timeout(TEST_TIMEOUT, client.cell_id())
        .await
        .unwrap()
        .unwrap_err();
    assert!(matches!(error, LinkError::TimedOut { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_ends_streams_and_the_next_call_connects_again() {
    let fake_cell = FakeCell::new();
    let server = TestServer::start(listen().await, &fake_cell, None);
    let address = server.address;
    let cell = CellClient::new(client_options(address)).unwrap();
    let agent = AgentClient::new(client_options(address)).unwrap();
    let mut events = cell.follow().await.unwrap();
    let mut connection = agent.connect().await.unwrap();
    drop(server);
    timeout(TEST_TIMEOUT, async {
        while events.recv().await.is_some() {}
    })
    .await
    .unwrap();
    let ended = async { while connection.from_cell.recv().await.is_some() {} };
    timeout(TEST_TIMEOUT, ended).await.unwrap();
    timeout(TEST_TIMEOUT, connection.to_cell.closed())
        .await
        .unwrap();
    // A call may be under way while the connection ends; later calls are refused.
    let refused = async {
        loop {
            let error = cell.cell_id().await.unwrap_err();
            assert!(matches!(error, LinkError::Unreachable { .. }), "{error:?}");
            assert!(!error.to_string().contains("canceled"), "{error}");
            if error.to_string().contains("refused") {
                return;
            }
        }
    };
    timeout(TEST_TIMEOUT, refused).await.unwrap();
    let refused = timeout(TEST_TIMEOUT, agent.connect()).await.unwrap();
    assert!(matches!(refused, Err(LinkError::Unreachable { .. })));

    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    let _running = TestServer::start(listener, &fake_cell, None);
    assert_eq!(
        timeout(TEST_TIMEOUT, cell.cell_id())
            .await
            .unwrap()
            .unwrap(),
        fake_cell.id
    );
    timeout(TEST_TIMEOUT, agent.connect())
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_without_the_token_are_refused() {
    let token = Token::new("a-secret-of-its-own").unwrap();
    let fake_cell = FakeCell::new();
    let server = TestServer::start(listen().await, &fake_cell, Some(token.clone()));
    // A wrong token of the same length.
    let other = Token::new("a-secret-of-my-own1").unwrap();
    for wrong in [None, Some(other)] {
        let options = || ClientOptions {
            token: wrong.clone(),
            ..client_options(server.address)
        };
        let refused = [
            CellClient::new(options())
                .unwrap()
                .cell_id()
                .await
                .unwrap_err(),
            AgentClient::new(options())
                .unwrap()
                .connect()
                .await
                .unwrap_err(),
            PlacementClient::new(options())
                .unwrap()
                .request_claims(peers::claim_requests(1))
                .await
                .unwrap_err(),
        ];
        for error in refused {
            assert!(matches!(error, LinkError::Refused { .. }), "{error:?}");
            assert!(error.to_string().contains("token"), "{error}");
        }
    }
    let options = ClientOptions {
        token: Some(token),
        ..client_options(server.address)
    };
    assert_eq!(
        CellClient::new(options).unwrap().cell_id().await.unwrap(),
        fake_cell.id
    );
    assert!(Token::new("short").is_err());
    assert!(Token::new("with white space inside it").is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_calls_are_refused_and_do_no_harm() {
    let fake_cell = FakeCell::new();
    let server = TestServer::start(listen().await, &fake_cell, None);
    // Bytes that are not HTTP/2, and half of an HTTP/2 greeting.
    for garbage in [
        &b"GET / HTTP/1.0\r\n\r\n"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM",
        &[0xff; 4096],
    ] {
        let mut stream = tokio::net::TcpStream::connect(server.address)
            .await
            .unwrap();
        stream.write_all(garbage).await.unwrap();
    }
    let url = format!("http://{}", server.address);
    let mut raw = RawCell::connect(url.clone()).await.unwrap();
    let payload = |version, body: &[u8]| Payload {
        version,
        body: body.to_vec().into(),
    };
    let version = PAYLOAD_VERSION + 1;
    let newer = raw.deliver(payload(version, &[])).await.unwrap_err();
    assert_eq!(newer.code(), Code::FailedPrecondition);
    let expected = format!("version {version}");
    assert!(newer.message().contains(&expected), "{newer}");
    for body in [
        &b"\xff\xff\xff\xff\xff"[..],
        b"hello",
        &[1, 2, 3],
        &[0xee; 300],
        b"",
    ] {
        let status = raw
            .deliver(payload(PAYLOAD_VERSION, body))
            .await
            .unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        let status = raw.act(payload(PAYLOAD_VERSION, body)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    }
    // A list that claims to have billions of elements.
    let status = raw
        .deliver(payload(PAYLOAD_VERSION, b"\xff\xff\xff\xff\x0f"))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    let client = CellClient::new(client_options(server.address)).unwrap();
    assert_eq!(client.cell_id().await.unwrap(), fake_cell.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_sends_malformed_messages_is_disconnected_with_a_reason() {
    let fake_cell = FakeCell::new();
    let server = TestServer::start(listen().await, &fake_cell, None);
    let url = format!("http://{}", server.address);
    // A batch of two messages, of which the second is malformed.
    let batch = |version, host: &str| {
        let kind = agent_message::Kind::Alive(Alive {
            hosts: vec![host.into()],
        });
        let messages = vec![
            AgentMessage { kind: Some(kind) },
            AgentMessage { kind: None },
        ];
        FromAgent {
            version,
            newest: 0,
            messages,
        }
    };
    let host = instance(1).to_string();
    for (sent, expected_code, expected_text) in [
        (batch(7, &host), Code::FailedPrecondition, "version 7"),
        (batch(1, "no uuid"), Code::InvalidArgument, "alive.hosts"),
        (batch(1, &host), Code::InvalidArgument, "kind is missing"),
    ] {
        let mut client = AgentsClient::connect(url.clone()).await.unwrap();
        let request = tokio_stream::iter([sent]);
        let mut from_cell = client.join(request).await.unwrap().into_inner();
        let ended = async {
            loop {
                match from_cell.message().await {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("it ended without a reason"),
                    Err(status) => return status,
                }
            }
        };
        let status = timeout(TEST_TIMEOUT, ended).await.unwrap();
        assert_eq!(status.code(), expected_code, "{status}");
        assert!(status.message().contains(expected_text), "{status}");
    }
    let client = CellClient::new(client_options(server.address)).unwrap();
    assert_eq!(client.cell_id().await.unwrap(), fake_cell.id);
}

#[tokio::test]
async fn invalid_addresses_are_refused_at_once() {
    for address in [
        "",
        "nonsense",
        "https://cell:8780",
        "http://",
        "cell:port",
        "a b:1",
    ] {
        assert!(
            CellClient::new(ClientOptions::new(address)).is_err(),
            "{address:?}"
        );
    }
    for address in [
        "127.0.0.1:8780",
        "http://cell.example.org:8780",
        "[::1]:8780",
    ] {
        assert!(
            CellClient::new(ClientOptions::new(address)).is_ok(),
            "{address:?}"
        );
    }
}
