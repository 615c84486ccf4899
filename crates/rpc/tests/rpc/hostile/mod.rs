//! A hostile peer: random messages with extreme numbers, and a cell that sends them.

use std::net::SocketAddr;

use placewright_conductor::message::{Create, Envelope, MoveOrder};
use placewright_conductor::{
    Amounts, Candidate, GroupMapping, HardRule, HostId, InstanceId, Message, MigrationId,
    MoveDecision, MoveKind, Spec, Usage, UsageAmounts,
};
use placewright_placement::Timestamp;
use placewright_placement::group::{Relation, Rule, RuleScope};
use placewright_rpc::proto::agent as proto;
use placewright_testing::random;
use proto::agent_message::Kind as AgentKind;
use proto::agents_server::{Agents, AgentsServer};
use proto::cell_message::Kind as CellKind;
use proto::host_update::Update;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};
use uuid::Uuid;

/// Random numbers, and random parts of messages.
pub(crate) struct Rng(random::Rng);

impl Rng {
    /// The same seed gives the same random numbers.
    pub(crate) fn new(seed: u64) -> Self {
        Self(random::Rng(seed))
    }

    fn next(&mut self) -> u64 {
        self.0.number()
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound)
    }

    fn choose<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }

    /// A random number, often an extreme of a type or field: 1.8e15 is a time in microseconds, and `1 << 62` the
    /// end of the numbers that roles send each other.
    fn number(&mut self) -> u64 {
        let extremes = [
            0,
            1,
            2,
            (1 << 31) - 1,
            1 << 31,
            u64::from(u32::MAX),
            1 << 53,
            1_800_000_000_000_000,
            (1 << 62) - 1,
            1 << 62,
            i64::MAX as u64,
            1 << 63,
            u64::MAX - 1,
            u64::MAX,
        ];
        match self.below(4) {
            0 => self.next(),
            1 => self.next() % 40,
            _ => self.choose(&extremes),
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "any number will do")]
    fn any_u32(&mut self) -> u32 {
        self.number() as u32
    }

    #[expect(clippy::cast_possible_wrap, reason = "any number will do")]
    fn any_i64(&mut self) -> i64 {
        self.number() as i64
    }

    fn text(&mut self) -> String {
        let length = self.choose(&[0, 1, 10, 255, 256, 1021, 70_000]);
        self.choose(&["a", "ü", "\u{0}", "{", "💥"]).repeat(length)
    }

    fn uuid(&mut self) -> Uuid {
        Uuid::from_u128(u128::from(self.next() % 8))
    }

    /// Mostly one of these ids, otherwise another UUID or a text.
    fn id(&mut self, ids: &[String]) -> String {
        match self.below(8) {
            0 => self.text(),
            1 => self.uuid().to_string(),
            _ => self.choose(ids),
        }
    }

    fn list_of<T>(&mut self, mut generate: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let count = self.choose(&[0, 1, 2, 7]);
        (0..count).map(|_| generate(self)).collect()
    }

    fn option_of<T>(&mut self, generate: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.below(3) > 0).then(|| generate(self))
    }

    /// Changes or inserts some bytes, or cuts the end off.
    pub(crate) fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            if bytes.is_empty() {
                return;
            }
            let position = self.below(bytes.len());
            match self.below(3) {
                0 => bytes[position] = self.choose(&[0, 1, 0x7f, 0x80, 0xff]),
                1 => bytes.insert(position, 0xff),
                _ => bytes.truncate(position),
            }
        }
    }
}

fn body(rng: &mut Rng) -> String {
    match rng.below(4) {
        0 => rng.text(),
        1 => "[".repeat(5000),
        2 => r#"{"request": {"image": {"properties": {"a": 1e999, "b": [[]], "c": "x"}}}}"#.into(),
        _ => "{}".into(),
    }
}

