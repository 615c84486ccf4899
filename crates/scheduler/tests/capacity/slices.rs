//! Hosts are counted in slices and without a copy of the state.

use std::collections::BTreeMap;

use placewright_placement::{Command, State};
use placewright_scheduler::flavor::Flavor;
use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::select::Scheduler;
use placewright_scheduler::select::capacity::{
    Capacity, CapacityCount, CountSlice, LimitingFactor,
};

use crate::fleet::{AT, Host, STEPS_PER_SLICE, execute, fleet, plain_host, scheduler_of};

/// Counts by slices of so many steps; fails if a simulation is needed. `between` changes the state after each slice.
/// Returns also the number of slices. `None` if the count is given up.
fn count_by(
    steps: usize,
    scheduler: &mut Scheduler,
    state: &mut State,
    request: &RequestSpec,
    mut between: impl FnMut(&mut State),
) -> (Option<Capacity>, usize) {
    scheduler.observe(state, AT);
    let prepared = scheduler.prepare_cached(state, request).unwrap();
    let mut count = CapacityCount::new(request.clone(), prepared, None);
    let mut slices = 0;
    loop {
        slices += 1;
        scheduler.observe(state, AT);
        match count.run_slice(scheduler, state, steps).unwrap() {
            CountSlice::Unfinished => between(state),
            CountSlice::Complete(capacity) => return (Some(capacity), slices),
            CountSlice::GivenUp => return (None, slices),
            CountSlice::NeedsSimulation => {
                panic!("nothing about the request can have an effect on other hosts")
            }
        }
    }
}

/// As [`count_by`], with the slices of the other tests; fails if the count is given up.
fn count_in_slices(
    scheduler: &mut Scheduler,
    state: &mut State,
    request: &RequestSpec,
    between: impl FnMut(&mut State),
) -> (Capacity, usize) {
    let (capacity, slices) = count_by(STEPS_PER_SLICE, scheduler, state, request, between);
    (capacity.unwrap(), slices)
}

/// Hosts for more than two slices, of which every second one is a tree.
fn many_hosts() -> Vec<Host> {
    let tree = Host {
        cpus: 2,
        numa_nodes: 2,
        ..plain_host()
    };
    [plain_host(), tree].repeat(100)
}

fn small_request() -> RequestSpec {
    RequestSpec::new(Flavor {
        vcpus: 2,
        memory_mb: 512,
        ..Flavor::default()
    })
}

#[test]
fn trees_and_flat_hosts_are_counted_in_slices_without_a_copy_of_the_state() {
    let hosts = many_hosts();
    let mut state = fleet(&hosts);
    let mut scheduler = scheduler_of(&hosts);
    let mut request = small_request();
    let (capacity, slices) = count_in_slices(&mut scheduler, &mut state, &request, |_| {});
    // Each host has CPUs for four.
    assert_eq!((capacity.count, capacity.host_count), (800, 200));
    assert!(slices >= 4, "{slices}");
    // A rule for candidates and a trait of some provider are no reason for a copy either.
    let specs = &mut request.flavor.extra_specs;
    specs.insert("resources1:VCPU".into(), "1".into());
    specs.insert("resources2:VCPU".into(), "1".into());
    specs.insert("group_policy".into(), "isolate".into());
    specs.insert("resources:VCPU".into(), "0".into());
    let (capacity, _) = count_in_slices(&mut scheduler, &mut state, &request, |_| {});
    // Of each tree both nodes give four times one CPU; no flat host has two providers.
    assert_eq!((capacity.count, capacity.host_count), (400, 100));
}

/// Creates one more resource class with each call.
fn create_classes() -> impl FnMut(&mut State) {
    let mut number = 0;
    move |state| {
        number += 1;
        let create = Command::CreateClass {
            name: format!("CUSTOM_{number}"),
            exist_ok: false,
            at: AT,
        };
        assert!(execute(state, &create));
    }
}

#[test]
fn names_that_change_between_slices_make_the_count_begin_anew() {
    let hosts = many_hosts();
    let mut state = fleet(&hosts);
    let mut scheduler = scheduler_of(&hosts);
    let request = small_request();
    let mut create_class = create_classes();
    let mut slices = 0;
    let change_names = |state: &mut State| {
        slices += 1;
        if slices <= 3 {
            create_class(state);
        }
    };
    let (capacity, _) = count_in_slices(&mut scheduler, &mut state, &request, change_names);
    assert_eq!((capacity.count, capacity.host_count), (800, 200));
}

#[test]
fn names_that_change_all_the_time_end_the_count_without_a_long_slice() {
    let hosts = many_hosts();
    let mut state = fleet(&hosts);
    let mut scheduler = scheduler_of(&hosts);
    let request = small_request();
    let change_names = create_classes();
    let (capacity, slices) = count_by(
        STEPS_PER_SLICE,
        &mut scheduler,
        &mut state,
        &request,
        change_names,
    );
    assert_eq!(capacity, None);
    assert!(slices < 20, "{slices}");
}

#[test]
fn a_slice_ends_between_two_trees_and_within_a_large_one() {
    let large = Host {
        cpus: 6,
        numa_nodes: 24,
        memory_steps: 1_000,
        ..plain_host()
    };
    let hosts = [plain_host(), large, large, plain_host()];
    let mut state = fleet(&hosts);
    let mut scheduler = scheduler_of(&hosts);
    let mut request = small_request();
    let specs = &mut request.flavor.extra_specs;
    specs.insert("resources1:VCPU".into(), "4".into());
    specs.insert("resources2:VCPU".into(), "2".into());
    specs.insert("group_policy".into(), "isolate".into());
    specs.insert("resources:VCPU".into(), "0".into());
    let mut count = |steps| {
        let counted = count_by(steps, &mut scheduler, &mut state, &request, |_| {});
        (counted.0.unwrap(), counted.1)
    };
    let (at_once, slices) = count(usize::MAX);
    assert_eq!((at_once.host_count, slices), (2, 1));
    let (in_slices, slices) = count(1);
    assert_eq!(in_slices, at_once);
    // A pair of nodes takes some instances, and each pair is found by a search of its own.
    assert!(slices > 24, "{slices}");
}

#[test]
fn a_request_that_no_provider_can_serve_is_counted_without_a_copy() {
    let hosts = [plain_host(), plain_host()];
    let mut state = fleet(&hosts);
    let mut scheduler = scheduler_of(&hosts);
    let mut request = small_request();
    let specs = &mut request.flavor.extra_specs;
    specs.insert("trait:HW_CPU_X86_AVX512F".into(), "required".into());
    let (capacity, _) = count_in_slices(&mut scheduler, &mut state, &request, |_| {});
    let lacking = LimitingFactor::Constraint("required=HW_CPU_X86_AVX512F".to_owned());
    let expected = BTreeMap::from([(lacking, 2)]);
    assert_eq!((capacity.count, capacity.limiting_factors), (0, expected));
}
