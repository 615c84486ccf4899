//! Memory that requests share: it limits what all of them may hold together, and what the requests of one caller may
//! hold.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::costly::Caller;

/// The number of bytes that one permit of a budget's semaphore stands for.
pub(crate) const UNIT_BYTES: usize = 1 << 10;

/// Each time this many further callers are known, those that hold nothing any more are forgotten.
const FORGET_EVERY: usize = 64;

/// A number of bytes that many requests share. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct MemoryBudget {
    /// The permits for all memory of the budget, each for [`UNIT_BYTES`] bytes.
    total: Arc<Semaphore>,
    /// The maximum of one caller, in units.
    share: usize,
    callers: Arc<Mutex<Callers>>,
}

#[derive(Debug, Default)]
struct Callers {
    /// The semaphores of callers' shares.
    known: HashMap<Caller, Weak<Semaphore>>,
    /// The number of known callers at which the callers that hold nothing are forgotten.
    forget_at: usize,
}

/// A part of a budget; dropping it gives it back.
#[derive(Debug)]
pub struct MemoryPermit {
    /// The permit for a part of the caller's share.
    of_share: OwnedSemaphorePermit,
    /// The permit for a part of the total.
    of_total: OwnedSemaphorePermit,
}

impl MemoryPermit {
    /// Gives back everything beyond this number of bytes.
    pub fn shrink(&mut self, bytes: usize) {
        for part in [&mut self.of_share, &mut self.of_total] {
            let excess = part
                .num_permits()
                .saturating_sub(bytes.div_ceil(UNIT_BYTES));
            drop(part.split(excess));
        }
    }

    /// Takes bytes of the total until the permit holds `bytes` of it, but no more than it has reserved of the caller's
    /// share. Returns false when other callers hold the memory for longer than `timeout`.
    pub(crate) async fn grow(&mut self, bytes: usize, timeout: Duration) -> bool {
        let wanted = bytes.div_ceil(UNIT_BYTES).min(self.of_share.num_permits());
        let missing = wanted.saturating_sub(self.of_total.num_permits());
        // If nothing is missing, there is nothing to acquire. No budget has more units than fit into `u32`.
        let Ok(missing @ 1..) = u32::try_from(missing) else {
            return missing == 0;
        };
        let total = self.of_total.semaphore();
        let acquired = match Arc::clone(total).try_acquire_many_owned(missing) {
            Ok(more) => Some(more),
            Err(_) => {
                let more = Arc::clone(total).acquire_many_owned(missing);
                let acquired = tokio::time::timeout(timeout, more).await;
                acquired.ok().and_then(Result::ok)
            }
        };
        let Some(more) = acquired else { return false };
        self.of_total.merge(more);
        true
    }

    /// Whether the permit holds nothing of the total yet.
    pub(crate) fn is_only_reserved(&self) -> bool {
        self.of_total.num_permits() == 0
    }
}

impl MemoryBudget {
    /// A budget of `bytes` bytes. One caller may have at most a quarter of it, so that two callers together cannot use
    /// it up.
    pub(crate) fn new(bytes: usize) -> Self {
        let units = bytes.div_ceil(UNIT_BYTES).clamp(4, Semaphore::MAX_PERMITS);
        Self::of(Arc::new(Semaphore::new(units)), units / 4)
    }

    /// A budget on a semaphore whose permits stand for [`UNIT_BYTES`] bytes each. One caller has at most `share`
    /// of them.
    pub(crate) fn of(total: Arc<Semaphore>, share: usize) -> Self {
        Self {
            total,
            share: share.max(1),
            callers: Arc::default(),
        }
    }

    /// Holds `bytes` bytes; none if they are not free now. A request for more than the caller's share gets the whole
    /// share.
    pub(crate) fn try_hold(&self, caller: Caller, bytes: usize) -> Option<MemoryPermit> {
        let units = self.units(bytes);
        let of_share = self.share_of(caller).try_acquire_many_owned(units).ok()?;
        let of_total = Arc::clone(&self.total).try_acquire_many_owned(units).ok()?;
        Some(MemoryPermit { of_share, of_total })
    }

    /// Reserves `bytes` bytes of the caller's share, and waits until the share has them free, so that a caller's
    /// requests wait only for requests of the same caller. Bytes of the total are taken by [`MemoryPermit::grow`] as
    /// data arrive, so that a client that sends nothing takes nothing from others. None if the caller's requests hold
    /// its share for longer than `timeout`.
    pub(crate) async fn reserve(
        &self,
        caller: Caller,
        bytes: usize,
        timeout: Duration,
    ) -> Option<MemoryPermit> {
        let units = self.units(bytes);
        let share = self.share_of(caller);
        let of_share = match Arc::clone(&share).try_acquire_many_owned(units) {
            Ok(of_share) => of_share,
            Err(_) => {
                let acquired = tokio::time::timeout(timeout, share.acquire_many_owned(units)).await;
                acquired.ok()?.ok()?
            }
        };
        // An empty permit, to which `grow` adds.
        let of_total = Arc::clone(&self.total).try_acquire_many_owned(0).ok()?;
        Some(MemoryPermit { of_share, of_total })
    }

