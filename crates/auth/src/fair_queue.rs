//! A scheduler for slow checks: few run at a time, and waiting ones are chosen by priority class
//! and, within a priority class, round-robin by source.
//!
//! However many checks of one source wait, another source waits for at most one check of each
//! source before it. A full priority class drops the newest check of the source with the most
//! waiting.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::source::Source;

/// The priority class of a check, by how likely it is that the credentials are right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PriorityClass {
    /// These credentials were verified before.
    Known,
    /// Other credentials were verified before from the same source.
    Trusted,
    /// Nothing is known of the source.
    New,
    /// Nothing is known of the source, and the user does not exist.
    NewNobody,
    /// The source, or attempts for the same name, failed often.
    Suspect,
    /// As [`Self::Suspect`], and the user does not exist.
    SuspectNobody,
}

const LANES: usize = 6;

impl PriorityClass {
    /// The priority class's share of turns relative to others, while all of them wait.
    fn weight(self) -> i64 {
        match self {
            Self::Known | Self::Trusted => 8,
            Self::New | Self::NewNobody => 4,
            Self::Suspect | Self::SuspectNobody => 1,
        }
    }

    /// The maximum number of the priority class's checks that run at the same time.
    fn running_max(self, all: usize) -> usize {
        match self {
            Self::Known | Self::Trusted => all,
            Self::New | Self::NewNobody => all.div_ceil(2),
            Self::Suspect | Self::SuspectNobody => all.div_ceil(4),
        }
    }

    const ALL: [Self; LANES] = [
        Self::Known,
        Self::Trusted,
        Self::New,
        Self::NewNobody,
        Self::Suspect,
        Self::SuspectNobody,
    ];
}

/// Why a check gets no turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rejected {
    /// Too many checks of the same source wait.
    Source,
    /// Too many checks wait in the priority class.
    All,
}

/// The turns of one kind of check.
pub(crate) struct FairQueue {
    inner: Mutex<Inner>,
    waiting_max: usize,
    waiting_per_source_max: usize,
}

struct Inner {
    free: usize,
    next_id: u64,
    priority_classes: [LaneState; LANES],
}

/// The queue of a priority class, and its share of turns.
struct LaneState {
    priority_class: PriorityClass,
    running: usize,
    running_max: usize,
    /// The priority class's credit in weighted round-robin: grows while others are served.
    credit: i64,
    waiting: usize,
    queues: HashMap<Source, VecDeque<Waiter>>,
    /// The sources that wait, in the order of their next turns.
    order: VecDeque<Source>,
}

struct Waiter {
    id: u64,
    sender: oneshot::Sender<Permit>,
}

/// A turn; dropping it ends it.
pub(crate) struct Permit {
    fair_queue: Arc<FairQueue>,
    priority_class: PriorityClass,
}

impl FairQueue {
    /// At most `all` checks run at the same time; in each priority class at most `waiting_max`
    /// wait, and of one source at most `waiting_per_source_max`.
    pub(crate) fn new(all: usize, waiting_max: usize, waiting_per_source_max: usize) -> Self {
        let all = all.max(1);
        let inner = Inner {
            free: all,
            next_id: 0,
            priority_classes: PriorityClass::ALL.map(|priority_class| LaneState {
                priority_class,
                running: 0,
                running_max: priority_class.running_max(all),
                credit: 0,
                waiting: 0,
                queues: HashMap::new(),
                order: VecDeque::new(),
            }),
        };
        Self {
            inner: Mutex::new(inner),
            waiting_max: waiting_max.max(1),
            waiting_per_source_max: waiting_per_source_max.max(1),
        }
    }

    /// Waits for a turn. Cancelling leaves no trace.
    pub(crate) async fn take(
        self: &Arc<Self>,
        priority_class: PriorityClass,
        source: Source,
    ) -> Result<Permit, Rejected> {
        let (sender, receiver) = oneshot::channel();
        let id = self.enqueue(priority_class, source, sender)?;
        let _place = QueuePosition {
            fair_queue: self,
            priority_class,
            source,
            id,
        };
        self.dispatch();
        receiver.await.map_err(|_| Rejected::All)
    }

