//! Roles of different releases: they speak the newest version that both know.

#![expect(clippy::unwrap_used, reason = "a test stops where it goes wrong")]

#[allow(dead_code, reason = "others use the rest")]
mod peers;

use std::net::SocketAddr;
use std::time::Duration;

use peers::{Fake, Running, client_options, envelopes, instance, listen};
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

const SOON: Duration = Duration::from_secs(20);
const OLDER: Versions = Versions {
    oldest: 2,
    newest: 2,
};
const NEWER: Versions = Versions {
    oldest: 3,
    newest: 4,
};

fn serving(versions: Versions) -> ServeOptions {
    ServeOptions {
        versions,
        ..ServeOptions::default()
    }
}

fn speaking(address: SocketAddr, versions: Versions) -> ClientOptions {
    ClientOptions {
        versions,
        ..client_options(address)
    }
}

fn ask() -> ClaimRequest {
    ClaimRequest {
        instance: instance(1),
        number: 7,
        want: ClaimChange::Release { last: true },
    }
}

/// Everything that control and a cell say to each other arrives.
async fn assert_talk(options: ClientOptions) {
    let client = CellClient::new(options.clone()).unwrap();
    client.cell().await.unwrap();
    let replies = client.deliver(envelopes(3, 100)).await.unwrap();
    let expected: Vec<Reply> = (0..3).map(|n| Reply::Refused(n.to_string())).collect();
    assert_eq!(replies, expected);
    assert_eq!(client.actions(instance(3)).await.unwrap().len(), 1);
    let mut news = client.follow().await.unwrap();
    for number in 0..500 {
        let one = timeout(SOON, news.recv()).await.unwrap().unwrap();
        let expected = CellEvent::Instance {
            instance: instance(number),
            view: None,
        };
        assert_eq!(one, expected);
    }
    assert_asks(options).await;
}

async fn assert_asks(options: ClientOptions) {
    let placement = PlacementClient::new(options).unwrap();
    let answers = placement.ask(vec![ask()]).await.unwrap();
    assert_eq!(answers, [ClaimResponse::Swapped { index: 7 }]);
}

