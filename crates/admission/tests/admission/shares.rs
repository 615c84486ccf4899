//! How many requests of a project run while other projects flood the level, in simulated time.
//!
//! Each client sends a request, waits for its response, and sends the next one. A request with a seat runs for a
//! fixed time, however many others run: processors are not simulated.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use placewright_admission::{
    AdmissionOptions, Arrival, Departure, IncomingRequest, Kind, LaterWork, Seat, Seats,
    TenantLevel,
};

use crate::create_request;

pub(crate) const SEATS: Seats = Seats {
    operators: 1,
    cheap: 8,
    costly: 3,
    costly_when_shared: 1,
    processors: 2,
};

fn building(instances: u32) -> LaterWork {
    LaterWork {
        instances,
        stored_bytes: 0,
    }
}

/// Clients of one project that all send the same kind of request.
#[derive(Debug, Clone)]
struct Group {
    project: u64,
    user: u64,
    connections: usize,
    route: &'static str,
    /// For how long each request runs.
    takes: Duration,
    /// The time from a response to the next request.
    pause: Duration,
}

impl Group {
    fn new(project: u64, connections: usize, route: &'static str, takes_us: u64) -> Self {
        Self {
            project,
            user: 0,
            connections,
            route,
            takes: Duration::from_micros(takes_us),
            pause: Duration::ZERO,
        }
    }
}

/// The results of one group.
#[derive(Debug, Clone, Default)]
struct Outcome {
    done: usize,
    busy: Duration,
    /// The longest wait of a request that started after the first second, in which costs are learned.
    longest_wait: Duration,
}

/// What happens at a time of the simulation.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Send { client: usize },
    End { client: usize },
    HoldOver,
}

/// One client: its group, when its request was sent, and its seat.
struct Client {
    group: usize,
    sent: Duration,
    seat: Option<Seat>,
}

struct Simulation {
    level: TenantLevel<usize>,
    groups: Vec<Group>,
    outcomes: Vec<Outcome>,
    clients: Vec<Client>,
    /// What is going to happen, the earliest first.
    agenda: BinaryHeap<Reverse<(Duration, Happening)>>,
}

impl Simulation {
    fn run(groups: &[Group], time: Duration) -> Vec<Outcome> {
        let options = AdmissionOptions::default();
        let mut simulation = Self {
            level: TenantLevel::new(&options, SEATS),
            groups: groups.to_vec(),
            outcomes: vec![Outcome::default(); groups.len()],
            clients: Vec::new(),
            agenda: BinaryHeap::new(),
        };
        for (group, description) in groups.iter().enumerate() {
            for _ in 0..description.connections {
                let client = simulation.clients.len();
                simulation.clients.push(Client {
                    group,
                    sent: Duration::ZERO,
                    seat: None,
                });
                let send = Happening::Send { client };
                simulation.agenda.push(Reverse((Duration::ZERO, send)));
            }
        }
        while let Some(Reverse((now, happening))) = simulation.agenda.pop()
            && now < time
        {
            simulation.happen(now, happening);
        }
        simulation.outcomes
    }

    fn happen(&mut self, now: Duration, happening: Happening) {
        match happening {
            Happening::Send { client } => self.send(client, now),
            Happening::End { client } => self.end(client, now),
            Happening::HoldOver => {}
        }
        while let Some((seat, client)) = self.level.start_next(now) {
            self.start(client, seat, now);
        }
    }

    fn send(&mut self, client: usize, now: Duration) {
        let group = &self.groups[self.clients[client].group];
        let request = IncomingRequest {
            project: group.project,
            user: group.user,
            kind: Kind {
                service: "compute",
                route: group.route,
                method: "GET",
                is_declared_costly: group.route == "/costly",
            },
            later_work: LaterWork::default(),
        };
        self.clients[client].sent = now;
        match self.level.arrive(request, now, || client) {
            Ok(Arrival::Started(seat)) => self.start(client, seat, now),
            Ok(Arrival::Waiting(_)) => {}
            Err(_) => {
                let again = now + Duration::from_millis(100);
                self.agenda
                    .push(Reverse((again, Happening::Send { client })));
            }
        }
    }

    fn start(&mut self, client: usize, seat: Seat, now: Duration) {
        let group = self.clients[client].group;
        let outcome = &mut self.outcomes[group];
        if now > LEARNING {
            outcome.longest_wait = outcome.longest_wait.max(now - self.clients[client].sent);
        }
        self.clients[client].seat = Some(seat);
        let end = now + self.groups[group].takes;
        self.agenda.push(Reverse((end, Happening::End { client })));
    }

