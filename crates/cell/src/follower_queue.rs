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
    feeds: BTreeMap<u64, FollowerQueue>,
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
    /// The hosts heard of since the follower's last heartbeat.
    alive: BTreeSet<HostId>,
    is_beating: bool,
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
        self.feeds.len()
    }

    /// Adds a follower with an initial listing of these objects, and every change after it.
    pub(crate) fn add(
        &mut self,
        instances: BTreeSet<InstanceId>,
        hosts: BTreeSet<HostId>,
    ) -> (u64, Arc<Notify>) {
        self.last += 1;
        let feed = FollowerQueue {
            instances,
            states: hosts.clone(),
            hosts,
            is_new: true,
            is_beating: true,
            ..FollowerQueue::default()
        };
        let wake = Arc::clone(&feed.wake);
        wake.notify_one();
        self.feeds.insert(self.last, feed);
        (self.last, wake)
    }

    pub(crate) fn remove(&mut self, follower: u64) {
        self.feeds.remove(&follower);
    }

    pub(crate) fn queue_instance(&mut self, instance: InstanceId, view: Option<&InstanceView>) {
        for feed in self.feeds.values_mut() {
            if !feed.instances.contains(&instance) {
                let view = view.cloned().map(Box::new);
                feed.push(self.queue_max, CellEvent::Instance { instance, view });
            }
        }
    }

    pub(crate) fn queue_host(&mut self, host: HostId, view: Option<&HostView>) {
        for feed in self.feeds.values_mut() {
            if !feed.hosts.contains(&host) {
                let view = view.cloned();
                feed.push(self.queue_max, CellEvent::Host { host, view });
            }
        }
    }

    pub(crate) fn queue_state(&mut self, host: HostId, update: &NumberedUpdate) {
        for feed in self.feeds.values_mut() {
            if !feed.states.contains(&host) {
                let update = Box::new(update.clone());
                feed.push(self.queue_max, CellEvent::State { host, update });
            }
        }
    }

    pub(crate) fn queue_heartbeat(&mut self, heard: &[HostId]) {
        for feed in self.feeds.values_mut() {
            feed.alive.extend(heard);
            feed.is_beating = true;
            feed.wake.notify_one();
        }
    }

    /// Takes a follower's next batch of about `count` items; none if the follower was removed.
    pub(crate) fn next_batch(&mut self, follower: u64, count: usize) -> Option<EventBatch> {
        self.feeds
            .get_mut(&follower)
            .map(|feed| feed.next_batch(count))
    }
}

impl FollowerQueue {
    fn push(&mut self, queue_max: usize, events: CellEvent) {
        self.queue.push_back(events);
        if self.queue.len() > queue_max {
            self.merge();
        }
        self.wake.notify_one();
    }

    /// Replaces the queued changes by marks.
    fn merge(&mut self) {
        for events in std::mem::take(&mut self.queue) {
            match events {
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
        if std::mem::take(&mut self.is_beating) {
            batch.events.push(CellEvent::Heartbeat);
        }
        if !self.alive.is_empty() {
            let hosts = std::mem::take(&mut self.alive).into_iter().collect();
            batch.events.push(CellEvent::Alive { hosts });
        }
        let some = self.queue.len().min(count);
        batch.events.extend(self.queue.drain(..some));
        let mut left = count - some;
        take_some(&mut self.hosts, &mut left, &mut batch.hosts);
        take_some(&mut self.states, &mut left, &mut batch.states);
        take_some(&mut self.instances, &mut left, &mut batch.instances);
        let has_noted =
            !(self.instances.is_empty() && self.hosts.is_empty() && self.states.is_empty());
        if self.is_new && !has_noted {
            self.is_new = false;
            batch.is_complete = true;
        }
        batch
    }
}

fn take_some<T: Ord>(from: &mut BTreeSet<T>, left: &mut usize, to: &mut Vec<T>) {
    while *left > 0
        && let Some(first) = from.pop_first()
    {
        to.push(first);
        *left -= 1;
    }
}
