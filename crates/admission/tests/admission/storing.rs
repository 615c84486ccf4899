//! What requests store counts for their projects.

use std::time::Duration;

use placewright_admission::{
    AdmissionOptions, Arrival, Departure, IncomingRequest, LaterWork, TenantLevel,
};

use crate::create_request;
use crate::shares::SEATS;

fn storing(project: u64, instances: u32, stored_bytes: usize) -> IncomingRequest {
    let later_work = LaterWork {
        instances,
        stored_bytes,
    };
    create_request(project, true, later_work)
}

/// Lets a request of another project come and go, so that several projects are present.
fn note_another_project(level: &mut TenantLevel<()>, now: Duration) {
    let arrival = level.arrive(storing(2, 0, 0), now, || ());
    let Ok(Arrival::Started(seat)) = arrival else {
        panic!("{arrival:?}");
    };
    level.abandon(seat);
}

#[test]
fn a_seat_is_held_longer_after_a_request_that_stored_much() {
    let ms = Duration::from_millis;
    let mut level: TenantLevel<()> = TenantLevel::new(&AdmissionOptions::default(), SEATS);
    note_another_project(&mut level, ms(0));
    let mut run = |begin: Duration, stored_bytes, is_refused: bool| {
        let arrival = level.arrive(storing(1, 1, stored_bytes), begin, || ());
        let Ok(Arrival::Started(mut seat)) = arrival else {
            panic!("{arrival:?}");
        };
        if is_refused {
            seat.note_refused();
        }
        let end = level.finish(seat, ms(10), begin + ms(10));
        // Nobody waits, but this ends the hold.
        assert!(level.start_next(begin + ms(100)).is_none());
        end
    };
    // An eighth of the two processors takes 4 ms to store 120 kB twice.
    assert_eq!(run(ms(100), 120_000, false), Some(ms(100 + 10 + 10 + 4)));
    assert_eq!(run(ms(300), 120_000, true), Some(ms(300 + 10 + 10)));
    // However much a body has, requests of others do not wait for long.
    let longest = run(ms(500), 100_000_000, false);
    assert_eq!(longest, Some(ms(500 + 10 + 10 + 20)));
}

#[test]
fn requests_for_many_large_instances_wait_for_what_they_have_stored() {
    let accepted_in_a_second = |stored_bytes| {
        let mut level: TenantLevel<()> = TenantLevel::new(&AdmissionOptions::default(), SEATS);
        let mut accepted = 0;
        for step in 0..10 {
            let now = Duration::from_millis(100 * step);
            assert!(level.start_next(now).is_none(), "nobody waits");
            note_another_project(&mut level, now);
            match level.arrive(storing(1, 1000, stored_bytes), now, || ()) {
                Ok(Arrival::Started(seat)) => {
                    accepted += 1;
                    let _ = level.finish(seat, Duration::from_millis(5), now);
                }
                Ok(Arrival::Waiting(ticket)) => level.leave(ticket, Departure::ClientGone),
                Err(refusal) => unreachable!("{refusal}"),
            }
        }
        accepted
    };
    // To build a thousand takes half a second of a processor, which an eighth of the two processors has in 2 s: of the
    // 20 s that may be left to do, ten requests leave that much. To store 120 kB for each takes as long again.
    assert_eq!(accepted_in_a_second(0), 10);
    let accepted = accepted_in_a_second(120_000);
    assert!((5..=6).contains(&accepted), "{accepted}");
}
