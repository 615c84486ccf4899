//! An agent with simulated hosts, connected to a cell that the test plays.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

mod cell;

use std::sync::Arc;
use std::time::Duration;

use cell::{End, Link, hosts, instance, order};
use placewright_agent::simulated::{self, Simulated, Spread};
use placewright_agent::{Agent, Operation, Options};
use placewright_conductor::HostId;
use placewright_conductor::cell_conductor::Step;
use placewright_link::{ToAgent, ToCell};
use placewright_types::host_state::HostUpdate;
use tokio::sync::mpsc;

fn driver(
    count: u32,
    times: &[(Operation, Spread)],
    failures: &[(Operation, f64)],
) -> Arc<Simulated> {
    Arc::new(Simulated::new(simulated::Options {
        hosts: hosts(count),
        times: times.iter().copied().collect(),
        failures: failures.iter().copied().collect(),
        seed: 1,
    }))
}

fn options() -> Options {
    Options {
        inspect: Duration::ZERO,
        drain: Duration::ZERO,
        is_record_durable: false,
        ..Options::default()
    }
}

async fn start(options: Options, driver: Arc<Simulated>) -> (Agent, mpsc::Receiver<End>) {
    let (link, ends) = Link::new(0);
    let agent = Agent::start(options, driver, link).await.unwrap();
    (agent, ends)
}

/// Waits for the session of the only host.
async fn started(end: &mut End) -> (HostId, u64, Vec<(placewright_conductor::InstanceId, u32)>) {
    let start = end.hear_starts(1).await.pop_first().unwrap().1;
    (start.host, start.session, start.guests)
}

