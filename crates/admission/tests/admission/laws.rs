//! Properties that hold for every sequence of requests, however the requests end.

use std::collections::BTreeMap;
use std::time::Duration;

use placewright_admission::{
    AdmissionOptions, Arrival, Departure, IncomingRequest, Kind, LaterWork, PoolKind, Refusal,
    Seat, Seats, TenantLevel, Ticket,
};
use proptest::prelude::*;

const SEATS: Seats = Seats {
    operators: 1,
    cheap: 4,
    costly: 3,
    costly_when_shared: 1,
    processors: 2,
};
const QUEUE_MAX: usize = 5;
const QUEUE_TOTAL_MAX: usize = 12;

fn kind(is_declared_costly: bool) -> Kind {
    Kind {
        service: "compute",
        route: "/servers",
        method: "GET",
        is_declared_costly,
    }
}

fn options() -> AdmissionOptions {
    AdmissionOptions {
        queue_max: QUEUE_MAX,
        queue_total_max: QUEUE_TOTAL_MAX,
        ..AdmissionOptions::default()
    }
}

/// Something that happens to a level. `which` selects one of the running or waiting requests: it is divided by their
/// number, and the remainder is the index.
#[derive(Debug, Clone)]
enum Event {
    Arrive {
        project: u64,
        user: u64,
        is_costly: bool,
        later_work: LaterWork,
    },
    Finish {
        which: usize,
        busy_us: u64,
    },
    GiveBack {
        which: usize,
    },
    Abandon {
        which: usize,
    },
    Leave {
        which: usize,
        timed_out: bool,
    },
    /// Time passes, in microseconds.
    Pass {
        us: u64,
    },
}

fn event() -> impl Strategy<Value = Event> {
    let which = 0..100_usize;
    prop_oneof![
        5 => (
            (0..6_u64, 0..3_u64, any::<bool>()),
            prop::sample::select(vec![0, 1, 1000]),
            prop::sample::select(vec![0, 200, 120_000, 1 << 25]),
        )
            .prop_map(|((project, user, is_costly), instances, stored_bytes)| {
                let later_work = LaterWork { instances, stored_bytes };
                Event::Arrive { project, user, is_costly, later_work }
            }),
        3 => (which.clone(), 0..20_000_u64)
            .prop_map(|(which, busy_us)| Event::Finish { which, busy_us }),
        1 => which.clone().prop_map(|which| Event::GiveBack { which }),
        1 => which.clone().prop_map(|which| Event::Abandon { which }),
        1 => (which, any::<bool>())
            .prop_map(|(which, timed_out)| Event::Leave { which, timed_out }),
        1 => (0..10_000_u64).prop_map(|us| Event::Pass { us }),
    ]
}

/// A level, and what the code that uses it knows of its requests. The `waiter` of a request is a number.
struct World {
    level: TenantLevel<u64>,
    now: Duration,
    /// The number of the next request.
    next: u64,
    running: Vec<(u64, Seat)>,
    /// The requests that run after they gave their seat back early.
    given_back: Vec<(u64, Seat)>,
    waiting: BTreeMap<u64, Ticket>,
    accepted: usize,
    ended: usize,
}

impl World {
    fn new() -> Self {
        Self {
            level: TenantLevel::new(&options(), SEATS),
            now: Duration::ZERO,
            next: 0,
            running: Vec::new(),
            given_back: Vec::new(),
            waiting: BTreeMap::new(),
            accepted: 0,
            ended: 0,
        }
    }

    fn arrive(&mut self, project: u64, user: u64, is_costly: bool, later_work: LaterWork) {
        let request = IncomingRequest {
            project,
            user,
            kind: kind(is_costly),
            later_work,
        };
        let number = self.next;
        self.next += 1;
        match self.level.arrive(request, self.now, || number) {
            Ok(Arrival::Started(seat)) => self.running.push((number, seat)),
            Ok(Arrival::Waiting(ticket)) => {
                assert!(self.waiting.insert(number, ticket).is_none());
            }
            Err(Refusal::ProjectQueueFull(waiting)) => {
                assert_eq!(waiting, QUEUE_MAX);
                return;
            }
            Err(refusal) => {
                assert_eq!(refusal, Refusal::QueueFull(QUEUE_TOTAL_MAX));
                return;
            }
        }
        self.accepted += 1;
    }