    fn end(&mut self, client: usize, now: Duration) {
        let group = self.clients[client].group;
        let (takes, pause) = (self.groups[group].takes, self.groups[group].pause);
        self.outcomes[group].done += 1;
        self.outcomes[group].busy += takes;
        let seat = self.clients[client].seat.take().expect("it runs");
        if let Some(until) = self.level.finish(seat, takes, now) {
            self.agenda.push(Reverse((until, Happening::HoldOver)));
        }
        self.agenda
            .push(Reverse((now + pause, Happening::Send { client })));
    }
}

/// The first part of a simulation, in which the level learns what the requests cost.
const LEARNING: Duration = Duration::from_secs(1);
/// How long a simulation lasts, in simulated time.
const TIME: Duration = Duration::from_secs(10);

#[test]
fn two_floods_get_equal_shares_however_many_connections_they_have() {
    for (first, second) in [(64, 64), (90, 16)] {
        let groups = [
            Group::new(1, first, "/a", 500),
            Group::new(2, second, "/a", 500),
        ];
        let outcomes = Simulation::run(&groups, TIME);
        // A project with more connections never gets more done. It gets less, because each open request makes the
        // project's other requests dearer.
        assert!(
            outcomes[0].done <= outcomes[1].done * 11 / 10,
            "{outcomes:?}"
        );
        if first == second {
            assert!(
                outcomes[1].done <= outcomes[0].done * 11 / 10,
                "{outcomes:?}"
            );
        }
        assert!(
            outcomes.iter().all(|outcome| outcome.done > 4_500),
            "{outcomes:?}"
        );
    }
}

#[test]
fn projects_with_long_and_with_short_requests_get_equal_time() {
    let groups = [
        Group::new(1, 64, "/long", 900),
        Group::new(2, 64, "/short", 90),
    ];
    let outcomes = Simulation::run(&groups, TIME);
    let share = outcomes[0].busy.as_secs_f64() / outcomes[1].busy.as_secs_f64();
    assert!((0.8..1.25).contains(&share), "{outcomes:?}");
}

#[test]
fn a_project_with_one_request_at_a_time_hardly_waits_beside_a_hundred_floods() {
    let mut groups = vec![Group::new(1, 1, "/a", 500)];
    groups.extend((2..102).map(|project| Group::new(project, 16, "/a", 500)));
    let outcomes = Simulation::run(&groups, TIME);
    // Each request of the others takes 500 µs, so a seat is free after at most that time.
    let longest = outcomes[0].longest_wait;
    assert!(longest <= Duration::from_micros(500), "{longest:?}");
    // Every client gets its share: none is left waiting.
    let least = outcomes.iter().map(|outcome| outcome.done).min();
    assert!(least > Some(500), "{least:?}");
}

/// Returns how many processors a flood uses beside a project that sends one request after the other. Checks that the
/// requests of this project never wait.
fn busy_beside_a_sequential_project(flood: Group) -> f64 {
    let mut sequential = Group::new(2, 1, "/sequential", 300);
    sequential.pause = Duration::from_millis(2);
    let outcomes = Simulation::run(&[flood, sequential], TIME);
    assert_eq!(outcomes[1].longest_wait, Duration::ZERO);
    outcomes[0].busy.as_secs_f64() / TIME.as_secs_f64()
}

#[test]
fn costly_requests_use_a_quarter_of_the_processors_beside_others() {
    let flood = Group::new(1, 64, "/costly", 20_000);
    // On two processors several projects share one seat for costly requests, which is held after each request for as
    // long as the request took.
    let busy = busy_beside_a_sequential_project(flood.clone());
    assert!((0.4..0.6).contains(&busy), "{busy} processors");

    // While the project is alone, it has two seats, and none of them is held.
    let alone = Simulation::run(&[flood], TIME);
    let busy = alone[0].busy.as_secs_f64() / TIME.as_secs_f64();
    assert!((1.9..2.1).contains(&busy), "{busy} processors");
}

fn costly(project: u64) -> IncomingRequest {
    IncomingRequest {
        project,
        user: 0,
        kind: Kind {
            service: "compute",
            route: "/costly",
            method: "GET",
            is_declared_costly: true,
        },
        later_work: LaterWork::default(),
    }
}

