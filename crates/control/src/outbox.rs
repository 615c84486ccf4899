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

/// The first wait after a failed delivery; it is doubled each time up to `RETRY_MAX`.
const RETRY_MIN: Duration = Duration::from_millis(100);
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

/// The queue of keys, and the times of messages that were delivered.
#[derive(Default)]
struct MessageQueue {
    order: VecDeque<MessageKey>,
    queued: HashSet<MessageKey>,
    /// When delivered messages are due again, if they are still needed then.
    sent: HashMap<MessageKey, Sent>,
}

/// When a delivered message is due again, and the interval after that.
#[derive(Clone, Copy)]
struct Sent {
    due: Instant,
    wait: Duration,
}

impl Outbox {
    pub(crate) fn new(cell: CellId) -> Self {
        Self {
            cell,
            queue: Mutex::default(),
            wake: Notify::new(),
        }
    }

    /// Queues the message of something that has changed.
    pub(crate) fn queue_changed(&self, key: MessageKey) {
        let mut queue = self.queue.lock();
        queue.sent.remove(&key);
        if queue.queued.insert(key) {
            queue.order.push_back(key);
            self.wake.notify_one();
        }
    }

    /// Queues the message of something that is still needed, if its repetition is due.
    pub(crate) fn queue_if_due(&self, key: MessageKey, at: Instant) {
        let mut queue = self.queue.lock();
        let is_due = queue.sent.get(&key).is_none_or(|sent| sent.due <= at);
        if is_due && queue.queued.insert(key) {
            queue.order.push_back(key);
            self.wake.notify_one();
        }
    }

    /// Makes all messages due again, because the cell is back.
    pub(crate) fn forget_sent(&self) {
        self.queue.lock().sent.clear();
    }

    /// Drops the times of messages that are no longer needed: they were due long ago, and nothing
    /// queued them again.
    pub(crate) fn drop_obsolete(&self, at: Instant, resend_max: Duration) {
        let mut queue = self.queue.lock();
        queue.sent.retain(|_, sent| sent.due + resend_max > at);
    }

    fn take(&self, count: usize) -> Vec<MessageKey> {
        let mut queue = self.queue.lock();
        let count = count.min(queue.order.len());
        let keys: Vec<MessageKey> = queue.order.drain(..count).collect();
        for key in &keys {
            queue.queued.remove(key);
        }
        keys
    }

    fn record_sent(&self, keys: &[MessageKey], first: Duration, longest: Duration) {
        let at = Instant::now();
        let mut queue = self.queue.lock();
        for key in keys {
            let before = queue.sent.get(key).map(|sent| sent.wait * 2);
            let wait = before.unwrap_or(first).min(longest);
            let due = at + wait;
            queue.sent.insert(*key, Sent { due, wait });
        }
    }

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
    let mut retry = RETRY_MIN;
    loop {
        let keys = outbox.take(options.messages_max);
        if keys.is_empty() {
            outbox.wake.notified().await;
            continue;
        }
        // Only durable state is read, so no message ever has to be revoked.
        let messages = control
            .read(|control, _| pending_work::messages(control, &keys))
            .await;
        if messages.is_empty() {
            continue;
        }
        let mut rest = messages.as_slice();
        while !rest.is_empty() {
            let (call, later) = rest.split_at(count_for_one_call(rest));
            if let Err(error) = deliver(&control, outbox.cell, call).await {
                tracing::debug!(cell = %outbox.cell, %error, "messages were not delivered");
                outbox.put_back(&keys_of(rest));
                tokio::time::sleep(retry).await;
                retry = (retry * 2).min(RETRY_MAX);
                break;
            }
            retry = RETRY_MIN;
            outbox.record_sent(&keys_of(call), options.resend_min, options.resend_max);
            rest = later;
        }
    }
}

fn keys_of(messages: &[(MessageKey, Message)]) -> Vec<MessageKey> {
    messages.iter().map(|(key, _)| *key).collect()
}

/// How many messages fit into one call. Specifications make up most of their size, and each message
/// has one. The result is at least one.
fn count_for_one_call(messages: &[(MessageKey, Message)]) -> usize {
    let mut bytes = 0;
    let fits = messages.iter().take_while(|(_, message)| {
        bytes += match message {
            Message::Create(create) => spec_bytes(&create.spec),
            Message::Move(order) => order.spec.as_ref().map_or(0, spec_bytes),
            _ => 0,
        };
        bytes <= CALL_BYTES_MAX
    });
    fits.count().max(1)
}

fn spec_bytes(spec: &Spec) -> usize {
    spec.body.len() + spec.build_secrets.len() + spec.secrets.len()
}

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
        let mut sent = message.clone();
        if secrets::open_for_cell(control.sealer(), &mut sent) {
            delivered.push(message);
            envelopes.push(Envelope {
                sent_at,
                message: sent,
            });
        }
    }
    let replies = control.with_timeout(cell, link.deliver(envelopes)).await?;
    for (message, reply) in delivered.into_iter().zip(replies) {
        if let Some(command) = command_for_reply(message, reply) {
            // Not awaited: if the store fails, the message is repeated and answered again.
            drop(control.submit(command));
        }
    }
    Ok(())
}

/// The command that follows from a cell's reply.
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
