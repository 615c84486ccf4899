//! An agent with simulated hosts, connected to a mock of the cell.

use std::sync::Arc;
use std::time::Duration;

use crate::cell::{CellConnection, MockLink, hosts, instance, order};
use placewright_agent::simulated::{self, DurationDistribution, SimulatedDriver};
use placewright_agent::{Agent, Operation, Options};
use placewright_conductor::HostId;
use placewright_conductor::cell_conductor::Step;
use placewright_link::{ToAgent, ToCell};
use placewright_types::host_state::HostUpdate;
use tokio::sync::mpsc;

/// For [`MockLink::new`]: the first attempt to connect succeeds.
const NO_FAILURES: u32 = 0;

fn driver(
    count: u32,
    times: &[(Operation, DurationDistribution)],
    failure_rates: &[(Operation, f64)],
) -> Arc<SimulatedDriver> {
    Arc::new(SimulatedDriver::new(simulated::Options {
        hosts: hosts(count),
        times: times.iter().copied().collect(),
        failure_rates: failure_rates.iter().copied().collect(),
        seed: 1,
    }))
}

fn options() -> Options {
    Options {
        inspect_interval: Duration::ZERO,
        drain_timeout: Duration::ZERO,
        is_guest_log_durable: false,
        ..Options::default()
    }
}

/// Starts an agent with a mock of its cell. The receiver gets the cell's end of each connection.
async fn start(
    options: Options,
    driver: Arc<SimulatedDriver>,
) -> (Agent, mpsc::Receiver<CellConnection>) {
    let (link, connections) = MockLink::new(NO_FAILURES);
    let agent = Agent::start(options, driver, link).await.unwrap();
    (agent, connections)
}

/// Waits until the only host has begun a session, and returns the host, the session and the guests.
async fn receive_start(
    connection: &mut CellConnection,
) -> (HostId, u64, Vec<(placewright_conductor::InstanceId, u32)>) {
    let (_, start) = connection.receive_starts(1).await.pop_first().unwrap();
    (start.host, start.session, start.guests)
}