#[test]
fn a_request_of_another_project_does_not_wait_twice_for_a_request_that_took_long() {
    let ms = Duration::from_millis;
    let mut level: TenantLevel<()> = TenantLevel::new(&AdmissionOptions::default(), SEATS);
    let mut running = Vec::new();
    while let Ok(Arrival::Started(seat)) = level.arrive(costly(1), ms(0), || ()) {
        running.push(seat);
    }
    assert_eq!(running.len(), 2);
    let arrival = level.arrive(costly(2), ms(10), || ());
    assert!(matches!(arrival, Ok(Arrival::Waiting(_))), "{arrival:?}");
    // Each request took 100 ms, but used a processor for only 30 ms, since others ran beside it.
    let ends = running
        .into_iter()
        .map(|seat| level.finish(seat, ms(30), ms(100)));
    assert!(
        ends.collect::<Vec<_>>()
            .iter()
            .all(|end| *end == Some(ms(130)))
    );
    assert!(level.start_next(ms(129)).is_none());
    let (seat, ()) = level.start_next(ms(130)).expect("a free seat");
    // While another project waits for the seat, it is held for the processor time, too: for 5 of the 70 ms.
    let arrival = level.arrive(costly(1), ms(140), || ());
    assert!(matches!(arrival, Ok(Arrival::Waiting(_))), "{arrival:?}");
    assert_eq!(level.finish(seat, ms(5), ms(200)), Some(ms(205)));
}

#[test]
fn a_waiting_request_starts_when_one_project_alone_is_present() {
    let ms = Duration::from_millis;
    let mut level: TenantLevel<u32> = TenantLevel::new(&AdmissionOptions::default(), SEATS);
    let running = level.arrive(costly(1), ms(0), || 0);
    assert!(matches!(running, Ok(Arrival::Started(_))), "{running:?}");
    let arrival = level.arrive(costly(2), ms(10), || 1);
    assert!(matches!(arrival, Ok(Arrival::Waiting(_))), "{arrival:?}");
    assert_eq!(level.shared_until(ms(10)), Some(ms(1000)));
    assert!(level.start_next(ms(999)).is_none());
    // A request that arrives when the seat is free does not overtake the one that waits for it.
    let arrival = level.arrive(costly(2), ms(1000), || 2);
    assert!(matches!(arrival, Ok(Arrival::Waiting(_))), "{arrival:?}");
    for expected in [1, 2] {
        let (_, waiter) = level.start_next(ms(1000)).expect("a free seat");
        assert_eq!(waiter, expected);
    }
    assert_eq!(level.shared_until(ms(1000)), None);
}

#[test]
fn a_project_whose_costly_requests_wait_still_runs_cheap_ones() {
    let mut cheap = Group::new(1, 1, "/cheap", 300);
    cheap.pause = Duration::from_millis(5);
    let groups = [
        Group::new(1, 64, "/costly", 50_000),
        Group::new(2, 64, "/costly", 50_000),
        cheap,
    ];
    let outcomes = Simulation::run(&groups, TIME);
    assert!(
        outcomes[2].longest_wait <= Duration::from_millis(50),
        "{outcomes:?}"
    );
    assert!(outcomes[2].done > 1500, "{outcomes:?}");
}

#[test]
fn users_of_a_project_share_what_it_gets() {
    let mut flood = Group::new(1, 60, "/a", 500);
    flood.user = 1;
    let mut single = Group::new(1, 1, "/a", 500);
    single.user = 2;
    let groups = [flood, single, Group::new(2, 64, "/a", 500)];
    let outcomes = Simulation::run(&groups, TIME);
    let longest = outcomes[1].longest_wait;
    assert!(longest <= Duration::from_millis(5), "{outcomes:?}");
    let projects = [outcomes[0].done + outcomes[1].done, outcomes[2].done];
    assert!(projects[0] * 10 >= projects[1] * 8, "{projects:?}");
}

#[test]
fn cheap_requests_of_a_flood_use_an_eighth_of_the_processors_beside_others() {
    let busy = busy_beside_a_sequential_project(Group::new(1, 64, "/a", 500));
    assert!((0.2..0.3).contains(&busy), "{busy} processors");
}