#[tokio::test(flavor = "multi_thread")]
async fn neighbouring_releases_understand_each_other() {
    for (server, client) in [
        (Versions::SUPPORTED, Versions::SUPPORTED),
        (OLDER, Versions::SUPPORTED),
        (Versions::SUPPORTED, OLDER),
        (OLDER, OLDER),
        (NEWER, Versions::SUPPORTED),
        (Versions::SUPPORTED, NEWER),
    ] {
        let running = Running::start_with(listen().await, &Fake::new(), serving(server));
        assert_talk(speaking(running.address, client)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn releases_that_have_no_version_in_common_say_so() {
    let running = Running::start_with(listen().await, &Fake::new(), serving(NEWER));
    let client = CellClient::new(speaking(running.address, OLDER)).unwrap();
    let refused = client.cell().await.unwrap_err();
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
    let running = Running::start(listener, &Fake::new(), None);
    let client = CellClient::new(client_options(address)).unwrap();
    client.deliver(envelopes(1, 10)).await.unwrap();
    drop(running);
    let bound = async {
        loop {
            match tokio::net::TcpListener::bind(address).await {
                Ok(listener) => return listener,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let listener = timeout(SOON, bound).await.unwrap();
    let _older = Running::start_with(listener, &Fake::new(), serving(OLDER));
    let delivered = async {
        loop {
            match client.deliver(envelopes(1, 10)).await {
                Ok(replies) => return replies,
                // Whatever fails is worth another try.
                Err(LinkError::Refused { why, .. }) => panic!("{why}"),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    assert_eq!(timeout(SOON, delivered).await.unwrap().len(), 1);
}

/// A cell and a placement as the releases before the agreement were: they say one version, know no
/// other, and placement cannot be asked.
struct First;

fn of_version_2<T: Form>(payload: &Payload) -> Result<T, Status> {
    if payload.version != 2 {
        return Err(Status::failed_precondition(format!(
            "version {} of the protocol is not known here; this release speaks 2",
            payload.version
        )));
    }
    message::decode(2, &payload.body).map_err(|error| Status::invalid_argument(error.to_string()))
}

fn in_version_2<T: Form>(value: &T) -> Response<Payload> {
    Response::new(Payload {
        version: 2,
        body: message::encode(2, value).unwrap().into(),
    })
}

#[tonic::async_trait]
impl Cell for First {
    async fn identify(&self, _: Request<IdentifyRequest>) -> Result<Response<Identity>, Status> {
        Ok(Response::new(Identity {
            cell: Uuid::from_u128(1).to_string(),
            version: 2,
            ..Identity::default()
        }))
    }

    async fn deliver(&self, request: Request<Payload>) -> Result<Response<Payload>, Status> {
        let messages: Vec<Envelope> = of_version_2(request.get_ref())?;
        let number = |one: &Envelope| one.message.instance().0.as_u128().to_string();
        let replies: Vec<Reply> = messages
            .iter()
            .map(|one| Reply::Refused(number(one)))
            .collect();
        Ok(in_version_2(&replies))
    }

    async fn act(&self, _: Request<Payload>) -> Result<Response<Payload>, Status> {
        Ok(in_version_2(&Reply::Accepted))
    }

    async fn actions(&self, request: Request<Payload>) -> Result<Response<Payload>, Status> {
        let _: placewright_conductor::InstanceId = of_version_2(request.get_ref())?;
        Ok(in_version_2(&vec![placewright_conductor::Action {
            name: "create".into(),
            started_at: placewright_placement::Timestamp(1),
            finished_at: None,
            tries: Vec::new(),
            fault: None,
        }]))
    }

    type FollowStream = ReceiverStream<Result<Payload, Status>>;

    async fn follow(
        &self,
        request: Request<Payload>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let () = of_version_2(request.get_ref())?;
        let (to, from) = tokio::sync::mpsc::channel(1);
        let news: Vec<CellEvent> = (0..500)
            .map(|number| CellEvent::Instance {
                instance: instance(number),
                view: None,
            })
            .collect();
        to.send(Ok(in_version_2(&news).into_inner())).await.unwrap();
        Ok(Response::new(ReceiverStream::new(from)))
    }
}

#[tonic::async_trait]
impl Placement for First {
    async fn identify(&self, _: Request<IdentifyRequest>) -> Result<Response<Identity>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn ask(&self, request: Request<Payload>) -> Result<Response<Payload>, Status> {
        let asks: Vec<ClaimRequest> = of_version_2(request.get_ref())?;
        let index = |ask: &ClaimRequest| ClaimResponse::Swapped {
            index: u32::try_from(ask.number).unwrap(),
        };
        let answers: Vec<ClaimResponse> = asks.iter().map(index).collect();
        Ok(in_version_2(&answers))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_of_the_first_releases_is_understood() {
    let listener = listen().await;
    let address = listener.local_addr().unwrap();
    tokio::spawn(
        tonic::transport::Server::builder()
            .add_service(CellServer::new(First))
            .add_service(PlacementServer::new(First))
            .serve_with_incoming(TcpListenerStream::new(listener)),
    );
    assert_talk(client_options(address)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn control_of_the_first_releases_is_understood() {
    let running = Running::start(listen().await, &Fake::new(), None);
    let url = format!("http://{}", running.address);
    let mut raw = RawCell::connect(url).await.unwrap();
    let identity = raw.identify(IdentifyRequest {}).await.unwrap().into_inner();
    // They refuse any other.
    assert_eq!(identity.version, 2);
    let payload = in_version_2(&envelopes(2, 10)).into_inner();
    let answer = raw.deliver(payload).await.unwrap().into_inner();
    let replies: Vec<Reply> = of_version_2(&answer).unwrap();
    assert_eq!(replies.len(), 2);
    let mut news = raw
        .follow(in_version_2(&()).into_inner())
        .await
        .unwrap()
        .into_inner();
    let first = timeout(SOON, news.message()).await.unwrap().unwrap();
    let news: Vec<CellEvent> = of_version_2(&first.unwrap()).unwrap();
    assert!(!news.is_empty());
}

/// Joins as an agent with this first batch, and returns the version that the cell names.
async fn named(url: &str, first: FromAgent) -> Result<Option<u32>, Status> {
    let mut client = AgentsClient::connect(url.to_owned()).await.unwrap();
    let (to, batches) = tokio::sync::mpsc::channel(1);
    to.send(first).await.unwrap();
    let mut orders = client
        .join(ReceiverStream::new(batches))
        .await?
        .into_inner();
    loop {
        match timeout(Duration::from_millis(500), orders.message()).await {
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
    let running = Running::start(listen().await, &Fake::new(), None);
    let url = format!("http://{}", running.address);
    let hello = |version, newest| FromAgent {
        version,
        newest,
        messages: Vec::new(),
    };
    let newer = hello(PROTOCOL_OLDEST, PROTOCOL_VERSION + 5);
    assert_eq!(named(&url, newer).await.unwrap(), Some(PROTOCOL_VERSION));
    let older = hello(PROTOCOL_OLDEST, 0);
    assert_eq!(named(&url, older).await.unwrap(), None);
    let unknown = hello(PROTOCOL_VERSION + 1, 0);
    let refused = named(&url, unknown).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    let agent = AgentClient::new(client_options(running.address)).unwrap();
    let mut connection = agent.connect().await.unwrap();
    let order = timeout(SOON, connection.from_cell.recv()).await.unwrap();
    assert!(order.is_some());
}
