//! The commands that wait to be sent to the replica that leads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use placewright_engine::{LeaderLink, Leadership};
use placewright_link::HandedCommand;
use tokio::sync::{Notify, watch};

use super::machine::ReplicatedMachine;

/// The most commands of one message.
const BATCH_COMMANDS_MAX: usize = 4_096;
/// The size in bytes at which a message is ended.
const BATCH_BYTES: usize = 1 << 20;

/// The queue of commands for the leader, and which replica that is.
#[derive(Debug)]
pub(crate) struct Outgoing {
    queue: Mutex<Queue>,
    /// Notified when a command was queued.
    queued: Notify,
    /// The replica that leads, as the engine knows it.
    leader: watch::Sender<Leadership>,
    /// The version in which commands are encoded. It is independent of all other data, so `Relaxed` is enough.
    version: AtomicU32,
}

/// The commands that were not sent yet.
#[derive(Debug, Default)]
struct Queue {
    /// The epoch of the leader that the commands are for.
    epoch: u64,
    commands: Vec<HandedCommand>,
}

impl Outgoing {
    /// `oldest_version` is the version of commands that is used until a leader has sent the version that it accepts.
    pub(crate) fn new(oldest_version: u32) -> Self {
        Self {
            queue: Mutex::default(),
            queued: Notify::new(),
            leader: watch::Sender::default(),
            version: AtomicU32::new(oldest_version),
        }
    }

    /// The replica that leads. The receiver gets each change of it.
    pub(crate) fn leader(&self) -> watch::Receiver<Leadership> {
        self.leader.subscribe()
    }

    /// Encodes commands in another version from now on.
    pub(crate) fn set_version(&self, version: u32) {
        self.version.store(version, Ordering::Relaxed);
    }

    /// Waits until there are commands.
    pub(crate) async fn until_queued(&self) {
        loop {
            let queued = self.queued.notified();
            if !self.queue.lock().commands.is_empty() {
                return;
            }
            queued.await;
        }
    }

    /// Removes commands for the leader of `epoch` from the queue, as many as fit into one message.
    pub(crate) fn take(&self, epoch: u64) -> Vec<HandedCommand> {
        let mut queue = self.queue.lock();
        if queue.epoch != epoch {
            return Vec::new();
        }
        let mut bytes = 0;
        let is_full = |command: &HandedCommand| {
            bytes += command.bytes.len();
            bytes >= BATCH_BYTES
        };
        let first = queue.commands.iter().take(BATCH_COMMANDS_MAX);
        let count = first.clone().position(is_full);
        let count = count.map_or(first.len(), |last| last + 1);
        if count == queue.commands.len() {
            return std::mem::take(&mut queue.commands);
        }
        queue.commands.drain(..count).collect()
    }
}

/// The side of [`Outgoing`] on which the engine queues its commands.
pub(crate) struct OutgoingLink(pub(crate) Arc<Outgoing>);

impl<M: ReplicatedMachine> LeaderLink<M> for OutgoingLink {
    fn send(&self, leadership: &Leadership, number: u64, command: &M::Command) {
        let version = self.0.version.load(Ordering::Relaxed);
        // This replica can write the version, because it is the oldest one or one that a leader agreed on. If the
        // version lacks the command, the bytes are empty. The leader cannot read them, and the command fails.
        let bytes = M::encode_command(version, command).unwrap_or_default();
        let mut queue = self.0.queue.lock();
        if queue.epoch != leadership.epoch {
            queue.epoch = leadership.epoch;
            queue.commands.clear();
        }
        queue.commands.push(HandedCommand {
            number,
            version,
            bytes,
        });
        if queue.commands.len() == 1 {
            self.0.queued.notify_one();
        }
    }

    fn hands_commands_over(&self) -> bool {
        M::HANDS_COMMANDS_OVER
    }

    fn leader_changed(&self, leadership: &Leadership) {
        {
            let mut queue = self.0.queue.lock();
            queue.epoch = leadership.epoch;
            queue.commands.clear();
        }
        self.0.leader.send_replace(leadership.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue_all(outgoing: &Outgoing, epoch: u64, sizes: &[usize]) {
        let mut queue = outgoing.queue.lock();
        queue.epoch = epoch;
        queue.commands = (0..)
            .zip(sizes)
            .map(|(number, size)| HandedCommand {
                number,
                version: 1,
                bytes: vec![0; *size],
            })
            .collect();
    }

    #[test]
    fn messages_are_bounded_by_bytes_and_by_commands() {
        let outgoing = Outgoing::new(1);
        let half = BATCH_BYTES / 2;
        queue_all(&outgoing, 7, &[half, 1, half, 3 * BATCH_BYTES, 1]);
        let lengths = std::iter::from_fn(|| {
            let commands = outgoing.take(7);
            (!commands.is_empty()).then_some(commands.len())
        });
        assert_eq!(lengths.collect::<Vec<_>>(), [3, 1, 1]);
        queue_all(&outgoing, 7, &[1; BATCH_COMMANDS_MAX + 1]);
        assert_eq!(outgoing.take(7).len(), BATCH_COMMANDS_MAX);
        assert_eq!(outgoing.take(7).len(), 1);
    }

    #[test]
    fn commands_for_another_leader_are_not_taken() {
        let outgoing = Outgoing::new(1);
        queue_all(&outgoing, 7, &[1]);
        assert_eq!(outgoing.take(8), []);
    }
}
