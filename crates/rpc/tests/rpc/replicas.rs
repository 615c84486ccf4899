//! The link between replicas over a real connection: everything arrives as it was sent, streams end on both sides,
//! and only replicas of the same role join.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use placewright_identity::{Identity, Role};
use placewright_link::{
    CommandVersions, EntryBatch, FollowStart, FromLeader, HandedCommand, HandedFailure,
    HandedOutcome, Leader, LeaderConnection, LeaderNews, LinkError, LinkFuture, PostedUpdate,
    ReplicaAddress, ReplicaIdentity, ReplicaLink, ToLeader,
};
use placewright_pki::{Authority, Credentials, Grant, KeyRequest, holder};
use placewright_rpc::proto::replica as proto;
use placewright_rpc::proto::replica::FromFollower;
use placewright_rpc::proto::replica::replica_client::ReplicaClient as RawClient;
use placewright_rpc::proto::replica::replica_server::{Replica as RawReplica, ReplicaServer};
use placewright_rpc::{
    ClientIdentity, ClientOptions, ReplicaClient, ServeOptions, ServerRole, Services, Token, serve,
};
use placewright_types::host_state::{HostUpdate, NumberedUpdate, Receipt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Code, Request, Response, Status, Streaming};
use uuid::Uuid;

const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// A replica whose answers a test chooses.
#[derive(Default)]
struct FakeReplica {
    /// This replica's ends of the streams that followers opened.
    streams: Mutex<Vec<Stream>>,
}

/// This replica's end of the stream of one follower.
struct Stream {
    start: FollowStart,
    from_follower: mpsc::Receiver<ToLeader>,
    to_follower: mpsc::Sender<FromLeader>,
}

fn leader() -> Leader {
    Leader {
        epoch: 300,
        origin: u64::MAX,
        address: "one:8775".into(),
    }
}

fn identity() -> ReplicaIdentity {
    ReplicaIdentity {
        origin: 7,
        address: "two:8775".into(),
        release: "1.2.3".into(),
        versions: CommandVersions {
            oldest: 1,
            newest: 2,
        },
        record_version: 4,
        sequence: 299,
        leader: leader(),
    }
}

fn start() -> FollowStart {
    FollowStart {
        origin: 8,
        address: "three:8775".into(),
        release: "1.2.4".into(),
        versions: CommandVersions {
            oldest: 2,
            newest: 3,
        },
        leader: leader(),
        takes_entries: true,
    }
}

/// The receipts that the replica gives for the updates with the numbers 0 to 3.
const RECEIPTS: [Option<Receipt>; 4] = [
    None,
    Some(Receipt::Applied),
    Some(Receipt::Stale),
    Some(Receipt::Gap),
];

/// An update of a host.
fn posted(sequence: u64) -> PostedUpdate {
    posted_in(1 << 60, sequence)
}

fn posted_in(incarnation: u64, sequence: u64) -> PostedUpdate {
    PostedUpdate {
        host: CANDIDATE,
        update: Arc::new(NumberedUpdate {
            incarnation,
            sequence,
            update: HostUpdate::Disabled(Some("test".into())),
        }),
    }
}

/// The UUID of the only candidate that the replica keeps, and of the host of all updates.
const CANDIDATE: Uuid = Uuid::from_u128(u128::MAX - 7);

impl ReplicaLink for FakeReplica {
    fn take_host_updates(
        &self,
        updates: Vec<PostedUpdate>,
    ) -> LinkFuture<'_, Vec<Option<Receipt>>> {
        let receipt = |posted: &PostedUpdate| {
            assert_eq!(posted.host, CANDIDATE);
            assert!(matches!(posted.update.update, HostUpdate::Disabled(_)));
            RECEIPTS[usize::try_from(posted.update.sequence).unwrap()]
        };
        let receipts = updates.iter().map(receipt).collect();
        Box::pin(async move { Ok(receipts) })
    }

    fn find_offer(&self, candidate: Uuid) -> LinkFuture<'_, Option<Vec<u8>>> {
        Box::pin(async move { Ok((candidate == CANDIDATE).then(|| vec![0, 7, 255])) })
    }

    fn identify(&self) -> LinkFuture<'_, ReplicaIdentity> {
        Box::pin(async { Ok(identity()) })
    }

    fn follow(&self, start: FollowStart) -> LinkFuture<'_, LeaderConnection> {
        let (to_leader, from_follower) = mpsc::channel(4);
        let (to_follower, from_leader) = mpsc::channel(4);
        self.streams.lock().push(Stream {
            start,
            from_follower,
            to_follower,
        });
        Box::pin(async {
            Ok(LeaderConnection {
                to_leader,
                from_leader,
            })
        })
    }
}