#[tokio::test(start_paused = true)]
async fn a_build_ends_and_the_host_says_what_runs_on_it() {
    let times = [(Operation::Spawn, Spread::Uniform(200, 200))];
    let (agent, mut ends) = start(options(), driver(1, &times, &[])).await;
    let mut end = ends.recv().await.unwrap();
    let (host, session, guests) = started(&mut end).await;
    assert_eq!(guests, []);
    let (_, full) = end.hear_state().await;
    assert_eq!((full.incarnation, full.sequence), (session, 1));
    assert!(matches!(full.update, HostUpdate::Full(_)));

    end.ask(host, session, order(host, instance(1), Step::Arrive, 600))
        .await;
    let (_, came) = end.hear_state().await;
    let HostUpdate::InstanceCame(report, load) = came.update else {
        panic!("{came:?}");
    };
    assert_eq!((came.sequence, report.uuid), (2, instance(1).0));
    assert_eq!(report.image_properties["os_distro"], "debian");
    assert_eq!((load.running_builds, load.io_ops), (1, 1));
    assert_eq!(end.hear_step().await, (instance(1), 1, None));
    let (_, quiet) = end.hear_state().await;
    assert_eq!(quiet.update, HostUpdate::Load(Default::default()));

    // A repeated order is answered again without more work.
    end.ask(host, session, order(host, instance(1), Step::Arrive, 600))
        .await;
    assert_eq!(end.hear_step().await, (instance(1), 1, None));

    // The host refuses a second one for lack of physical capacity, whatever placement counts.
    end.ask(host, session, order(host, instance(2), Step::Arrive, 600))
        .await;
    let (_, _, failure) = end.hear_step().await;
    let failure = failure.unwrap();
    assert!(
        failure.may_retry
            && failure
                .message
                .contains("MEMORY_MB: 600 asked for, 400 free")
    );

    end.say(ToAgent::Destroy {
        host,
        session,
        instance: instance(1),
        number: 1,
    })
    .await;
    assert!(matches!(
        end.hear().await,
        ToCell::Destroyed { number: 1, .. }
    ));
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_build_is_undone_and_counted() {
    let failures = [(Operation::Spawn, 1.0)];
    let (_agent, mut ends) = start(options(), driver(1, &[], &failures)).await;
    let mut end = ends.recv().await.unwrap();
    let (host, session, _) = started(&mut end).await;
    end.ask(host, session, order(host, instance(1), Step::Arrive, 600))
        .await;
    let (_, _, failure) = end.hear_step().await;
    assert_eq!(failure.unwrap().message, "The simulated spawn failed.");
    // The capacity is free again.
    end.ask(host, session, order(host, instance(2), Step::Arrive, 600))
        .await;
    let (_, _, failure) = end.hear_step().await;
    assert_eq!(failure.unwrap().message, "The simulated spawn failed.");
    // However changes were merged, the last update has the final state.
    loop {
        let update = end.hear_state().await.1.update;
        let (HostUpdate::Load(load)
        | HostUpdate::InstanceCame(_, load)
        | HostUpdate::InstanceWent(_, load)) = update
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
    let times = [(Operation::Prepare, Spread::Uniform(120_000, 120_000))];
    let (_agent, mut ends) = start(options(), driver(1, &times, &[])).await;
    let mut end = ends.recv().await.unwrap();
    let (host, session, _) = started(&mut end).await;
    end.ask(host, session, order(host, instance(1), Step::Arrive, 1))
        .await;
    let (_, _, failure) = end.hear_step().await;
    assert_eq!(
        failure.unwrap().message,
        "The devices were not ready within 60 s."
    );
}

#[tokio::test(start_paused = true)]
async fn a_build_goes_on_when_the_connection_ends() {
    let times = [(Operation::Spawn, Spread::Uniform(5000, 5000))];
    let (_agent, mut ends) = start(options(), driver(1, &times, &[])).await;
    let mut end = ends.recv().await.unwrap();
    let (host, first, _) = started(&mut end).await;
    end.ask(host, first, order(host, instance(1), Step::Arrive, 600))
        .await;
    end.hear_state().await;
    end.hear_state().await;
    drop(end);

    let mut end = ends.recv().await.unwrap();
    let (host, second, guests) = started(&mut end).await;
    assert!(second > first);
    assert_eq!(guests, [(instance(1), 1)]);
    // Orders of the old session are void; those of the new one are answered when they are done.
    end.ask(host, first, order(host, instance(2), Step::Arrive, 1))
        .await;
    end.ask(host, second, order(host, instance(1), Step::Arrive, 600))
        .await;
    assert_eq!(end.hear_step().await, (instance(1), 1, None));
    let (_, full) = end.hear_state().await;
    assert_eq!((full.incarnation, full.sequence), (second, 1));
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_is_to_be_destroyed_is_never_built() {
    let times = [(Operation::Spawn, Spread::Uniform(60_000, 60_000))];
    let (_agent, mut ends) = start(options(), driver(1, &times, &[])).await;
    let mut end = ends.recv().await.unwrap();
    let (host, session, _) = started(&mut end).await;
    end.ask(host, session, order(host, instance(1), Step::Arrive, 600))
        .await;
    end.say(ToAgent::Destroy {
        host,
        session,
        instance: instance(1),
        number: 1,
    })
    .await;
    assert!(matches!(
        end.hear().await,
        ToCell::Destroyed { number: 1, .. }
    ));
    // A delayed order for the destroyed guest is ignored; one for another guest is carried out.
    end.ask(host, session, order(host, instance(1), Step::Arrive, 600))
        .await;
    end.ask(host, session, order(host, instance(2), Step::Arrive, 600))
        .await;
    assert_eq!(end.hear_step().await.0, instance(2));
}

#[tokio::test(start_paused = true)]
async fn a_cell_that_forgot_a_session_gets_a_new_one_and_asks_for_what_it_missed() {
    let (link, mut ends) = Link::new(3);
    let agent = Agent::start(options(), driver(20, &[], &[]), link)
        .await
        .unwrap();
    let mut end = ends.recv().await.unwrap();
    let starts = end.hear_starts(20).await;
    agent.ready().await;
    let (host, start) = starts.first_key_value().unwrap();
    let after = start.session + 1000;
    end.say(ToAgent::StartAgain { host: *host, after }).await;
    let again = end.hear_starts(1).await.pop_first().unwrap().1;
    assert!(again.host == *host && again.session > after);
    // Once a greater session has begun, the same demand begins no further one.
    end.say(ToAgent::StartAgain { host: *host, after }).await;
    end.say(ToAgent::SendState { host: *host }).await;
    let full = loop {
        let (of, update) = end.hear_state().await;
        if of == *host && update.sequence == 2 {
            break update;
        }
    };
    assert!(matches!(full.update, HostUpdate::Full(_)) && full.incarnation == again.session);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_was_killed_knows_its_guests_and_removes_half_built_ones() {
    let directory = tempfile::tempdir().unwrap();
    let record = directory.path().join("guests");
    let options = || Options {
        record: Some(record.clone()),
        ..options()
    };
    let times = [(Operation::Spawn, Spread::Uniform(0, 0))];
    let (agent, mut ends) = start(options(), driver(1, &times, &[])).await;
    let mut end = ends.recv().await.unwrap();
    let (host, first, _) = started(&mut end).await;
    end.ask(host, first, order(host, instance(1), Step::Arrive, 600))
        .await;
    assert_eq!(end.hear_step().await, (instance(1), 1, None));
    agent.stop().await;

    let times = [(Operation::Spawn, Spread::Uniform(60_000, 60_000))];
    let (agent, mut ends) = start(options(), driver(1, &times, &[])).await;
    let mut end = ends.recv().await.unwrap();
    let (host, second, guests) = started(&mut end).await;
    assert!(second > first);
    assert_eq!(guests, [(instance(1), 1)]);
    end.ask(host, second, order(host, instance(2), Step::Arrive, 100))
        .await;
    loop {
        if let HostUpdate::InstanceCame(report, _) = end.hear_state().await.1.update {
            assert_eq!(report.uuid, instance(2).0);
            break;
        }
    }
    let busy = Agent::start(options(), driver(1, &[], &[]), Link::new(0).0).await;
    assert!(busy.unwrap_err().to_string().contains("another agent"));
    agent.stop().await;

    let (_agent, mut ends) = start(options(), driver(1, &[], &[])).await;
    let mut end = ends.recv().await.unwrap();
    let (_, _, guests) = started(&mut end).await;
    assert_eq!(guests, [(instance(1), 1)]);
}

#[tokio::test(start_paused = true)]
async fn simulated_failures_come_as_often_as_asked_for() {
    let failures = [(Operation::Spawn, 0.1)];
    let (_agent, mut ends) = start(options(), driver(1, &[], &failures)).await;
    let mut end = ends.recv().await.unwrap();
    let (host, session, _) = started(&mut end).await;
    let mut failed = 0;
    for number in 0..1000 {
        end.ask(
            host,
            session,
            order(host, instance(number), Step::Arrive, 1),
        )
        .await;
        failed += u32::from(end.hear_step().await.2.is_some());
    }
    assert!((60..140).contains(&failed), "{failed}");
}
