//! A fake cell and placement with fixed responses, and a server for them.

mod claims;
mod updates;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use placewright_conductor::cell_conductor::{Failure, GuestRef, Order, Step};
use placewright_conductor::message::{Create, Envelope};
use placewright_conductor::{
    Action, Amounts, CellId, ClaimChange, ClaimRequest, ClaimResponse, HardRule, HostId,
    InstanceId, Message, Reply, Spec,
};
use placewright_link::{
    AgentConnection, AgentLink, CellEvent, CellLink, CellOperation, LinkError, LinkFuture,
    PlacementLink, SessionStart, ToAgent, ToCell,
};
use placewright_placement::Timestamp;
use placewright_placement::group::{Relation, Rule, RuleScope};
use placewright_rpc::{ClientOptions, ServeOptions, Services, Token, serve};
use placewright_types::host_state::NumberedUpdate;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{Mutex, mpsc};
use uuid::Uuid;

use updates::every_update;

/// The address of the leader in the errors of a fake cell that does not lead.
pub(crate) const LEADER: &str = "10.0.0.7:8780";
/// The errors with which calls fail after [`FakeCell::set_error`].
pub(crate) const UNREACHABLE: u8 = 0;
pub(crate) const TIMED_OUT: u8 = 1;
pub(crate) const UNAVAILABLE: u8 = 2;
pub(crate) const REFUSED: u8 = 3;
pub(crate) const NOT_LEADING: u8 = 4;
/// The reason in the errors of a fake cell.
pub(crate) const ERROR_REASON: &str = "so it is";

const NO_ERROR: u8 = 255;
const STUCK: u8 = 254;
const SILENT: u8 = 253;
const LOSES_ANSWERS: u8 = 252;

/// A cell and a placement with fixed responses.
pub(crate) struct FakeCell {
    pub(crate) id: CellId,
    /// One of the errors of [`FakeCell::set_error`], or one of the four modes above.
    mode: AtomicU8,
    /// How many operations the cell was told to perform.
    pub(crate) performed: AtomicUsize,
    received_sender: mpsc::Sender<Option<ToCell>>,
    /// The messages of agents; `None` marks the end of a connection.
    pub(crate) received: Mutex<mpsc::Receiver<Option<ToCell>>>,
}

impl FakeCell {
    pub(crate) fn new() -> Arc<Self> {
        Self::with_id(0xce11)
    }

    pub(crate) fn with_id(number: u128) -> Arc<Self> {
        let (received_sender, received) = mpsc::channel(1000);
        Arc::new(Self {
            id: CellId(Uuid::from_u128(number)),
            mode: AtomicU8::new(NO_ERROR),
            performed: AtomicUsize::new(0),
            received_sender,
            received: Mutex::new(received),
        })
    }

    /// Lets calls fail with one of the errors above.
    pub(crate) fn set_error(&self, error: u8) {
        self.mode.store(error, Ordering::SeqCst);
    }

    /// Lets calls succeed again, whichever mode was set before.
    pub(crate) fn set_sound(&self) {
        self.mode.store(NO_ERROR, Ordering::SeqCst);
    }

    /// Lets operations have their effect, but loses their answers.
    pub(crate) fn lose_answers(&self) {
        self.mode.store(LOSES_ANSWERS, Ordering::SeqCst);
    }

    /// Lets calls wait for ever.
    pub(crate) fn set_stuck(&self) {
        self.mode.store(STUCK, Ordering::SeqCst);
    }

    /// Lets the streams of events stay open without any event.
    pub(crate) fn set_silent(&self) {
        self.mode.store(SILENT, Ordering::SeqCst);
    }

    /// Fails with the error that was set, or does not end if the cell was set stuck.
    async fn fail_if_set(&self) -> Result<(), LinkError> {
        let (peer, why) = ("cell".to_owned(), ERROR_REASON.to_owned());
        match self.mode.load(Ordering::SeqCst) {
            UNREACHABLE => Err(LinkError::Unreachable { peer, why }),
            TIMED_OUT => Err(LinkError::TimedOut { peer }),
            UNAVAILABLE => Err(LinkError::Unavailable { peer, why }),
            REFUSED => Err(LinkError::Refused { peer, why }),
            NOT_LEADING => Err(LinkError::NotLeading {
                peer,
                leader: Some(LEADER.to_owned()),
            }),
            STUCK => std::future::pending().await,
            _ => Ok(()),
        }
    }
}

