//! Clients that have the addresses of several replicas find the one that leads, also after another one has begun to
//! lead.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::peers::{
    FakeCell, NOT_LEADING, REFUSED, TestServer, claim_requests, envelopes, instance, listen,
};
use placewright_link::{
    AgentLink as _, CellLink as _, CellOperation, LinkError, PlacementLink as _,
};
use placewright_rpc::{AgentClient, CellClient, ClientOptions, PlacementClient};
use tokio::time::timeout;

const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// Three servers, as of the replicas of one cell. Unlike real replicas they return different cell ids, which show which
/// server a client has called.
struct Replicas {
    cells: Vec<Arc<FakeCell>>,
    servers: Vec<Option<TestServer>>,
    addresses: String,
}

impl Replicas {
    /// Starts three servers, none of which leads yet.
    async fn start() -> Self {
        let cells: Vec<Arc<FakeCell>> = (0..3).map(FakeCell::with_id).collect();
        let mut servers = Vec::new();
        for cell in &cells {
            cell.set_error(NOT_LEADING);
            servers.push(Some(TestServer::start(listen().await, cell, None)));
        }
        let addresses = servers
            .iter()
            .flatten()
            .map(|server| server.address.to_string());
        Self {
            addresses: addresses.collect::<Vec<_>>().join(","),
            cells,
            servers,
        }
    }

    fn lead(&self, leader: usize) {
        for (index, cell) in self.cells.iter().enumerate() {
            if index == leader {
                cell.set_sound();
            } else {
                cell.set_error(NOT_LEADING);
            }
        }
    }

    fn kill(&mut self, index: usize) {
        self.servers[index] = None;
    }

    fn options(&self) -> ClientOptions {
        ClientOptions::new(&self.addresses)
    }

    fn control(&self) -> CellClient {
        CellClient::new(self.options()).unwrap()
    }
}

/// The index of the server that a client of the cell calls.
async fn called(client: &CellClient) -> u128 {
    let id = timeout(TEST_TIMEOUT, client.cell_id()).await.unwrap();
    id.unwrap().0.as_u128()
}

#[tokio::test(flavor = "multi_thread")]
async fn control_finds_the_replica_that_leads_and_follows_when_it_changes() {
    let replicas = Replicas::start().await;
    let client = replicas.control();
    for leader in [1, 2, 0, 2] {
        replicas.lead(leader);
        assert_eq!(called(&client).await, leader as u128);
        let replies = client.deliver(envelopes(2, 10)).await.unwrap();
        assert_eq!(replies.len(), 2);
        assert!(client.follow().await.is_ok());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_waits_for_a_new_leader() {
    let mut replicas = Replicas::start().await;
    replicas.lead(0);
    let client = replicas.control();
    assert_eq!(called(&client).await, 0);
    replicas.kill(0);
    let delivered = tokio::spawn({
        let client = client.clone();
        async move { client.deliver(envelopes(3, 10)).await }
    });
    // No replica leads for a while, so the client asks more than once.
    tokio::time::sleep(Duration::from_millis(300)).await;
    replicas.lead(1);
    let replies = timeout(TEST_TIMEOUT, delivered).await.unwrap().unwrap();
    assert_eq!(replies.unwrap().len(), 3);
    assert_eq!(called(&client).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_whose_answer_is_lost_is_not_repeated_elsewhere() {
    let replicas = Replicas::start().await;
    let client = replicas.control();
    let shelve = || CellOperation::Shelve {
        instance: instance(1),
        request: None,
    };
    replicas.lead(1);
    assert!(client.perform(shelve()).await.is_ok());
    replicas.cells[1].lose_answers();
    let lost = timeout(TEST_TIMEOUT, client.perform(shelve()))
        .await
        .unwrap();
    assert!(
        matches!(lost, Err(LinkError::Unreachable { .. })),
        "{lost:?}"
    );
    let performed = |index: usize| replicas.cells[index].performed.load(Ordering::SeqCst);
    assert_eq!([performed(0), performed(1), performed(2)], [0, 2, 0]);
    // The client looks for the replica that leads before it sends an operation.
    replicas.lead(2);
    assert!(client.perform(shelve()).await.is_ok());
    assert_eq!([performed(0), performed(1), performed(2)], [0, 2, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_connect_to_the_replica_that_leads() {
    let mut replicas = Replicas::start().await;
    let client = AgentClient::new(replicas.options()).unwrap();
    for leader in [2, 0, 1] {
        replicas.lead(leader);
        let mut connection = timeout(TEST_TIMEOUT, client.connect())
            .await
            .unwrap()
            .unwrap();
        assert!(connection.from_cell.recv().await.is_some());
        drop(connection);
        let mut received = replicas.cells[leader].received.lock().await;
        assert_eq!(
            timeout(TEST_TIMEOUT, received.recv()).await.unwrap(),
            Some(None)
        );
    }
    replicas.kill(1);
    replicas.lead(0);
    let connection = timeout(TEST_TIMEOUT, client.connect()).await.unwrap();
    assert!(connection.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_does_not_answer_is_no_obstacle() {
    let replicas = Replicas::start().await;
    replicas.lead(0);
    let options = ClientOptions {
        call_timeout: Duration::from_secs(1),
        ..replicas.options()
    };
    let (control, agent) = (
        CellClient::new(options.clone()).unwrap(),
        AgentClient::new(options).unwrap(),
    );
    assert_eq!(called(&control).await, 0);
    replicas.cells[0].set_stuck();
    replicas.cells[2].set_sound();
    // The call under way ends with its time-out, and the next call goes to another server.
    let calls = async {
        loop {
            match control.cell_id().await {
                Ok(id) => return id,
                Err(error) => assert!(matches!(error, LinkError::TimedOut { .. }), "{error}"),
            }
        }
    };
    let id = timeout(TEST_TIMEOUT, calls).await.unwrap();
    assert_eq!(id.0.as_u128(), 2);
    assert!(
        timeout(TEST_TIMEOUT, agent.connect())
            .await
            .unwrap()
            .is_ok()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn cells_call_any_replica_of_control_that_answers() {
    let mut replicas = Replicas::start().await;
    let client = PlacementClient::new(replicas.options()).unwrap();
    for index in 0..2 {
        let responses = client.request_claims(claim_requests(2)).await.unwrap();
        assert_eq!(responses.len(), 2);
        replicas.kill(index);
    }
    let answered = async {
        // A call may still be under way when its connection ends.
        while client.request_claims(claim_requests(1)).await.is_err() {}
    };
    timeout(TEST_TIMEOUT, answered).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_that_no_other_replica_would_mend_come_at_once() {
    let replicas = Replicas::start().await;
    replicas
        .cells
        .iter()
        .for_each(|cell| cell.set_error(REFUSED));
    let client = replicas.control();
    let error = timeout(TEST_TIMEOUT, client.cell_id()).await.unwrap();
    assert!(matches!(error, Err(LinkError::Refused { .. })), "{error:?}");
    let agent = AgentClient::new(replicas.options()).unwrap();
    let error = timeout(TEST_TIMEOUT, agent.connect()).await.unwrap();
    assert!(matches!(error, Err(LinkError::Refused { .. })), "{error:?}");
    replicas.lead(1);
    let actions = client.actions(instance(1)).await;
    assert!(actions.is_ok(), "{actions:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_of_several_that_is_not_valid_is_named() {
    for (addresses, named) in [("127.0.0.1:1,nowhere", "nowhere"), ("127.0.0.1:1,", ": ")] {
        let error = CellClient::new(ClientOptions::new(addresses)).unwrap_err();
        assert!(error.to_string().starts_with(named), "{error}");
    }
}
