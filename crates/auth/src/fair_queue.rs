//! A queue for slow checks: only a few run at a time. The next check is chosen by priority class and,
//! within a class, round-robin by source.
//!
//! However many checks of one source wait, the first check of another source in the same class waits for at most one
//! check of each source. When a priority class is full, the newest check of the source with the most waiting checks is
//! dropped.

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
    /// Other credentials for the same user name were verified before from the same source. For `keystone`, whose tokens
    /// have no user name, any other token was.
    Trusted,
    /// The source has neither successes nor many failures.
    New,
    /// As [`Self::New`], and the user does not exist.
    NewNobody,
    /// There were many failures of the source, or for the user name.
    Suspect,
    /// As [`Self::Suspect`], and the user does not exist.
    SuspectNobody,
}

const PRIORITY_CLASS_COUNT: usize = 6;

impl PriorityClass {
    /// The share of permits that the class gets while checks of all classes wait.
    fn weight(self) -> i64 {
        match self {
            Self::Known | Self::Trusted => 8,
            Self::New | Self::NewNobody => 4,
            Self::Suspect | Self::SuspectNobody => 1,
        }
    }

    /// The maximum number of the priority class's checks that run at the same time.
    fn running_max(self, total_max: usize) -> usize {
        match self {
            Self::Known | Self::Trusted => total_max,
            Self::New | Self::NewNobody => total_max.div_ceil(2),
            Self::Suspect | Self::SuspectNobody => total_max.div_ceil(4),
        }
    }

    /// In the order of the discriminants, by which [`QueueState::class_queues`] is indexed.
    const ALL: [Self; PRIORITY_CLASS_COUNT] = [
        Self::Known,
        Self::Trusted,
        Self::New,
        Self::NewNobody,
        Self::Suspect,
        Self::SuspectNobody,
    ];
}

/// Why a check gets no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rejected {
    /// Too many checks of the same source wait.
    Source,
    /// Too many checks wait in the priority class.
    PriorityClass,
}

/// The queue for one kind of check.
pub(crate) struct FairQueue {
    state: Mutex<QueueState>,
    waiting_max: usize,
    waiting_per_source_max: usize,
}

struct QueueState {
    /// How many permits are free.
    free: usize,
    next_id: u64,
    class_queues: [ClassQueue; PRIORITY_CLASS_COUNT],
}

/// The waiting checks of a priority class, and its share of permits.
struct ClassQueue {
    priority_class: PriorityClass,
    /// How many checks of the class run.
    running: usize,
    running_max: usize,
    /// The credit in weighted round-robin: it grows while other classes are served.
    credit: i64,
    /// How many checks of the class wait.
    waiting: usize,
    /// The waiting checks of each source, the oldest first.
    queues: HashMap<Source, VecDeque<Waiter>>,
    /// The sources with waiting checks, in the order in which they are served.
    order: VecDeque<Source>,
}

struct Waiter {
    id: u64,
    sender: oneshot::Sender<Permit>,
}

/// The right to run a check; dropping it lets the next check run.
pub(crate) struct Permit {
    fair_queue: Arc<FairQueue>,
    priority_class: PriorityClass,
}

impl FairQueue {
    /// At most `running_max` checks run at the same time; in each priority class at most `waiting_max`
    /// wait, and of one source at most `waiting_per_source_max`.
    pub(crate) fn new(
        running_max: usize,
        waiting_max: usize,
        waiting_per_source_max: usize,
    ) -> Self {
        let running_max = running_max.max(1);
        let state = QueueState {
            free: running_max,
            next_id: 0,
            class_queues: PriorityClass::ALL.map(|priority_class| ClassQueue {
                priority_class,
                running: 0,
                running_max: priority_class.running_max(running_max),
                credit: 0,
                waiting: 0,
                queues: HashMap::new(),
                order: VecDeque::new(),
            }),
        };
        Self {
            state: Mutex::new(state),
            waiting_max: waiting_max.max(1),
            waiting_per_source_max: waiting_per_source_max.max(1),
        }
    }

