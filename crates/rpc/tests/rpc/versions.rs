//! Roles of different releases use the newest version that both support.

use std::net::SocketAddr;
use std::time::Duration;

use crate::peers::{FakeCell, TestServer, client_options, envelopes, instance, listen};
use placewright_conductor::message::Envelope;
use placewright_conductor::{ClaimChange, ClaimRequest, ClaimResponse, Reply};
use placewright_link::{AgentLink as _, CellEvent, CellLink as _, LinkError, PlacementLink as _};
use placewright_records::Form;
use placewright_records::message::{self, Versions};
use placewright_rpc::proto::agent::FromAgent;
use placewright_rpc::proto::agent::agents_client::AgentsClient;
use placewright_rpc::proto::cell::cell_client::CellClient as RawCell;
use placewright_rpc::proto::cell::cell_server::{Cell, CellServer};
use placewright_rpc::proto::cell::placement_server::{Placement, PlacementServer};
use placewright_rpc::proto::cell::{IdentifyRequest, Identity, Payload};
use placewright_rpc::{
    AgentClient, CellClient, ClientOptions, PROTOCOL_OLDEST, PROTOCOL_VERSION, PlacementClient,
    ServeOptions,
};
use tokio::time::timeout;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Code, Request, Response, Status};
use uuid::Uuid;

const TEST_TIMEOUT: Duration = Duration::from_secs(20);
/// The versions of an older release, which are fewer than this release supports.
const OLDER: Versions = Versions {
    oldest: 2,
    newest: 2,
};
/// The versions of a newer release, some of which this release supports.
const NEWER: Versions = Versions {
    oldest: 3,
    newest: 4,
};

fn serve_options(versions: Versions) -> ServeOptions {
    ServeOptions {
        versions,
        ..ServeOptions::default()
    }
}

fn options_with_versions(address: SocketAddr, versions: Versions) -> ClientOptions {
    ClientOptions {
        versions,
        ..client_options(address)
    }
}

fn claim_request() -> ClaimRequest {
    ClaimRequest {
        instance: instance(1),
        number: 7,
        change: ClaimChange::Release {
            is_deleted: true,
            failed_attempts: Vec::new(),
        },
    }
}

/// Checks that the messages between control and a cell arrive.
async fn assert_messages_arrive(options: ClientOptions) {
    let client = CellClient::new(options.clone()).unwrap();
    client.cell_id().await.unwrap();
    let replies = client.deliver(envelopes(3, 100)).await.unwrap();
    let expected: Vec<Reply> = (0..3).map(|n| Reply::Refused(n.to_string())).collect();
    assert_eq!(replies, expected);
    assert_eq!(client.actions(instance(3)).await.unwrap().len(), 1);
    let mut events = client.follow().await.unwrap();
    for number in 0..500 {
        let event = timeout(TEST_TIMEOUT, events.recv()).await.unwrap().unwrap();
        let expected = CellEvent::Instance {
            instance: instance(number),
            view: None,
        };
        assert_eq!(event, expected);
    }
    assert_claim_requests_arrive(options).await;
}

async fn assert_claim_requests_arrive(options: ClientOptions) {
    let placement = PlacementClient::new(options).unwrap();
    let responses = placement
        .request_claims(vec![claim_request()])
        .await
        .unwrap();
    // The fake placement answers each request with the request's own number as the index.
    assert_eq!(responses, [ClaimResponse::Swapped { index: 7 }]);
}