    fn enqueue(
        &self,
        priority_class: PriorityClass,
        source: Source,
        sender: oneshot::Sender<Permit>,
    ) -> Result<u64, Rejected> {
        let mut inner = self.inner.lock();
        let id = inner.next_id;
        inner.next_id += 1;
        let state = &mut inner.priority_classes[priority_class as usize];
        let own = state.queues.get(&source).map_or(0, VecDeque::len);
        if own >= self.waiting_per_source_max {
            return Err(Rejected::Source);
        }
        if state.waiting >= self.waiting_max && !state.evict_from_longest(own) {
            return Err(Rejected::All);
        }
        if own == 0 {
            state.order.push_back(source);
        }
        let queue = state.queues.entry(source).or_default();
        queue.push_back(Waiter { id, sender });
        state.waiting += 1;
        Ok(id)
    }

    /// Gives out turns as long as there are any.
    fn dispatch(self: &Arc<Self>) {
        loop {
            let Some((priority_class, waiter)) = self.inner.lock().next() else {
                return;
            };
            let permit = Permit {
                fair_queue: Arc::clone(self),
                priority_class,
            };
            // A waiter that was just cancelled returns the turn by dropping it.
            let _ = waiter.sender.send(permit);
        }
    }
}

impl Inner {
    /// Takes the next check out of its queue, if a turn is free.
    fn next(&mut self) -> Option<(PriorityClass, Waiter)> {
        if self.free == 0 {
            return None;
        }
        let mut total = 0;
        for state in self
            .priority_classes
            .iter_mut()
            .filter(|state| state.is_ready())
        {
            state.credit += state.priority_class.weight();
            total += state.priority_class.weight();
        }
        let ready = self
            .priority_classes
            .iter_mut()
            .filter(|state| state.is_ready());
        // `max_by_key` returns the last of equal priority classes, so the priority classes are
        // visited in reverse.
        let state = ready.rev().max_by_key(|state| state.credit)?;
        state.credit -= total;
        let waiter = state.pop()?;
        state.running += 1;
        self.free -= 1;
        Some((state.priority_class, waiter))
    }
}

impl LaneState {
    fn is_ready(&self) -> bool {
        self.waiting > 0 && self.running < self.running_max
    }

    /// The next check of the next source.
    fn pop(&mut self) -> Option<Waiter> {
        let source = self.order.pop_front()?;
        let queue = self.queues.get_mut(&source)?;
        let waiter = queue.pop_front()?;
        if queue.is_empty() {
            self.queues.remove(&source);
        } else {
            self.order.push_back(source);
        }
        self.left();
        Some(waiter)
    }

    /// Accounts for a check that left. A priority class without waiting checks loses its credit.
    fn left(&mut self) {
        self.waiting -= 1;
        if self.waiting == 0 {
            self.credit = 0;
        }
    }

    /// Makes room by dropping the newest check of the source with the most waiting, if those are
    /// more than `own`.
    fn evict_from_longest(&mut self, own: usize) -> bool {
        let longest = self.queues.values_mut().max_by_key(|queue| queue.len());
        let Some(queue) = longest.filter(|queue| queue.len() > own + 1) else {
            return false;
        };
        // Dropping the sender notifies the receiver.
        drop(queue.pop_back());
        self.left();
        true
    }

    /// Removes a check that was cancelled.
    fn remove(&mut self, source: Source, id: u64) {
        let Some(queue) = self.queues.get_mut(&source) else {
            return;
        };
        let before = queue.len();
        queue.retain(|waiter| waiter.id != id);
        if queue.len() == before {
            return;
        }
        if queue.is_empty() {
            self.queues.remove(&source);
            self.order.retain(|other| *other != source);
        }
        self.left();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        {
            let mut inner = self.fair_queue.inner.lock();
            inner.free += 1;
            inner.priority_classes[self.priority_class as usize].running -= 1;
        }
        self.fair_queue.dispatch();
    }
}

/// A place in a queue, given up when its waiter is cancelled.
struct QueuePosition<'t> {
    fair_queue: &'t FairQueue,
    priority_class: PriorityClass,
    source: Source,
    id: u64,
}