/// A random message of a cell to an agent.
pub(crate) fn random_cell_message(rng: &mut Rng, hosts: &[String]) -> proto::CellMessage {
    let host = rng.id(hosts);
    let instance = rng.uuid().to_string();
    let kind = match rng.below(8) {
        0 => CellKind::SendState(proto::SendState { host }),
        1 => CellKind::StartAgain(proto::StartAgain {
            host,
            after: rng.number(),
        }),
        2 => CellKind::Destroy(proto::DestroyOrder {
            host,
            session: rng.number(),
            instance,
            number: rng.any_u32(),
        }),
        3 => return proto::CellMessage { kind: None },
        _ => CellKind::Step(proto::StepOrder {
            host,
            session: rng.number(),
            instance,
            attempt: rng.any_u32(),
            // Also numbers that are no step.
            step: i32::try_from(rng.below(9)).unwrap() - 1,
            number: rng.any_u32(),
            is_live: rng.below(2) == 0,
            spec: rng.option_of(|rng| proto::Spec {
                name: rng.text(),
                project: rng.text(),
                user: "u".into(),
                group: rng.option_of(|rng| rng.uuid().to_string()),
                rules: rng.list_of(|rng| proto::HardRule {
                    level: rng.option_of(Rng::text),
                    fewer_than: rng.option_of(Rng::any_u32),
                    others: rng.list_of(|rng| rng.uuid().to_string()),
                    max_skew: rng.option_of(Rng::any_u32),
                }),
                body: body(rng),
                created_at_us: rng.any_i64(),
            }),
            amounts: rng.list_of(|rng| proto::Amounts {
                provider: rng.id(hosts),
                resources: rng.list_of(|rng| proto::Amount {
                    resource_class: rng.choose(&["VCPU", "MEMORY_MB", "DISK_GB", "X"]).into(),
                    amount: rng.any_i64(),
                }),
            }),
            origin: None,
            target: rng.option_of(|rng| proto::Place {
                host: rng.id(hosts),
                number: rng.any_u32(),
            }),
            mappings: rng.list_of(|rng| proto::GroupMapping {
                suffix: rng.text(),
                providers: rng.list_of(|rng| proto::Amounts {
                    provider: rng.id(hosts),
                    resources: rng.list_of(|rng| proto::Amount {
                        resource_class: rng.text(),
                        amount: rng.any_i64(),
                    }),
                }),
            }),
        }),
    };
    proto::CellMessage { kind: Some(kind) }
}

fn load(rng: &mut Rng) -> proto::Load {
    proto::Load {
        io_ops: rng.any_u32(),
        running_builds: rng.any_u32(),
        failed_builds: rng.any_u32(),
    }
}

fn metrics(rng: &mut Rng) -> Vec<proto::Metric> {
    rng.list_of(|rng| proto::Metric {
        name: rng.text(),
        value: rng.choose(&[0.0, -1.0, f64::MAX, f64::NAN, f64::INFINITY]),
    })
}

fn instance_report(rng: &mut Rng) -> proto::InstanceReport {
    proto::InstanceReport {
        uuid: rng.uuid().to_string(),
        group: rng.option_of(|rng| rng.uuid().to_string()),
        image_properties: rng
            .list_of(|rng| (rng.text(), rng.text()))
            .into_iter()
            .collect(),
    }
}

fn facts(rng: &mut Rng) -> proto::HostFacts {
    proto::HostFacts {
        service_host: rng.text(),
        node: "n".into(),
        cell: rng.uuid().to_string(),
        ip: rng.option_of(Rng::text),
        hypervisor_version: rng.option_of(|rng| rng.choose(&[i32::MIN, -1, 0, i32::MAX])),
        cpu_info: rng.option_of(Rng::text),
        stats: rng
            .list_of(|rng| (rng.text(), rng.text()))
            .into_iter()
            .collect(),
        service_version: rng.any_u32(),
        ..proto::HostFacts::default()
    }
}

