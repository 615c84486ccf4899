//! The commands that wait to be sent to the replica that leads.

use std::sync::Arc;

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
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    queue: Mutex<Queue>,
    /// Notified when a command was queued.
    queued: Notify,
    /// The replica that leads, as the engine knows it.
    leader: watch::Sender<Leadership>,
}

/// The commands that were not sent yet.
#[derive(Debug, Default)]
struct Queue {
    /// The epoch of the leader that the commands are for.
    epoch: u64,
    commands: Vec<HandedCommand>,
}

impl Outgoing {
    /// The replica that leads. The receiver gets each change of it.
    pub(crate) fn leader(&self) -> watch::Receiver<Leadership> {
        self.leader.subscribe()
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
        let (version, bytes) = encode_in_oldest_version::<M>(command);
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

/// The oldest version that has a command, and the command's bytes in it.
///
/// Commands are queued before their leader has said which versions it knows, and the one before it may have known
/// others. The oldest version is read by every leader that knows the command at all. Without a version, which only the
/// command of a machine that hands none over has, the bytes are empty.
fn encode_in_oldest_version<M: ReplicatedMachine>(command: &M::Command) -> (u32, Vec<u8>) {
    let versions = M::COMMAND_VERSIONS;
    let mut encoded = (versions.oldest..=versions.newest)
        .filter_map(|version| Some((version, M::encode_command(version, command)?)));
    encoded.next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use placewright_conductor::accounts::AccountCommand;
    use placewright_conductor::control::Command;
    use placewright_conductor::super_conductor;
    use placewright_control::ControlMachine;
    use placewright_placement::Timestamp;
    use uuid::Uuid;

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
        let outgoing = Outgoing::default();
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
    fn commands_are_queued_in_a_form_that_a_leader_reads_before_it_has_named_its_version() {
        use super_conductor::Command::{Accounts, SetImage};
        let leadership = Leadership {
            epoch: 7,
            ..Leadership::default()
        };
        let (id, at) = (Uuid::from_u128(1), Timestamp::from_seconds(1));
        let user = AccountCommand::SetUser {
            id: "anna".into(),
            row: None,
        };
        let cases = [(2, Accounts(user)), (3, SetImage { id, image: None })];
        for (since, command) in cases {
            let command = Command::Conductor { command, at };
            let link = OutgoingLink(Arc::default());
            LeaderLink::<ControlMachine>::send(&link, &leadership, 1, &command);
            let sent = link.0.take(7).pop().expect("it was queued");
            assert_eq!(sent.version, since);
            let read = ControlMachine::decode_command(sent.version, &sent.bytes);
            assert_eq!(read, Ok(command));
        }
    }

    #[test]
    fn commands_for_another_leader_are_not_taken() {
        let outgoing = Outgoing::default();
        queue_all(&outgoing, 7, &[1]);
        assert_eq!(outgoing.take(8), []);
    }
}
