//! Hostile peers send messages with random and extreme numbers, texts and lists over a real connection to a real agent
//! and a real cell. Nothing may panic, and the attacked role goes on working.

use crate::hostile;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hostile::{HostileCell, Rng};
use placewright_agent::simulated::{self, IdenticalHosts, SimulatedDriver};
use placewright_agent::{Agent, Options};
use placewright_cell::Cell;
use placewright_conductor::ids::NUMBER_END;
use placewright_conductor::message::Envelope;
use placewright_conductor::{CellId, ClaimRequest, ClaimResponse, HostId, Message};
use placewright_journal::MemoryJournal;
use placewright_link::{CellLink as _, LinkFuture, PlacementLink};
use placewright_placement::Timestamp;
use placewright_records::message;
use placewright_rpc::proto::agent as proto;
use placewright_rpc::proto::agent::agents_client::AgentsClient;
use placewright_rpc::proto::cell::Payload;
use placewright_rpc::proto::cell::cell_client::CellClient as RawCell;
use placewright_rpc::{AgentClient, ClientOptions, PAYLOAD_VERSION, ServeOptions, Services, serve};
use proto::agent_message::Kind as AgentKind;
use proto::cell_message::Kind as CellKind;
use tokio::net::TcpListener;
use tokio::time::timeout;
use tonic::Code;
use uuid::Uuid;

const TEST_TIMEOUT: Duration = Duration::from_secs(30);

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Counts panics of all threads from now on: a panic within a task is contained and would be
/// missed.
fn count_panics() {
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::SeqCst);
        default_hook(info);
    }));
}

fn assert_no_panics() {
    assert_eq!(PANICS.load(Ordering::SeqCst), 0, "something panicked");
}