/// A random message of an agent.
pub(crate) fn random_agent_message(rng: &mut Rng, hosts: &[String]) -> proto::AgentMessage {
    let host = rng.id(hosts);
    let instance = rng.uuid().to_string();
    let kind = match rng.below(8) {
        0 => AgentKind::Started(proto::Started {
            host,
            name: rng.text(),
            session: rng.number(),
            guests: rng.list_of(|rng| proto::Guest {
                instance: rng.uuid().to_string(),
                number: rng.any_u32(),
            }),
        }),
        1 => AgentKind::StepEnded(proto::StepEnded {
            host,
            instance,
            session: rng.number(),
            attempt: rng.any_u32(),
            failure: rng.option_of(|rng| proto::Failure {
                message: rng.text(),
                may_retry: true,
            }),
        }),
        2 => AgentKind::Destroyed(proto::Destroyed {
            host,
            instance,
            number: rng.any_u32(),
        }),
        3 => AgentKind::Alive(proto::Alive {
            hosts: rng.list_of(|rng| rng.id(hosts)),
        }),
        _ => AgentKind::State(proto::HostUpdate {
            host,
            incarnation: rng.number(),
            sequence: rng.number(),
            update: rng.option_of(|rng| match rng.below(7) {
                0 => Update::Full(proto::HostReport {
                    facts: rng.option_of(facts),
                    load: rng.option_of(load),
                    metrics: metrics(rng),
                    instances: rng.list_of(instance_report),
                    disabled: rng.option_of(Rng::text),
                    forced_down: false,
                }),
                1 => Update::Facts(facts(rng)),
                2 => Update::Load(load(rng)),
                3 => Update::Metrics(proto::Metrics {
                    metrics: metrics(rng),
                }),
                4 => Update::InstanceCame(proto::InstanceCame {
                    instance: rng.option_of(instance_report),
                    load: rng.option_of(load),
                }),
                5 => Update::InstanceWent(proto::InstanceWent {
                    instance,
                    load: rng.option_of(load),
                }),
                _ => Update::Gone(proto::Nothing {}),
            }),
        }),
    };
    proto::AgentMessage { kind: Some(kind) }
}

fn spec(rng: &mut Rng) -> Spec {
    Spec {
        name: rng.text(),
        project: "p".into(),
        user: "u".into(),
        group: rng.option_of(Rng::uuid),
        rules: rng
            .list_of(|rng| HardRule {
                rule: Rule {
                    scope: RuleScope::Host,
                    relation: Relation::Spread(rng.any_u32()),
                },
                others: rng.list_of(Rng::uuid),
            })
            .into(),
        body: body(rng).into(),
        created_at: Timestamp(rng.any_i64()),
        usage: Usage::new(UsageAmounts {
            cores: rng.any_u32(),
            ram_mb: rng.any_u32(),
            classes: rng.list_of(|rng| (rng.text(), rng.any_u32())),
        }),
        build_secrets: Default::default(),
        secrets: Default::default(),
    }
}

fn candidate(rng: &mut Rng) -> Candidate {
    Candidate {
        host: HostId(rng.uuid()),
        zone: rng.option_of(Rng::text),
        amounts: rng.list_of(|rng| Amounts {
            provider: rng.uuid(),
            resources: rng.list_of(|rng| ("VCPU".to_owned(), rng.any_i64())),
        }),
        mappings: rng.list_of(|rng| GroupMapping {
            suffix: rng.text(),
            providers: rng.list_of(|rng| Amounts {
                provider: rng.uuid(),
                resources: rng.list_of(|rng| (rng.text(), rng.any_i64())),
            }),
        }),
    }
}

