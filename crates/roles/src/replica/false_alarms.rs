//! How long a follower waits before it reports that a leader is gone.

use std::time::{Duration, Instant};

/// If a leader leads again within this time after it was reported as gone, that was a false alarm.
const RETURN_TIME: Duration = Duration::from_secs(10);
/// For how long a false alarm counts.
const ALARM_LIFETIME: Duration = Duration::from_secs(60);
/// The longest pause before a leader is reported as gone.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// How old a connection has to be before a further entry of the journal shows that the leader does its work. The
/// entries of the first moments do not show it: a leader often gets one entry through although its store then hangs, or
/// although the network only lets small messages pass. With a longer time, a leader that works, but whose connection is
/// lost every two seconds, would count as one that never works.
const WORKING_AFTER: Duration = Duration::from_millis(750);

/// The leaders that this follower reported as gone although they were not. Two replicas that reach the store but not
/// each other would each take the other one for gone, and would take over from one another for ever. So each false
/// alarm makes this follower wait longer before it reports the same leader as gone again. Once that leader has done its
/// work for this follower (see [`Self::note_durable_end`]), the false alarms about it are forgotten: it was only away
/// for a time.
#[derive(Debug, Default)]
pub(crate) struct FalseAlarms {
    /// The leaders that were reported as gone a short time ago, each with the time of the report.
    reported_as_gone: Vec<(u64, Instant)>,
    /// The leader and time of each false alarm.
    alarms: Vec<(u64, Instant)>,
}

/// A connection over which a leader has accepted this follower.
#[derive(Debug)]
pub(crate) struct AcceptedConnection {
    leader_origin: u64,
    accepted_at: Instant,
    /// The latest durable end of the journal that the leader has told before the connection was [`WORKING_AFTER`] old,
    /// or the first one if it told none before; 0 until it tells one.
    early_durable: u64,
}

impl AcceptedConnection {
    pub(crate) fn new(leader_origin: u64, now: Instant) -> Self {
        Self {
            leader_origin,
            accepted_at: now,
            early_durable: 0,
        }
    }
}

impl FalseAlarms {
    /// Records that the replica `origin` was reported as gone.
    pub(crate) fn note_reported_as_gone(&mut self, origin: u64, now: Instant) {
        self.reported_as_gone.push((origin, now));
    }

    /// Records that the replica `origin` leads. If it was reported as gone a short time ago, that was a false alarm.
    pub(crate) fn note_leader(&mut self, origin: u64, now: Instant) {
        (self.reported_as_gone).retain(|(_, at)| now.duration_since(*at) < RETURN_TIME);
        let before = self.reported_as_gone.len();
        self.reported_as_gone.retain(|(gone, _)| *gone != origin);
        if self.reported_as_gone.len() < before {
            self.alarms.push((origin, now));
        }
    }

    /// Records that the leader said over a connection that the journal is durable up to the entry `durable`. The false
    /// alarms about this leader are forgotten if the journal has grown after the connection was [`WORKING_AFTER`] old.
    /// That the leader accepts followers and sends heartbeats is not enough: it also does so while its store does not
    /// answer.
    pub(crate) fn note_durable_end(
        &mut self,
        connection: &mut AcceptedConnection,
        durable: u64,
        now: Instant,
    ) {
        // Without an early durable end, the first one that the leader tells does not show that the journal has grown.
        let is_early = now.duration_since(connection.accepted_at) < WORKING_AFTER;
        if is_early || connection.early_durable == 0 {
            connection.early_durable = connection.early_durable.max(durable);
        } else if durable > connection.early_durable {
            let origin = connection.leader_origin;
            self.alarms.retain(|(alarmed, _)| *alarmed != origin);
        }
    }

    /// How long to wait before the leader `origin` is reported as gone; zero if there was no false alarm about it
    /// lately.
    pub(crate) fn pause(&mut self, origin: u64, now: Instant) -> Duration {
        (self.alarms).retain(|(_, at)| now.duration_since(*at) < ALARM_LIFETIME);
        let alarms = self.alarms.iter().filter(|(alarmed, _)| *alarmed == origin);
        match u32::try_from(alarms.count()) {
            Ok(0) => Duration::ZERO,
            Ok(count @ 1..=5) => Duration::from_secs(1 << (count - 1)),
            _ => PAUSE_MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_with_each_leader_that_comes_back_and_end_when_none_does() {
        let mut alarms = FalseAlarms::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut pauses = Vec::new();
        let (other, third) = (1, 2);
        for round in 0..8 {
            alarms.note_reported_as_gone(other, at(round));
            alarms.note_leader(other, at(round));
            pauses.push(alarms.pause(other, at(round)).as_secs());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(alarms.pause(third, at(8)), Duration::ZERO);
        assert_eq!(alarms.pause(other, at(100)), Duration::ZERO);
    }

    #[test]
    fn a_leader_that_does_its_work_again_is_reported_at_once() {
        let mut alarms = FalseAlarms::default();
        let now = Instant::now();
        let (other, third) = (1, 2);
        for _ in 0..3 {
            for origin in [other, third] {
                alarms.note_reported_as_gone(origin, now);
                alarms.note_leader(origin, now);
            }
        }
        let mut connection = AcceptedConnection::new(other, now);
        for (milliseconds, durable, pause_s) in [
            // It accepts this follower, and says nothing of the journal yet.
            (0, 0, 4),
            (0, 10, 4),
            // It may be the entry that the leader still got through; heartbeats repeat it.
            (500, 11, 4),
            (1_000, 11, 4),
            (1_500, 12, 0),
        ] {
            let now = now + Duration::from_millis(milliseconds);
            alarms.note_durable_end(&mut connection, durable, now);
            assert_eq!(alarms.pause(other, now).as_secs(), pause_s);
            assert_eq!(alarms.pause(third, now).as_secs(), 4);
        }
    }

    #[test]
    fn pauses_grow_with_a_leader_that_accepts_followers_and_appends_nothing() {
        let mut alarms = FalseAlarms::default();
        let mut now = Instant::now();
        let origin = 1;
        let mut pauses = Vec::new();
        for durable in 10..15 {
            let mut connection = AcceptedConnection::new(origin, now);
            alarms.note_durable_end(&mut connection, durable, now);
            // It gets one entry through. Then there are two seconds of heartbeats, after which the leader says that its
            // store does not answer.
            for _ in 0..4 {
                now += Duration::from_millis(500);
                alarms.note_durable_end(&mut connection, durable + 1, now);
            }
            let pause = alarms.pause(origin, now);
            pauses.push(pause.as_secs());
            now += pause;
            alarms.note_reported_as_gone(origin, now);
            now += Duration::from_secs(2);
            alarms.note_leader(origin, now);
        }
        assert_eq!(pauses, [0, 1, 2, 4, 8]);
    }

    #[test]
    fn leaders_that_are_killed_one_after_the_other_are_no_false_alarms() {
        let mut alarms = FalseAlarms::default();
        let start = Instant::now();
        for round in 0..100 {
            let now = start + Duration::from_secs(round);
            alarms.note_reported_as_gone(round, now);
            alarms.note_leader(round + 1, now);
            assert_eq!(alarms.pause(round, now), Duration::ZERO);
        }
        // A leader that was really gone leads again only much later, after another leader has ended.
        let now = start + Duration::from_secs(120);
        alarms.note_leader(90, now);
        assert_eq!(alarms.pause(90, now), Duration::ZERO);
    }
}