    /// The number of units for this many bytes; at most a caller's share.
    fn units(&self, bytes: usize) -> u32 {
        let units = bytes.div_ceil(UNIT_BYTES).min(self.share);
        u32::try_from(units).unwrap_or(u32::MAX)
    }

    /// The semaphore of a caller's share.
    fn share_of(&self, caller: Caller) -> Arc<Semaphore> {
        let mut callers = self.callers.lock();
        if let Some(share) = callers.known.get(&caller).and_then(Weak::upgrade) {
            return share;
        }
        if callers.known.len() >= callers.forget_at {
            callers.known.retain(|_, share| share.strong_count() > 0);
            callers.forget_at = callers.known.len() + FORGET_EVERY;
        }
        let share = Arc::new(Semaphore::new(self.share));
        callers.known.insert(caller, Arc::downgrade(&share));
        share
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costly::CostlyExecutor;
    use placewright_auth::{Identity, IdentityParts};

    const SOON: Duration = Duration::from_millis(1);
    const LONG: Duration = Duration::from_secs(60);

    fn callers() -> [Caller; 3] {
        let executor = CostlyExecutor::default();
        ["a", "b", "c"].map(|project| executor.caller(&identity(project)))
    }

    fn identity(project: &str) -> Identity {
        Identity::new(IdentityParts {
            project_id: Some(project.to_owned()),
            ..IdentityParts::default()
        })
    }

    #[tokio::test]
    async fn one_caller_has_a_quarter_and_waits_for_itself() {
        let budget = MemoryBudget::new(64 << 10);
        let [a, b, _] = callers();
        let first = budget.reserve(a, 10 << 10, SOON).await.expect("room");
        assert!(budget.try_hold(a, 10 << 10).is_none());
        assert!(budget.reserve(a, 10 << 10, SOON).await.is_none());
        assert!(budget.reserve(b, 16 << 10, SOON).await.is_some());
        let waiting = tokio::spawn({
            let budget = budget.clone();
            async move { budget.reserve(a, 10 << 10, LONG).await.is_some() }
        });
        tokio::task::yield_now().await;
        drop(first);
        assert!(waiting.await.expect("no panic"));
    }

    #[tokio::test]
    async fn memory_of_the_total_is_held_only_as_a_body_arrives() {
        let budget = MemoryBudget::new(16 << 10);
        let [a, b, _] = callers();
        let mut many = Vec::new();
        for _ in 0..4 {
            many.push(budget.reserve(a, 1 << 10, SOON).await.expect("room"));
        }
        let mut held = budget.reserve(b, 4 << 10, SOON).await.expect("room");
        assert!(held.is_only_reserved());
        assert!(held.grow(1 << 10, SOON).await && !held.is_only_reserved());
        // One unit of the total is left, which `many[0]` takes.
        let rest = Arc::clone(&budget.total)
            .try_acquire_many_owned(14)
            .expect("room");
        assert!(many[0].grow(1 << 10, SOON).await);
        assert!(!held.grow(2 << 10, SOON).await, "all of it is held");
        drop(rest);
        assert!(held.grow(1 << 30, SOON).await, "no more than was reserved");
        held.shrink(1 << 10);
        assert_eq!(budget.total.available_permits(), 14);
    }

    #[tokio::test]
    async fn a_request_for_more_than_the_share_gets_the_whole_share() {
        let budget = MemoryBudget::new(64 << 10);
        let [a, ..] = callers();
        let mut held = budget.try_hold(a, 1 << 30).expect("room");
        assert!(budget.try_hold(a, 1).is_none());
        held.shrink(8 << 10);
        assert!(budget.try_hold(a, 8 << 10).is_some());
    }

    #[tokio::test]
    async fn callers_that_hold_nothing_are_forgotten() {
        let budget = MemoryBudget::new(64 << 10);
        let executor = CostlyExecutor::default();
        for number in 0..10_000 {
            let caller = executor.caller(&identity(&number.to_string()));
            assert!(budget.try_hold(caller, 1 << 10).is_some());
        }
        assert!(budget.callers.lock().known.len() <= FORGET_EVERY);
    }
}
