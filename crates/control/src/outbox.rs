//! The messages for one cell: delivered in batches, and repeated until they are no longer needed.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use placewright_conductor::message::Envelope;
use placewright_conductor::super_conductor::Command;
use placewright_conductor::{CellId, Fault, Message, Reply, Spec};
use tokio::sync::Notify;

use crate::handle::{ControlHandle, now};
use crate::pending_work::{self, MessageKey};
use crate::secrets;

/// The first wait after a failed delivery; it is doubled each time up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_millis(100);
/// The longest wait after a failed delivery.
const RETRY_MAX: Duration = Duration::from_secs(2);

/// The most bytes of specifications in one call.
const CALL_BYTES_MAX: usize = 4 << 20;

/// The queue of messages for one cell. It holds keys; the messages are made from the state when
/// they are sent.
pub(crate) struct Outbox {
    cell: CellId,
    queue: Mutex<MessageQueue>,
    wake: Notify,
}

/// The queue of keys, and the times at which delivered messages are repeated.
#[derive(Default)]
struct MessageQueue {
    /// The keys of the messages to send, in their order.
    order: VecDeque<MessageKey>,
    /// The same keys, so that each is queued once.
    queued: HashSet<MessageKey>,
    /// When delivered messages are due again, if they are still needed then.
    repetitions: HashMap<MessageKey, Repetition>,
}

/// When a delivered message is due again, and how long after its delivery that is.
#[derive(Clone, Copy)]
struct Repetition {
    due_at: Instant,
    interval: Duration,
}

impl Outbox {
    pub(crate) fn new(cell: CellId) -> Self {
        Self {
            cell,
            queue: Mutex::default(),
            wake: Notify::new(),
        }
    }

    pub(crate) fn cell(&self) -> CellId {
        self.cell
    }

    /// Queues the message with this key to be sent at once, because its instance or move has changed.
    pub(crate) fn queue_changed(&self, key: MessageKey) {
        let mut queue = self.queue.lock();
        queue.repetitions.remove(&key);
        if queue.queued.insert(key) {
            queue.order.push_back(key);
            self.wake.notify_one();
        }
    }

    /// Queues a message that is still needed, if its repetition is due.
    pub(crate) fn queue_if_due(&self, key: MessageKey, at: Instant) {
        let mut queue = self.queue.lock();
        let repetition = queue.repetitions.get(&key);
        let is_due = repetition.is_none_or(|repetition| repetition.due_at <= at);
        if is_due && queue.queued.insert(key) {
            queue.order.push_back(key);
            self.wake.notify_one();
        }
    }

    /// Makes all messages due again, because the cell is back.
    pub(crate) fn make_all_due(&self) {
        self.queue.lock().repetitions.clear();
    }

    /// Forgets all messages, because another replica sends them from now on.
    pub(crate) fn clear(&self) {
        *self.queue.lock() = MessageQueue::default();
    }

    /// Drops the times of messages that are no longer needed: they were due more than `resend_max` ago, and nothing
    /// queued them again.
    pub(crate) fn drop_obsolete(&self, at: Instant, resend_max: Duration) {
        let mut queue = self.queue.lock();
        queue
            .repetitions
            .retain(|_, repetition| repetition.due_at + resend_max > at);
    }

    /// Takes the first keys from the queue, at most `count`.
    fn take(&self, count: usize) -> Vec<MessageKey> {
        let mut queue = self.queue.lock();
        let count = count.min(queue.order.len());
        let keys: Vec<MessageKey> = queue.order.drain(..count).collect();
        for key in &keys {
            queue.queued.remove(key);
        }
        keys
    }

    /// Records that messages were delivered. Their first repetition is after `first_interval`, which then doubles up to
    /// `longest_interval`.
    fn record_delivered(
        &self,
        keys: &[MessageKey],
        first_interval: Duration,
        longest_interval: Duration,
    ) {
        let at = Instant::now();
        let mut queue = self.queue.lock();
        for key in keys {
            let last = queue.repetitions.get(key);
            let doubled = last.map(|repetition| repetition.interval * 2);
            let interval = doubled.unwrap_or(first_interval).min(longest_interval);
            let due_at = at + interval;
            let repetition = Repetition { due_at, interval };
            queue.repetitions.insert(*key, repetition);
        }
    }

    /// Queues messages again that were not delivered, before all others.
    fn put_back(&self, keys: &[MessageKey]) {
        let mut queue = self.queue.lock();
        for key in keys.iter().rev() {
            if queue.queued.insert(*key) {
                queue.order.push_front(*key);
            }
        }
    }
}