#[test]
fn requests_for_many_instances_wait_for_the_work_that_was_accepted_before() {
    let multi_create = |project| create_request(project, true, building(1000));
    let mut level: TenantLevel<()> = TenantLevel::new(&AdmissionOptions::default(), SEATS);
    let mut now = Duration::ZERO;
    let mut accepted_at = Vec::new();
    // Another project is present all the time.
    let mut cheap = multi_create(9);
    cheap.later_work = building(0);
    cheap.kind.is_declared_costly = false;
    while now < Duration::from_secs(20) {
        now += Duration::from_millis(10);
        assert!(level.start_next(now).is_none(), "nobody waits");
        if let Ok(Arrival::Started(seat)) = level.arrive(cheap, now, || ()) {
            let _ = level.finish(seat, Duration::from_micros(100), now);
        }
        match level.arrive(multi_create(1), now, || ()) {
            Ok(Arrival::Started(seat)) => {
                accepted_at.push(now);
                let _ = level.finish(seat, Duration::from_millis(5), now);
            }
            Ok(Arrival::Waiting(ticket)) => level.leave(ticket, Departure::ClientGone),
            Err(refusal) => unreachable!("{refusal}"),
        }
    }
    // About ten requests are accepted at once, for 1000 instances each. After that, each request holds its seat for
    // 1.8 s.
    let at_once = accepted_at
        .iter()
        .filter(|at| **at < Duration::from_secs(1));
    assert!((8..=13).contains(&at_once.count()), "{accepted_at:?}");
    assert!((20..=23).contains(&accepted_at.len()), "{accepted_at:?}");
}

#[test]
fn a_request_that_came_right_after_another_one_gets_the_seat_before_its_wait_times_out() {
    let ms = Duration::from_millis;
    let options = AdmissionOptions::default();
    // A multi-create request that leaves more work than may be left to do, and a costly request that takes long.
    let multi_create = create_request(1, true, building(1_000_000));
    for (request, took) in [(multi_create, 300), (costly(1), 1200)] {
        let mut level: TenantLevel<()> = TenantLevel::new(&options, SEATS);
        let mut other = request;
        other.project = 2;
        let mut arrive = |request, now| level.arrive(request, now, || ());
        let Ok(Arrival::Started(seat)) = arrive(request, ms(0)) else {
            panic!("there is a free seat");
        };
        let arrival = arrive(other, ms(50));
        assert!(matches!(arrival, Ok(Arrival::Waiting(_))), "{arrival:?}");
        // A seat is held only while several projects are present, as these cheap requests show.
        for project in [1, 2] {
            let cheap = create_request(project, false, building(0));
            let arrival = arrive(cheap, ms(took));
            assert!(matches!(arrival, Ok(Arrival::Started(_))), "{arrival:?}");
        }
        let held_until = level.finish(seat, ms(took), ms(took));
        let held_until = held_until.expect("the seat is held");
        assert!(held_until < ms(50) + options.queue_time, "{held_until:?}");
        assert!(level.start_next(held_until).is_some());
    }
}

#[test]
fn refused_requests_for_many_instances_do_not_count_as_work() {
    let request = |project, instances, is_declared_costly| {
        create_request(project, is_declared_costly, building(instances))
    };
    let mut level: TenantLevel<()> = TenantLevel::new(&AdmissionOptions::default(), SEATS);
    let mut now = Duration::ZERO;
    for _ in 0..1000 {
        now += Duration::from_millis(1);
        assert!(level.start_next(now).is_none(), "nobody waits");
        for (project, instances, is_costly) in [(9, 0, false), (1, 1000, true)] {
            let arrival = level.arrive(request(project, instances, is_costly), now, || ());
            let Ok(Arrival::Started(mut seat)) = arrival else {
                panic!("{arrival:?}");
            };
            seat.note_refused();
            let held_until = level.finish(seat, Duration::from_micros(100), now);
            assert_eq!(held_until, None);
        }
    }
}

#[test]
fn a_project_leaves_a_costly_seat_to_others() {
    let seats = Seats {
        operators: 1,
        cheap: 16,
        costly: 5,
        costly_when_shared: 2,
        processors: 4,
    };
    let request = |project| IncomingRequest {
        project,
        user: 0,
        kind: Kind {
            service: "compute",
            route: "/servers",
            method: "GET",
            is_declared_costly: true,
        },
        later_work: LaterWork::default(),
    };
    let mut level: TenantLevel<()> = TenantLevel::new(&AdmissionOptions::default(), seats);
    let now = Duration::ZERO;
    let mut started = Vec::new();
    for project in [1, 2, 1, 1, 2] {
        if let Ok(Arrival::Started(seat)) = level.arrive(request(project), now, || ()) {
            started.push((project, seat));
        }
    }
    let projects: Vec<u64> = started.iter().map(|(project, _)| *project).collect();
    assert_eq!(projects, [1, 2]);
}
