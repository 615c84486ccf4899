//! Which replica ranks hosts for which builds and moves.
//!
//! A build is ranked by the replica that accepted its request, so that all replicas share that work. A move begins to
//! wait for a host only when its cell has reserved the instance, so it is ranked by the replica that recorded the
//! cell's answer: the one that led then. If the replica ends that took the work, the one that leads takes it over.
//! Which replica does the work changes only how long it takes: if two replicas place the same build, the first claim is
//! accepted and the other one is refused.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use placewright_conductor::super_conductor::{BuildRequest, BuildStage, Change, Move, MoveStage};
use uuid::Uuid;

/// For how long after a replica's newest entry in the journal its work is left to it.
const SILENT_AFTER: Duration = Duration::from_secs(2);

/// The number of replicas in `heard_at` beyond which those that were silent for [`SILENT_AFTER`] are forgotten.
const REPLICAS_MAX: usize = 64;
/// The number that stands for a replica that is not known.
const UNKNOWN: u64 = 0;

/// The builds and moves that wait for a host, and the replicas that took them.
#[derive(Debug, Default)]
pub(crate) struct Rankers {
    /// By the UUID of the instance or of the move: the replica that took the work, and when the work was seen first.
    waiting: HashMap<Uuid, (u64, Instant)>,
    /// When each replica's newest entry was seen.
    heard_at: HashMap<u64, Instant>,
}

impl Rankers {
    /// Notes a change that a command of the replica `origin` made.
    pub(crate) fn note(&mut self, origin: u64, change: &Change, at: Instant) {
        self.heard_at.insert(origin, at);
        if self.heard_at.len() > REPLICAS_MAX {
            // A process has another number after each start, so numbers of ended processes gather here.
            let is_recent = |heard_at: &Instant| *heard_at + SILENT_AFTER > at;
            self.heard_at.retain(|_, heard_at| is_recent(heard_at));
        }
        match change {
            Change::Build(instance, row) => {
                let waits = |row: &BuildRequest| row.stage == BuildStage::Waiting;
                self.note_work(instance.0, row.as_deref().is_some_and(waits), origin, at);
            }
            Change::Move(migration, row) => {
                let waits = |row: &Move| row.stage == MoveStage::Reserved;
                self.note_work(migration.0, row.as_deref().is_some_and(waits), origin, at);
            }
            _ => {}
        }
    }

    /// Records whether some work waits for hosts, and for new work the replica `origin`, whose command made it wait.
    fn note_work(&mut self, id: Uuid, waits: bool, origin: u64, at: Instant) {
        if waits {
            self.waiting.entry(id).or_insert((origin, at));
        } else {
            self.waiting.remove(&id);
        }
    }

    /// Forgets a replica that is gone, so that other replicas do its work at once.
    pub(crate) fn forget(&mut self, origin: u64) {
        self.heard_at.remove(&origin);
        self.waiting.retain(|_, (owner, _)| *owner != origin);
    }

    /// Whether the replica `own` took this work.
    pub(crate) fn is_own(&self, id: Uuid, own: u64) -> bool {
        (self.waiting.get(&id)).is_some_and(|(owner, _)| *owner == own)
    }

    /// Whether the replica that leads, `own`, has to rank hosts for this work: it took the work itself, or the replica
    /// that did is unknown, gone or silent.
    pub(crate) fn is_due(&self, id: Uuid, own: u64, at: Instant) -> bool {
        let Some((owner, since)) = self.waiting.get(&id) else {
            return true;
        };
        let heard_at = self.heard_at.get(owner).copied().unwrap_or(*since);
        *owner == own || *owner == UNKNOWN || heard_at.max(*since) + SILENT_AFTER <= at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use placewright_conductor::InstanceId;

    fn deleted(id: Uuid) -> Change {
        Change::Build(InstanceId(id), None)
    }

    #[test]
    fn work_belongs_to_the_replica_that_took_it_until_that_is_silent_or_gone() {
        let (mut rankers, start, id) = (Rankers::default(), Instant::now(), Uuid::from_u128(1));
        let waits = true;
        rankers.note_work(id, waits, 7, start);
        assert!(rankers.is_own(id, 7) && !rankers.is_own(id, 8));
        assert!(rankers.is_due(id, 7, start) && !rankers.is_due(id, 8, start));
        let later = start + SILENT_AFTER;
        assert!(rankers.is_due(id, 8, later));
        rankers.note(7, &deleted(Uuid::from_u128(2)), later);
        assert!(!rankers.is_due(id, 8, later), "replica 7 is alive");
        rankers.forget(7);
        assert!(rankers.is_due(id, 8, later));
    }

    #[test]
    fn work_that_is_done_is_forgotten() {
        let (mut rankers, start, id) = (Rankers::default(), Instant::now(), Uuid::from_u128(1));
        let waits = true;
        rankers.note_work(id, waits, 7, start);
        rankers.note(8, &deleted(id), start);
        assert!(!rankers.is_own(id, 7));
        assert!(rankers.waiting.is_empty());
    }
}
