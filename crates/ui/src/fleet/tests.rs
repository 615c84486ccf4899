//! Tests with tokio's paused clock, which jumps from timer to timer. They use no sockets, because time spent waiting
//! for a socket would look idle to that clock.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::time::Duration;

use placewright_control::{ControlMachine, SchedulerHandle};
use placewright_engine::{Engine, Options};
use placewright_journal::MemoryJournal;
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::prepare::PrepareOptions;
use placewright_scheduler::select::Scheduler;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{FOLLOWERS_MAX, FleetHandle};

fn fleet() -> FleetHandle {
    let engine: Engine<ControlMachine> =
        Engine::open(MemoryJournal::new(), Options::default(), ()).unwrap();
    let scheduler = Scheduler::new(SchedulerConfig::default(), PrepareOptions::default()).unwrap();
    FleetHandle::new(SchedulerHandle::new(engine, scheduler))
}

#[tokio::test(start_paused = true)]
async fn a_page_that_does_not_read_is_dropped() {
    let (fleet, stopping) = (fleet(), watch::Sender::new(false));
    let begun = Instant::now();
    let reader = fleet.follow(None, stopping.subscribe()).unwrap();
    while fleet.shared.followers.available_permits() < FOLLOWERS_MAX {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(
        begun.elapsed() < Duration::from_secs(40),
        "{:?}",
        begun.elapsed()
    );
    drop(reader);
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_after_a_minute_so_that_rights_are_checked_again() {
    let (fleet, stopping) = (fleet(), watch::Sender::new(false));
    let begun = Instant::now();
    let mut reader = fleet.follow(None, stopping.subscribe()).unwrap();
    while reader.recv().await.is_some() {}
    let lasted = begun.elapsed();
    assert!((Duration::from_secs(59)..Duration::from_secs(62)).contains(&lasted));
}

#[tokio::test(start_paused = true)]
async fn streams_and_the_sampler_end_when_the_service_stops() {
    let (fleet, stopping) = (fleet(), watch::Sender::new(false));
    let mut reader = fleet.follow(None, stopping.subscribe()).unwrap();
    reader.recv().await.unwrap();
    stopping.send_replace(true);
    while reader.recv().await.is_some() {}
    while *fleet.shared.is_sampler_running.lock() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_looked_at_when_nobody_follows() {
    let (fleet, stopping) = (fleet(), watch::Sender::new(false));
    drop(fleet.follow(None, stopping.subscribe()).unwrap());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!*fleet.shared.is_sampler_running.lock());
}