/// A cell's request to start a session with a number greater than `after`.
fn start_again(host: &str, after: u64) -> proto::CellMessage {
    let host = host.to_owned();
    proto::CellMessage {
        kind: Some(CellKind::StartAgain(proto::StartAgain { host, after })),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_outlives_a_cell_that_says_anything() {
    count_panics();
    let folder = tempfile::tempdir().unwrap();
    let hosts = IdenticalHosts {
        count: 3,
        prefix: "host".into(),
        vcpus: 16,
        cpu_ratio: 4.0,
        memory_mb: 65_536,
        disk_gb: 1000,
        gpus: 0,
        gpu_model: None,
    };
    let hosts = hosts.hosts();
    let ids: Vec<String> = hosts.iter().map(|host| host.id().to_string()).collect();
    let driver = SimulatedDriver::new(simulated::Options {
        hosts,
        times: BTreeMap::new(),
        failure_rates: BTreeMap::new(),
        seed: 1,
    });
    let (address, mut hostile_cell) = HostileCell::start().await;
    let link = AgentClient::new(ClientOptions::new(address.to_string())).unwrap();
    let options = Options {
        guest_log: Some(folder.path().join("guests")),
        drain_timeout: Duration::ZERO,
        reconnect_delay_max: Duration::from_millis(200),
        ..Options::default()
    };
    let agent = Agent::start(options, Arc::new(driver), Arc::new(link))
        .await
        .unwrap();
    for seed in 0..4 {
        let mut stream = timeout(TEST_TIMEOUT, hostile_cell.next_stream())
            .await
            .unwrap();
        let mut rng = Rng::new(seed);
        for _ in 0..400 {
            let messages: Vec<_> = (0..rng.below(4))
                .map(|_| hostile::random_cell_message(&mut rng, &ids))
                .collect();
            if !stream.send(messages).await {
                stream = timeout(TEST_TIMEOUT, hostile_cell.next_stream())
                    .await
                    .unwrap();
            }
        }
        // The cell asks for sessions with numbers greater than numbers that are out of range, which the agent must
        // ignore. Then the cell asks for a session with a greater number than the present one, which the agent must
        // start.
        let session = stream.start_session(&ids[0]).await;
        for after in [u64::MAX, u64::MAX - 1, NUMBER_END, NUMBER_END - 1] {
            stream.send(vec![start_again(&ids[0], after)]).await;
        }
        stream.send(vec![start_again(&ids[0], session)]).await;
        let next_session = stream.wait_for_session_after(&ids[0], session).await;
        assert!(
            next_session > session && next_session < NUMBER_END,
            "{next_session} after {session}"
        );
    }
    agent.stop().await;
    assert_no_panics();
}

/// A placement without any resource provider.
struct EmptyPlacement;

impl PlacementLink for EmptyPlacement {
    fn request_claims(&self, requests: Vec<ClaimRequest>) -> LinkFuture<'_, Vec<ClaimResponse>> {
        Box::pin(async move { Ok(requests.iter().map(|_| ClaimResponse::Stale).collect()) })
    }
}

async fn cell() -> (Arc<Cell>, String) {
    let options = placewright_cell::Options {
        resend_after: Duration::from_millis(300),
        ..placewright_cell::Options::new(CellId(Uuid::from_u128(0xce11)))
    };
    let opened = Cell::open_on(MemoryJournal::new(), options, (), Arc::new(EmptyPlacement));
    let cell = opened.await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let services = Services {
        cell: Some(Arc::clone(&cell) as _),
        agents: Some(Arc::clone(&cell) as _),
        ..Services::default()
    };
    let options = ServeOptions::default();
    tokio::spawn(async move {
        let served = serve(listener, services, options, std::future::pending());
        served.await.unwrap();
    });
    (cell, url)
}

fn started(host: &str, session: u64) -> proto::AgentMessage {
    proto::AgentMessage {
        kind: Some(AgentKind::Started(proto::Started {
            host: host.to_owned(),
            name: "host".to_owned(),
            session,
            guests: Vec::new(),
        })),
    }
}

/// Sends these messages on a stream of their own, and returns the error with which the stream ended; `None` if it
/// ended without an error.
async fn send(url: &str, messages: Vec<proto::AgentMessage>) -> Option<tonic::Status> {
    let mut client = AgentsClient::connect(url.to_owned()).await.unwrap();
    let batch = proto::FromAgent {
        version: 1,
        newest: 0,
        messages,
    };
    let joined = client.join(tokio_stream::iter([batch])).await;
    let mut from_cell = match joined {
        Ok(response) => response.into_inner(),
        Err(status) => return Some(status),
    };
    loop {
        match from_cell.message().await {
            Ok(Some(_)) => {}
            Ok(None) => return None,
            Err(status) => return Some(status),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_outlives_agents_that_say_anything() {
    count_panics();
    let (cell, url) = cell().await;
    let hosts: Vec<String> = (1..4).map(|n| Uuid::from_u128(n).to_string()).collect();
    // The last of these numbers is in range, but too far above the present time.
    for session in [u64::MAX, NUMBER_END, NUMBER_END - 1] {
        let status = send(&url, vec![started(&hosts[0], session)]).await.unwrap();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().contains("started.session"), "{status}");
    }
    let mut rng = Rng::new(5);
    for _ in 0..600 {
        let count = rng.below(6);
        let mut messages = vec![started(&hosts[rng.below(3)], 1 + rng.below(50) as u64)];
        messages.extend((0..count).map(|_| hostile::random_agent_message(&mut rng, &hosts)));
        timeout(TEST_TIMEOUT, send(&url, messages)).await.unwrap();
    }
    // Every host is still usable by its own agent, whose session number is greater than all before.
    while cell.metrics().queued > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let session = cell.engine().read_now(|machine| {
        let sessions = machine.state.hosts().values().map(|row| row.session);
        1 + sessions.max().unwrap_or_default()
    });
    assert!(session < NUMBER_END);
    let mut client = AgentsClient::connect(url).await.unwrap();
    let (to_cell, batches) = tokio::sync::mpsc::channel(4);
    let messages = hosts.iter().map(|host| started(host, session)).collect();
    let version = 1;
    let batch = proto::FromAgent {
        version,
        newest: 0,
        messages,
    };
    to_cell.send(batch).await.unwrap();
    let stream = tokio_stream::wrappers::ReceiverStream::new(batches);
    let _from_cell = client.join(stream).await.unwrap();
    let up = async {
        let is_up = |host: &String| {
            let id = HostId(Uuid::parse_str(host).unwrap());
            cell.engine().read_now(|machine| {
                let row = machine.state.hosts().get(&id);
                row.is_some_and(|row| row.is_up && row.session == session)
            })
        };
        while !hosts.iter().all(is_up) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(TEST_TIMEOUT, up).await.unwrap();
    assert_no_panics();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_outlives_a_control_that_says_anything() {
    count_panics();
    let (cell, url) = cell().await;
    let mut client = RawCell::connect(url).await.unwrap();
    let payload_of = |version, body: Vec<u8>| Payload {
        version,
        body: body.into(),
    };
    let payload = |body| payload_of(PAYLOAD_VERSION, body);
    let claim_number = u64::MAX;
    let instance = placewright_conductor::InstanceId(Uuid::from_u128(1));
    let out_of_range = vec![Envelope {
        sent_at: Timestamp(1),
        message: Message::Delete {
            instance,
            claim_number,
        },
    }];
    let body = message::encode(PAYLOAD_VERSION, &out_of_range).unwrap();
    let status = client.deliver(payload(body)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("delete.claim"), "{status}");
    // A list begins with its length. One longer than the limit is rejected before the list is decoded.
    let body = message::encode(PAYLOAD_VERSION, &u64::MAX).unwrap();
    let status = client.deliver(payload(body)).await.unwrap_err();
    assert!(status.message().contains("at most 100000"), "{status}");

    let mut rng = Rng::new(9);
    for round in 0..2000 {
        let messages: Vec<Envelope> = (0..rng.below(3))
            .map(|_| hostile::random_envelope(&mut rng))
            .collect();
        // Every third payload is in the previous version, and every second one is corrupted.
        let version = PAYLOAD_VERSION - u32::from(round % 3 == 0);
        let mut body = message::encode(version, &messages).unwrap();
        if round % 2 == 1 {
            rng.mutate(&mut body);
        }
        let payload = |body| payload_of(version, body);
        let result = match rng.below(4) {
            0 => client.act(payload(body)).await.map(drop),
            1 => client.actions(payload(body)).await.map(drop),
            _ => client.deliver(payload(body)).await.map(drop),
        };
        if let Err(status) = result {
            let expected = [Code::InvalidArgument, Code::FailedPrecondition];
            assert!(expected.contains(&status.code()), "{status}");
        }
    }
    assert!(cell.cell_id().await.is_ok());
    assert_no_panics();
}