impl Drop for QueuePosition<'_> {
    fn drop(&mut self) {
        let mut inner = self.fair_queue.inner.lock();
        inner.priority_classes[self.priority_class as usize].remove(self.source, self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn source(number: u32) -> Source {
        Source::of(Some(IpAddr::V4(Ipv4Addr::from(number))))
    }

    /// Starts a waiter that records its turn in `order`.
    async fn wait(
        fair_queue: &Arc<FairQueue>,
        priority_class: PriorityClass,
        number: u32,
        order: &Arc<Mutex<Vec<(PriorityClass, u32)>>>,
    ) -> tokio::task::JoinHandle<()> {
        let (fair_queue, order) = (Arc::clone(fair_queue), Arc::clone(order));
        let task = tokio::spawn(async move {
            let permit = fair_queue.take(priority_class, source(number)).await;
            if permit.is_ok() {
                order.lock().push((priority_class, number));
            }
        });
        tokio::task::yield_now().await;
        task
    }

    #[tokio::test]
    async fn sources_take_turns_and_lanes_get_their_share() {
        let fair_queue = Arc::new(FairQueue::new(1, 100, 50));
        let order = Arc::default();
        let busy = fair_queue
            .take(PriorityClass::New, source(9))
            .await
            .unwrap();
        let mut tasks = Vec::new();
        for _ in 0..20 {
            tasks.push(wait(&fair_queue, PriorityClass::Suspect, 1, &order).await);
        }
        for _ in 0..20 {
            tasks.push(wait(&fair_queue, PriorityClass::New, 2, &order).await);
        }
        tasks.push(wait(&fair_queue, PriorityClass::New, 3, &order).await);
        tasks.push(wait(&fair_queue, PriorityClass::Known, 4, &order).await);
        drop(busy);
        for task in tasks {
            task.await.unwrap();
        }
        let order = order.lock();
        let place = |number| order.iter().position(|(_, n)| *n == number).unwrap();
        assert_eq!(order.len(), 42);
        assert_eq!(place(4), 0, "{order:?}");
        assert!(place(3) <= 3, "{order:?}");
        assert!(place(1) <= 6, "nobody starves: {order:?}");
        assert_eq!(fair_queue.inner.lock().free, 1);
    }

    #[tokio::test]
    async fn a_full_lane_drops_of_the_longest_queue() {
        let fair_queue = Arc::new(FairQueue::new(1, 4, 3));
        let order = Arc::default();
        let busy = fair_queue
            .take(PriorityClass::New, source(9))
            .await
            .unwrap();
        let mut tasks = Vec::new();
        for number in [1, 1, 1, 2, 3] {
            tasks.push(wait(&fair_queue, PriorityClass::New, number, &order).await);
        }
        // The third check of the first source was dropped for source 3, the second for source 4.
        tasks.push(wait(&fair_queue, PriorityClass::New, 4, &order).await);
        // Every source has one waiting check now: there is no room for a fifth.
        assert_eq!(
            fair_queue.take(PriorityClass::New, source(5)).await.err(),
            Some(Rejected::All)
        );
        drop(busy);
        for task in tasks {
            task.await.unwrap();
        }
        let numbers: Vec<u32> = order.lock().iter().map(|(_, number)| *number).collect();
        assert_eq!(numbers, [1, 2, 3, 4]);

        let busy = fair_queue
            .take(PriorityClass::New, source(9))
            .await
            .unwrap();
        let mut waiting = Vec::new();
        for _ in 0..3 {
            waiting.push(wait(&fair_queue, PriorityClass::New, 1, &order).await);
        }
        assert_eq!(
            fair_queue.take(PriorityClass::New, source(1)).await.err(),
            Some(Rejected::Source)
        );
        // Cancelled waiters leave no trace.
        for task in waiting {
            task.abort();
            assert!(task.await.unwrap_err().is_cancelled());
        }
        drop(busy);
        let inner = fair_queue.inner.lock();
        assert_eq!(inner.free, 1);
        assert!(inner.priority_classes.iter().all(|priority_class| {
            priority_class.waiting == 0
                && priority_class.running == 0
                && priority_class.queues.is_empty()
                && priority_class.order.is_empty()
        }));
    }
}
