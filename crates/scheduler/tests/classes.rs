//! Equal requests are prepared once, and cached from the second time on.

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
fn a_request_is_kept_from_its_second_time_on_and_those_that_came_once_push_nothing_out() {
    let state = State::default();
    let mut scheduler =
        Scheduler::new(SchedulerConfig::default(), PrepareOptions::default()).unwrap();
    let mut ready = |memory_mb| scheduler.prepare_once(&state, &request(memory_mb)).unwrap();
    let first = ready(1);
    let second = ready(1);
    let third = ready(1);
    assert!(!first.class.unwrap().is_repeated);
    assert!(second.class.unwrap().is_repeated);
    assert!(Arc::ptr_eq(&second, &third));
    assert_eq!(first.query, second.query);
    for memory_mb in 2..10_000 {
        let other = ready(memory_mb);
        assert!(!other.class.unwrap().is_repeated, "{memory_mb}");
    }
    assert!(Arc::ptr_eq(&second, &ready(1)));
    // Requests that differ in anything are of different classes.
    let mut other = request(1);
    other.project_id = "p".to_owned();
    let other = scheduler.prepare_once(&state, &other).unwrap();
    assert!(!other.class.unwrap().is_repeated);
}