    fn apply(&mut self, event: &Event) {
        let pick = |which: usize, len: usize| (len > 0).then(|| which % len);
        match *event {
            Event::Arrive {
                project,
                user,
                is_costly,
                later_work,
            } => self.arrive(project, user, is_costly, later_work),
            Event::Finish { which, busy_us } => {
                if let Some(index) = pick(which, self.running.len()) {
                    let (_, seat) = self.running.swap_remove(index);
                    let busy = Duration::from_micros(busy_us);
                    let held_until = self.level.finish(seat, busy, self.now);
                    assert!(held_until.is_none_or(|until| until >= self.now));
                    self.ended += 1;
                }
            }
            Event::GiveBack { which } => {
                if let Some(index) = pick(which, self.running.len()) {
                    let (number, mut seat) = self.running.swap_remove(index);
                    self.level.give_back_early(&mut seat);
                    self.given_back.push((number, seat));
                }
            }
            Event::Abandon { which } => {
                if let Some(index) = pick(which, self.running.len()) {
                    self.level.abandon(self.running.swap_remove(index).1);
                    self.ended += 1;
                }
            }
            Event::Leave { which, timed_out } => {
                if let Some(index) = pick(which, self.waiting.len()) {
                    let number = *self.waiting.keys().nth(index).expect("it is there");
                    let ticket = self.waiting.remove(&number).expect("it is there");
                    let departure = match timed_out {
                        true => Departure::TimedOut,
                        false => Departure::ClientGone,
                    };
                    self.level.leave(ticket, departure);
                    self.ended += 1;
                }
            }
            Event::Pass { us } => self.now += Duration::from_micros(us),
        }
        while let Some((seat, number)) = self.level.start_next(self.now) {
            assert!(
                self.waiting.remove(&number).is_some(),
                "{number} does not wait"
            );
            self.running.push((number, seat));
        }
    }

