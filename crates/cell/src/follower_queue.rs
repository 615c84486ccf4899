//! The queues of the cell's followers.
//!
//! A follower that keeps up receives every change. When its queue is full, the changed objects are
//! marked instead, and the follower receives the then newest state of each, once. An object is
//! either marked or has changes in the queue, so no older state follows a newer one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use placewright_conductor::{HostId, InstanceId};
use placewright_link::{CellEvent, HostView, InstanceView};
use placewright_types::host_state::NumberedUpdate;
use tokio::sync::Notify;

/// The queues of all followers, by the follower's number.
#[derive(Default)]
pub(crate) struct FollowerQueues {
    queues: BTreeMap<u64, FollowerQueue>,
    last: u64,
    /// The length at which a queue is replaced by marks.
    queue_max: usize,
}

/// The queue of one follower: changes, and marked objects whose newest state is to be sent.
#[derive(Default)]
struct FollowerQueue {
    queue: VecDeque<CellEvent>,
    instances: BTreeSet<InstanceId>,
    hosts: BTreeSet<HostId>,
    states: BTreeSet<HostId>,
    /// The hosts whose agents sent anything since the follower's last heartbeat.
    alive: BTreeSet<HostId>,
    is_heartbeat_due: bool,
    /// Whether the initial listing is not complete yet.
    is_new: bool,
    wake: Arc<Notify>,
}

/// The next part of a follower's stream: changes, and marked objects whose newest state is to be
/// sent.
#[derive(Default)]
pub(crate) struct EventBatch {
    pub(crate) events: Vec<CellEvent>,
    pub(crate) instances: Vec<InstanceId>,
    pub(crate) hosts: Vec<HostId>,
    pub(crate) states: Vec<HostId>,
    /// Whether the initial listing is complete with this batch.
    pub(crate) is_complete: bool,
}

impl FollowerQueues {
    pub(crate) fn set_queue_max(&mut self, queue_max: usize) {
        self.queue_max = queue_max;
    }

    pub(crate) fn count(&self) -> usize {
        self.queues.len()
    }

    /// Adds a follower with an initial listing of these objects, and every change after it.
    pub(crate) fn add(
        &mut self,
        instances: BTreeSet<InstanceId>,
        hosts: BTreeSet<HostId>,
    ) -> (u64, Arc<Notify>) {
        self.last += 1;
        let queue = FollowerQueue {
            instances,
            states: hosts.clone(),
            hosts,
            is_new: true,
            is_heartbeat_due: true,
            ..FollowerQueue::default()
        };
        let wake = Arc::clone(&queue.wake);
        wake.notify_one();
        self.queues.insert(self.last, queue);
        (self.last, wake)
    }

    pub(crate) fn remove(&mut self, follower: u64) {
        self.queues.remove(&follower);
    }

    pub(crate) fn queue_instance(&mut self, instance: InstanceId, view: Option<&InstanceView>) {
        for queue in self.queues.values_mut() {
            if !queue.instances.contains(&instance) {
                let view = view.cloned().map(Box::new);
                queue.push(self.queue_max, CellEvent::Instance { instance, view });
            }
        }
    }

    pub(crate) fn queue_host(&mut self, host: HostId, view: Option<&HostView>) {
        for queue in self.queues.values_mut() {
            if !queue.hosts.contains(&host) {
                let view = view.cloned();
                queue.push(self.queue_max, CellEvent::Host { host, view });
            }
        }
    }

    pub(crate) fn queue_state(&mut self, host: HostId, update: &NumberedUpdate) {
        for queue in self.queues.values_mut() {
            if !queue.states.contains(&host) {
                let update = Box::new(update.clone());
                queue.push(self.queue_max, CellEvent::State { host, update });
            }
        }
    }

    pub(crate) fn queue_heartbeat(&mut self, alive: &[HostId]) {
        for queue in self.queues.values_mut() {
            queue.alive.extend(alive);
            queue.is_heartbeat_due = true;
            queue.wake.notify_one();
        }
    }

    /// Takes a follower's next batch of about `count` items; none if the follower was removed.
    pub(crate) fn next_batch(&mut self, follower: u64, count: usize) -> Option<EventBatch> {
        self.queues
            .get_mut(&follower)
            .map(|queue| queue.next_batch(count))
    }
}

impl FollowerQueue {
    fn push(&mut self, queue_max: usize, event: CellEvent) {
        self.queue.push_back(event);
        if self.queue.len() > queue_max {
            self.merge();
        }
        self.wake.notify_one();
    }

    /// Replaces the queued changes by marks.
    fn merge(&mut self) {
        for event in std::mem::take(&mut self.queue) {
            match event {
                CellEvent::Instance { instance, .. } => {
                    self.instances.insert(instance);
                }
                CellEvent::Host { host, .. } => {
                    self.hosts.insert(host);
                }
                CellEvent::State { host, .. } => {
                    self.states.insert(host);
                }
                CellEvent::Alive { .. } | CellEvent::Complete | CellEvent::Heartbeat => {}
            }
        }
    }

    fn next_batch(&mut self, count: usize) -> EventBatch {
        let mut batch = EventBatch::default();
        if std::mem::take(&mut self.is_heartbeat_due) {
            batch.events.push(CellEvent::Heartbeat);
        }
        if !self.alive.is_empty() {
            let hosts = std::mem::take(&mut self.alive).into_iter().collect();
            batch.events.push(CellEvent::Alive { hosts });
        }
        let queued = self.queue.len().min(count);
        batch.events.extend(self.queue.drain(..queued));
        let mut remaining = count - queued;
        move_up_to(&mut self.hosts, &mut remaining, &mut batch.hosts);
        move_up_to(&mut self.states, &mut remaining, &mut batch.states);
        move_up_to(&mut self.instances, &mut remaining, &mut batch.instances);
        let has_marked =
            !(self.instances.is_empty() && self.hosts.is_empty() && self.states.is_empty());
        if self.is_new && !has_marked {
            self.is_new = false;
            batch.is_complete = true;
        }
        batch
    }
}

fn move_up_to<T: Ord>(from: &mut BTreeSet<T>, remaining: &mut usize, to: &mut Vec<T>) {
    while *remaining > 0
        && let Some(first) = from.pop_first()
    {
        to.push(first);
        *remaining -= 1;
    }
}