impl CellLink for FakeCell {
    fn cell_id(&self) -> LinkFuture<'_, CellId> {
        Box::pin(async { self.fail_if_set().await.map(|()| self.id) })
    }

    /// Refuses every message, with the number of its instance, so that replies can be told apart.
    fn deliver(&self, messages: Vec<Envelope>) -> LinkFuture<'_, Vec<Reply>> {
        let number = |envelope: &Envelope| envelope.message.instance().0.as_u128().to_string();
        let replies = messages
            .iter()
            .map(|envelope| Reply::Refused(number(envelope)));
        let replies = replies.collect();
        Box::pin(async { self.fail_if_set().await.map(|()| replies) })
    }

    fn perform(&self, operation: CellOperation) -> LinkFuture<'_, Reply> {
        self.performed.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            if self.mode.load(Ordering::SeqCst) == LOSES_ANSWERS {
                let (peer, why) = ("cell".to_owned(), ERROR_REASON.to_owned());
                return Err(LinkError::Unreachable { peer, why });
            }
            match operation {
                CellOperation::Shelve { instance, .. } => Ok(Reply::Refused(instance.to_string())),
                CellOperation::Rebuild { .. }
                | CellOperation::RemoveHost { .. }
                | CellOperation::RefuseRebuild { .. }
                | CellOperation::Reconcile { .. } => Ok(Reply::Accepted),
            }
        })
    }

    fn actions(&self, instance: InstanceId) -> LinkFuture<'_, Vec<Action>> {
        let action = Action {
            name: instance.to_string(),
            started_at: Timestamp(1),
            finished_at: None,
            attempts: Vec::new(),
            fault: None,
            request: None,
        };
        Box::pin(async { Ok(vec![action]) })
    }

    fn follow(&self) -> LinkFuture<'_, mpsc::Receiver<CellEvent>> {
        let is_silent = self.mode.load(Ordering::SeqCst) == SILENT;
        Box::pin(async move {
            self.fail_if_set().await?;
            let (sender, receiver) = mpsc::channel(100);
            tokio::spawn(async move {
                for number in 0.. {
                    if is_silent {
                        sender.closed().await;
                        return;
                    }
                    let event = CellEvent::Instance {
                        instance: instance(number),
                        view: None,
                    };
                    if sender.send(event).await.is_err() {
                        return;
                    }
                }
            });
            Ok(receiver)
        })
    }
}

impl PlacementLink for FakeCell {
    /// Answers each request with the request's own number as the index, so that responses can be told apart.
    fn request_claims(&self, requests: Vec<ClaimRequest>) -> LinkFuture<'_, Vec<ClaimResponse>> {
        let response = |claim_request: &ClaimRequest| ClaimResponse::Swapped {
            index: u32::try_from(claim_request.number).unwrap(),
        };
        let responses = requests.iter().map(response).collect();
        Box::pin(async { Ok(responses) })
    }
}

impl AgentLink for FakeCell {
    fn connect(&self) -> LinkFuture<'_, AgentConnection> {
        Box::pin(async {
            self.fail_if_set().await?;
            let (to_agent, from_cell) = mpsc::channel(100);
            let (to_cell, mut from_agent) = mpsc::channel(100);
            let received_sender = self.received_sender.clone();
            tokio::spawn(async move {
                for message in every_message_to_agents() {
                    to_agent.send(message).await.unwrap();
                }
                while let Some(message) = from_agent.recv().await {
                    received_sender.send(Some(message)).await.unwrap();
                }
                received_sender.send(None).await.unwrap();
                // The connection is dropped only here, so that the agent's end stays open until now.
                drop(to_agent);
            });
            Ok(AgentConnection { to_cell, from_cell })
        })
    }
}

/// A server that ends, with all its connections, when its handle is dropped.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    runtime: Option<Runtime>,
}

impl TestServer {
    /// Starts a server. If a token is given, its callers need it.
    pub(crate) fn start(
        listener: TcpListener,
        fake_cell: &Arc<FakeCell>,
        token: Option<Token>,
    ) -> Self {
        let options = ServeOptions {
            token,
            ..ServeOptions::default()
        };
        Self::start_with(listener, fake_cell, options)
    }