    /// Waits for a permit. A caller that is cancelled is removed from the queue.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        priority_class: PriorityClass,
        source: Source,
    ) -> Result<Permit, Rejected> {
        let (sender, receiver) = oneshot::channel();
        let id = self.enqueue(priority_class, source, sender)?;
        let _position = QueuePosition {
            fair_queue: self,
            priority_class,
            source,
            id,
        };
        self.dispatch();
        // The sender is dropped when this check is evicted for one of another source.
        receiver.await.map_err(|_| Rejected::PriorityClass)
    }

    /// Adds a check to the queue of its source, and returns the id of the check. A check of the source with the most
    /// waiting checks may be evicted for it.
    fn enqueue(
        &self,
        priority_class: PriorityClass,
        source: Source,
        sender: oneshot::Sender<Permit>,
    ) -> Result<u64, Rejected> {
        let mut state = self.state.lock();
        let id = state.next_id;
        state.next_id += 1;
        let class_queue = &mut state.class_queues[priority_class as usize];
        let waiting_of_source = class_queue.queues.get(&source).map_or(0, VecDeque::len);
        if waiting_of_source >= self.waiting_per_source_max {
            return Err(Rejected::Source);
        }
        if class_queue.waiting >= self.waiting_max
            && !class_queue.evict_from_longest(waiting_of_source)
        {
            return Err(Rejected::PriorityClass);
        }
        if waiting_of_source == 0 {
            class_queue.order.push_back(source);
        }
        let queue = class_queue.queues.entry(source).or_default();
        queue.push_back(Waiter { id, sender });
        class_queue.waiting += 1;
        Ok(id)
    }

    /// Issues permits as long as there are free permits and checks that wait for one.
    fn dispatch(self: &Arc<Self>) {
        loop {
            let Some((priority_class, waiter)) = self.state.lock().next_waiter() else {
                return;
            };
            let permit = Permit {
                fair_queue: Arc::clone(self),
                priority_class,
            };
            // If the waiter was just cancelled, sending fails, and the permit is returned by its drop.
            let _ = waiter.sender.send(permit);
        }
    }
}

impl QueueState {
    /// Removes the next check from its queue, if a permit is free.
    fn next_waiter(&mut self) -> Option<(PriorityClass, Waiter)> {
        if self.free == 0 {
            return None;
        }
        let mut total_weight = 0;
        for class_queue in self
            .class_queues
            .iter_mut()
            .filter(|class_queue| class_queue.is_ready())
        {
            class_queue.credit += class_queue.priority_class.weight();
            total_weight += class_queue.priority_class.weight();
        }
        let ready_queues = self
            .class_queues
            .iter_mut()
            .filter(|class_queue| class_queue.is_ready());
        // Of equal credits the higher priority has to win; `max_by_key` returns the last maximum, so the
        // classes are visited in reverse.
        let class_queue = ready_queues
            .rev()
            .max_by_key(|class_queue| class_queue.credit)?;
        class_queue.credit -= total_weight;
        let waiter = class_queue.pop()?;
        class_queue.running += 1;
        self.free -= 1;
        Some((class_queue.priority_class, waiter))
    }
}

impl ClassQueue {
    fn is_ready(&self) -> bool {
        self.waiting > 0 && self.running < self.running_max
    }

    /// Removes the next check of the next source.
    fn pop(&mut self) -> Option<Waiter> {
        let source = self.order.pop_front()?;
        let queue = self.queues.get_mut(&source)?;
        let waiter = queue.pop_front()?;
        if queue.is_empty() {
            self.queues.remove(&source);
        } else {
            self.order.push_back(source);
        }
        self.account_for_removal();
        Some(waiter)
    }

    /// Accounts for a check that was removed. A class without waiting checks loses its credit.
    fn account_for_removal(&mut self) {
        self.waiting -= 1;
        if self.waiting == 0 {
            self.credit = 0;
        }
    }

    /// Drops the newest check of the source with the most waiting checks, if that source would still have
    /// more than `waiting_of_source`. False if there is no such source.
    fn evict_from_longest(&mut self, waiting_of_source: usize) -> bool {
        let longest_queue = self.queues.values_mut().max_by_key(|queue| queue.len());
        let Some(queue) = longest_queue.filter(|queue| queue.len() > waiting_of_source + 1) else {
            return false;
        };
        // Dropping the sender notifies the receiver.
        drop(queue.pop_back());
        self.account_for_removal();
        true
    }

    /// Removes a check that was cancelled.
    fn remove(&mut self, source: Source, id: u64) {
        let Some(queue) = self.queues.get_mut(&source) else {
            return;
        };
        let previous_len = queue.len();
        queue.retain(|waiter| waiter.id != id);
        if queue.len() == previous_len {
            return;
        }
        if queue.is_empty() {
            self.queues.remove(&source);
            self.order.retain(|other| *other != source);
        }
        self.account_for_removal();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        {
            let mut state = self.fair_queue.state.lock();
            state.free += 1;
            state.class_queues[self.priority_class as usize].running -= 1;
        }
        self.fair_queue.dispatch();
    }
}