/// Delivers messages to a cell, as long as the task lives.
pub(crate) async fn run(control: ControlHandle, outbox: Arc<Outbox>) {
    let options = control.options().clone();
    let mut retry_wait = RETRY_MIN;
    loop {
        let keys = outbox.take(options.messages_max);
        if keys.is_empty() {
            outbox.wake.notified().await;
            continue;
        }
        // Only durable state is read, so no message ever has to be revoked.
        let messages = control
            .read(|control, _| pending_work::messages(control, outbox.cell, &keys))
            .await;
        if messages.is_empty() {
            continue;
        }
        let mut undelivered = messages.as_slice();
        while !undelivered.is_empty() {
            let (batch, later) = undelivered.split_at(count_for_one_call(undelivered));
            if let Err(error) = deliver(&control, outbox.cell, batch).await {
                tracing::debug!(cell = %outbox.cell, %error, "messages were not delivered");
                outbox.put_back(&keys_of(undelivered));
                tokio::time::sleep(retry_wait).await;
                retry_wait = (retry_wait * 2).min(RETRY_MAX);
                break;
            }
            retry_wait = RETRY_MIN;
            outbox.record_delivered(&keys_of(batch), options.resend_min, options.resend_max);
            undelivered = later;
        }
    }
}

fn keys_of(messages: &[(MessageKey, Message)]) -> Vec<MessageKey> {
    messages.iter().map(|(key, _)| *key).collect()
}

/// How many messages fit into one call, at least one. Only specifications are counted: they make up most of
/// the size, and a message has at most one.
fn count_for_one_call(messages: &[(MessageKey, Message)]) -> usize {
    let mut bytes = 0;
    let fits = messages.iter().take_while(|(_, message)| {
        bytes += match message {
            Message::Create(create) => bytes_to_send(&create.spec),
            Message::Move(order) => order.spec.as_ref().map_or(0, bytes_to_send),
            _ => 0,
        };
        bytes <= CALL_BYTES_MAX
    });
    fits.count().max(1)
}

fn bytes_to_send(spec: &Spec) -> usize {
    spec.body.len() + spec.build_secrets.len() + spec.secrets.len()
}

/// Delivers messages in one call, and submits the commands that follow from the replies. A message whose
/// secrets cannot be opened is left out, and repeated later as if it had been delivered.
async fn deliver(
    control: &ControlHandle,
    cell: CellId,
    messages: &[(MessageKey, Message)],
) -> Result<(), placewright_link::LinkError> {
    let link = control.link(cell)?;
    let sent_at = now();
    let mut delivered = Vec::with_capacity(messages.len());
    let mut envelopes = Vec::with_capacity(messages.len());
    for (_, message) in messages {
        let mut opened = message.clone();
        if secrets::open_for_cell(control.sealer(), &mut opened) {
            delivered.push(message);
            envelopes.push(Envelope {
                sent_at,
                message: opened,
            });
        }
    }
    let replies = control.with_timeout(cell, link.deliver(envelopes)).await?;
    for (message, reply) in delivered.into_iter().zip(replies) {
        if let Some(command) = command_for_reply(message, reply) {
            // The decision is not awaited: if the store fails, the message is repeated and answered again.
            drop(control.submit(command));
        }
    }
    Ok(())
}

/// The command that follows from a cell's reply; `None` if none follows.
fn command_for_reply(message: &Message, reply: Reply) -> Option<Command> {
    let fault = |why: String| Fault {
        code: 500,
        message: why,
        details: String::new(),
        at: now(),
    };
    Some(match (message, reply) {
        (Message::Create(create), Reply::Accepted) => Command::CreateAccepted {
            instance: create.instance,
            claim_number: create.claim_number,
            // The cell has accepted the build, but may still fail to build the instance.
            is_built: false,
        },
        (Message::Reserve { migration, .. }, Reply::Accepted) => Command::MoveReserved {
            migration: *migration,
        },
        (Message::Move(order), Reply::Accepted) => Command::MoveAccepted {
            migration: order.migration,
        },
        (Message::Cancel { migration, .. }, Reply::Accepted) => Command::MoveCancelled {
            migration: *migration,
        },
        (Message::Reserve { migration, .. }, Reply::Refused(why)) => Command::MoveRefused {
            migration: *migration,
            fault: fault(why),
        },
        (Message::Move(order), Reply::Refused(why)) => Command::MoveRefused {
            migration: order.migration,
            fault: fault(why),
        },
        (_, Reply::Refused(why)) => {
            tracing::warn!(instance = %message.instance(), why, "a cell refused a message");
            return None;
        }
        (Message::Delete { .. } | Message::ConfirmOrRevert { .. }, Reply::Accepted) => return None,
    })
}
