//! Submitting commands, until their outcomes are durable and, among replicas, known to rest on the newest state.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::error::SubmitError;
use crate::reading::Reading;
use crate::shared::Shared;
use crate::standing::confirm;
use crate::submission::{Answer, CommandReply, Submission};
use crate::{Engine, Machine, pending};

type Receiver<M> = oneshot::Receiver<CommandReply<M>>;

/// For [`enqueue`]: the command may be decided on any state.
const ON_ANY_STATE: Option<u64> = None;

impl<M: Machine> Engine<M> {
    /// Queues a command immediately. The future resolves when the outcome is durable. For a
    /// refusal, that is when the state on which it was decided is durable. Dropping the future does
    /// not cancel the command.
    ///
    /// Commands that wait at the same time may be decided in any order: before submitting a command that
    /// depends on another one, await the other one's answer.
    pub fn submit(
        &self,
        command: M::Command,
    ) -> impl Future<Output = Result<Result<M::Outcome, M::Refusal>, SubmitError>> + Send + use<M>
    {
        let answered = self.submit_with_sequence(command);
        async move { answered.await.0 }
    }

    /// As [`Engine::submit`]; also returns the sequence of the entry that the command made in the
    /// journal, if it changed something.
    pub fn submit_with_sequence(
        &self,
        command: M::Command,
    ) -> impl Future<Output = (Answer<M>, Option<u64>)> + Send + use<M> {
        let shared = Arc::clone(self.shared());
        let epoch = epoch(&shared);
        let receiver = enqueue(&shared, Box::new(command), ON_ANY_STATE);
        finish(shared, epoch, receiver)
    }

    /// As [`Engine::submit_with_sequence`], for a command that was made from the state that a reading saw. That state
    /// need not be durable yet: the reading and the command wait for the disk together. When the command is answered,
    /// the state that the reading saw is durable.
    ///
    /// The answer is [`SubmitError::ReadingUndone`] if a change that the reading saw was undone before the command was
    /// decided. The caller then has to read again, and to make the command from what it reads.
    pub fn submit_after(
        &self,
        reading: Reading,
        command: M::Command,
    ) -> impl Future<Output = (Answer<M>, Option<u64>)> + Send + use<M> {
        let shared = Arc::clone(self.shared());
        async move {
            // Another replica may have to decide the command, and that replica does not know which state this one has
            // read.
            if shared.replica.is_some() && !reading.wait_durable(&shared).await {
                return (Err(SubmitError::ReadingUndone), None);
            }
            let epoch = epoch(&shared);
            let receiver = match (shared.replica.is_some(), reading.rollbacks()) {
                (true, _) => enqueue(&shared, Box::new(command), ON_ANY_STATE),
                (false, Ok(rollbacks)) => enqueue(&shared, Box::new(command), rollbacks),
                (false, Err(error)) => Err(error),
            };
            finish(shared, epoch, receiver).await
        }
    }
}

/// Waits for the reply to a command that was submitted in `epoch`, and returns its answer and the sequence of its
/// entry.
async fn finish<M: Machine>(
    shared: Arc<Shared<M>>,
    epoch: Option<u64>,
    receiver: Result<Receiver<M>, SubmitError>,
) -> (Answer<M>, Option<u64>) {
    let confirming = match receive(receiver).await {
        Err(error) => return (Err(error), None),
        Ok(reply) => match epoch {
            // In a box, because it is rare and would make every future large.
            Some(epoch) if reply.is_without_entry() => Box::pin(confirm_without_entry(
                shared,
                epoch,
                reply.answer,
                reply.command,
            )),
            _ => return (reply.answer, reply.sequence),
        },
    };
    confirming.await
}

/// Returns the answer to a command that made no entry once it is known that no other replica had taken over when it was
/// decided. The append of an entry would show that, and here there is none: a leader that was replaced, and does not
/// know it yet, decides on an old state. If the leader changed meanwhile, the command is submitted again, which is safe
/// because it had no effect.
async fn confirm_without_entry<M: Machine>(
    shared: Arc<Shared<M>>,
    mut submitted_in_epoch: u64,
    mut answer: Answer<M>,
    mut command: Box<M::Command>,
) -> (Answer<M>, Option<u64>) {
    loop {
        if let Err(error) = confirm(Arc::clone(&shared)).await {
            return (Err(error), None);
        }
        let present_epoch = epoch(&shared).unwrap_or_default();
        if present_epoch == submitted_in_epoch {
            return (answer, None);
        }
        submitted_in_epoch = present_epoch;
        let reply = match receive(enqueue(&shared, command, ON_ANY_STATE)).await {
            Ok(reply) => reply,
            Err(error) => return (Err(error), None),
        };
        if !reply.is_without_entry() {
            return (reply.answer, reply.sequence);
        }
        CommandReply {
            command,
            answer,
            ..
        } = reply;
    }
}

/// The entry with which the present leader began to lead; `None` if this engine is not a replica.
fn epoch<M: Machine>(shared: &Shared<M>) -> Option<u64> {
    let replica = shared.replica.as_ref()?;
    Some(replica.leadership.borrow().epoch)
}

async fn receive<M: Machine>(
    receiver: Result<Receiver<M>, SubmitError>,
) -> Result<CommandReply<M>, SubmitError> {
    // The sender is dropped when the queue is closed.
    receiver?.await.map_err(|_| SubmitError::ShuttingDown)
}

/// Queues a command here, or hands it to the leader. `made_after_rollbacks` as in [`Submission`].
fn enqueue<M: Machine>(
    shared: &Shared<M>,
    command: Box<M::Command>,
    made_after_rollbacks: Option<u64>,
) -> Result<Receiver<M>, SubmitError> {
    let (reply, receiver) = oneshot::channel();
    if let Some(error) = shared.lost.error() {
        return Err(SubmitError::Unavailable(Arc::new(error)));
    }
    let mut submission = Submission {
        command,
        reply,
        forwarded: None,
        made_after_rollbacks,
    };
    if let Some(replica) = &shared.replica {
        match pending::accept_at_follower(shared, replica, submission)? {
            None => return Ok(receiver),
            Some(returned) => submission = returned,
        }
    }
    shared.enqueue(submission)?;
    Ok(receiver)
}
