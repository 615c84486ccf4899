//! The queues of the cell's followers.
//!
//! A follower that keeps up receives every change. When its queue is full, the changed objects are marked instead, and
//! the follower later receives the newest state of each, once. An object is either marked or has changes in the queue,
//! so no older state follows a newer one.

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
    /// The number of the last follower that was added.
    last_number: u64,
    /// The length beyond which the changes in a queue are replaced by marks.
    queue_max: usize,
}

/// The queue of one follower: changes, and marked objects whose newest state is to be sent.
#[derive(Default)]
struct FollowerQueue {
    queue: VecDeque<CellEvent>,
    marked_instances: BTreeSet<InstanceId>,
    marked_hosts: BTreeSet<HostId>,
    /// The hosts whose soft state is marked.
    marked_states: BTreeSet<HostId>,
    /// The hosts whose agents sent anything since the follower's last heartbeat.
    alive: BTreeSet<HostId>,
    is_heartbeat_due: bool,
    /// Whether the initial listing is still being sent.
    is_listing: bool,
    wake: Arc<Notify>,
}

/// The next part of a follower's stream: changes, and marked objects whose newest state is to be
/// sent.
#[derive(Default)]
pub(crate) struct EventBatch {
    pub(crate) events: Vec<CellEvent>,
    pub(crate) instances: Vec<InstanceId>,
    pub(crate) hosts: Vec<HostId>,
    /// The hosts whose newest soft state is to be sent.
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

    /// Adds a follower, which receives an initial listing of these objects and every change after it.
    /// Returns its number, and the wake-up for its next events.
    pub(crate) fn add(
        &mut self,
        instances: BTreeSet<InstanceId>,
        hosts: BTreeSet<HostId>,
    ) -> (u64, Arc<Notify>) {
        self.last_number += 1;
        let queue = FollowerQueue {
            marked_instances: instances,
            marked_states: hosts.clone(),
            marked_hosts: hosts,
            is_listing: true,
            is_heartbeat_due: true,
            ..FollowerQueue::default()
        };
        let wake = Arc::clone(&queue.wake);
        wake.notify_one();
        self.queues.insert(self.last_number, queue);
        (self.last_number, wake)
    }

    pub(crate) fn remove(&mut self, follower: u64) {
        self.queues.remove(&follower);
    }

    pub(crate) fn queue_instance(&mut self, instance: InstanceId, view: Option<&InstanceView>) {
        for queue in self.queues.values_mut() {
            if !queue.marked_instances.contains(&instance) {
                let view = view.cloned().map(Box::new);
                queue.push(self.queue_max, CellEvent::Instance { instance, view });
            }
        }
    }

    pub(crate) fn queue_host(&mut self, host: HostId, view: Option<&HostView>) {
        for queue in self.queues.values_mut() {
            if !queue.marked_hosts.contains(&host) {
                let view = view.cloned();
                queue.push(self.queue_max, CellEvent::Host { host, view });
            }
        }
    }

    pub(crate) fn queue_state(&mut self, host: HostId, update: &NumberedUpdate) {
        for queue in self.queues.values_mut() {
            if !queue.marked_states.contains(&host) {
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

    /// Takes a follower's next batch, of at most `count` changes and marked objects; `None` if the
    /// follower was removed.
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
                    self.marked_instances.insert(instance);
                }
                CellEvent::Host { host, .. } => {
                    self.marked_hosts.insert(host);
                }
                CellEvent::State { host, .. } => {
                    self.marked_states.insert(host);
                }
                // These events are never in the queue. They are made from other fields when a batch is taken.
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
        let taken = self.queue.len().min(count);
        batch.events.extend(self.queue.drain(..taken));
        let mut remaining = count - taken;
        move_up_to(&mut self.marked_hosts, &mut remaining, &mut batch.hosts);
        move_up_to(&mut self.marked_states, &mut remaining, &mut batch.states);
        move_up_to(
            &mut self.marked_instances,
            &mut remaining,
            &mut batch.instances,
        );
        let has_marked = !(self.marked_instances.is_empty()
            && self.marked_hosts.is_empty()
            && self.marked_states.is_empty());
        if self.is_listing && !has_marked {
            self.is_listing = false;
            batch.is_complete = true;
        }
        batch
    }
}

/// Moves at most `remaining` elements, and subtracts their number from `remaining`.
fn move_up_to<T: Ord>(from: &mut BTreeSet<T>, remaining: &mut usize, to: &mut Vec<T>) {
    while *remaining > 0
        && let Some(first) = from.pop_first()
    {
        to.push(first);
        *remaining -= 1;
    }
}
