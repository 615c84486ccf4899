//! The prepared form of a request is cached from the second request of its class on.

use std::sync::Arc;

use placewright_placement::State;
use placewright_scheduler::config::SchedulerConfig;
use placewright_scheduler::flavor::Flavor;
use placewright_scheduler::prepare::PrepareOptions;
use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::select::Scheduler;

fn request(memory_mb: u32) -> RequestSpec {
    RequestSpec::new(Flavor {
        vcpus: 1,
        memory_mb,
        ..Flavor::default()
    })
}

#[test]
fn repeated_requests_are_cached_and_one_off_requests_evict_nothing() {
    let state = State::default();
    let mut scheduler =
        Scheduler::new(SchedulerConfig::default(), PrepareOptions::default()).unwrap();
    let mut prepare = |memory_mb| {
        scheduler
            .prepare_cached(&state, &request(memory_mb))
            .unwrap()
    };
    let first = prepare(1);
    let second = prepare(1);
    let third = prepare(1);
    assert!(!first.class.unwrap().is_repeated);
    assert!(second.class.unwrap().is_repeated);
    assert!(Arc::ptr_eq(&second, &third));
    assert_eq!(first.query, second.query);
    for memory_mb in 2..10_000 {
        let other = prepare(memory_mb);
        assert!(!other.class.unwrap().is_repeated, "{memory_mb}");
    }
    assert!(Arc::ptr_eq(&second, &prepare(1)));
    // Requests of different projects are of different classes.
    let mut other = request(1);
    other.project_id = "p".to_owned();
    let other = scheduler.prepare_cached(&state, &other).unwrap();
    assert!(!other.class.unwrap().is_repeated);
}