    fn check(&self) {
        let [cheap, costly, multi_create] = PoolKind::ALL.map(|pool| {
            let status = self.level.status(pool);
            let running = self.running.iter().filter(|(_, seat)| seat.pool() == pool);
            assert_eq!(status.taken, running.count() + status.held, "{pool:?}");
            assert!(status.taken <= status.seats, "{pool:?}: {status:?}");
            status
        });
        assert_eq!((cheap.seats, costly.seats), (SEATS.cheap, SEATS.costly));
        let waiting = cheap.waiting + costly.waiting + multi_create.waiting;
        assert!(waiting <= QUEUE_TOTAL_MAX && waiting <= self.waiting.len());
        // The test is not told which requests the level removed from the longest queue, so its map still has them.
        let removed = self.waiting.len() - waiting;
        let refused = cheap.refused + costly.refused + multi_create.refused;
        assert!(u64::try_from(removed).expect("small") <= refused);
        let open = self.running.len() + self.given_back.len() + self.waiting.len();
        assert_eq!(self.accepted - self.ended, open);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn never_more_run_than_there_are_seats_and_none_is_lost(
        events in prop::collection::vec(event(), 0..300),
    ) {
        let mut world = World::new();
        for event in &events {
            world.apply(event);
            world.check();
        }
        // Let every running request end: then every waiting request has run, and all seats are free.
        world.apply(&Event::Pass { us: 1_000_000 });
        while !world.running.is_empty() || !world.given_back.is_empty() {
            world.running.append(&mut world.given_back);
            world.apply(&Event::Pass { us: 1_000_000 });
            world.apply(&Event::Finish { which: 0, busy_us: 10 });
        }
        world.apply(&Event::Pass { us: 2_000_000 });
        for pool in PoolKind::ALL {
            let status = world.level.status(pool);
            prop_assert_eq!((status.taken, status.held, status.waiting), (0, 0, 0));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 8,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn memory_is_bounded_whatever_projects_are_called(
        projects in prop::collection::vec(any::<u64>(), 20_000),
        // Whether requests that get a seat run, or are abandoned.
        runs in any::<bool>(),
    ) {
        let mut level = TenantLevel::new(&options(), SEATS);
        // One project is busy all the time, so the level never becomes idle and never forgets what projects have used.
        let request = |project, is_costly| IncomingRequest {
            project,
            user: project,
            kind: kind(is_costly),
            later_work: LaterWork::default(),
        };
        for is_costly in [false, true] {
            let busy = level.arrive(request(0, is_costly), Duration::ZERO, || ());
            prop_assert!(matches!(busy, Ok(Arrival::Started(_))));
        }
        for (number, project) in projects.into_iter().enumerate() {
            let now = Duration::from_secs(u64::try_from(number).expect("small"));
            while level.start_next(now).is_some() {}
            let arrival = level.arrive(request(project, number % 2 == 0), now, || ());
            match arrival.expect("there is room") {
                Arrival::Started(seat) if runs => {
                    let _ = level.finish(seat, Duration::from_secs(1), now);
                }
                Arrival::Started(seat) => level.abandon(seat),
                Arrival::Waiting(ticket) => level.leave(ticket, Departure::ClientGone),
            }
            // Each of the three pools keeps 1,024 idle flows, and up to 1,024 more until it forgets idle ones again.
            // Each of the two busy requests has one more flow.
            prop_assert!(level.flow_count() <= 3 * 2 * 1024 + 2, "{}", level.flow_count());
        }
    }
}

#[test]
fn a_newcomer_finds_room_in_a_queue_that_requests_of_other_kinds_fill() {
    let mut level = TenantLevel::new(&options(), SEATS);
    let mut arrive = |project, is_costly| {
        let request = IncomingRequest {
            project,
            user: 0,
            kind: kind(is_costly),
            later_work: LaterWork::default(),
        };
        level.arrive(request, Duration::ZERO, || ())
    };
    // Two projects take all cheap seats. Then the costly requests of three projects fill the queue.
    for project in [1, 1, 2, 2] {
        assert!(matches!(arrive(project, false), Ok(Arrival::Started(_))));
    }
    while matches!(arrive(3, true), Ok(Arrival::Started(_))) {}
    for (project, requests) in [(3, 4), (4, 5), (5, 2)] {
        for _ in 0..requests {
            assert!(matches!(arrive(project, true), Ok(Arrival::Waiting(_))));
        }
    }
    assert!(matches!(arrive(6, false), Ok(Arrival::Waiting(_))));
    let waiting = PoolKind::ALL.map(|pool| level.status(pool).waiting);
    assert_eq!(waiting, [1, QUEUE_TOTAL_MAX - 1, 0]);
    let refused = PoolKind::ALL.map(|pool| level.status(pool).refused);
    assert_eq!(refused, [0, 1, 0]);
}

#[test]
fn a_newcomer_finds_room_in_a_full_queue() {
    let mut level = TenantLevel::new(&options(), SEATS);
    let request = |project| IncomingRequest {
        project,
        user: 0,
        kind: kind(false),
        later_work: LaterWork::default(),
    };
    // Two projects take all seats. Then three projects fill the queue, with four requests each.
    let mut arrive = |project| level.arrive(request(project), Duration::ZERO, || project);
    for project in [1, 1, 2, 2] {
        assert!(matches!(arrive(project), Ok(Arrival::Started(_))));
    }
    for project in [1, 2, 3] {
        for _ in 0..4 {
            assert!(matches!(arrive(project), Ok(Arrival::Waiting(_))));
        }
    }
    assert!(matches!(arrive(4), Ok(Arrival::Waiting(_))));
    assert!(matches!(arrive(4), Ok(Arrival::Waiting(_))));
    // For the two requests of project 4, one request of project 3 and one of project 2 were removed. Another request of
    // project 2 is refused: its queue would become as long as the longest.
    assert!(matches!(arrive(2), Err(Refusal::QueueFull(12))));
    let status = level.status(PoolKind::Cheap);
    assert_eq!((status.waiting, status.refused), (12, 3));
}
