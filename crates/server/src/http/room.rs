//! Memory that requests share: what all of them may hold together, and what those of one caller may.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::costly::Caller;

/// The bytes that one permit of a room's semaphore stands for.
pub(crate) const UNIT: usize = 1 << 10;

/// Callers that hold nothing any more are forgotten when so many more are known.
const FORGET_EVERY: usize = 64;

/// Room for so many bytes. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Room {
    total: Arc<Semaphore>,
    /// What one caller may hold, in units.
    share: usize,
    callers: Arc<Mutex<Callers>>,
}

#[derive(Debug, Default)]
struct Callers {
    known: HashMap<Caller, Weak<Semaphore>>,
    forget_at: usize,
}

/// A part of a room; dropping it gives it back.
#[derive(Debug)]
pub struct Held {
    own: OwnedSemaphorePermit,
    all: OwnedSemaphorePermit,
}

impl Held {
    /// Gives back what is over so many bytes.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let excess = self.own.num_permits().saturating_sub(bytes.div_ceil(UNIT));
        drop(self.own.split(excess));
        drop(self.all.split(excess));
    }
}

impl Room {
    /// Room for so many bytes, of which one caller has at most half: nobody keeps out all others.
    pub(crate) fn new(bytes: usize) -> Self {
        let units = bytes.div_ceil(UNIT).clamp(2, Semaphore::MAX_PERMITS);
        Self::of(Arc::new(Semaphore::new(units)), units / 2)
    }

    /// Room of a semaphore whose permits stand for [`UNIT`] bytes each, of which one caller has at most so many.
    pub(crate) fn of(total: Arc<Semaphore>, share: usize) -> Self {
        Self {
            total,
            share: share.max(1),
            callers: Arc::default(),
        }
    }

    /// Holds room for so many bytes, if there is some now. What is larger than all that a caller may
    /// hold goes alone.
    pub(crate) fn try_hold(&self, caller: Caller, bytes: usize) -> Option<Held> {
        let units = self.units(bytes);
        let own = self.own(caller).try_acquire_many_owned(units).ok()?;
        let all = Arc::clone(&self.total).try_acquire_many_owned(units).ok()?;
        Some(Held { own, all })
    }

    /// The same, and waits for it: each caller's requests in their order, and first for those before
    /// them.
    pub(crate) async fn hold(&self, caller: Caller, bytes: usize, most: Duration) -> Option<Held> {
        if let Some(held) = self.try_hold(caller, bytes) {
            return Some(held);
        }
        tokio::time::timeout(most, self.wait(caller, bytes))
            .await
            .ok()
            .flatten()
    }

    fn wait(&self, caller: Caller, bytes: usize) -> impl Future<Output = Option<Held>> + Send {
        let units = self.units(bytes);
        let (own, all) = (self.own(caller), Arc::clone(&self.total));
        async move {
            let own = own.acquire_many_owned(units).await.ok()?;
            let all = all.acquire_many_owned(units).await.ok()?;
            Some(Held { own, all })
        }
    }

    fn units(&self, bytes: usize) -> u32 {
        let units = bytes.div_ceil(UNIT).min(self.share);
        u32::try_from(units).unwrap_or(u32::MAX)
    }

    /// What a caller has left.
    fn own(&self, caller: Caller) -> Arc<Semaphore> {
        let mut callers = self.callers.lock();
        if let Some(own) = callers.known.get(&caller).and_then(Weak::upgrade) {
            return own;
        }
        if callers.known.len() >= callers.forget_at {
            callers.known.retain(|_, own| own.strong_count() > 0);
            callers.forget_at = callers.known.len() + FORGET_EVERY;
        }
        let own = Arc::new(Semaphore::new(self.share));
        callers.known.insert(caller, Arc::downgrade(&own));
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costly::CostlyWork;
    use placewright_auth::{Identity, IdentityParts};

    const SOON: Duration = Duration::from_millis(1);
    const LONG: Duration = Duration::from_secs(60);

    fn callers() -> [Caller; 3] {
        let work = CostlyWork::default();
        ["a", "b", "c"].map(|project| work.caller(&identity(project)))
    }

    fn identity(project: &str) -> Identity {
        Identity::new(IdentityParts {
            project_id: Some(project.to_owned()),
            ..IdentityParts::default()
        })
    }

    #[tokio::test]
    async fn one_caller_has_half_and_waits_for_itself() {
        let room = Room::new(64 << 10);
        let [a, b, c] = callers();
        let first = room.hold(a, 20 << 10, SOON).await.expect("room");
        assert!(room.try_hold(a, 20 << 10).is_none());
        assert!(room.hold(a, 20 << 10, SOON).await.is_none());
        let second = room
            .hold(b, 32 << 10, SOON)
            .await
            .expect("room for another");
        assert!(room.try_hold(c, 20 << 10).is_none(), "all of it is held");
        drop(second);
        assert!(room.try_hold(c, 20 << 10).is_some());
        let waiting = tokio::spawn({
            let room = room.clone();
            async move { room.hold(a, 20 << 10, LONG).await.is_some() }
        });
        tokio::task::yield_now().await;
        drop(first);
        assert!(waiting.await.expect("no panic"));
    }

    #[tokio::test]
    async fn what_is_larger_than_the_room_goes_alone() {
        let room = Room::new(64 << 10);
        let [a, ..] = callers();
        let mut held = room.try_hold(a, 1 << 30).expect("room");
        assert!(room.try_hold(a, 1).is_none());
        held.shrink(16 << 10);
        assert!(room.try_hold(a, 16 << 10).is_some());
    }

    #[tokio::test]
    async fn callers_that_hold_nothing_are_forgotten() {
        let room = Room::new(64 << 10);
        let work = CostlyWork::default();
        for number in 0..10_000 {
            let caller = work.caller(&identity(&number.to_string()));
            assert!(room.try_hold(caller, 1 << 10).is_some());
        }
        assert!(room.callers.lock().known.len() <= FORGET_EVERY);
    }
}