#[tokio::test(flavor = "multi_thread")]
async fn neighbouring_releases_understand_each_other() {
    for (server_versions, client_versions) in [
        (Versions::SUPPORTED, Versions::SUPPORTED),
        (OLDER, Versions::SUPPORTED),
        (Versions::SUPPORTED, OLDER),
        (OLDER, OLDER),
        (NEWER, Versions::SUPPORTED),
        (Versions::SUPPORTED, NEWER),
    ] {
        let server = TestServer::start_with(
            listen().await,
            &FakeCell::new(),
            serve_options(server_versions),
        );
        assert_messages_arrive(options_with_versions(server.address, client_versions)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn releases_that_have_no_version_in_common_say_so() {
    let server = TestServer::start_with(listen().await, &FakeCell::new(), serve_options(NEWER));
    let client = CellClient::new(options_with_versions(server.address, OLDER)).unwrap();
    let refused = client.cell_id().await.unwrap_err();
    assert!(matches!(refused, LinkError::Refused { .. }), "{refused}");
    let text = refused.to_string();
    assert!(text.contains("versions 3 to 4"), "{text}");
    assert!(text.contains("this release 2 to 2"), "{text}");
    assert!(client.deliver(envelopes(1, 10)).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_may_be_replaced_by_one_of_an_older_release() {
    let listener = listen().await;
    let address = listener.local_addr().unwrap();
    let server = TestServer::start(listener, &FakeCell::new(), None);
    let client = CellClient::new(client_options(address)).unwrap();
    client.deliver(envelopes(1, 10)).await.unwrap();
    drop(server);
    let rebound = async {
        loop {
            match tokio::net::TcpListener::bind(address).await {
                Ok(listener) => return listener,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let listener = timeout(TEST_TIMEOUT, rebound).await.unwrap();
    let _older = TestServer::start_with(listener, &FakeCell::new(), serve_options(OLDER));
    let delivered = async {
        loop {
            match client.deliver(envelopes(1, 10)).await {
                Ok(replies) => return replies,
                // Other errors may be retried.
                Err(LinkError::Refused { why, .. }) => panic!("{why}"),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    assert_eq!(timeout(TEST_TIMEOUT, delivered).await.unwrap().len(), 1);
}

/// A cell and a placement of the first releases, which support version 2 alone and do not negotiate. This placement
/// does not have the call `identify`.
struct FirstRelease;

fn decode_version_2<T: Form>(payload: &Payload) -> Result<T, Status> {
    if payload.version != 2 {
        return Err(Status::failed_precondition(format!(
            "version {} of the protocol is not known here; this release speaks 2",
            payload.version
        )));
    }
    message::decode(2, &payload.body).map_err(|error| Status::invalid_argument(error.to_string()))
}

fn encode_version_2<T: Form>(value: &T) -> Response<Payload> {
    Response::new(Payload {
        version: 2,
        body: message::encode(2, value).unwrap().into(),
    })
}

#[tonic::async_trait]
impl Cell for FirstRelease {
    async fn identify(&self, _: Request<IdentifyRequest>) -> Result<Response<Identity>, Status> {
        Ok(Response::new(Identity {
            cell: Uuid::from_u128(1).to_string(),
            version: 2,
            ..Identity::default()
        }))
    }

    async fn deliver(&self, request: Request<Payload>) -> Result<Response<Payload>, Status> {
        let messages: Vec<Envelope> = decode_version_2(request.get_ref())?;
        let number = |envelope: &Envelope| envelope.message.instance().0.as_u128().to_string();
        let replies: Vec<Reply> = messages
            .iter()
            .map(|envelope| Reply::Refused(number(envelope)))
            .collect();
        Ok(encode_version_2(&replies))
    }

    async fn act(&self, _: Request<Payload>) -> Result<Response<Payload>, Status> {
        Ok(encode_version_2(&Reply::Accepted))
    }

    async fn actions(&self, request: Request<Payload>) -> Result<Response<Payload>, Status> {
        let _: placewright_conductor::InstanceId = decode_version_2(request.get_ref())?;
        Ok(encode_version_2(&vec![placewright_conductor::Action {
            name: "create".into(),
            started_at: placewright_placement::Timestamp(1),
            finished_at: None,
            attempts: Vec::new(),
            fault: None,
            request: None,
        }]))
    }

    type FollowStream = ReceiverStream<Result<Payload, Status>>;

    async fn follow(
        &self,
        request: Request<Payload>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let () = decode_version_2(request.get_ref())?;
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        let events: Vec<CellEvent> = (0..500)
            .map(|number| CellEvent::Instance {
                instance: instance(number),
                view: None,
            })
            .collect();
        sender
            .send(Ok(encode_version_2(&events).into_inner()))
            .await
            .unwrap();
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}

#[tonic::async_trait]
impl Placement for FirstRelease {
    async fn identify(&self, _: Request<IdentifyRequest>) -> Result<Response<Identity>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn ask(&self, request: Request<Payload>) -> Result<Response<Payload>, Status> {
        let claim_requests: Vec<ClaimRequest> = decode_version_2(request.get_ref())?;
        let response = |claim_request: &ClaimRequest| ClaimResponse::Swapped {
            index: u32::try_from(claim_request.number).unwrap(),
        };
        let responses: Vec<ClaimResponse> = claim_requests.iter().map(response).collect();
        Ok(encode_version_2(&responses))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_of_the_first_releases_is_understood() {
    let listener = listen().await;
    let address = listener.local_addr().unwrap();
    tokio::spawn(
        tonic::transport::Server::builder()
            .add_service(CellServer::new(FirstRelease))
            .add_service(PlacementServer::new(FirstRelease))
            .serve_with_incoming(TcpListenerStream::new(listener)),
    );
    assert_messages_arrive(client_options(address)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn control_of_the_first_releases_is_understood() {
    let server = TestServer::start(listen().await, &FakeCell::new(), None);
    let url = format!("http://{}", server.address);
    let mut raw = RawCell::connect(url).await.unwrap();
    let identity = raw.identify(IdentifyRequest {}).await.unwrap().into_inner();
    // Control of the first releases refuses every other version in this field.
    assert_eq!(identity.version, 2);
    let payload = encode_version_2(&envelopes(2, 10)).into_inner();
    let response = raw.deliver(payload).await.unwrap().into_inner();
    let replies: Vec<Reply> = decode_version_2(&response).unwrap();
    assert_eq!(replies.len(), 2);
    let mut events = raw
        .follow(encode_version_2(&()).into_inner())
        .await
        .unwrap()
        .into_inner();
    let first = timeout(TEST_TIMEOUT, events.message())
        .await
        .unwrap()
        .unwrap();
    let events: Vec<CellEvent> = decode_version_2(&first.unwrap()).unwrap();
    assert!(!events.is_empty());
}

/// Joins as an agent with this first batch, and returns the version that the cell names; `None` if it names none
/// within half a second.
async fn joined_version(url: &str, first: FromAgent) -> Result<Option<u32>, Status> {
    let mut client = AgentsClient::connect(url.to_owned()).await.unwrap();
    let (to_cell, batches) = tokio::sync::mpsc::channel(1);
    to_cell.send(first).await.unwrap();
    let mut from_cell = client
        .join(ReceiverStream::new(batches))
        .await?
        .into_inner();
    loop {
        match timeout(Duration::from_millis(500), from_cell.message()).await {
            Ok(batch) => match batch? {
                Some(batch) if batch.version != 0 => return Ok(Some(batch.version)),
                Some(_) => {}
                None => return Ok(None),
            },
            Err(_) => return Ok(None),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_and_a_cell_take_the_newest_version_that_both_know() {
    let server = TestServer::start(listen().await, &FakeCell::new(), None);
    let url = format!("http://{}", server.address);
    let first_batch = |version, newest| FromAgent {
        version,
        newest,
        messages: Vec::new(),
    };
    let newer = first_batch(PROTOCOL_OLDEST, PROTOCOL_VERSION + 5);
    assert_eq!(
        joined_version(&url, newer).await.unwrap(),
        Some(PROTOCOL_VERSION)
    );
    let older = first_batch(PROTOCOL_OLDEST, 0);
    assert_eq!(joined_version(&url, older).await.unwrap(), None);
    let unknown = first_batch(PROTOCOL_VERSION + 1, 0);
    let refused = joined_version(&url, unknown).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    let agent = AgentClient::new(client_options(server.address)).unwrap();
    let mut connection = agent.connect().await.unwrap();
    let message = timeout(TEST_TIMEOUT, connection.from_cell.recv())
        .await
        .unwrap();
    assert!(message.is_some());
}