/// A position in a queue. When its waiter is cancelled, the drop removes the check.
struct QueuePosition<'t> {
    fair_queue: &'t FairQueue,
    priority_class: PriorityClass,
    source: Source,
    id: u64,
}

impl Drop for QueuePosition<'_> {
    fn drop(&mut self) {
        let mut state = self.fair_queue.state.lock();
        state.class_queues[self.priority_class as usize].remove(self.source, self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn source(number: u32) -> Source {
        Source::of(Some(IpAddr::V4(Ipv4Addr::from(number))))
    }

    /// Starts a waiter that appends its class and source to `order` when it gets its permit.
    async fn spawn_waiter(
        fair_queue: &Arc<FairQueue>,
        priority_class: PriorityClass,
        source_number: u32,
        order: &Arc<Mutex<Vec<(PriorityClass, u32)>>>,
    ) -> tokio::task::JoinHandle<()> {
        let (fair_queue, order) = (Arc::clone(fair_queue), Arc::clone(order));
        let task = tokio::spawn(async move {
            let permit = fair_queue
                .acquire(priority_class, source(source_number))
                .await;
            if permit.is_ok() {
                order.lock().push((priority_class, source_number));
            }
        });
        tokio::task::yield_now().await;
        task
    }

    #[tokio::test]
    async fn sources_are_served_in_turn_and_classes_get_their_share() {
        let fair_queue = Arc::new(FairQueue::new(1, 100, 50));
        let order = Arc::default();
        let running = fair_queue
            .acquire(PriorityClass::New, source(9))
            .await
            .unwrap();
        let mut tasks = Vec::new();
        for _ in 0..20 {
            tasks.push(spawn_waiter(&fair_queue, PriorityClass::Suspect, 1, &order).await);
        }
        for _ in 0..20 {
            tasks.push(spawn_waiter(&fair_queue, PriorityClass::New, 2, &order).await);
        }
        tasks.push(spawn_waiter(&fair_queue, PriorityClass::New, 3, &order).await);
        tasks.push(spawn_waiter(&fair_queue, PriorityClass::Known, 4, &order).await);
        drop(running);
        for task in tasks {
            task.await.unwrap();
        }
        let order = order.lock();
        let position = |number| order.iter().position(|(_, n)| *n == number).unwrap();
        assert_eq!(order.len(), 42);
        assert_eq!(position(4), 0, "{order:?}");
        assert!(position(3) <= 3, "{order:?}");
        assert!(position(1) <= 6, "no class starves: {order:?}");
        assert_eq!(fair_queue.state.lock().free, 1);
    }

    #[tokio::test]
    async fn a_full_class_drops_a_check_of_the_source_with_the_most() {
        let fair_queue = Arc::new(FairQueue::new(1, 4, 3));
        let order = Arc::default();
        let running = fair_queue
            .acquire(PriorityClass::New, source(9))
            .await
            .unwrap();
        let mut tasks = Vec::new();
        for number in [1, 1, 1, 2, 3] {
            tasks.push(spawn_waiter(&fair_queue, PriorityClass::New, number, &order).await);
        }
        // The third check of the first source was dropped for source 3, the second for source 4.
        tasks.push(spawn_waiter(&fair_queue, PriorityClass::New, 4, &order).await);
        // Every source has one waiting check now, so none is dropped for a fifth source.
        assert_eq!(
            fair_queue
                .acquire(PriorityClass::New, source(5))
                .await
                .err(),
            Some(Rejected::PriorityClass)
        );
        drop(running);
        for task in tasks {
            task.await.unwrap();
        }
        let numbers: Vec<u32> = order.lock().iter().map(|(_, number)| *number).collect();
        assert_eq!(numbers, [1, 2, 3, 4]);

        let running = fair_queue
            .acquire(PriorityClass::New, source(9))
            .await
            .unwrap();
        let mut waiting = Vec::new();
        for _ in 0..3 {
            waiting.push(spawn_waiter(&fair_queue, PriorityClass::New, 1, &order).await);
        }
        assert_eq!(
            fair_queue
                .acquire(PriorityClass::New, source(1))
                .await
                .err(),
            Some(Rejected::Source)
        );
        // Cancelled waiters are removed.
        for task in waiting {
            task.abort();
            assert!(task.await.unwrap_err().is_cancelled());
        }
        drop(running);
        let state = fair_queue.state.lock();
        assert_eq!(state.free, 1);
        assert!(state.class_queues.iter().all(|class_queue| {
            class_queue.waiting == 0
                && class_queue.running == 0
                && class_queue.queues.is_empty()
                && class_queue.order.is_empty()
        }));
    }
}
