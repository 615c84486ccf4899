//! Tests of a case that only a panic brings about: the submission of session starts ends before they are decided.

use placewright_conductor::{CellId, ClaimRequest, ClaimResponse};
use placewright_journal::{Faults, Faulty, MemoryJournal};
use placewright_link::{LinkError, LinkFuture, PlacementLink};
use tokio::time::timeout;
use uuid::Uuid;

use super::*;
use crate::active::ActiveCell;
use crate::counters::Counters;
use crate::options::Options;
use crate::shared::CellParts;

const SOON: Duration = Duration::from_secs(15);
const HOST: HostId = HostId(Uuid::from_u128(1));
const SESSION: u64 = 5;

/// No test here makes claims.
struct NoPlacement;

impl PlacementLink for NoPlacement {
    fn request_claims(&self, _: Vec<ClaimRequest>) -> LinkFuture<'_, Vec<ClaimResponse>> {
        let unreachable = LinkError::Unreachable {
            peer: "placement".into(),
            why: "the test has none".into(),
        };
        Box::pin(async { Err(unreachable) })
    }
}

/// A cell whose journal holds its appends back, so that no start of a session becomes durable, and whose queue to an
/// agent has room for one message.
async fn open(faults: &Faults) -> ActiveCell {
    let options = Options {
        agent_queue: 1,
        ..Options::new(CellId(Uuid::from_u128(2)))
    };
    let journal = Faulty::new(MemoryJournal::new(), faults.clone());
    let engine_options = options.engine.clone();
    let opened = tokio::task::spawn_blocking(|| {
        placewright_engine::Engine::open(journal, engine_options, ())
    });
    let parts = CellParts {
        options: Arc::new(options),
        engine: opened.await.unwrap().unwrap(),
        placement: Arc::new(NoPlacement),
        counts: Arc::new(Counters::default()),
    };
    faults.hold();
    ActiveCell::start(&parts).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_whose_queue_was_full_begins_again_in_place_of_an_undecided_session() {
    let faults = Faults::new();
    let active = open(&faults).await;
    let shared = &active.shared;
    let mut agent = connect(shared);
    let start = SessionStart {
        host: HOST,
        name: "host".into(),
        session: SESSION,
        guests: Vec::new(),
    };
    let started = ToCell::Started(Box::new(start));
    agent.to_cell.send(started).await.unwrap();
    let route = async {
        loop {
            let route =
                (shared.read_model.lock().find_host(HOST)).and_then(|host| host.route.clone());
            match route {
                Some(route) => return route,
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    };
    let route = timeout(SOON, route).await.unwrap();
    // The queue is full when the submission ends.
    let full = ToAgent::SendState { host: HOST };
    route.to_agent.try_send(full.clone()).unwrap();
    drop(PendingSessions {
        undecided: BTreeMap::from([(HOST, SESSION)]),
        shared: Arc::clone(shared),
        connection: route.connection,
        to_agent: route.to_agent,
    });
    // From here on, the outcome of the session start does not matter.
    faults.release();
    let received = timeout(SOON, agent.from_cell.recv()).await.unwrap();
    assert_eq!(received, Some(full));
    // The order is repeated when the agent sends anything.
    let alive = ToCell::Alive { hosts: vec![HOST] };
    agent.to_cell.send(alive).await.unwrap();
    let order = ToAgent::StartAgain {
        host: HOST,
        after: SESSION,
    };
    let received = timeout(SOON, agent.from_cell.recv()).await.unwrap();
    assert_eq!(received, Some(order));
    active.stop().await;
}