#[tokio::test(start_paused = true)]
async fn a_build_ends_and_the_host_reports_its_instances() {
    let times = [(Operation::Spawn, DurationDistribution::Uniform(200, 200))];
    let (agent, mut connections) = start(options(), driver(1, &times, &[])).await;
    let mut connection = connections.recv().await.unwrap();
    let (host, session, guests) = receive_start(&mut connection).await;
    assert_eq!(guests, []);
    let (_, full) = connection.receive_state().await;
    assert_eq!((full.incarnation, full.sequence), (session, 1));
    assert!(matches!(full.update, HostUpdate::Full(_)));

    connection
        .order(host, session, order(host, instance(1), Step::Arrive, 600))
        .await;
    let (_, came) = connection.receive_state().await;
    let HostUpdate::InstanceCame(report, load) = came.update else {
        panic!("{came:?}");
    };
    assert_eq!((came.sequence, report.uuid), (2, instance(1).0));
    assert_eq!(report.image_properties["os_distro"], "debian");
    assert_eq!((load.running_builds, load.io_ops), (1, 1));
    assert_eq!(connection.receive_step().await, (instance(1), 1, None));
    let (_, after_build) = connection.receive_state().await;
    assert_eq!(after_build.update, HostUpdate::Load(Default::default()));

    // A repeated order gets the same response without more work.
    connection
        .order(host, session, order(host, instance(1), Step::Arrive, 600))
        .await;
    assert_eq!(connection.receive_step().await, (instance(1), 1, None));

    // The host refuses a second guest for lack of physical capacity, whatever placement counts.
    connection
        .order(host, session, order(host, instance(2), Step::Arrive, 600))
        .await;
    let (_, _, failure) = connection.receive_step().await;
    let failure = failure.unwrap();
    assert!(
        failure.may_retry
            && failure
                .message
                .contains("MEMORY_MB: 600 asked for, 400 free")
    );

    connection
        .send(ToAgent::Destroy {
            host,
            session,
            instance: instance(1),
            number: 1,
        })
        .await;
    assert!(matches!(
        connection.receive().await,
        ToCell::Destroyed { number: 1, .. }
    ));
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_build_is_undone_and_counted() {
    let failure_rates = [(Operation::Spawn, 1.0)];
    let (_agent, mut connections) = start(options(), driver(1, &[], &failure_rates)).await;
    let mut connection = connections.recv().await.unwrap();
    let (host, session, _) = receive_start(&mut connection).await;
    connection
        .order(host, session, order(host, instance(1), Step::Arrive, 600))
        .await;
    let (_, _, failure) = connection.receive_step().await;
    assert_eq!(failure.unwrap().message, "The simulated spawn failed.");
    // The capacity of the undone build is free again.
    connection
        .order(host, session, order(host, instance(2), Step::Arrive, 600))
        .await;
    let (_, _, failure) = connection.receive_step().await;
    assert_eq!(failure.unwrap().message, "The simulated spawn failed.");
    // Changes may be merged, but the last update has the final state.
    loop {
        let (_, numbered) = connection.receive_state().await;
        let (HostUpdate::Load(load)
        | HostUpdate::InstanceCame(_, load)
        | HostUpdate::InstanceWent(_, load)) = numbered.update
        else {
            continue;
        };
        if load.failed_builds == 2 {
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn devices_that_are_not_ready_in_time_fail_a_build() {
    let times = [(
        Operation::Prepare,
        DurationDistribution::Uniform(120_000, 120_000),
    )];
    let (_agent, mut connections) = start(options(), driver(1, &times, &[])).await;
    let mut connection = connections.recv().await.unwrap();
    let (host, session, _) = receive_start(&mut connection).await;
    connection
        .order(host, session, order(host, instance(1), Step::Arrive, 1))
        .await;
    let (_, _, failure) = connection.receive_step().await;
    assert_eq!(
        failure.unwrap().message,
        "The devices were not ready within 60 s."
    );
}

#[tokio::test(start_paused = true)]
async fn a_build_goes_on_when_the_connection_ends() {
    let times = [(Operation::Spawn, DurationDistribution::Uniform(5000, 5000))];
    let (_agent, mut connections) = start(options(), driver(1, &times, &[])).await;
    let mut connection = connections.recv().await.unwrap();
    let (host, first, _) = receive_start(&mut connection).await;
    connection
        .order(host, first, order(host, instance(1), Step::Arrive, 600))
        .await;
    // The full report and the coming of the instance.
    connection.receive_state().await;
    connection.receive_state().await;
    drop(connection);

    let mut connection = connections.recv().await.unwrap();
    let (host, second, guests) = receive_start(&mut connection).await;
    assert!(second > first);
    assert_eq!(guests, [(instance(1), 1)]);
    // Orders of the old session are ignored; those of the new one get a response.
    connection
        .order(host, first, order(host, instance(2), Step::Arrive, 1))
        .await;
    connection
        .order(host, second, order(host, instance(1), Step::Arrive, 600))
        .await;
    assert_eq!(connection.receive_step().await, (instance(1), 1, None));
    let (_, full) = connection.receive_state().await;
    assert_eq!((full.incarnation, full.sequence), (second, 1));
}

#[tokio::test(start_paused = true)]
async fn a_guest_is_not_built_after_an_order_to_destroy_it() {
    let times = [(
        Operation::Spawn,
        DurationDistribution::Uniform(60_000, 60_000),
    )];
    let (_agent, mut connections) = start(options(), driver(1, &times, &[])).await;
    let mut connection = connections.recv().await.unwrap();
    let (host, session, _) = receive_start(&mut connection).await;
    connection
        .order(host, session, order(host, instance(1), Step::Arrive, 600))
        .await;
    connection
        .send(ToAgent::Destroy {
            host,
            session,
            instance: instance(1),
            number: 1,
        })
        .await;
    assert!(matches!(
        connection.receive().await,
        ToCell::Destroyed { number: 1, .. }
    ));
    // A delayed order for the destroyed guest is ignored; one for another guest is carried out.
    connection
        .order(host, session, order(host, instance(1), Step::Arrive, 600))
        .await;
    connection
        .order(host, session, order(host, instance(2), Step::Arrive, 600))
        .await;
    let (built, _, _) = connection.receive_step().await;
    assert_eq!(built, instance(2));
}

#[tokio::test(start_paused = true)]
async fn a_cell_that_lost_a_session_can_request_a_new_one_and_the_full_state() {
    // The first three attempts to connect fail.
    let (link, mut connections) = MockLink::new(3);
    let agent = Agent::start(options(), driver(20, &[], &[]), link)
        .await
        .unwrap();
    let mut connection = connections.recv().await.unwrap();
    let starts = connection.receive_starts(20).await;
    agent.wait_until_ready().await;
    let (host, start) = starts.first_key_value().unwrap();
    let after = start.session + 1000;
    connection
        .send(ToAgent::StartAgain { host: *host, after })
        .await;
    let (_, again) = connection.receive_starts(1).await.pop_first().unwrap();
    assert!(again.host == *host && again.session > after);
    // The host's session is greater than `after` already, so the same request begins no further one.
    connection
        .send(ToAgent::StartAgain { host: *host, after })
        .await;
    connection.send(ToAgent::SendState { host: *host }).await;
    // The full report at the beginning of the session has the sequence number 1, and the requested one 2.
    let full = loop {
        let (updated, update) = connection.receive_state().await;
        if updated == *host && update.sequence == 2 {
            break update;
        }
    };
    assert!(matches!(full.update, HostUpdate::Full(_)) && full.incarnation == again.session);
}

#[tokio::test(start_paused = true)]
async fn a_restarted_agent_knows_its_guests_and_removes_half_built_ones() {
    let directory = tempfile::tempdir().unwrap();
    let guest_log = directory.path().join("guests");
    let options = || Options {
        guest_log: Some(guest_log.clone()),
        ..options()
    };
    let times = [(Operation::Spawn, DurationDistribution::Uniform(0, 0))];
    let (agent, mut connections) = start(options(), driver(1, &times, &[])).await;
    let mut connection = connections.recv().await.unwrap();
    let (host, first, _) = receive_start(&mut connection).await;
    connection
        .order(host, first, order(host, instance(1), Step::Arrive, 600))
        .await;
    assert_eq!(connection.receive_step().await, (instance(1), 1, None));
    agent.stop().await;

    let times = [(
        Operation::Spawn,
        DurationDistribution::Uniform(60_000, 60_000),
    )];
    let (agent, mut connections) = start(options(), driver(1, &times, &[])).await;
    let mut connection = connections.recv().await.unwrap();
    let (host, second, guests) = receive_start(&mut connection).await;
    assert!(second > first);
    assert_eq!(guests, [(instance(1), 1)]);
    connection
        .order(host, second, order(host, instance(2), Step::Arrive, 100))
        .await;
    loop {
        let (_, numbered) = connection.receive_state().await;
        if let HostUpdate::InstanceCame(report, _) = numbered.update {
            assert_eq!(report.uuid, instance(2).0);
            break;
        }
    }
    // A second agent cannot use the same guest log.
    let (link, _connections) = MockLink::new(NO_FAILURES);
    let second_agent = Agent::start(options(), driver(1, &[], &[]), link).await;
    assert!(
        second_agent
            .unwrap_err()
            .to_string()
            .contains("another agent")
    );
    agent.stop().await;

    let (_agent, mut connections) = start(options(), driver(1, &[], &[])).await;
    let mut connection = connections.recv().await.unwrap();
    let (_, _, guests) = receive_start(&mut connection).await;
    assert_eq!(guests, [(instance(1), 1)]);
}

#[tokio::test(start_paused = true)]
async fn simulated_failures_have_the_configured_rate() {
    let failure_rates = [(Operation::Spawn, 0.1)];
    let (_agent, mut connections) = start(options(), driver(1, &[], &failure_rates)).await;
    let mut connection = connections.recv().await.unwrap();
    let (host, session, _) = receive_start(&mut connection).await;
    let mut failed = 0;
    for number in 0..1000 {
        connection
            .order(
                host,
                session,
                order(host, instance(number), Step::Arrive, 1),
            )
            .await;
        let (_, _, failure) = connection.receive_step().await;
        failed += u32::from(failure.is_some());
    }
    assert!((60..140).contains(&failed), "{failed}");
}
