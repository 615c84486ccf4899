//! The Placement API of several replicas on one journal.

use std::sync::Arc;

use placewright_api_placement::PlacementService;
use placewright_api_testing::{ApiParts, CONSUMER, HOST, call, claim, create_host, get};
use placewright_control::{ControlMachine, submit_placement};
use placewright_engine::{Engine, Options};
use placewright_http::HttpOptions;
use placewright_journal::{Fault, Faults, Faulty, Journal, MemoryJournal, Operation};
use placewright_placement::{Command, Timestamp};
use placewright_testing::replicas::Network;

/// One replica.
struct Replica {
    engine: Engine<ControlMachine>,
    faults: Faults,
    service: Arc<PlacementService>,
}

/// Replicas on one journal in memory, of which the first one leads.
async fn replicas(count: u64) -> Vec<Replica> {
    replicas_on_one_journal(count).await.1
}

async fn replicas_on_one_journal(count: u64) -> (MemoryJournal, Vec<Replica>) {
    let journal = MemoryJournal::new();
    let network = Network::default();
    let mut replicas = Vec::new();
    for origin in 1..=count {
        let faults = Faults::new();
        let faulty = Faulty::new(journal.try_clone().unwrap(), faults.clone());
        let options = network.options(origin);
        let engine = Engine::open_replica(faulty, Options::default(), (), options).unwrap();
        network.join(origin, engine.replica());
        let at = Timestamp::from_seconds(1_790_000_000);
        let names = submit_placement(&engine, Command::SyncStandardNames { at });
        names.await.unwrap().unwrap();
        // The empty text stands for the default policies.
        let service = ApiParts::on_engine(&engine, HttpOptions::default(), "").service();
        // After a hand-over by this replica, the next one in turn leads.
        let (replica, next) = (engine.replica(), origin % count + 1);
        service.set_hand_over(Box::new(move || {
            let replica = replica.clone();
            Box::pin(async move {
                let Some(mut leadership) = replica.leadership() else {
                    return;
                };
                replica.hand_over(next, &format!("replica {next}"));
                let handed_over = leadership.wait_for(|leadership| !leadership.is_own);
                handed_over.await.unwrap();
            })
        }));
        replicas.push(Replica {
            engine,
            faults,
            service,
        });
    }
    (journal, replicas)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_replica_has_acknowledged_is_read_at_every_other() {
    let replicas = replicas(3).await;
    for round in 0..100 {
        let path = format!("/traits/CUSTOM_{round}");
        for (writer, reader) in [(0, 1), (1, 2), (2, 0)] {
            let (writer, reader) = (&replicas[writer].service, &replicas[reader].service);
            let put = call("PUT", &path).send(writer).await;
            assert_eq!(put.status, 201, "{}", put.text);
            assert_eq!(get(&path).send(reader).await.status, 204);
            let deleted = call("DELETE", &path).send(reader).await;
            assert_eq!(deleted.status, 204);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_needs_no_confirmation_and_a_read_says_why_it_has_none() {
    let replicas = replicas(2).await;
    create_host(&replicas[0].service, HOST).await;
    let follower = &replicas[1];
    assert!(!follower.engine.leads());
    // From here on the store does not say which entry is the last durable one, which every read asks.
    (follower.faults).fail(Operation::DurableEnd, 0, u64::MAX, Fault::Io);
    let path = format!("/allocations/{CONSUMER}");
    let claimed = call("PUT", &path)
        .json(claim(HOST, 1, None))
        .send(&follower.service)
        .await;
    assert_eq!(claimed.status, 204, "{}", claimed.text);
    let read = get(&path).send(&follower.service).await;
    assert_eq!(read.status, 503);
    assert!(
        read.text.contains("the store is unavailable"),
        "{}",
        read.text
    );
    follower.faults.cancel_all();
    assert_eq!(get(&path).send(&follower.service).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_replica_shows_its_part_and_the_one_that_leads_hands_over() {
    let replicas = replicas(2).await;
    let status = async |index: usize| {
        let answer = get("/placewright/v1/status").send(&replicas[index].service);
        let answer = answer.await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.json()
    };
    assert_eq!(status(0).await["role"], "leads");
    let of_follower = status(1).await;
    assert_eq!(of_follower["role"], "follows");
    assert_eq!(of_follower["address"], "replica 2");
    assert_eq!(of_follower["leader"]["address"], "replica 1");
    assert_eq!(of_follower["lost"], serde_json::Value::Null);

    let hand_over = |index: usize| {
        let call = call("POST", "/placewright/v1/hand-over");
        call.send(&replicas[index].service)
    };
    assert_eq!(hand_over(1).await.status, 409);
    let handed_over = hand_over(0).await;
    assert_eq!(handed_over.status, 200, "{}", handed_over.text);
    assert_eq!(handed_over.json()["leader"]["address"], "replica 2");
    while !replicas[1].engine.leads() {
        tokio::task::yield_now().await;
    }
    assert_eq!(status(1).await["role"], "leads");
    assert_eq!(
        status(1).await["leader"]["reason"],
        "the replica that led before handed over"
    );
    assert_eq!(
        get("/placewright/v1/hand-over")
            .send(&replicas[0].service)
            .await
            .status,
        405
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_take_no_requests_while_entries_are_lost_and_append_them_when_asked_to() {
    let (journal, replicas) = replicas_on_one_journal(2).await;
    let service = &replicas[1].service;
    let append = || call("POST", "/placewright/v1/lost-entries/append").send(service);
    assert_eq!(append().await.status, 409);
    let put = |name: &'static str| call("PUT", name).send(service);
    assert_eq!(put("/traits/CUSTOM_A").await.status, 201);
    assert_eq!(put("/traits/CUSTOM_B").await.status, 201);
    let last = replicas[1].engine.durable_sequence();
    // The store loses its last entry.
    journal.drop_after(last - 1);

    let read = get("/traits/CUSTOM_B").send(service).await;
    assert_eq!(read.status, 503);
    assert!(
        read.text.contains(&format!("entries {last} to {last}")),
        "{}",
        read.text
    );
    while !replicas[1].engine.has_lost_entries() {
        tokio::task::yield_now().await;
    }
    assert_eq!(put("/traits/CUSTOM_C").await.status, 503);
    assert_eq!(get("/readyz").send(service).await.status, 503);
    let status = get("/placewright/v1/status").send(service).await.json();
    assert_eq!(status["role"], "stopped");
    assert_eq!(status["lost"]["first"], last);

    let appended = append().await;
    assert_eq!(appended.status, 200, "{}", appended.text);
    while replicas
        .iter()
        .any(|replica| replica.engine.has_lost_entries())
    {
        tokio::task::yield_now().await;
    }
    assert_eq!(get("/traits/CUSTOM_B").send(service).await.status, 204);
    assert_eq!(put("/traits/CUSTOM_C").await.status, 201);
    assert_eq!(get("/readyz").send(service).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_cannot_follow_the_store_is_not_ready() {
    let replicas = replicas(2).await;
    let follower = &replicas[1];
    let becomes = async |status: u16| {
        while get("/readyz").send(&follower.service).await.status != status {
            tokio::task::yield_now().await;
        }
    };
    becomes(200).await;
    // From here on every read of the journal fails.
    (follower.faults).fail(Operation::Read, 0, u64::MAX, Fault::Io);
    becomes(503).await;
    follower.faults.cancel_all();
    becomes(200).await;
}