async fn start_server(options: ServeOptions) -> (Arc<FakeReplica>, SocketAddr) {
    let replica = Arc::<FakeReplica>::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let services = Services {
        replica: Some(Arc::clone(&replica) as _),
        ..Services::default()
    };
    tokio::spawn(async move {
        let served = serve(listener, services, options, std::future::pending());
        served.await.unwrap();
    });
    (replica, address)
}

async fn connect(replica: &FakeReplica, client: &ReplicaClient) -> (LeaderConnection, Stream) {
    let connection = timeout(TEST_TIMEOUT, client.follow(start()));
    let connection = connection.await.unwrap().unwrap();
    let stream = timeout(TEST_TIMEOUT, async {
        loop {
            let stream = replica.streams.lock().pop();
            match stream {
                Some(stream) => return stream,
                None => tokio::task::yield_now().await,
            }
        }
    });
    (connection, stream.await.unwrap())
}

fn every_message_of_a_leader() -> Vec<FromLeader> {
    let failures = [
        HandedFailure::Unavailable("away".into()),
        HandedFailure::Overloaded,
        HandedFailure::TooLarge {
            bytes: 3,
            bytes_max: 2,
        },
        HandedFailure::UnknownOutcome("unknown".into()),
        HandedFailure::Unreadable("unreadable".into()),
        HandedFailure::Panicked,
        HandedFailure::Other("other".into()),
    ];
    let outcomes = [HandedOutcome::NoEntry(299), HandedOutcome::NotLeading];
    let outcomes = outcomes
        .into_iter()
        .chain(failures.map(HandedOutcome::Failed));
    vec![
        FromLeader::Welcome { version: 2 },
        FromLeader::StoreUnavailable,
        FromLeader::News(LeaderNews::default()),
        FromLeader::News(LeaderNews {
            replies: (1..).zip(outcomes).collect(),
            durable: 301,
            batches: vec![EntryBatch {
                first: 300,
                last: 301,
                previous: 5,
                checksum: u32::MAX,
                payload: vec![1, 0, 0, 0, 7],
            }],
            followers: vec![ReplicaAddress {
                origin: u64::MAX,
                address: "three:8775".into(),
            }],
        }),
        FromLeader::NotLeading {
            origin: 9,
            leader: leader(),
        },
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_arrives_as_it_was_sent() {
    let (replica, address) = start_server(ServeOptions::default()).await;
    let client = ReplicaClient::new(&ClientOptions::new(address.to_string())).unwrap();
    assert_eq!(client.identify().await.unwrap(), identity());
    let offer = client.find_offer(CANDIDATE).await.unwrap();
    assert_eq!(offer, Some(vec![0, 7, 255]));
    assert_eq!(client.find_offer(Uuid::nil()).await.unwrap(), None);
    let receipts = client.take_host_updates((0..4).map(posted).collect());
    assert_eq!(receipts.await.unwrap(), RECEIPTS);
    let (mut connection, mut stream) = connect(&replica, &client).await;
    assert_eq!(stream.start, start());
    let command = |number: u64| HandedCommand {
        number,
        version: 1,
        bytes: vec![7; usize::try_from(number).unwrap()],
    };
    let messages = [
        ToLeader::default(),
        ToLeader {
            commands: (0..2_000).map(command).collect(),
            sequence: 5,
        },
    ];
    for message in messages {
        connection.to_leader.send(message.clone()).await.unwrap();
        let arrived = timeout(TEST_TIMEOUT, stream.from_follower.recv()).await;
        assert_eq!(arrived.unwrap(), Some(message));
    }
    for message in every_message_of_a_leader() {
        stream.to_follower.send(message.clone()).await.unwrap();
        let arrived = timeout(TEST_TIMEOUT, connection.from_leader.recv()).await;
        assert_eq!(arrived.unwrap(), Some(message));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_of_hosts_beyond_the_limits_reach_no_replica() {
    let (_, address) = start_server(ServeOptions::default()).await;
    let client = ReplicaClient::new(&ClientOptions::new(address.to_string())).unwrap();
    // Numbers from `1 << 62` on are out of range. An incarnation must also not be far above the present time.
    let updates = [
        posted_in(u64::MAX, 1),
        posted(1),
        posted_in((1 << 62) - 1, 1),
        posted(1 << 62),
        posted(2),
    ];
    let receipts = client.take_host_updates(updates.to_vec()).await.unwrap();
    let (applied, stale) = (Some(Receipt::Applied), Some(Receipt::Stale));
    assert_eq!(receipts, [None, applied, None, None, stale]);
    let receipts = client.take_host_updates(vec![posted(1); 1_000]).await;
    assert_eq!(receipts.unwrap(), vec![applied; 1_000]);
    let refused = client.take_host_updates(vec![posted(1); 1_001]).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("updates: 1001 of them"), "{refused}");
}

/// A replica of a later release, which gives receipts that this release does not know.
struct LaterReplica;

#[tonic::async_trait]
impl RawReplica for LaterReplica {
    async fn identify(
        &self,
        _: Request<proto::IdentifyRequest>,
    ) -> Result<Response<proto::Identity>, Status> {
        Err(Status::unimplemented("test"))
    }

    async fn find_offer(
        &self,
        _: Request<proto::FindOfferRequest>,
    ) -> Result<Response<proto::FindOfferResponse>, Status> {
        Err(Status::unimplemented("test"))
    }

    /// Gives three receipts, whatever it got.
    async fn take_host_updates(
        &self,
        _: Request<proto::HostUpdates>,
    ) -> Result<Response<proto::HostReceipts>, Status> {
        let (applied, gap) = (proto::HostReceipt::Applied, proto::HostReceipt::Gap);
        let receipts = vec![applied.into(), 99, gap.into()];
        Ok(Response::new(proto::HostReceipts { receipts }))
    }

    type FollowStream = ReceiverStream<Result<proto::FromLeader, Status>>;

    async fn follow(
        &self,
        _: Request<Streaming<FromFollower>>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        Err(Status::unimplemented("test"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_host_gets_the_receipt_of_its_own_update() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tonic::transport::Server::builder().add_service(ReplicaServer::new(LaterReplica));
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    let client = ReplicaClient::new(&ClientOptions::new(address.to_string())).unwrap();
    let receipts = client.take_host_updates(vec![posted(1); 3]).await;
    let expected = [Some(Receipt::Applied), None, Some(Receipt::Gap)];
    assert_eq!(receipts.unwrap(), expected);
    // Which receipt belongs to which update is not known.
    for count in [2, 4] {
        let refused = client.take_host_updates(vec![posted(1); count]).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("3 receipts for"), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_on_both_sides() {
    let (replica, address) = start_server(ServeOptions::default()).await;
    let client = ReplicaClient::new(&ClientOptions::new(address.to_string())).unwrap();
    let (mut connection, stream) = connect(&replica, &client).await;
    drop(stream);
    let ended = timeout(TEST_TIMEOUT, connection.from_leader.recv());
    assert_eq!(ended.await.unwrap(), None);
    let (connection, mut stream) = connect(&replica, &client).await;
    drop(connection);
    let ended = timeout(TEST_TIMEOUT, stream.from_follower.recv());
    assert_eq!(ended.await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_message_of_a_replica_that_does_not_lead_arrives() {
    let (replica, address) = start_server(ServeOptions::default()).await;
    let client = ReplicaClient::new(&ClientOptions::new(address.to_string())).unwrap();
    let (mut connection, stream) = connect(&replica, &client).await;
    let last = FromLeader::NotLeading {
        origin: 9,
        leader: leader(),
    };
    stream.to_follower.send(last.clone()).await.unwrap();
    drop(stream);
    let arrived = timeout(TEST_TIMEOUT, connection.from_leader.recv());
    assert_eq!(arrived.await.unwrap(), Some(last));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_beginning_of_a_stream_is_refused() {
    let (_, address) = start_server(ServeOptions::default()).await;
    let mut raw = RawClient::connect(format!("http://{address}"))
        .await
        .unwrap();
    let too_long = placewright_rpc::proto::replica::Start {
        address: "x".repeat(2_000),
        ..Default::default()
    };
    let too_long = FromFollower {
        start: Some(too_long),
        ..FromFollower::default()
    };
    for (first, field) in [
        (FromFollower::default(), "start"),
        (too_long, "start.address"),
    ] {
        let messages = tokio_stream::iter([first]);
        let mut stream = raw.follow(messages).await.unwrap().into_inner();
        let status = timeout(TEST_TIMEOUT, stream.message()).await.unwrap();
        let status = status.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().starts_with(field), "{status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_token_nobody_joins() {
    let options = ServeOptions {
        token: Some(Token::new("0123456789abcdef").unwrap()),
        ..ServeOptions::default()
    };
    let (_, address) = start_server(options).await;
    let client = ReplicaClient::new(&ClientOptions::new(address.to_string())).unwrap();
    let refused = client.follow(start()).await.unwrap_err();
    assert!(matches!(refused, LinkError::Refused { .. }), "{refused}");
}

fn issue_and_load(authority: &Authority, folder: &Path, role: Role) -> Arc<Credentials> {
    let identity = Identity::new("test", role).unwrap();
    let request = KeyRequest::new().unwrap();
    let issued = authority.issue(&Grant::new(identity), &request.request, "issue");
    holder::write(folder, &request, &issued.unwrap()).unwrap();
    Credentials::load(folder, Some(&authority.revocation_list_path())).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_replicas_of_the_same_role_join() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::create(&folder.path().join("pki"), "test").unwrap();
    let roles = [
        (Role::Control, ServerRole::Control),
        (Role::Cell("c1".into()), ServerRole::Cell("c1".into())),
        (Role::Cell("c2".into()), ServerRole::Cell("c2".into())),
    ];
    let credentials = [0, 1, 2].map(|number: usize| {
        let folder = folder.path().join(number.to_string());
        issue_and_load(&authority, &folder, roles[number].0.clone())
    });
    for (server, (_, server_role)) in roles.iter().enumerate() {
        let options = ServeOptions {
            credentials: Some(Arc::clone(&credentials[server])),
            ..ServeOptions::default()
        };
        let (_, address) = start_server(options).await;
        for (caller, credentials) in credentials.iter().enumerate() {
            let options = ClientOptions {
                identity: Some(ClientIdentity {
                    credentials: Arc::clone(credentials),
                    server: server_role.clone(),
                }),
                ..ClientOptions::new(address.to_string())
            };
            let client = ReplicaClient::new(&options).unwrap();
            let (identified, followed) = (client.identify().await, client.follow(start()).await);
            let expected = caller == server;
            assert_eq!(identified.is_ok(), expected, "{caller} at {server}");
            assert_eq!(followed.is_ok(), expected, "{caller} at {server}");
            let taken = client.take_host_updates(vec![posted(1)]).await;
            assert_eq!(taken.is_ok(), expected, "{caller} at {server}");
            let found = client.find_offer(CANDIDATE).await;
            assert_eq!(found.is_ok(), expected, "{caller} at {server}");
            if let Err(error) = followed {
                assert!(error.to_string().contains("join the replicas"), "{error}");
            }
        }
    }
}