/// A random message of control.
pub(crate) fn random_envelope(rng: &mut Rng) -> Envelope {
    let instance = InstanceId(rng.uuid());
    let migration = MigrationId(rng.uuid());
    let message = match rng.below(6) {
        0 => Message::Create(Box::new(Create {
            instance,
            spec: spec(rng),
            selection: candidate(rng).into(),
            alternates: rng.list_of(candidate).into(),
            claim_number: rng.number(),
        })),
        1 => Message::Delete {
            instance,
            claim_number: rng.number(),
        },
        2 => Message::Reserve {
            instance,
            migration,
            kind: MoveKind::Resize,
            move_number: rng.any_u32(),
        },
        3 => Message::Move(Box::new(MoveOrder {
            instance,
            migration,
            selection: candidate(rng).into(),
            alternates: rng.list_of(candidate).into(),
            spec: rng.option_of(spec),
            claim_number: rng.number(),
        })),
        4 => Message::Cancel {
            instance,
            migration,
        },
        _ => Message::ConfirmOrRevert {
            instance,
            migration,
            decision: MoveDecision::Revert,
            request: None,
        },
    };
    Envelope {
        sent_at: Timestamp(rng.any_i64()),
        message,
    }
}

/// A cell that sends its agents any messages that a test gives it.
pub(crate) struct HostileCell {
    streams: mpsc::Receiver<AgentStream>,
}

/// The stream between an agent and a [`HostileCell`].
pub(crate) struct AgentStream {
    from_agent: Streaming<proto::FromAgent>,
    to_agent: mpsc::Sender<Result<proto::FromCell, Status>>,
}

struct HostileService {
    streams: mpsc::Sender<AgentStream>,
}

#[tonic::async_trait]
impl Agents for HostileService {
    type JoinStream = ReceiverStream<Result<proto::FromCell, Status>>;

    async fn join(
        &self,
        request: Request<Streaming<proto::FromAgent>>,
    ) -> Result<Response<Self::JoinStream>, Status> {
        let (to_agent, batches) = mpsc::channel(16);
        let from_agent = request.into_inner();
        let stream = AgentStream {
            from_agent,
            to_agent,
        };
        self.streams
            .send(stream)
            .await
            .map_err(|_| Status::unavailable("over"))?;
        Ok(Response::new(ReceiverStream::new(batches)))
    }
}

impl HostileCell {
    pub(crate) async fn start() -> (SocketAddr, Self) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (new_streams, streams) = mpsc::channel(16);
        let router =
            tonic::transport::Server::builder().add_service(AgentsServer::new(HostileService {
                streams: new_streams,
            }));
        tokio::spawn(router.serve_with_incoming(TcpListenerStream::new(listener)));
        (address, Self { streams })
    }

    /// Waits until the agent opens its next stream.
    pub(crate) async fn next_stream(&mut self) -> AgentStream {
        self.streams.recv().await.unwrap()
    }
}

impl AgentStream {
    /// Sends messages; false if the agent is gone.
    pub(crate) async fn send(&mut self, messages: Vec<proto::CellMessage>) -> bool {
        self.to_agent
            .send(Ok(proto::FromCell {
                messages,
                version: 0,
            }))
            .await
            .is_ok()
    }

    /// Makes the agent of a host start a new session, and returns its number.
    pub(crate) async fn start_session(&mut self, host: &str) -> u64 {
        let start_again = proto::StartAgain {
            host: host.to_owned(),
            after: 1,
        };
        self.send(vec![proto::CellMessage {
            kind: Some(CellKind::StartAgain(start_again)),
        }])
        .await;
        self.wait_for_session_after(host, 0).await
    }

    /// Waits until the agent of a host starts a session with a number greater than `session`, and returns it.
    pub(crate) async fn wait_for_session_after(&mut self, host: &str, session: u64) -> u64 {
        let wait = async {
            loop {
                let batch = self.from_agent.message().await.unwrap().unwrap();
                for message in batch.messages {
                    if let Some(AgentKind::Started(start)) = message.kind
                        && start.host == host
                        && start.session > session
                    {
                        return start.session;
                    }
                }
            }
        };
        let limit = std::time::Duration::from_secs(30);
        tokio::time::timeout(limit, wait).await.unwrap()
    }
}