    pub(crate) fn start_with(
        listener: TcpListener,
        fake_cell: &Arc<FakeCell>,
        options: ServeOptions,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let services = Services {
            cell: Some(Arc::clone(fake_cell) as _),
            agents: Some(Arc::clone(fake_cell) as _),
            placement: Some(Arc::clone(fake_cell) as _),
            ..Services::default()
        };
        let listener = listener.into_std().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.spawn(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            let stop = std::future::pending();
            serve(listener, services, options, stop).await.unwrap();
        });
        Self {
            address,
            runtime: Some(runtime),
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}

pub(crate) async fn listen() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

pub(crate) fn client_options(address: SocketAddr) -> ClientOptions {
    ClientOptions::new(address.to_string())
}

pub(crate) fn instance(number: u128) -> InstanceId {
    InstanceId(Uuid::from_u128(number))
}

fn host() -> HostId {
    HostId(Uuid::from_u128(0x4057))
}

fn spec(body_bytes: usize) -> Spec {
    Spec {
        name: "vm".into(),
        project: "p".into(),
        user: "u".into(),
        group: Some(Uuid::from_u128(9)),
        rules: vec![
            HardRule {
                rule: Rule {
                    scope: RuleScope::Host,
                    relation: Relation::FewerThan(1),
                },
                others: vec![Uuid::from_u128(10)],
            },
            HardRule {
                rule: Rule {
                    scope: RuleScope::Level("rack".into()),
                    relation: Relation::Same,
                },
                others: Vec::new(),
            },
        ]
        .into(),
        body: "x".repeat(body_bytes).into(),
        created_at: Timestamp(1_700_000_000_000_000),
        usage: Default::default(),
        build_secrets: Default::default(),
        secrets: Default::default(),
    }
}

pub(crate) fn envelopes(count: u128, body_bytes: usize) -> Vec<Envelope> {
    let envelope = |number| Envelope {
        sent_at: Timestamp(5),
        message: Message::Create(Box::new(Create {
            instance: instance(number),
            spec: spec(body_bytes),
            selection: claims::candidate().into(),
            alternates: std::sync::Arc::default(),
            claim_number: 1,
        })),
    };
    (0..count).map(envelope).collect()
}

pub(crate) fn claim_requests(count: u64) -> Vec<ClaimRequest> {
    let claim_request = |number: u64| ClaimRequest {
        instance: instance(number.into()),
        number,
        change: ClaimChange::Release {
            is_deleted: false,
            failed_attempts: Vec::new(),
        },
    };
    (0..count).map(claim_request).collect()
}

/// One of each message that an agent can send.
pub(crate) fn every_message_of_agents() -> Vec<ToCell> {
    let mut messages = vec![
        ToCell::Started(Box::new(SessionStart {
            host: host(),
            name: "compute-1".into(),
            session: 1 << 60,
            guests: vec![(instance(1), 2), (instance(3), u32::MAX)],
        })),
        ToCell::Destroyed {
            host: host(),
            instance: instance(1),
            number: 2,
        },
        ToCell::Alive {
            hosts: vec![host(), HostId(Uuid::from_u128(2))],
        },
    ];
    for failure in [
        None,
        Some(Failure {
            message: "no disk".into(),
            may_retry: true,
        }),
    ] {
        messages.push(ToCell::StepEnded {
            host: host(),
            instance: instance(1),
            session: 4,
            attempt: 5,
            failure,
        });
    }
    for (sequence, update) in (1..).zip(every_update()) {
        let update = Box::new(NumberedUpdate {
            incarnation: 12,
            sequence,
            update,
        });
        messages.push(ToCell::State {
            host: host(),
            update,
        });
    }
    messages
}

/// One of each message that a cell can send.
pub(crate) fn every_message_to_agents() -> Vec<ToAgent> {
    let mut messages = vec![
        ToAgent::Destroy {
            host: host(),
            session: 1,
            instance: instance(2),
            number: 3,
        },
        ToAgent::SendState { host: host() },
        ToAgent::StartAgain {
            host: host(),
            after: 8,
        },
    ];
    let guest_ref = GuestRef {
        host: host(),
        number: 1,
    };
    let steps = [
        Step::Prepare,
        Step::Leave,
        Step::Arrive,
        Step::Return,
        Step::Offload,
        Step::Rebuild,
    ];
    for (attempt, step) in (1..).zip(steps) {
        let is_live = step == Step::Leave;
        messages.push(ToAgent::Step {
            host: host(),
            session: 1,
            order: Box::new(Order {
                instance: instance(2),
                attempt,
                step,
                guest_number: 3,
                is_live,
                spec: spec(10),
                amounts: vec![Amounts {
                    provider: Uuid::from_u128(5),
                    resources: vec![
                        ("VCPU".into(), 2),
                        ("MEMORY_MB".into(), i64::from(i32::MAX)),
                    ],
                }],
                origin: is_live.then_some(guest_ref),
                target: (!is_live).then_some(guest_ref),
                mappings: claims::candidate().mappings,
            }),
        });
    }
    messages
}
